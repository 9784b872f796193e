"""The plasmas a deck can start from, one module a problem.

A problem module is stateless; its first docstring line says what it is, and it offers

``Params``                    frozen dataclass of its own deck keys (`ecsim.keys.key`)
``species_keys``              which of density, thermal_velocity and drift a [[species]] table may give
``faults(deck)``              faults between keys, as pairs (key, message)
``fields(block, deck)``       E (3, *cells) at the block's owned nodes and B (3, *cells) at its owned centres
``recipes(deck)``             a `Recipe` per species, in the order of the deck
``reference(deck)``           per species name: largest density, thermal velocity and drift, for the plan
``magnetic_field(deck)``      largest |B| at the start
``theory(deck)``              the `Theory` lines or the `Equilibrium` that a test checks and a plot draws

Fields are functions of global indices, so that they are the same bits on any number of ranks.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

NAMES = ("double_harris", "langmuir", "thermal", "two_stream", "vacuum_wave", "weibel")


def registry() -> dict[str, ModuleType]:
    """All problems by name."""
    return {name: import_module(f"ecsim.problems.{name}") for name in NAMES}
