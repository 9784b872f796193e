"""Invariants of every shipped deck: energy, ∇·B and charge over 200 cycles; and axes that may be permuted."""

from __future__ import annotations

import numpy as np
import pytest
from physics.measure import simulation

from ecsim.deck import shipped_decks
from ecsim.fields.operators import divergence
from ecsim.simulation import Simulation

pytestmark = pytest.mark.physics

SMALLER = {
    "double_harris": {
        "grid.cells": [20, 10, 4],
        "grid.size": [28.0, 14.0, 5.6],
        "species.ions.particles_per_cell": 8,
        "species.electrons.particles_per_cell": 8,
    },
    "double_harris_2d": {"grid.cells": [48, 24]},
    "thermal": {"grid.cells": [16, 16], "grid.size": [0.96, 0.96]},
}


@pytest.mark.parametrize("name", sorted(shipped_decks()))
def test_invariants_over_200_cycles(name):
    """Relative energy drift ≤ 1e-13 at tolerance 1e-14; ∇·B and the charge to rounding."""
    run = simulation(name, {**SMALLER.get(name, {}), "solver.tolerance": 1e-14, "time.steps": 200})
    assert run.deck.time.theta == 0.5
    charge = sum(float(s.q.sum()) for s in run.species)
    scale = sum(float(np.abs(s.q).sum()) for s in run.species)
    run.step(200)
    assert run.worst_drift <= 1e-13
    assert abs(sum(float(s.q.sum()) for s in run.species) - charge) <= 1e-14 * scale
    B, spacing = run.B, run.plasma.block.spacing
    divergence_B = divergence(np.pad(B, [(0, 0)] + [(1, 0)] * (B.ndim - 1), mode="wrap"), spacing)
    assert np.abs(divergence_B).max() <= 1e-12 * max(np.abs(B).max(), np.abs(run.E).max()) / min(spacing)


@pytest.mark.parametrize("tolerance", [1e-6, 1e-10])
@pytest.mark.parametrize("name", ["two_stream", "thermal"])
def test_drift_is_of_the_order_of_the_tolerance(name, tolerance):
    """A solve that is less exact costs as much energy: at most a few times the tolerance over 200 cycles."""
    run = simulation(name, {**SMALLER.get(name, {}), "solver.tolerance": tolerance, "time.steps": 200})
    run.step(200)
    assert 1e-16 < run.worst_drift <= 5 * tolerance


def turned(vectors: np.ndarray, axis: int) -> np.ndarray:
    """Vectors (..., 3) turned so that their first component lies along ``axis`` (a cyclic permutation)."""
    return np.roll(vectors, axis, axis=-1)


@pytest.mark.parametrize("shape", ["cic", "tsc"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_one_dimension_of_three(axis, shape):
    """64×1×1, 1×64×1 and 1×1×64 give what a run in one dimension gives, after turning the axes."""
    rng = np.random.default_rng(5)
    n, count = 64, 640
    place, v = rng.uniform(0.0, 8.0, (count, 1)), rng.normal(0.0, 0.1, (count, 3))
    E, B = rng.normal(0.0, 0.05, (3, n)), rng.normal(0.0, 0.2, (3, n))
    B[0] = 0.3
    how = dict(dt=0.4, shape=shape, tolerance=1e-14, device="cpu")

    def electrons(x, velocity):
        return [dict(name="electrons", charge_to_mass=-3.0, x=x, v=velocity, q=-8.0 / count)]

    line = Simulation.from_arrays(cells=[n], size=[8.0], species=electrons(place, v), E=E, B=B, **how)
    cells, size = [1, 1, 1], [1.0, 1.0, 1.0]
    cells[axis], size[axis] = n, 8.0
    x = rng.uniform(0.0, 1.0, (count, 3))
    x[:, axis] = place[:, 0]
    fields = [np.moveaxis(turned(f.T, axis), -1, 0).reshape(3, *cells) for f in (E, B)]
    box = Simulation.from_arrays(
        cells=cells, size=size, species=electrons(x, turned(v, axis)), E=fields[0], B=fields[1], **how
    )
    for run in (line, box):
        run.step(8)
    for name in ("E", "B"):
        expected = getattr(line, name)
        found = getattr(box, name).reshape(3, n)
        np.testing.assert_allclose(found, turned(expected.T, axis).T, atol=1e-12 * np.abs(expected).max())
