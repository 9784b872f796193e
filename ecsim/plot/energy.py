"""The energy ledger: where the energy is, where it goes, and how exactly the total stays."""

from __future__ import annotations

import numpy as np

from ecsim.plot.source import Run
from ecsim.plot.style import BLACK, GREY, TIME, colour, energy_unit, span

EPSILON = float(np.finfo(float).eps)
LOWEST_DRIFT = 1e-17
HEIGHT = 5.6
DECADES = 16
NO_CHANGE = 1e-9


def draw(run: Run, figure) -> None:
    """Three panels over time: energies, their changes relative to the total, |relative drift| of the total.

    A drift of exactly zero is drawn at the lower edge.
    """
    table = run.energies
    time, parts = table["time"], _parts(table)
    total, drift = table["total"], np.abs(table["drift"])
    levels, changes, error = figure.subplots(3, 1, sharex=True, height_ratios=(2.4, 2.4, 1.5))
    reference = abs(total[0]) or 1.0
    for k, (name, values) in enumerate(parts.items()):
        levels.plot(time, np.where(values > 0, values, np.nan), color=colour(k), label=name)
        changes.plot(time, 100 * (values - values[0]) / reference, color=colour(k), label=name)
    levels.plot(time, total, color=BLACK, linestyle="--", label="total")
    changes.plot(time, 100 * (total - total[0]) / reference, color=BLACK, linestyle="--")
    levels.set(ylabel=f"energy  $[{energy_unit(len(run.deck.grid.cells))}]$")
    _scale(levels, [*parts.values(), total])
    changes.set(ylabel="change  [% of total]")
    if max(np.abs(changes.get_ylim())) < NO_CHANGE:
        changes.set_ylim(-NO_CHANGE, NO_CHANGE)
    error.plot(time, np.maximum(drift, LOWEST_DRIFT), color=BLACK, linewidth=0.9)
    error.axhline(EPSILON, color=GREY, linewidth=0.7, linestyle=":")
    error.annotate(r"$2^{-52}$", (1.005, EPSILON), xycoords=("axes fraction", "data"), va="center", color=GREY,
                   fontsize=8)
    error.set(yscale="log", ylabel="|relative drift|", xlabel=TIME, xlim=span(time),
              ylim=(LOWEST_DRIFT, max(1e-12, 3 * drift.max())))
    figure.align_ylabels()
    figure.legend(*levels.get_legend_handles_labels(), loc="outside upper center", ncols=min(len(parts) + 1, 5))


def _parts(table) -> dict[str, np.ndarray]:
    """The energies by name, without those that stay at rounding level."""
    kinetic = {f"kinetic, {name}": table["kinetic"][:, k] for k, name in enumerate(table["species"])}
    parts = {"electric": table["electric"], "magnetic": table["magnetic"], **kinetic}
    least = np.abs(table["total"]).max() * 10**-DECADES
    return {name: values for name, values in parts.items() if values.max() > least}


def _scale(axes, histories) -> None:
    """Logarithmic over more than a decade; a start from rounding level must not squeeze the rest."""
    top = max(values.max() for values in histories)
    positive = [values[values > 0].min() for values in histories if (values > 0).any()]
    if not positive:
        return
    if min(positive) > top / 10:
        axes.set_ylim(0, 1.1 * top)
    else:
        axes.set(yscale="log", ylim=(max(min(positive) / 2, top * 10**-DECADES), 2 * top))
