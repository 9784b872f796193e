"""The reconnection of two current sheets in a plane: closed flux, X and O points, rate, J·E′ where it happens."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from ecsim.diagnostics import base
from ecsim.diagnostics.sample import Sample
from ecsim.keys import key
from ecsim.output.series import Axis, Column

LEAST_ISLAND = 0.02  # of the whole range of the flux: smaller islands are taken for noise
SHEETS = ("highest flux", "lowest flux")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Params(base.Params):
    """Which plane: the axis of the current lies across it, the field reverses along ``across``."""

    normal: str = key("z", choices=("x", "y", "z"), help="Axis of the current, across the plane")
    across: str = key("y", choices=("x", "y", "z"), help="Axis across the sheets, in the plane")
    at: float | None = key(None, unit="d_i", low=0,
                           help="Place of the plane along its normal in 3D; left out, the middle")
    B0: float | None = key(None, unit="m_i ω_pi/q_i", low=0, exclusive_low=True,
                           help="Lobe field; given, the rate is written over B0 v_A = B0² too, as rate_nominal")


def faults(params: Params, scene: base.Scene) -> Iterator[tuple[str, str]]:
    """A plane that the box has not, a place outside."""
    d, normal, across = len(scene.cells), base.AXES.index(params.normal), base.AXES.index(params.across)
    if d == 1 or len([k for k in range(d) if k != normal]) != 2:
        yield "normal", f"must leave two of the {d} dimensions of the box for the plane"
    if across == normal or across >= d:
        yield "across", "must be an axis of the plane"
    if params.at is not None and not (normal < d and params.at <= scene.size[normal]):
        yield "at", "must lie in the box, along a normal that is one of its dimensions"


class Diagnostic(base.SeriesDiagnostic):
    """Rows with one entry for the sheet where the flux function is highest, one for that where it is lowest.

    The rate is the electric field along the current at the X-point. Nominal: over B₀ v_A = B₀² of the lobe field and
    the density n₀. Measured: over B v_A of the largest field, and the density there, on the line across the sheet
    through the X-point. NaN where a sheet has no X-point.
    """

    moments = True

    def __init__(self, params: Params, kind: str, plasma, setting: base.Setting) -> None:
        super().__init__(params, kind, plasma, setting)
        block = plasma.block
        self.normal = base.AXES.index(params.normal)
        self.axes = [k for k in range(block.d) if k != self.normal]
        self.across = self.axes.index(base.AXES.index(params.across))
        self.index = None
        if self.normal < block.d:
            n, h = block.grid.cells[self.normal], block.spacing[self.normal]
            self.index = n // 2 if params.at is None else min(n - 1, int(params.at / h))
        heavy = [s for s in plasma.species if s.charge_to_mass > 0]
        self.ions = min(heavy, key=lambda s: s.charge_to_mass).name if heavy else None

    def layout(self, sample: Sample) -> tuple[dict[str, Column], dict[str, Axis]]:
        """Two entries each."""
        axes = ("sheet",)
        columns = {
            "flux": Column("f8", (2,), "m_i c²/(q_i)", "closed flux per unit length", axes),
            "x_point": Column("f8", (2, 2), "c/ω_pi", "place of the X-point where the sheet opens", ("sheet", "axis")),
            "o_point": Column("f8", (2, 2), "c/ω_pi", "place of the strongest O-point", ("sheet", "axis")),
            "E_x_point": Column("f8", (2,), "m_i c ω_pi/q_i",
                                "electric field along the current at the X-point; over B₀² it is the nominal rate",
                                axes),
            "rate": Column("f8", (2,), "B v_A", "|E| at the X-point over the measured inflow B v_A", axes),
            "B_inflow": Column("f8", (2,), "m_i ω_pi/q_i", "largest field beside the X-point", axes),
            "n_inflow": Column("f8", (2,), "n0", "ion density there", axes),
            "JE_x_point": Column("f8", (2,), "n0 m_i c² ω_pi", "J·E′ at the X-point", axes),
        }
        if self.params.B0:
            columns["rate_nominal"] = Column("f8", (2,), "B0 v_A", "|E| at the X-point over B0², B0 of the deck", axes)
        return columns, {"sheet": Axis(np.array([name.encode() for name in SHEETS], "S")),
                         "axis": Axis(np.array([base.AXES[k].encode() for k in self.axes], "S"))}

    def row(self, sample: Sample) -> dict[str, Any]:
        """Find the points on rank 0."""
        names = {"B": "B", "E": "E", "JE": "JE", "n": f"n_{self.ions}"}
        planes = {label: self._plane(sample, name) for label, name in names.items() if self.ions or label != "n"}
        if not self.world.is_root:
            return {}
        return self._measure(planes)

    def _plane(self, sample: Sample, name: str) -> np.ndarray:
        whole = sample.gather(np.asarray(sample.field(name).values))
        if self.index is None or not self.world.is_root:
            return whole
        return whole.take(self.index, whole.ndim - self.plasma.block.d + self.normal)

    def _measure(self, planes: dict[str, np.ndarray]) -> dict[str, Any]:
        from ecsim.diagnostics.flux import critical_points, flux_function, reconnected_flux

        a, b = self.axes
        spacing = (self.plasma.block.spacing[a], self.plasma.block.spacing[b])
        nothing = np.full(2, np.nan)
        row: dict[str, Any] = {name: nothing.copy() for name in (
            "flux", "E_x_point", "rate", "B_inflow", "n_inflow", "JE_x_point",
            *(["rate_nominal"] if self.params.B0 else []))}
        row.update(x_point=np.full((2, 2), np.nan), o_point=np.full((2, 2), np.nan))
        try:
            points = critical_points(flux_function(planes["B"][a], planes["B"][b], spacing), LEAST_ISLAND)
        except ValueError:
            return row
        row["flux"][:] = reconnected_flux(points)
        row["o_point"][0] = spacing * points.maxima[np.argmax(points.maxima_flux)]
        row["o_point"][1] = spacing * points.minima[np.argmin(points.minima_flux)]
        opening = points.saddles_flux[: points.n_open]
        for sheet, choose in enumerate((np.argmax, np.argmin)):
            if len(opening) > sheet:
                self._at_x_point(row, sheet, points.saddles[choose(opening)], planes, spacing)
        return row

    def _at_x_point(self, row, sheet: int, node: np.ndarray, planes, spacing) -> None:
        row["x_point"][sheet] = spacing * node
        E = smoothed(planes["E"][self.normal])[tuple(node)]
        line: list[Any] = list(node)
        line[self.across] = slice(None)
        along = self.axes[1 - self.across]
        B = np.abs(smoothed(planes["B"][along]))[tuple(line)]
        place = int(np.argmax(B))
        row["E_x_point"][sheet], row["B_inflow"][sheet] = E, B[place]
        if self.params.B0:
            row["rate_nominal"][sheet] = abs(E) / self.params.B0**2
        row["JE_x_point"][sheet] = smoothed(planes["JE"])[tuple(node)]
        if "n" in planes:
            n = smoothed(planes["n"])[tuple(line)][place]
            row["n_inflow"][sheet] = n
            row["rate"][sheet] = abs(E) * np.sqrt(n) / B[place] ** 2 if B[place] else np.nan


def smoothed(values: np.ndarray) -> np.ndarray:
    """Twice the 1-2-1 mean along both axes of a periodic plane, against the noise of few particles."""
    for axis in (0, 1, 0, 1):
        values = 0.5 * values + 0.25 * (np.roll(values, 1, axis) + np.roll(values, -1, axis))
    return values
