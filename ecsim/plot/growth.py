"""Growth and oscillation beside the problem's own theory."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from ecsim.diagnostics.modes import fit_growth, mode_amplitude
from ecsim.output.snapshots import read_fields
from ecsim.plot.source import Run
from ecsim.plot.style import BLACK, COLOURS, TIME, NothingToDraw, energy_unit, span
from ecsim.problems.common import Theory

HEIGHT = 4.0
PERIODS = 4
FITTED = COLOURS[4]
LINES = ("--", "-.", ":")


def draw(run: Run, figure) -> None:
    """The energy that the problem's theory speaks of, measured, fitted, and as theory has it.

    Raises NothingToDraw if the problem has no theory, or the run shows nothing to compare with it.
    """
    theories = [theory for theory in run.problem.theory(run.deck) if isinstance(theory, Theory)]
    if not theories:
        raise NothingToDraw(f"the problem {run.deck.problem.name} has no theory of growth or oscillation")
    if not any(theory.frequency for theory in theories):
        _growth(run, figure, theories)
    elif _beats(run.energies[theories[0].quantity]):
        _beat(run, figure.subplots(), theories)
    else:
        _phase(run, figure.subplots(), theories)
    figure.legend(loc="outside upper center", ncols=2)


def _label(theory, symbol: str, value: float, digits: int) -> str:
    """Legend entry of a line of theory."""
    return rf"{_math(theory.label)}:  ${symbol} = {value:.{digits}f}\,\omega_{{pi}}$"


def _math(text: str) -> str:
    """ω_p as it is set in a formula."""
    return text.replace("ω_p", r"$\omega_p$")


def _growth(run: Run, figure, theories) -> None:
    """Energy on a logarithmic axis, and below its momentary growth rate; theory starts where the fit does."""
    name = theories[0].quantity
    time, energy = run.energies["time"], run.energies[name]
    try:
        fit = fit_growth(time, energy)
    except ValueError as error:
        raise NothingToDraw(f"no growth to fit in {run.directory}: {error}") from error
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2.2, 1))
    shown = energy > 0
    upper.semilogy(time[shown], energy[shown], color=BLACK, label=f"{name} energy")
    window = np.array([fit.start, fit.stop])
    upper.plot(window, fit(window), color=FITTED, linewidth=5, alpha=0.55, solid_capstyle="round",
               label=rf"fit:  $\gamma = {fit.rate / 2:.4f}\,\omega_{{pi}}$")
    centres, rates = slopes(time[shown], np.log(energy[shown]), max(fit.stop - fit.start, 0.0) / 6)
    lower.plot(centres, rates / 2, color=BLACK)
    reach = np.array([fit.start, min(fit.stop + 0.3 * np.ptp(window), time[-1])])
    for colour, style, theory in zip(COLOURS, LINES, theories, strict=False):
        line = fit(fit.start) * np.exp(2 * theory.growth_rate * (reach - fit.start))
        upper.plot(reach, line, color=colour, linestyle=style,
                   label=_label(theory, r"\gamma", theory.growth_rate, 4))
        lower.axhline(theory.growth_rate, color=colour, linestyle=style)
    top = max(abs(fit.rate / 2), *(abs(theory.growth_rate) for theory in theories))
    upper.set(ylabel=rf"{name} energy  $[{energy_unit(len(run.deck.grid.cells))}]$", xlim=span(time),
              ylim=(max(energy[shown].min(), energy.max() * 1e-16) / 3, 5 * energy.max()))
    lower.set(xlabel=TIME, ylabel=r"$\gamma(t)\,/\,\omega_{pi}$", ylim=(-0.25 * top, 1.6 * top))


def slopes(time, values, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Centres of the windows of ``width`` that fit into a history, and the slope of the line fitted in each."""
    count = max(2, int(round(width / np.median(np.diff(time)))) + 1) if len(time) > 1 else 2
    if len(time) < count:
        return time[:0], time[:0]
    t, y = (np.lib.stride_tricks.sliding_window_view(a, count) for a in (time, values))
    t, y = t - t.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    centres = np.convolve(time, np.full(count, 1 / count), "valid")
    return centres, np.sum(t * y, axis=1) / np.sum(t * t, axis=1)


def _beats(energy: np.ndarray) -> bool:
    """Whether an energy swings, as that of a standing oscillation does."""
    return bool(np.ptp(energy) > 0.5 * energy.max())


def _beat(run: Run, axes, theories) -> None:
    """Energy of a standing oscillation over its first periods, and theories in phase with it at the start."""
    name = theories[0].quantity
    time, energy = run.energies["time"], run.energies[name] / run.energies[name].max()
    omega = _frequency(time, energy, theories[-1].frequency)
    mean, cosine, sine = _beat_factors(time, energy, omega)[0]
    end = min(time[0] + PERIODS * 2 * np.pi / omega, time[-1])
    fine, early = np.linspace(time[0], end, 2000), time <= end
    for colour, style, theory in zip(COLOURS, LINES, theories, strict=False):
        phase = 2 * theory.frequency * (fine - time[0])
        axes.plot(fine, mean + cosine * np.cos(phase) + sine * np.sin(phase), color=colour, linestyle=style,
                  label=_label(theory, r"\omega", theory.frequency, 5))
    axes.plot(time[early], energy[early], color=BLACK, marker="o", markersize=3, linestyle="none", clip_on=False,
              label=rf"measured to $\omega_{{pi}}t = {time[-1]:.4g}$:  $\omega = {omega:.5f}\,\omega_{{pi}}$")
    axes.set(xlabel=TIME, ylabel=f"{name} energy / its maximum", xlim=(time[0], end))


def _beat_factors(time, energy, omega: float):
    """Least squares of a + b cos 2ω(t − t₀) + c sin 2ω(t − t₀): the factors (3,) and the sum of squares left."""
    phase = 2 * omega * (time - time[0])
    basis = np.stack([np.ones_like(phase), np.cos(phase), np.sin(phase)], axis=-1)
    factors = np.linalg.lstsq(basis, energy, rcond=None)[0]
    return factors, float(np.sum((basis @ factors - energy) ** 2))


def _frequency(time, energy, guess: float) -> float:
    """ω of an energy that swings with 2ω, by least squares near ``guess``: scanned, then refined."""
    span = time[-1] - time[0]
    trial = guess * np.linspace(0.8, 1.2, max(41, int(8 * guess * span)))
    best = trial[np.argmin([_beat_factors(time, energy, omega)[1] for omega in trial])]
    step = trial[1] - trial[0]
    found = minimize_scalar(lambda omega: _beat_factors(time, energy, omega)[1], bounds=(best - step, best + step),
                            method="bounded", options={"xatol": 1e-10})
    return float(found.x)


def _phase(run: Run, axes, theories) -> None:
    """Phase of a travelling wave relative to the first theory, from the snapshots, and how the others say it drifts."""
    mode, component = run.deck.problem.params.mode, None
    times, phases = [], []
    for path in run.snapshots:
        snapshot = read_fields(path, ["E"])
        amplitudes = [mode_amplitude(part, mode) for part in snapshot.meshes["E"].values]
        component = int(np.argmax(np.abs(amplitudes))) if component is None else component
        times.append(snapshot.time)
        phases.append(np.angle(amplitudes[component]))
    if len(times) < 2:
        raise NothingToDraw(f"{run.directory} has {len(times)} snapshot; the phase of a wave needs at least 2")
    time, reference, guide = np.array(times), theories[0].frequency, theories[-1].frequency
    lag = np.unwrap(np.array(phases) + guide * time) - phases[0] + (reference - guide) * time
    fine = np.array([time[0], time[-1]])
    for colour, style, theory in zip(COLOURS, LINES, theories, strict=False):
        axes.plot(fine, (reference - theory.frequency) * fine, color=colour, linestyle=style,
                  label=_label(theory, r"\omega", theory.frequency, 5))
    measured = reference - np.polyfit(time, lag, 1)[0]
    axes.plot(time, lag, color=BLACK, marker="o", markersize=3.5, linestyle="none", clip_on=False,
              label=rf"measured:  $\omega = {measured:.5f}\,\omega_{{pi}}$")
    axes.set(xlabel=TIME, ylabel=f"phase behind {_math(theories[0].label)}  [rad]", xlim=span(fine))
