"""Whether a run may go on from a checkpoint with another deck: what makes the plasma must be the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ecsim.deck.faults import show
from ecsim.deck.schema import Deck
from ecsim.deck.write import resolved

# What only says how long, how fast, where and how often, and may change between a run and its continuation.
FREE_SECTIONS = ("assembly", "backend", "mpi", "output", "diagnostic", "checkpoint", "units")
FREE_KEYS = ("time.steps", "time.end_time", "particles.sort_every")


def differences(earlier: Deck, now: Deck) -> list[str]:
    """The keys that forbid to continue ``earlier`` as ``now``, each with both values; empty if there are none."""
    before, after = flat(resolved(earlier)), flat(resolved(now))
    found = []
    for name in sorted(before.keys() | after.keys()):
        free = name.partition(".")[0] in FREE_SECTIONS or name in FREE_KEYS
        if not free and before.get(name) != after.get(name):
            then, here = (show(values[name]) if name in values else "left out" for values in (before, after))
            found.append(f"{name} was {then} and is {here}")
    return found


def flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted key; species and other lists of tables are numbered."""
    values = {}
    for name, table in tables.items():
        parts = {f"{name}.{k}": part for k, part in enumerate(table)} if isinstance(table, list) else {name: table}
        values.update({f"{path}.{key}": value for path, part in parts.items() for key, value in part.items()})
    return values
