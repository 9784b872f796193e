"""Conservation numbers, modes, growth rates and the schedule."""

import numpy as np
import pytest

from ecsim.diagnostics.conservation import divergence_B, gauss_residual
from ecsim.diagnostics.modes import fit_growth, mode_amplitude
from ecsim.diagnostics.schedule import Schedule


def test_gauss_residual_ignores_the_mean_charge():
    divergence = np.array([[1.0, -1.0], [2.0, -2.0]])
    assert gauss_residual(divergence, divergence + 7.0) == 0.0
    assert gauss_residual(divergence, np.full((2, 2), 3.0)) == pytest.approx(np.sqrt(2.5))


def test_numbers_of_blocks_add_up_to_those_of_the_whole():
    """Two blocks, each given the other's share by the reduction, agree with one block."""
    random = np.random.default_rng(1)
    divergence, charge = random.standard_normal((2, 6, 4))
    halves = [(divergence[:3], charge[:3]), (divergence[3:], charge[3:])]
    mean = charge.mean()
    sums = iter([np.array([24, charge.sum()]), np.array([np.sum((divergence - charge + mean) ** 2)])])
    mine = []

    def reduce_sum(local):
        mine.append(local)
        return next(sums)

    assert gauss_residual(*halves[0], reduce_sum) == pytest.approx(gauss_residual(divergence, charge), rel=1e-14)
    assert mine[0].tolist() == [12, pytest.approx(charge[:3].sum())]
    assert divergence_B(divergence[:3], lambda local: max(local, 9.0)) == 9.0
    assert divergence_B(divergence) == np.abs(divergence).max()


@pytest.mark.parametrize("cells, mode", [((16,), (3,)), ((8, 6), (1, 2)), ((8, 6, 5), (2, 0, 1)), ((8, 6), (1, -2))])
def test_mode_amplitude_is_the_factor_of_the_wave(cells, mode):
    phase = 2 * np.pi * sum(m * i / n for m, i, n in zip(mode, np.indices(cells), cells, strict=True))
    amplitude = 0.7 * np.exp(0.4j)
    field = 1.3 + (amplitude * np.exp(1j * phase)).real
    assert mode_amplitude(field, mode) == pytest.approx(amplitude, abs=1e-14)
    assert mode_amplitude(field, (0,) * len(cells)) == pytest.approx(1.3, abs=1e-14)


def test_growth_between_noise_and_saturation():
    time = np.linspace(0, 100, 1001)
    wave = 1e-6 * np.exp(0.35 * (time - 10))
    history = np.where(time < 62, wave, 1e-6 * np.exp(0.35 * 52)) * (1 + 0.2 * np.sin(3 * time))
    history += 1e-6 * (1 + 0.5 * np.sin(7 * time))
    fit = fit_growth(time, history)
    assert fit.rate == pytest.approx(0.35, rel=0.02)
    assert 12 < fit.start < fit.stop < 62
    assert fit(30.0) == pytest.approx(1e-6 * np.exp(0.35 * 20), rel=0.2)


def test_growth_in_a_given_window_is_exact():
    time = np.arange(10.0)
    fit = fit_growth(time, 2 * np.exp(-0.3 * time), start=2, stop=8)
    assert fit[:4] == pytest.approx((-0.3, np.log(2), 2, 8)) and fit.spread < 1e-14


def test_growth_needs_values():
    with pytest.raises(ValueError, match="0 positive values"):
        fit_growth(np.arange(5.0), np.zeros(5))


def test_schedule_calls_at_multiples_in_order():
    calls, schedule = [], Schedule()
    schedule.on(2, lambda step: calls.append(("two", step)))
    schedule.on(3, lambda step: calls.append(("three", step)))
    for step in range(1, 7):
        schedule.call(step, step)
    assert calls == [("two", 2), ("three", 3), ("two", 4), ("two", 6), ("three", 6)]


@pytest.mark.parametrize("interval", [0, -1, 1.5, True])
def test_schedule_refuses_other_intervals(interval):
    with pytest.raises(ValueError, match="at least 1"):
        Schedule().on(interval, print)
