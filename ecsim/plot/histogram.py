"""Histograms of particles: a line, or a map (velocity distribution or phase space), summed over a third axis."""

from __future__ import annotations

import numpy as np

from ecsim.plot.source import Run
from ecsim.plot.style import BLACK, POSITIVE, WIDTH, figure

LABELS = {"x": r"$x\,/\,d_i$", "y": r"$y\,/\,d_i$", "z": r"$z\,/\,d_i$", "vx": "$v_x/c$",
          "vy": "$v_y/c$", "vz": "$v_z/c$", "speed": "$|v|/c$"}
DECADES = 4


def draw(run: Run, series):
    """Returns the figure of the last row beside the first one."""
    axes, values, time = series.axes("f"), series["f"], series["time"]
    names = list(axes)
    if len(names) == 1:
        return _lines(run, series, names[0], axes[names[0]], values)
    if len(names) == 3:
        values = values.sum(axis=3) * (axes[names[2]][1] - axes[names[2]][0] if len(axes[names[2]]) > 1 else 1.0)
    with figure(2.9, width=WIDTH) as drawing:
        panels = drawing.subplots(1, 2, sharex=True, sharey=True)
        top = values[[0, -1]].max() or 1.0
        shown = np.log10(np.maximum(values / top, 10.0**-DECADES))
        for panel, row in zip(panels, (0, -1), strict=True):
            image = panel.pcolormesh(axes[names[0]], axes[names[1]], shown[row].T, cmap=POSITIVE, vmin=-DECADES, vmax=0,
                                     shading="nearest", rasterized=True)
            panel.set(xlabel=LABELS[names[0]], title=rf"$\omega_{{pi}}t = {time[row]:.4g}$")
            if names[0][0] == names[1][0] == "v":
                panel.set_aspect("equal")
        panels[0].set_ylabel(LABELS[names[1]])
        bar = drawing.colorbar(image, ax=panels)
        bar.set_label(r"$\log_{10} f/f_\mathrm{max}$")
        drawing.suptitle(_title(series), fontsize=9)
    return drawing


def _lines(run: Run, series, name: str, x, values):
    with figure(2.9, width=0.6 * WIDTH) as drawing:
        panel, time = drawing.subplots(), series["time"]
        for row, colour in ((0, "#BBBBBB"), (-1, BLACK)):
            panel.step(x, values[row], where="mid", color=colour, label=rf"$\omega_{{pi}}t = {time[row]:.4g}$")
        panel.set(xlabel=LABELS[name], ylabel="f")
        panel.legend()
        drawing.suptitle(_title(series), fontsize=9)
    return drawing


def _title(series) -> str:
    region = series.attributes.get("key_region")
    where = "" if region is None else ", " + " × ".join(
        f"{a:.3g} to {b:.3g}" for a, b in zip(region[::2], region[1::2], strict=True)) + r" $d_i$"
    return series.attributes["key_species"] + where
