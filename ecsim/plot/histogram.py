"""Histograms of particles: a line beside its theory at the start, or a map, summed over a third axis."""

from __future__ import annotations

import numpy as np

from ecsim.particles.recipe import spread_over
from ecsim.plot.plane import AXES
from ecsim.plot.source import Run
from ecsim.plot.style import BLACK, COLOURS, POSITIVE, WIDTH, figure, span, unit_label

LABELS = {"x": r"$x\,/\,d_i$", "y": r"$y\,/\,d_i$", "z": r"$z\,/\,d_i$", "vx": "$v_x/c$",
          "vy": "$v_y/c$", "vz": "$v_z/c$", "speed": "$|v|/c$"}
DECADES = 4
PLACES = 4096


def draw(run: Run, series):
    """Returns the figure of the last row beside the first one."""
    axes, values, time = series.axes("f"), series["f"], series["time"]
    names = list(axes)
    if len(names) == 1:
        return _lines(run, series, names[0], axes[names[0]], values)
    if len(names) == 3:
        values = values.sum(axis=3) * (axes[names[2]][1] - axes[names[2]][0] if len(axes[names[2]]) > 1 else 1.0)
    velocities = names[0][0] == names[1][0] == "v"
    with figure(3.1, width=WIDTH) as drawing:
        rows = (0, -1)[-len(time):]
        panels = drawing.subplots(1, len(rows), sharex=True, sharey=True, squeeze=False)[0]
        with np.errstate(divide="ignore"):
            shown = np.log10(values[[0, -1]] / (values[[0, -1]].max() or 1.0))
        lowest = max(-DECADES, shown[np.isfinite(shown)].min(initial=0.0) - 0.1)
        for panel, row in zip(panels, rows, strict=True):
            image = panel.pcolormesh(axes[names[0]], axes[names[1]], np.ma.masked_invalid(shown[row].T), cmap=POSITIVE,
                                     vmin=lowest, vmax=0, shading="nearest", rasterized=True)
            panel.set(xlabel=LABELS[names[0]], title=rf"$\omega_{{pi}}t = {time[row]:.4g}$")
            if velocities:
                panel.set_aspect("equal")
        panels[0].set_ylabel(LABELS[names[1]])
        bar = drawing.colorbar(image, ax=panels)
        bar.set_label(r"$\log_{10} f/f_\mathrm{max}$")
        drawing.suptitle(_title(series), fontsize=9)
    return drawing


def _lines(run: Run, series, name: str, x, values):
    """One axis: steps, logarithmic for velocities, and dashed what the problem's recipe says of the start."""
    with figure(2.9, width=0.7 * WIDTH) as drawing:
        panel, time = drawing.subplots(), series["time"]
        for row, colour in ((0, "#BBBBBB"), (-1, BLACK))[-len(time):]:
            panel.step(x, np.where(values[row] > 0, values[row], np.nan), where="mid", color=colour,
                       label=rf"$\omega_{{pi}}t = {time[row]:.4g}$")
        theory = _theory(run, series, name, x)
        if theory is not None:
            panel.plot(x, theory, color=COLOURS[0], linestyle="--", label="theory, start")
        unit = series.unit("f").replace("^d", f"^{len(run.deck.grid.cells)}")
        panel.set(xlabel=LABELS[name], ylabel=f"$f$  {unit_label(unit)}", xlim=span(x))
        positive = values[[0, -1]][values[[0, -1]] > 0]
        if name[0] in "vs" and positive.size:
            panel.set(yscale="log", ylim=(0.5 * positive.min(), 3 * positive.max()))
        else:
            panel.set_ylim(bottom=0)
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        drawing.suptitle(_title(series), fontsize=9)
    return drawing


def _theory(run: Run, series, name: str, v) -> np.ndarray | None:
    """The distribution of one velocity component that the problem starts from; None for other axes and cold species."""
    k = next((k for k, s in enumerate(run.deck.species) if s.name == series.attributes["key_species"]), None)
    if name not in ("vx", "vy", "vz") or k is None:
        return None
    size = np.array(run.deck.grid.size)
    region = np.array(series.attributes.get("key_region", np.stack([0 * size, size], axis=-1).ravel()))
    low, extent = region[::2], region[1::2] - region[::2]
    places = low[:, None] + spread_over(extent, PLACES)
    try:
        density = run.problem.recipes(run.deck)[k].distribution(v, AXES.index(name[1]), places)
    except ValueError:
        return None
    return np.prod(extent) * density


def _title(series) -> str:
    """The species, and the region where there is one."""
    region = series.attributes.get("key_region")
    where = "" if region is None else ", " + " × ".join(
        f"{a:.3g} to {b:.3g}" for a, b in zip(region[::2], region[1::2], strict=True)) + r" $d_i$"
    return series.attributes["key_species"] + where
