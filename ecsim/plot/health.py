"""Whether the run is sound: temperatures against the start, and how far the fastest particles go in a step."""

from __future__ import annotations

import numpy as np

from ecsim.plot.source import Run
from ecsim.plot.style import GREY, TIME, colour, figure, span


def draw(run: Run, series):
    """Returns the figure."""
    time, T, fastest = series["time"], series["temperature"], series["fastest"]
    names = [name.decode() for name in series.axes("temperature")["species"]]
    with figure(3.6) as drawing:
        upper, lower = drawing.subplots(2, 1, sharex=True)
        for k, name in enumerate(names):
            upper.plot(time, 100 * (T[:, k] / T[0, k] - 1) if T[0, k] else np.nan * time, color=colour(k), label=name)
            lower.plot(time, fastest[:, k], color=colour(k))
        upper.set_ylabel(r"$T/T_0 - 1$  [%]")
        upper.axhline(0, color=GREY, linewidth=0.7, linestyle=":")
        lower.axhline(1, color=GREY, linewidth=0.7, linestyle=":")
        lower.set(ylabel="fastest  [cells/step]", xlabel=TIME, xlim=span(time))
        lower.set_ylim(bottom=0)
        drawing.align_ylabels()
        if names:
            drawing.legend(loc="outside upper center", ncols=4)
    return drawing
