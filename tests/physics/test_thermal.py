"""A uniform Maxwellian plasma: nothing happens, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from physics.measure import energy_history, simulation

pytestmark = pytest.mark.physics


def test_temperatures_stay():
    """Cells of three Debye lengths heat an explicit scheme; here both temperatures stay within one per cent."""
    run = simulation("thermal", {"grid.cells": [16, 16], "grid.size": [0.96, 0.96]})
    history = energy_history(run, 200)
    kinetic = history["kinetic"] / history["kinetic"][0]
    assert np.abs(kinetic - 1.0).max() < 0.01
    assert np.abs(history["total"] / history["total"][0] - 1.0).max() < 1e-13


def test_magnetised_plasma_keeps_its_energy_and_field():
    """A uniform B strong enough that Ω_e Δt = 5: the field does no work on anyone."""
    changes = {
        "grid.cells": [8, 8],
        "grid.size": [0.48, 0.48],
        "problem.magnetic_field": [0.0, 0.0, 2.0],
        "time.steps": 100,
    }
    run = simulation("thermal", changes)
    history = energy_history(run, 100)
    assert np.abs(history["total"] / history["total"][0] - 1.0).max() < 1e-13
    assert np.abs(run.B[2] - 2.0).max() < 0.02
    assert run.B[2].mean() == pytest.approx(2.0, rel=1e-14)
    assert np.abs(history["kinetic"] / history["kinetic"][0] - 1.0).max() < 0.02
