"""Cold Langmuir oscillations against the frequency of the scheme."""

from __future__ import annotations

import pytest
from physics.measure import mode_history, simulation, swing_frequency

from ecsim.problems import langmuir

pytestmark = pytest.mark.physics


@pytest.mark.parametrize(
    ("cells", "mode", "dt", "expected"),
    [(64, 1, 0.1, 0.99837), (64, 8, 1.0, 0.88684), (64, 16, 1.0, 0.77519), (16, 4, 3.0, 0.59072)],
)
@pytest.mark.parametrize("method", ["pair", "direct"])
def test_frequency(cells, mode, dt, expected, method):
    """256 lattice points a cell are a continuum to 3e-6; against the formula for that lattice it is exact."""
    changes = {
        "grid.cells": [cells],
        "time.dt": dt,
        "problem.mode": [mode],
        "species.electrons.particles_per_cell": 256,
        "assembly.method": method,
    }
    run = simulation("langmuir", changes)
    measured = swing_frequency(mode_history(run, 40, 0, [mode]), dt)
    assert measured == pytest.approx(expected, abs=1e-5)
    assert measured == pytest.approx(langmuir.theory(run.deck)[1].frequency, rel=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", ["cic", "tsc"])
def test_frequency_along_each_axis_of_flat_cells(axis, shape):
    """Δx:Δy:Δz = 1:2:5, 16 cells and 4 waves along one axis, Δt = 3: 0.59072 ω_p for CIC whichever axis it is."""
    cells, per_cell, mode = [3, 2, 3], [2, 2, 2], [0, 0, 0]
    cells[axis], per_cell[axis], mode[axis] = 16, 128, 4
    changes = {
        "grid.cells": cells,
        "grid.size": [0.1 * n * width for n, width in zip(cells, (1, 2, 5), strict=True)],
        "grid.shape": shape,
        "time.dt": 3.0,
        "problem.mode": mode,
        "species.electrons.particles_per_cell": per_cell,
    }
    run = simulation("langmuir", changes)
    measured = swing_frequency(mode_history(run, 20, axis, mode), 3.0)
    assert measured == pytest.approx(langmuir.theory(run.deck)[1].frequency, rel=1e-6)
    if shape == "cic":
        assert measured == pytest.approx(0.59072, abs=2e-5)


def test_frequency_of_a_random_start():
    """A random start has the same frequency to the noise of its particles."""
    changes = {"species.electrons.start": "random", "species.electrons.particles_per_cell": 2000, "time.dt": 0.5}
    run = simulation("langmuir", changes)
    measured = swing_frequency(mode_history(run, 40, 0, [8]), 0.5)
    assert measured == pytest.approx(langmuir.theory(run.deck)[1].frequency, rel=1e-3)
