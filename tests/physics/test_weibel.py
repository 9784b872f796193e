"""The Weibel instability against kinetic theory."""

from __future__ import annotations

import numpy as np
import pytest
from physics.measure import energy_history, simulation

from ecsim.diagnostics.modes import fit_growth
from ecsim.problems import weibel

pytestmark = pytest.mark.physics


@pytest.mark.parametrize("hot", [1, 2])
def test_growth_rate(hot):
    """Three decades of magnetic energy grow as the scheme's kinetic theory says, whichever of y and z is hot."""
    spread = [0.1, 0.1, 0.1]
    spread[hot] = 0.3
    changes = {
        "species.electrons.thermal_velocity": spread,
        "species.electrons.particles_per_cell": 4096,
        "problem.perturbation": 1e-5,
        "solver.tolerance": 1e-12,
    }
    run = simulation("weibel", changes)
    assert weibel.current_axis(run.deck) == hot
    history = energy_history(run, 170)
    energy = history["magnetic"]
    window = history["time"][(energy > 1e-8) & (energy < 1e-5)][[0, -1]]
    fit = fit_growth(history["time"], np.sqrt(energy), *window)
    theory = weibel.theory(run.deck)
    assert fit.rate == pytest.approx(theory[1].growth_rate, rel=0.01)
    assert fit.rate == pytest.approx(theory[0].growth_rate, rel=0.04)


def test_isotropic_plasma_is_stable():
    """Equal temperatures: the seed is an ordinary wave and does not grow."""
    run = simulation("weibel", {"species.electrons.thermal_velocity": 0.1, "time.dt": 0.25})
    energy = energy_history(run, 120)["magnetic"]
    assert weibel.theory(run.deck)[0].growth_rate == 0.0
    assert energy[60:].max() < 3 * energy[:20].max()
