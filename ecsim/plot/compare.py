"""Several runs in one figure: how their energies went and how exactly the total stayed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ecsim.plot.energy import EPSILON, LOWEST_DRIFT
from ecsim.plot.source import Run
from ecsim.plot.style import GREY, TIME, colour, figure, span


def draw(runs: Sequence[Run]):
    """Energies relative to each run's own total, and |relative drift|. Returns the figure."""
    start, end = (choose(run.energies["time"][k] for run in runs) for choose, k in ((min, 0), (max, -1)))
    with figure(6.4) as drawing:
        panels = drawing.subplots(4, 1, sharex=True)
        for k, run in enumerate(runs):
            table = run.energies
            time, reference = table["time"], abs(table["total"][0]) or 1.0
            parts = (table["electric"], table["magnetic"], table["kinetic"].sum(axis=1))
            for panel, values in zip(panels, parts, strict=False):
                panel.plot(time, values / reference, color=colour(k),
                           label=run.directory.name if values is parts[0] else None)
            panels[3].plot(time, np.maximum(np.abs(table["drift"]), LOWEST_DRIFT), color=colour(k), linewidth=0.9)
        for panel, name in zip(panels, ("electric", "magnetic", "kinetic"), strict=False):
            panel.set_ylabel(f"{name}  [total]")
            if all(line.get_ydata().max() > 0 for line in panel.lines) and _wide(panel):
                panel.set_yscale("log")
        panels[3].axhline(EPSILON, color=GREY, linewidth=0.7, linestyle=":")
        panels[3].set(yscale="log", ylabel="|relative drift|", xlabel=TIME, xlim=span((start, end)))
        drawing.align_ylabels()
        drawing.legend(loc="outside upper center", ncols=3)
    return drawing


def _wide(panel) -> bool:
    """Whether the curves of a panel span more than two decades (first points, often zero, aside)."""
    values = np.concatenate([line.get_ydata()[1:] for line in panel.lines])
    positive = values[values > 0]
    return bool(positive.size) and positive.max() > 100 * positive.min()
