"""A virtual spacecraft: the fields at a point of the box, every so many steps."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ecsim.diagnostics import base
from ecsim.diagnostics.sample import OF_SPECIES, Sample
from ecsim.keys import key
from ecsim.output.series import Axis, Column


@dataclasses.dataclass(frozen=True, kw_only=True)
class Params(base.Params):
    """Where it is, and whether it also measures the plasma."""

    position: tuple[float, ...] = key(unit="d_i", min_length=1, max_length=3, help="Point in the box")
    moments: bool = key(False, help="Also density, mean velocity and temperature of each species (costs a deposit)")


def faults(params: Params, scene: base.Scene) -> Iterator[tuple[str, str]]:
    """A point that is not in the box."""
    inside = len(params.position) == len(scene.size) and all(
        0 <= x <= length for x, length in zip(params.position, scene.size, strict=True))
    if not inside:
        yield "position", f"must be a point in the box of {' × '.join(f'{length:g}' for length in scene.size)}"


class Diagnostic(base.SeriesDiagnostic):
    """Rows of E, B and, if asked for, moments, interpolated linearly between the nearest nodes or centres."""

    def __init__(self, params: Params, kind: str, plasma, setting: base.Setting) -> None:
        super().__init__(params, kind, plasma, setting)
        self.moments = params.moments
        self.records = ["E", "B"]
        if params.moments:
            self.records += [f"{moment}_{s.name}" for s in plasma.species for moment in ("n", "u", "T")]

    def layout(self, sample: Sample) -> tuple[dict[str, Column], dict[str, Axis]]:
        """A column for each record."""
        columns = {}
        for name in self.records:
            mesh = sample.field(name)
            shape = mesh.values.shape[: mesh.values.ndim - self.plasma.block.d]
            meaning = OF_SPECIES.get(name.partition("_")[0], {"E": "electric field", "B": "magnetic field"}.get(name,
                                                                                                                ""))
            columns[name] = Column("f8", shape, base.unit_of(mesh), meaning, ("component",) * len(shape))
        return columns, {"component": Axis(np.arange(3))}

    def row(self, sample: Sample) -> dict[str, Any]:
        """Interpolate; each rank adds the corners that it owns."""
        return {name: self._at(sample.field(name)) for name in self.records}

    def _at(self, mesh) -> np.ndarray:
        block, shift = self.plasma.block, 0.5 * (mesh.centring == "centre")
        places = [x / h - shift for x, h in zip(self.params.position, block.spacing, strict=True)]
        total = np.zeros(mesh.values.shape[: mesh.values.ndim - block.d])
        for corner in itertools.product((0, 1), repeat=block.d):
            index = [math.floor(x) + c for x, c in zip(places, corner, strict=True)]
            weight = math.prod(1 - abs(x - i) for x, i in zip(places, index, strict=True))
            local = [i % n - o for i, n, o in zip(index, block.grid.cells, block.origin, strict=True)]
            if all(0 <= i < n for i, n in zip(local, block.cells, strict=True)):
                total = total + weight * mesh.values[(..., *local)]
        return base.sum_over_ranks(self.plasma, total)
