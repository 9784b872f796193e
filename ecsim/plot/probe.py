"""What a virtual spacecraft saw: fields, and the plasma where it was measured, over time."""

from __future__ import annotations

from ecsim.plot.plane import AXES
from ecsim.plot.source import Run
from ecsim.plot.style import TIME, colour, figure, span, unit_label

PANEL = 1.5


def draw(run: Run, series):
    """One panel a quantity: E, B, then density, mean velocity and temperature of the species. Returns the figure."""
    time, order = series["time"], [s.name for s in run.deck.species]
    columns = sorted(series.columns, key=lambda name: (order.index(s) if (s := name[2:]) in order else -1))
    vectors = [name for name in ("E", "B", *(c for c in columns if c.startswith("u_"))) if name in columns]
    scalars = {kind: [c for c in columns if c.startswith(f"{kind}_")] for kind in ("n", "T")}
    rows = len(vectors) + sum(bool(names) for names in scalars.values())
    with figure(PANEL * rows + 0.6) as drawing:
        panels = iter(drawing.subplots(rows, 1, sharex=True, squeeze=False)[:, 0])
        for name in vectors:
            axes, values = next(panels), series[name]
            symbol, _, species = name.partition("_")
            for k, axis in enumerate(AXES):
                axes.plot(time, values[:, k], color=colour(k), label=f"${symbol}_{axis}$")
            _finish(axes, f"{symbol} {species}".strip(), series.unit(name))
        for kind, names in scalars.items():
            if names:
                axes = next(panels)
                for k, name in enumerate(names):
                    axes.plot(time, series[name], color=colour(k), label=name[2:])
                _finish(axes, kind, series.unit(names[0]))
        axes.set(xlabel=TIME, xlim=span(time))
        place = ", ".join(f"{x:.4g}" for x in series.attributes["key_position"])
        drawing.align_ylabels()
        drawing.suptitle(rf"spacecraft {series.path.stem} at ({place}) $d_i$", fontsize=9)
    return drawing


def _finish(axes, label: str, unit: str) -> None:
    axes.set_ylabel(f"{label}  {unit_label(unit)}")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
