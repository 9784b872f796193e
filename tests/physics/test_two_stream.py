"""Two cold beams against their growth rate."""

from __future__ import annotations

import numpy as np
import pytest
from physics.measure import energy_history, simulation

from ecsim.diagnostics.modes import fit_growth
from ecsim.problems import two_stream

pytestmark = pytest.mark.physics


@pytest.mark.parametrize(("dt", "expected"), [(0.5, 0.349), (0.1, 0.3523)])
@pytest.mark.parametrize("shape", ["cic", "tsc"])
def test_growth_rate(dt, expected, shape):
    """k v₀ = 0.6124 ω_p: 0.3536 in the continuum, 0.349 at ω_pΔt = ½; the fit spans five decades of energy."""
    run = simulation("two_stream", {"time.dt": dt, "time.end_time": 40.0, "grid.shape": shape})
    history = energy_history(run, round(40.0 / dt))
    energy = history["electric"]
    growing = (energy > 3e-11) & (energy < 3e-6)
    window = history["time"][growing][[0, -1]]
    fit = fit_growth(history["time"], np.sqrt(energy), *window)
    theory = two_stream.theory(run.deck)
    assert theory[0].growth_rate == pytest.approx(0.3536, abs=5e-5)
    assert fit.rate == pytest.approx(theory[1].growth_rate, rel=0.01)
    if shape == "cic":
        assert fit.rate == pytest.approx(expected, rel=0.01)


def test_short_waves_are_stable():
    """Above k v₀ = ω_p the modulation swings and does not grow."""
    run = simulation("two_stream", {"grid.size": [0.5], "time.end_time": 40.0, "time.dt": 0.25})
    assert two_stream.theory(run.deck)[0].growth_rate == pytest.approx(0.0, abs=1e-7)
    energy = energy_history(run, 160)["electric"]
    assert energy.max() < 10 * energy[1:20].max()
