"""Tracers: positions and velocities of the same particles again and again, by their numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from ecsim.diagnostics import base
from ecsim.diagnostics.sample import Sample
from ecsim.diagnostics.selection import select
from ecsim.keys import key
from ecsim.output.series import Axis, Column
from ecsim.parallel.rows import Rows


@dataclasses.dataclass(frozen=True, kw_only=True)
class Params(base.Params):
    """Whose tracers; give ids or every_id."""

    species: str = key(help="Name of the species")
    ids: tuple[int, ...] | None = key(None, low=0, min_length=1, help="Numbers of the particles")
    every_id: int | None = key(None, low=1, help="All particles whose number this divides")


def faults(params: Params, scene: base.Scene) -> Iterator[tuple[str, str]]:
    """An unknown species, no numbers, both or neither choice."""
    if params.species not in scene.species:
        yield "species", f"must be one of {', '.join(scene.species) or 'no species'}"
    if not scene.ids:
        yield "kind", "needs particles.ids = true"
    if (params.ids is None) == (params.every_id is None):
        yield "ids", "give either ids or every_id"


class Diagnostic(base.SeriesDiagnostic):
    """Rows of x (n, d) at the time of v to second order, and v (n, 3), in the order of ``id``."""

    ids: np.ndarray | None = None

    def layout(self, sample: Sample) -> tuple[dict[str, Column], dict[str, Axis]]:
        """As many tracers as there are at the first record."""
        self.ids = np.sort(self._gathered(sample)["id"])
        n, d = len(self.ids), self.plasma.block.d
        return ({"x": Column("f8", (n, d), "c/ω_pi", "positions", ("id", "dimension")),
                 "v": Column("f8", (n, 3), "c", "velocities", ("id", "component"))},
                {"id": Axis(self.ids), "dimension": Axis(np.arange(d)), "component": Axis(np.arange(3))})

    def row(self, sample: Sample) -> dict[str, Any]:
        """The tracers in order; NaN for one that is not there."""
        found = self._gathered(sample)
        place = np.searchsorted(self.ids, found["id"]) if self.world.is_root else slice(0)
        x, v = np.full((self.plasma.block.d, len(self.ids)), np.nan), np.full((3, len(self.ids)), np.nan)
        if self.world.is_root:
            x[:, place], v[:, place] = found["x"], found["v"]
        return {"x": x.T, "v": v.T}

    def _gathered(self, sample: Sample) -> dict[str, np.ndarray]:
        chosen = None if self.params.ids is None else np.array(self.params.ids, np.uint64)
        mine = select(sample, self.params.species, every_id=self.params.every_id or 1, ids=chosen, back=0.5)
        return Rows(mine, self.world.comm).whole()
