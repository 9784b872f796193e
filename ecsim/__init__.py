"""ecsim: semi-implicit, exactly energy-conserving particle-in-cell simulation.

    >>> from ecsim import Simulation
    >>> run = Simulation.from_deck("two_stream", steps=100)
    >>> run.run()
    >>> run.energies()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ecsim.parallel import launch

__version__ = "0.1.0"
__all__ = ["Simulation", "load_deck", "open_run", "__version__"]

if TYPE_CHECKING:
    from ecsim.deck import load_deck
    from ecsim.reader import open_run
    from ecsim.simulation import Simulation

_HOMES = {"Simulation": "ecsim.simulation", "load_deck": "ecsim.deck", "open_run": "ecsim.reader"}


def __getattr__(name: str) -> Any:
    """Import the public names when they are first asked for, so that ``ecsim --help`` stays quick."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ecsim' has no attribute '{name}'")


launch.watch()
