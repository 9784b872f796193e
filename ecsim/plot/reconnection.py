"""How much flux the current sheets have reconnected, and how fast."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ecsim.diagnostics.flux import critical_points, reconnected_flux
from ecsim.output.snapshots import read_fields
from ecsim.plot.growth import slopes
from ecsim.plot.plane import AXES, LEAST_ISLAND, flux_of, plane_of
from ecsim.plot.source import Run
from ecsim.plot.style import BLACK, COLOURS, GREY, TIME, NothingToDraw, span

HEIGHT = 4.6
SMOOTH = 12


class History(NamedTuple):
    """Times (n,), closed flux (n, 2) of the two sheets per unit length, and where across them they lie (2,)."""

    time: np.ndarray
    flux: np.ndarray
    place: np.ndarray


def draw(run: Run, figure) -> None:
    """Panels over time: closed flux of each sheet, and the rate at which it grows.

    From the [[diagnostic]] of kind reconnection where there is one, which also knows the inflow; else from the
    snapshots. Flux in B₀d_i and rate in B₀v_A, with B₀ and v_A of the lobe field and the density n₀. For problems
    whose keys give a ``magnetic_field`` B₀ and name the axes ``across`` the sheets and of their ``current``.

    Raises NothingToDraw for other problems, without a plane, and with fewer than two snapshots.
    """
    params = run.deck.problem.params
    try:
        _draw_series(run, figure, run.series("reconnection")[0][1])
        return
    except NothingToDraw:
        pass
    time, flux, place = history(run)
    closed, rate = figure.subplots(2, 1, sharex=True)
    style = dict(marker="o", markersize=3, clip_on=False)
    for k in np.argsort(place):
        label = rf"sheet at ${AXES[params.across]} = {place[k]:.3g}\,d_i$"
        closed.plot(time, flux[:, k] / params.magnetic_field, color=COLOURS[k], label=label, **style)
        growth = np.diff(flux[:, k]) / np.diff(time)
        rate.plot(0.5 * (time[1:] + time[:-1]), growth / params.magnetic_field**2, color=COLOURS[k], **style)
    closed.set(ylabel=r"closed flux  $[B_0\,d_i]$", xlim=span(time))
    closed.set_ylim(bottom=0)
    rate.axhline(0, color=GREY, linewidth=0.7, linestyle=":")
    rate.set(ylabel=r"rate  $[B_0\,v_A]$", xlabel=TIME)
    figure.align_ylabels()
    figure.legend(loc="outside upper center", ncols=2)


def _draw_series(run: Run, figure, series) -> None:
    """Closed flux, the rate in both normalisations, and J·E′ at the X-points."""
    time, B0 = series["time"], _lobe_field(run)
    closed, rate, work = figure.subplots(3, 1, sharex=True)
    flux, JE = series["flux"], series["JE_x_point"]
    inflow = series["B_inflow"] ** 2 / np.sqrt(series["n_inflow"])
    for k, colour in enumerate(COLOURS[:2]):
        label = ("sheet of highest flux", "sheet of lowest flux")[k]
        closed.plot(time, flux[:, k] / (B0 or 1.0), color=colour, label=label)
        centres, growth = slopes(time, flux[:, k], np.ptp(time) / SMOOTH)
        if B0:
            rate.plot(centres, growth / B0**2, color=colour)
        measured = np.interp(centres, time, _running_mean(inflow[:, k]))
        rate.plot(centres, growth / measured, color=colour, linestyle="--", linewidth=0.9)
        work.plot(time, JE[:, k] / (B0**3 or 1.0), color=colour, linewidth=0.5, alpha=0.4)
        work.plot(time, _running_mean(JE[:, k]) / (B0**3 or 1.0), color=colour)
    closed.set(ylabel=r"closed flux  $[B_0\,d_i]$" if B0 else "closed flux", xlim=span(time))
    closed.set_ylim(bottom=0)
    rate.set(ylabel=r"rate  $[B v_A]$")
    rate.axhline(0, color=GREY, linewidth=0.7, linestyle=":")
    rate.plot([], [], color=BLACK, label="$B v_A$\nof the lobes")
    rate.plot([], [], color=BLACK, linestyle="--", linewidth=0.9, label="of the\ninflow")
    rate.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    work.axhline(0, color=GREY, linewidth=0.7, linestyle=":")
    work.set(ylabel=r"$\mathbf{J}\cdot\mathbf{E}'$  $[B_0^3]$", xlabel=TIME)
    figure.align_ylabels()
    figure.legend(*closed.get_legend_handles_labels(), loc="outside upper center", ncols=2)


def _running_mean(values: np.ndarray) -> np.ndarray:
    """Mean over 1/SMOOTH of the history around each entry, shorter at the ends, without what is not a number."""
    half, given = len(values) // (2 * SMOOTH), np.isfinite(values)
    total, count = (np.concatenate([[0.0], np.cumsum(a)]) for a in (np.where(given, values, 0.0), given))
    first = np.maximum(np.arange(len(values)) - half, 0)
    last = np.minimum(np.arange(len(values)) + half + 1, len(values))
    with np.errstate(invalid="ignore"):
        return (total[last] - total[first]) / (count[last] - count[first])


def _lobe_field(run: Run) -> float:
    """B₀ of a problem with current sheets, 0 for others."""
    params = run.deck.problem.params
    return params.magnetic_field if all(hasattr(params, name) for name in ("across", "current")) else 0.0


def history(run: Run) -> History:
    """The closed flux of every snapshot; sheets in the order of the highest and of the lowest flux."""
    params = run.deck.problem.params
    if not _lobe_field(run):
        raise NothingToDraw(f"the problem {run.deck.problem.name} has no current sheets to reconnect")
    if len(run.snapshots) < 2:
        raise NothingToDraw(f"{run.directory} has {len(run.snapshots)} snapshot; a rate needs at least 2")
    times, fluxes, place = [], [], np.zeros(2)
    for path in run.snapshots:
        snapshot = read_fields(path, ["B"])
        if len(snapshot.wide) < 2:
            raise NothingToDraw(f"{run.directory} has no plane for flux to reconnect in")
        plane = plane_of(run, snapshot)
        try:
            points = critical_points(flux_of(snapshot, plane), LEAST_ISLAND)
        except ValueError as error:
            raise NothingToDraw(f"{path}: {error}") from error
        times.append(snapshot.time)
        fluxes.append(reconnected_flux(points))
        highest = points.maxima[np.argmax(points.maxima_flux)]
        lowest = points.minima[np.argmin(points.minima_flux)]
        nodes = np.array([highest, lowest])[:, 0 if params.across == plane.a else 1]
        place = snapshot.spacing[params.across] * nodes
    return History(np.array(times), np.array(fluxes), place)
