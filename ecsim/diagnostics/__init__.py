"""What a run measures while it goes on: one kind of [[diagnostic]] a module.

A module offers ``Params``, a frozen dataclass of the kind's deck keys; ``faults(params, scene)``, pairs of key and
message; and ``Diagnostic``, made from them, whose ``record(sample)`` writes what belongs to a step. `flux`, `modes`,
`conservation` and `schedule` are tools.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

KINDS = ("fields", "particles", "probe", "cut", "spectrum", "histogram", "reconnection", "tracers", "health")


def registry() -> dict[str, ModuleType]:
    """The modules by kind."""
    return {kind: import_module(f"ecsim.diagnostics.{kind}") for kind in KINDS}
