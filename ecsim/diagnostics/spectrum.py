"""Power spectra of a record along one or two axes, averaged over the others."""

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
    """Of what, and along which axes."""

    record: str = key(help="As for `fields`, but for `moments`")
    along: tuple[str, ...] = key(min_length=1, max_length=2, choices=("x", "y", "z"),
                                 help="One axis, or two for a 2D spectrum")


def faults(params: Params, scene: base.Scene) -> Iterator[tuple[str, str]]:
    """An unknown record, axes that the box has not."""
    if params.record not in record_names(scene.species):
        yield "record", f"must be one of {', '.join(record_names(scene.species))}"
    active = base.AXES[: len(scene.cells)]
    if len(set(params.along)) < len(params.along) or any(axis not in active for axis in params.along):
        yield "along", f"must name different axes out of {', '.join(active)}"


def power(values: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Mean square per wave, |f_k|²/N², averaged over the axes not named; leading axis kept.

    values : (components, *cells).  axes : of cells.  All waves together sum up to the mean square (Parseval); of the
    last named axis only k ≥ 0 is kept, with the power of −k added to it.
    """
    d = values.ndim - 1
    n = [values.shape[1 + k] for k in axes]
    f = np.fft.rfftn(values, axes=[1 + k for k in axes]) / np.prod(n)
    square = np.abs(f) ** 2
    double = np.full(square.shape[1 + axes[-1]], 2.0)
    double[0] = 1.0
    if n[-1] % 2 == 0:
        double[-1] = 1.0
    square *= double.reshape([-1 if k == axes[-1] else 1 for k in range(-1, d)])
    return square.mean(axis=tuple(1 + k for k in range(d) if k not in axes))


class Diagnostic(base.SeriesDiagnostic):
    """Rows of the power of each component, by wavenumber."""

    def __init__(self, params: Params, kind: str, plasma, setting: base.Setting) -> None:
        super().__init__(params, kind, plasma, setting)
        self.moments = needs_moments([params.record])
        self.axes = tuple(sorted(base.AXES.index(axis) for axis in params.along))

    def layout(self, sample: Sample) -> tuple[dict[str, Column], dict[str, Axis]]:
        """Axes ``kx``, …: signed but for the last one, in FFT order."""
        block, mesh = self.plasma.block, sample.field(self.params.record)
        components = mesh.values.shape[0] if mesh.values.ndim > block.d else 1
        axes = {"component": Axis(np.arange(components))}
        for k in self.axes:
            frequencies = np.fft.rfftfreq if k == self.axes[-1] else np.fft.fftfreq
            axes[f"k{base.AXES[k]}"] = Axis(2 * np.pi * frequencies(block.grid.cells[k], block.spacing[k]), "ω_pi/c")
        shape = tuple(len(axis.values) for axis in axes.values())
        unit = f"({base.unit_of(mesh)})²"
        return {"power": Column("f8", shape, unit, f"mean square of {self.params.record} per wave", tuple(axes))}, axes

    def row(self, sample: Sample) -> dict[str, Any]:
        """The spectrum of the whole grid."""
        whole = sample.gather(np.asarray(sample.field(self.params.record).values))
        if not self.world.is_root:
            return {}
        return {"power": power(whole if whole.ndim > self.plasma.block.d else whole[None], self.axes)}
