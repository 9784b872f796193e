"""Fields along a line or in a plane of the box, as rows of one file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from ecsim.diagnostics import base
from ecsim.diagnostics.sample import Sample, needs_moments, record_names
from ecsim.keys import key
from ecsim.output.series import Axis, Column


@dataclasses.dataclass(frozen=True, kw_only=True)
class Params(base.Params):
    """Along which axes, where across them, and of which records."""

    along: tuple[str, ...] = key(min_length=1, max_length=2, choices=("x", "y", "z"), help="Axes of the line or plane")
    at: tuple[float, ...] = key((), unit="d_i", max_length=2, help="Place along each of the other dimensions, in order")
    records: tuple[str, ...] = key(("E", "B"), min_length=1, help="As for `fields`, but for `moments`")


def faults(params: Params, scene: base.Scene) -> Iterator[tuple[str, str]]:
    """Axes that the box has not, places outside, unknown records."""
    active = base.AXES[: len(scene.cells)]
    if len(set(params.along)) < len(params.along) or any(axis not in active for axis in params.along):
        yield "along", f"must name different axes out of {', '.join(active)}"
        return
    rest = [length for axis, length in zip(active, scene.size, strict=True) if axis not in params.along]
    if len(params.at) != len(rest) or any(not 0 <= x <= length for x, length in zip(params.at, rest, strict=True)):
        yield "at", f"must have a place for each other dimension, {len(rest)} of them, in the box"
    for name in params.records:
        if name not in record_names(scene.species):
            yield "records", f"has no record {name}; known are {', '.join(record_names(scene.species))}"


class Diagnostic(base.SeriesDiagnostic):
    """Rows of the values at the nodes or centres nearest to the line or plane."""

    def __init__(self, params: Params, kind: str, plasma, setting: base.Setting) -> None:
        super().__init__(params, kind, plasma, setting)
        self.moments = needs_moments(params.records)
        self.axes = sorted(base.AXES.index(axis) for axis in params.along)
        self.others = [k for k in range(plasma.block.d) if k not in self.axes]

    def layout(self, sample: Sample) -> tuple[dict[str, Column], dict[str, Axis]]:
        """Axes ``x``, ``y``, ``z`` of nodes and ``x_centre``, … of centres."""
        columns, axes = {}, {}
        for name in self.params.records:
            mesh = sample.field(name)
            shift = 0.5 * (mesh.centring == "centre")
            leading = mesh.values.shape[: mesh.values.ndim - self.plasma.block.d]
            labels = []
            for k in self.axes:
                label = base.AXES[k] + ("_centre" if shift else "")
                n, h = self.plasma.block.grid.cells[k], self.plasma.block.spacing[k]
                axes[label] = Axis(h * (np.arange(n) + shift), "c/ω_pi")
                labels.append(label)
            if leading:
                axes[f"component{leading[0]}"] = Axis(np.arange(leading[0]))
                labels.insert(0, f"component{leading[0]}")
            shape = (*leading, *(self.plasma.block.grid.cells[k] for k in self.axes))
            columns[name] = Column("f8", shape, base.unit_of(mesh), "", tuple(labels))
        return columns, axes

    def row(self, sample: Sample) -> dict[str, Any]:
        """Every rank puts in what it owns of the cut."""
        return {name: self._cut(sample.field(name)) for name in self.params.records}

    def _cut(self, mesh) -> np.ndarray:
        block, shift = self.plasma.block, 0.5 * (mesh.centring == "centre")
        leading = mesh.values.shape[: mesh.values.ndim - block.d]
        out = np.zeros((*leading, *(block.grid.cells[k] for k in self.axes)))
        index: list[Any] = [slice(None)] * block.d
        for k, place in zip(self.others, self.params.at, strict=True):
            nearest = int(np.floor(place / block.spacing[k] - shift + 0.5)) % block.grid.cells[k]
            index[k] = nearest - block.origin[k]
        if all(0 <= index[k] < block.cells[k] for k in self.others):
            here = tuple(slice(block.origin[k], block.origin[k] + block.cells[k]) for k in self.axes)
            out[(..., *here)] = mesh.values[(..., *index)]
        return base.sum_over_ranks(self.plasma, out)
