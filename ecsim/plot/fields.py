"""Fields of one snapshot: maps with field lines and X/O points in a plane, or lines in one dimension."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ecsim.diagnostics.flux import critical_points
from ecsim.output.snapshots import Mesh, Snapshot, read_fields
from ecsim.plot.plane import AXES, LEAST_ISLAND, Plane, cut, flux_of, has_structure, plane_of, smoothed
from ecsim.plot.source import Run
from ecsim.plot.style import (
    BLACK,
    POSITIVE,
    SIGNED,
    WIDTH,
    NothingToDraw,
    PlotError,
    colour,
    figure,
    position,
    power_of_ten,
    quantity,
)

CONTOURS = 19
QUIET, LOUD = 0.2, 99.8
SAMPLED = 8
INVISIBLE = 1e-10


class Panel(NamedTuple):
    """One map: values (na, nb), their offset from the nodes in cells, and what they are."""

    values: np.ndarray
    offset: float
    symbol: str
    kind: str
    note: str = ""


Limits = Mapping[str, tuple[float, float]]


def limits(run: Run) -> Limits:
    """Colour limits of each map that suit a selection of all snapshots, by symbol; none for a run in one dimension."""
    found: dict[str, tuple[float, float]] = {}
    for path in run.snapshots[:: max(1, len(run.snapshots) // SAMPLED)]:
        snapshot = read_fields(path)
        if len(snapshot.wide) < 2:
            return {}
        for panel in _panels(run, snapshot, plane_of(run, snapshot)):
            low, high = np.percentile(panel.values, [QUIET, LOUD])
            before = found.get(panel.symbol, (low, high))
            found[panel.symbol] = min(low, before[0]), max(high, before[1])
    return found


def draw(run: Run, path: Path, limits: Limits | None = None):
    """Draw the snapshot ``path`` and return the figure; what is drawn depends on how many dimensions have cells.

    limits : of the colours, from `limits`; None suits them to the snapshot.

    Raises PlotError if the box has one cell only.
    """
    try:
        snapshot = read_fields(path)
    except OSError as error:
        raise PlotError(str(error)) from error
    if not snapshot.wide:
        raise NothingToDraw(f"{path} has a single cell; there is no profile or map to draw")
    if len(snapshot.wide) == 1:
        return _draw_lines(run, snapshot, snapshot.wide[0])
    return _draw_maps(run, snapshot, plane_of(run, snapshot), limits or {})


def _panels(run: Run, snapshot: Snapshot, plane: Plane) -> list[Panel]:
    """Up to four maps: current and magnetic field across the plane, density and flow of the light species (or E)."""
    d, meshes = len(snapshot.cells), snapshot.meshes
    n, a = AXES[plane.normal], AXES[plane.a]

    def component(name: str, axis: int, label: str) -> Panel:
        """The panel of one component of a vector mesh."""
        mesh: Mesh = meshes[name]
        offset = 0.5 if mesh.centring == "centre" else 0.0
        return Panel(cut(mesh.values[axis], plane, d), offset, label, mesh.quantity)

    panels = [component(name, plane.normal, f"{name}_{n}") for name in ("J", "B") if name in meshes]
    light = run.light_species([name[4:] for name in meshes if name.startswith("rho_") and f"J_{name[4:]}" in meshes])
    if light is None:
        return panels + [component("E", axis, f"E_{AXES[axis]}") for axis in (plane.a, plane.b)]
    mark = r"\mathrm{" + light[0] + "}"
    density = cut(meshes[f"rho_{light}"].values, plane, d)
    flux, smooth = (smoothed(x) for x in (cut(meshes[f"J_{light}"].values[plane.a], plane, d), density))
    flow = np.divide(flux, smooth, out=np.zeros_like(flux), where=smooth != 0)
    return [*panels, Panel(np.abs(density), 0.0, f"n_{mark}", "number_density"),
            Panel(flow, 0.0, f"u_{{{mark},{a}}}", "velocity", ", smoothed")]


def _draw_maps(run: Run, snapshot: Snapshot, plane: Plane, limits: Limits):
    panels = _panels(run, snapshot, plane)
    size = [snapshot.cells[k] * snapshot.spacing[k] for k in (plane.a, plane.b)]
    ratio = float(np.clip(size[1] / size[0], 0.2, 3.0))
    columns = 2 if ratio < 1.6 else len(panels)
    rows = -(-len(panels) // columns)
    height = rows * (ratio * 0.8 * WIDTH / columns + 0.3) + 0.4
    with figure(height) as drawing:
        grid = drawing.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        psi = flux_of(snapshot, plane) if has_structure(snapshot, plane) else None
        for axes, panel in zip(grid.flat, panels, strict=False):
            _map(drawing, axes, panel, [snapshot.spacing[k] for k in (plane.a, plane.b)], limits.get(panel.symbol))
            if psi is not None:
                _field_lines(axes, psi, size)
            axes.set(xlim=(0, size[0]), ylim=(0, size[1]), aspect="equal" if ratio == size[1] / size[0] else "auto")
        for axes in grid[-1]:
            axes.set_xlabel(position(AXES[plane.a]))
        for axes in grid[:, 0]:
            axes.set_ylabel(position(AXES[plane.b]))
        drawing.suptitle(run.clock(snapshot.time) + _place(snapshot, plane), fontsize=9)
    return drawing


def _place(snapshot: Snapshot, plane: Plane) -> str:
    if plane.index is None:
        return ""
    return rf",  ${AXES[plane.normal]} = {plane.index * snapshot.spacing[plane.normal]:.3g}\,d_i$"


def _map(drawing, axes, panel: Panel, spacing, limits: tuple[float, float] | None) -> None:
    """One colour map over the whole periodic box, with its colour bar."""
    values = np.pad(panel.values, ((0, 1), (0, 1)), mode="wrap") if panel.offset == 0 else panel.values
    edges = [h * (panel.offset - 0.5 + np.array([0, n])) for h, n in zip(spacing, values.shape, strict=True)]
    low, high = np.percentile(values, [QUIET, LOUD]) if limits is None else limits
    if low == high:
        low, high = low - 1.0, high + 1.0
    signed = low < 0 < high
    if signed:
        high = max(-low, high)
        low = -high
    power = power_of_ten(max(-low, high))
    scale = 10.0**power
    image = axes.imshow(values.T / scale, vmin=low / scale, vmax=high / scale, cmap=SIGNED if signed else POSITIVE,
                        origin="lower", extent=(*edges[0], *edges[1]), interpolation="nearest", rasterized=True)
    bar = drawing.colorbar(image, cax=axes.inset_axes([1.02, 0.0, 0.03, 1.0]))
    bar.outline.set_linewidth(0.5)
    axes.set_title(quantity(panel.symbol, panel.kind, power) + panel.note, pad=4)
    for spine in axes.spines.values():
        spine.set_visible(True)


def _field_lines(axes, psi: np.ndarray, size) -> None:
    """Contours of the flux, and its X and O points where the flux is periodic."""
    span = np.ptp(psi)
    a, b = np.linspace(0, size[0], psi.shape[0]), np.linspace(0, size[1], psi.shape[1])
    levels = psi.min() + span * (np.arange(CONTOURS) + 0.5) / CONTOURS
    axes.contour(a, b, psi.T, levels=levels, colors=BLACK, linewidths=0.35, alpha=0.6, linestyles="solid")
    try:
        points = critical_points(psi, LEAST_ISLAND)
    except ValueError:
        return
    separatrices = np.unique(points.saddles_flux[: points.n_open])
    axes.contour(a, b, psi.T, levels=separatrices, colors=BLACK, linewidths=0.8, linestyles="solid")
    for nodes, marker in ((points.saddles, "x"), (points.maxima, "o"), (points.minima, "o")):
        x, y = a[nodes[:, 0]], b[nodes[:, 1]]
        style = dict(linestyle="none", marker=marker, fillstyle="none", clip_on=False, zorder=5)
        axes.plot(x, y, color="white", markersize=6, markeredgewidth=2.4, **style)
        axes.plot(x, y, color=BLACK, markersize=6, markeredgewidth=1.1, **style)


def _draw_lines(run: Run, snapshot: Snapshot, axis: int):
    """Profiles of E, B, current and densities along the only wide axis, without components that are nothing."""
    d, meshes = len(snapshot.cells), snapshot.meshes
    vectors = [name for name in ("E", "B", "J") if name in meshes and meshes[name].values.any()]
    densities = [name for name in meshes if name.startswith("rho_")]
    rows = len(vectors) + bool(densities)
    if not rows:
        raise NothingToDraw(f"all fields of step {snapshot.step} are zero")
    index: list = [0] * d
    index[axis] = slice(None)
    with figure(1.5 * rows + 0.6) as drawing:
        grid = drawing.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
        for axes, name in zip(grid, vectors, strict=False):
            mesh = meshes[name]
            values = mesh.values[(slice(None), *index)]
            shown = np.abs(values).max(axis=1) > INVISIBLE * np.abs(values).max()
            for k in np.flatnonzero(shown):
                _profile(axes, snapshot, axis, values[k], mesh.centring, colour(k), f"${name}_{AXES[k]}$")
            axes.set_ylabel(quantity(name, mesh.quantity))
        for k, name in enumerate(densities):
            values = np.abs(meshes[name].values[tuple(index)])
            _profile(grid[-1], snapshot, axis, values, meshes[name].centring, colour(k), name[4:])
        if densities:
            grid[-1].set_ylabel(quantity("n", "number_density"))
        for axes in grid:
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        grid[-1].set(xlabel=position(AXES[axis]), xlim=(0, snapshot.cells[axis] * snapshot.spacing[axis]))
        drawing.suptitle(run.clock(snapshot.time), fontsize=9)
    return drawing


def _profile(axes, snapshot: Snapshot, axis: int, values, centring: str, colour: str, label: str) -> None:
    """One line over the whole periodic box."""
    start = 0.5 if centring == "centre" else 0.0
    values = np.append(values, values[0])
    x = snapshot.spacing[axis] * (start + np.arange(len(values)))
    if start:
        x, values = np.append(x[0] - snapshot.spacing[axis], x), np.append(values[-2], values)
    axes.plot(x, values, color=colour, label=label)
