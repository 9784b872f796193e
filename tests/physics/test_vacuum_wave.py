"""Light in vacuum against the discrete dispersion relation."""

from __future__ import annotations

import numpy as np
import pytest
from physics.measure import mode_history, simulation

from ecsim.problems import vacuum_wave

pytestmark = pytest.mark.physics


def rates(run, steps: int, component: int, mode) -> tuple[float, float]:
    """Frequency and growth rate from the turning of the complex amplitude, after a check that it is one wave."""
    a = mode_history(run, steps, component, mode)
    factors = a[1:] / a[:-1]
    np.testing.assert_allclose(factors, factors.mean(), atol=1e-11)
    log = np.log(factors.mean()) / run.deck.time.dt
    return -log.imag, log.real


def test_phase_speed():
    """16 cells a wavelength, c Δt = Δx, θ = ½: 0.9813 c, and no loss."""
    run = simulation("vacuum_wave")
    frequency, growth = rates(run, 50, 2, [4])
    assert frequency / (2 * np.pi / 16) == pytest.approx(0.9813, abs=5e-5)
    assert frequency == pytest.approx(vacuum_wave.theory(run.deck)[1].frequency, rel=1e-11)
    assert abs(growth) < 1e-12


@pytest.mark.parametrize("theta", [0.5, 0.7, 1.0])
@pytest.mark.parametrize("shape", ["cic", "tsc"])
def test_oblique_waves(theta, shape):
    """An oblique wave on flat cells turns and decays as the theory says, at any θ."""
    mode = [1, -2, 1]
    changes = {
        "grid.cells": [12, 10, 7],
        "grid.size": [12.0, 20.0, 35.0],
        "grid.shape": shape,
        "problem.mode": mode,
        "time.dt": 1.5,
        "time.theta": theta,
    }
    run = simulation("vacuum_wave", changes)
    scheme = vacuum_wave.theory(run.deck)[1]
    frequency, growth = rates(run, 20, 2, mode)
    assert frequency == pytest.approx(scheme.frequency, rel=1e-10)
    assert growth == pytest.approx(scheme.growth_rate, rel=1e-9, abs=1e-12)
