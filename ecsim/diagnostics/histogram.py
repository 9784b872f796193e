"""Histograms of the particles in a box: velocity distributions and phase space."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ecsim.diagnostics import base
from ecsim.diagnostics.sample import Sample
from ecsim.diagnostics.selection import select
from ecsim.keys import key
from ecsim.output.series import Axis, Column

QUANTITIES = ("x", "y", "z", "vx", "vy", "vz", "speed")
MOST_BINS = 1 << 24


@dataclasses.dataclass(frozen=True, kw_only=True)
class Params(base.Params):
    """Whose particles, over which quantities, in which ranges."""

    species: str = key(help="Name of the species")
    axes: tuple[str, ...] = key(choices=QUANTITIES, min_length=1, max_length=3,
                                help="Positions and velocities to sort by")
    low: tuple[float, ...] = key(min_length=1, max_length=3, help="Where each axis begins")
    high: tuple[float, ...] = key(min_length=1, max_length=3, help="Where each axis ends")
    bins: tuple[int, ...] = key(low=1, min_length=1, max_length=3, help="Bins along each axis")
    region: tuple[float, ...] | None = key(None, unit="d_i", min_length=2, max_length=6,
                                           help="Low and high along each dimension")


def faults(params: Params, scene: base.Scene) -> Iterator[tuple[str, str]]:
    """An unknown species, lists of different lengths, empty ranges, axes that the box has not."""
    if params.species not in scene.species:
        yield "species", f"must be one of {', '.join(scene.species) or 'no species'}"
    missing = [axis for axis in params.axes if axis in base.AXES[len(scene.cells):]]
    if missing:
        yield "axes", f"has {', '.join(missing)}, which the box has not"
    for name in ("low", "high", "bins"):
        if len(getattr(params, name)) != len(params.axes):
            yield name, f"must have {len(params.axes)} elements, as many as axes"
            return
    if any(a >= b for a, b in zip(params.low, params.high, strict=True)):
        yield "high", "must be above low on every axis"
    if math.prod(params.bins) > MOST_BINS:
        yield "bins", f"makes {math.prod(params.bins)} bins; {MOST_BINS} is the most"
    yield from base.region_faults(params.region, scene)


class Diagnostic(base.SeriesDiagnostic):
    """Rows of f: real particles per bin, divided by the bin's volume; and of how many lie outside all bins.

    Positions are those at the time of the velocities, to second order.
    """

    def __init__(self, params: Params, kind: str, plasma, setting: base.Setting) -> None:
        super().__init__(params, kind, plasma, setting)
        self.edges = [np.linspace(a, b, n + 1) for a, b, n in zip(params.low, params.high, params.bins, strict=True)]

    def layout(self, sample: Sample) -> tuple[dict[str, Column], dict[str, Axis]]:
        """Axes are the middles of the bins."""
        units = {name: "c/ω_pi" if name in base.AXES else "c" for name in QUANTITIES}
        axes = {name: Axis(0.5 * (edge[1:] + edge[:-1]), units[name])
                for name, edge in zip(self.params.axes, self.edges, strict=True)}
        per = "·".join(f"({units[name]})" for name in self.params.axes)
        return {"f": Column("f8", self.params.bins, f"n0 (c/ω_pi)^d / {per}", "particles per volume of the bins",
                            self.params.axes),
                "outside": Column("f8", (), "n0 (c/ω_pi)^d", "particles outside all bins")}, axes

    def row(self, sample: Sample) -> dict[str, Any]:
        """Every rank sorts its particles."""
        mine = select(sample, self.params.species, region=self.params.region, back=0.5)
        values = {**dict(zip(base.AXES, mine["x"], strict=False)),
                  **dict(zip(("vx", "vy", "vz"), mine["v"], strict=True)),
                  "speed": np.sqrt((mine["v"] ** 2).sum(axis=0))}
        counts, _ = np.histogramdd([values[name] for name in self.params.axes], self.edges, weights=mine["weight"])
        everything = base.sum_over_ranks(self.plasma, np.append(counts, mine["weight"].sum()))
        counts, total = everything[:-1].reshape(self.params.bins), everything[-1]
        volume = np.prod([edge[1] - edge[0] for edge in self.edges])
        return {"f": counts / volume, "outside": max(0.0, total - counts.sum())}
