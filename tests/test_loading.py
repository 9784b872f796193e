"""Loading: published vectors of the generator, distributions, and the same plasma on any number of ranks."""

from __future__ import annotations

import math
import tracemalloc
from itertools import product

import numpy as np
import pytest
from loading_cases import batches, loaded
from numba import njit
from scipy import special, stats

from ecsim.builder import build
from ecsim.deck import load_deck
from ecsim.grid import Block, Grid
from ecsim.particles import random, scalar
from ecsim.particles.loading import PIECE
from ecsim.particles.recipe import Population, Recipe, lattice
from ecsim.plan import make_plan

COLD = Recipe(-1.0, (Population(),))
WARM = Recipe(1.0, (Population(0.7, (0.1, 0.0, -0.2), (0.01, 0.02, 0.03)),))
MIXED = Recipe(
    -1.0,
    (
        Population(lambda x: 1.0 + np.sin(x[0]) ** 2, (0.0, 0.0, 0.5), (0.01, 0.01, 0.01)),
        Population(0.5, (0.0, 0.0, -0.5), (0.02, 0.02, 0.02)),
    ),
)


def positions(block: Block, p) -> np.ndarray:
    """x (d, P) in cell widths from the global origin, not wrapped."""
    centre = 0.5 if block.order == 1 else 0.0
    index = np.stack(np.unravel_index(p["cell"], block.cells)) + np.array(block.origin)[:, None]
    return index + centre + p["s"]


# -- the generator ---------------------------------------------------------------------------------


@njit
def _philox(counter, key):
    return random.philox(counter[0], counter[1], counter[2], counter[3], key[0], key[1])


@njit
def _quantiles(u):
    out = np.empty_like(u)
    for i in range(u.size):
        out[i] = random.normal_quantile(u[i])
    return out


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_philox_known_answers(counter, key, words):
    """The known-answer vectors of philox4x32-10 that its authors publish with Random123."""
    counter, key = (np.array([int(w, 16) for w in a.split()], dtype=np.uint32) for a in (counter, key))
    assert [f"{int(w):08x}" for w in _philox(counter, key)] == words.split()


@njit
def _elementary(u, log, sech_squared):
    for i in range(u.size):
        log[i], sech_squared[i] = scalar.log(abs(u[i])), scalar.sech_squared(u[i])


def test_elementary_functions_against_numpy():
    """A few units in the last place, numpy's own errors included; sech² has a floor and lets NaN through."""
    u = np.concatenate([np.geomspace(1e-300, 1e300, 999), np.linspace(-30, 30, 4000)])
    log, sech_squared = np.empty((2, u.size))
    _elementary(u, log, sech_squared)
    np.testing.assert_allclose(log, np.log(np.abs(u)), rtol=3e-16)
    e = np.exp(-2.0 * np.minimum(np.abs(u), 350.0))
    np.testing.assert_allclose(sech_squared, 4.0 * e / (1.0 + e) ** 2, rtol=2e-15)
    ends = np.array([0.0, np.inf, np.nan])
    _elementary(ends, np.empty(3), sech_squared := np.empty(3))
    assert sech_squared[0] == 1.0 and 0.0 < sech_squared[1] < 1e-300 and np.isnan(sech_squared[2])


def test_normal_quantile_against_scipy():
    u = np.concatenate([np.linspace(1e-6, 1 - 1e-6, 20001), 10.0 ** -np.linspace(1, 300, 500)])
    expected = special.ndtri(u)
    np.testing.assert_allclose(_quantiles(u), expected, rtol=2e-14, atol=1e-15)


# -- ranks, threads, chunks ------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["random", "quiet"])
@pytest.mark.parametrize("shape", [((5,), (3,)), ((3, 4), (1, 2)), ((4, 1, 3), (2, 1, 2))])
@pytest.mark.parametrize("order", [1, 2])
def test_blocks_together_are_the_whole_box(order, shape, start):
    """Every particle exists once, with the same bits, whatever blocks the box is cut into."""
    cells, cut = shape
    d = len(cells)
    grid = Grid(cells, (1.0, 2.0, 3.0)[:d], order)
    how = dict(species=1, particles_per_cell=(8, 3, 2)[:d], start=start, seed=11, ids=True)
    whole = loaded(MIXED, Block(grid), **how)
    assert np.array_equal(whole["id"], np.arange(grid.n_nodes * math.prod(how["particles_per_cell"])))
    pieces = []
    halves = [[(0, c), (c, n - c)] if c < n else [(0, n)] for n, c in zip(cells, cut, strict=True)]
    for part in product(*halves):
        origin, extent = zip(*part, strict=True)
        block = Block(grid, origin, extent)
        piece = loaded(MIXED, block, threads=2, piece=5, **how)
        where = np.stack(np.unravel_index(piece["cell"], extent)) + np.array(origin)[:, None]
        piece["cell"] = np.ravel_multi_index(tuple(where), cells).astype(np.int32)
        pieces.append(piece)
    joined = {n: np.concatenate([p[n] for p in pieces], axis=-1) for n in whole}
    order_of_ids = np.argsort(joined["id"])
    for name, expected in whole.items():
        assert np.array_equal(joined[name][..., order_of_ids], expected), name


def test_order_does_not_depend_on_threads():
    block = Block(Grid((6, 5), (1.0, 1.0)))
    how = dict(species=0, particles_per_cell=4, seed=3)
    one, four = (batches(WARM, block, piece=4, threads=threads, **how) for threads in (1, 4))
    assert len(one) > len(four) > 1
    for name in ("cell", "s", "v"):
        assert np.array_equal(*(np.concatenate([b[name] for b in made], axis=-1) for made in (one, four)))


def test_shapes_place_the_same_particles():
    """CIC and TSC differ in the support cell, not in where the particles are."""
    cells, how = (4, 3), dict(species=2, particles_per_cell=50, seed=5, ids=True)
    cic, tsc = (Block(Grid(cells, (1.0, 1.0), order)) for order in (1, 2))
    a, b = loaded(WARM, cic, **how), loaded(WARM, tsc, **how)
    x, y = positions(cic, a), np.mod(positions(tsc, b), np.array(cells)[:, None])
    assert np.array_equal(a["v"], b["v"])
    np.testing.assert_allclose(x, y, atol=1e-15)
    for p in (a, b):
        assert p["s"].min() >= -0.5 and p["s"].max() < 0.5
        assert p["cell"].dtype == np.int32


def test_species_draw_numbers_of_their_own_unless_placed_on_each_other():
    block = Block(Grid((3,), (1.0,)))
    on_first = Recipe(-1.0, (Population(thermal_velocity=(1.0, 1.0, 1.0)),), positions_of=0)
    alone = Recipe(-1.0, on_first.populations)
    ions = loaded(Recipe(1.0, on_first.populations), block, species=0, particles_per_cell=20, seed=1)
    placed = loaded(on_first, block, species=1, particles_per_cell=20, seed=1)
    free = loaded(alone, block, species=1, particles_per_cell=20, seed=1)
    other_seed = loaded(alone, block, species=1, particles_per_cell=20, seed=2**64 - 1)
    assert np.array_equal(ions["s"], placed["s"]) and not np.any(ions["v"] == placed["v"])
    assert np.array_equal(free["v"], placed["v"]) and not np.any(ions["s"] == free["s"])
    assert not np.any(other_seed["s"] == free["s"])


@pytest.mark.parametrize("shape", ["cic", "tsc"])
def test_loading_takes_no_more_memory_than_planned(shape):
    """Stores, fields and work arrays of the plan, and a batch in the making; checked at the peak of numpy's arrays."""
    small, deck = (load_deck("double_harris", {"grid.cells": cells, "grid.shape": shape, "backend.device": "cpu",
                                               "backend.threads": 1, "particles.sort_every": 2})
                   for cells in ([3, 3, 3], [12, 6, 6]))
    build(small)    # imports and compiles
    tracemalloc.start()
    try:
        build(deck)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    batch = PIECE * 60
    assert batch < 0.3 * make_plan(deck).bytes and peak < make_plan(deck).bytes + batch + 2**21


# -- distributions ---------------------------------------------------------------------------------


def test_random_start_distributions():
    """Kolmogorov–Smirnov of each velocity component, chi-square of the positions, no correlations."""
    block = Block(Grid((4, 4, 4), (1.0, 1.0, 1.0)))
    p = loaded(WARM, block, species=0, particles_per_cell=1000, seed=2)
    u, v_th = np.array(WARM.populations[0].drift), np.array(WARM.populations[0].thermal_velocity)
    z = (p["v"] - u[:, None]) / v_th[:, None]
    for component in z:
        assert stats.kstest(component, "norm").pvalue > 1e-3
    for s in p["s"]:
        assert stats.chisquare(np.histogram(s, 64, (-0.5, 0.5))[0]).pvalue > 1e-3
    correlation = np.corrcoef(np.concatenate([z, p["s"]])) - np.eye(6)
    assert np.abs(correlation).max() < 5 / math.sqrt(z.shape[1])


def test_mixture_follows_its_densities():
    """Weights follow the total density, and each population has its share of particles at every place."""
    grid = Grid((16,), (np.pi,))
    per_cell = 2000
    p = loaded(MIXED, Block(grid), species=0, particles_per_cell=per_cell, seed=4)
    x = positions(Block(grid), p)[0] * grid.spacing[0]
    first = 1.0 + np.sin(x) ** 2
    np.testing.assert_allclose(p["weight"], -(first + 0.5) * grid.volume / per_cell, rtol=1e-13)
    assert p["weight"].sum() == pytest.approx(-2.0 * np.pi, rel=2e-3)
    in_first = p["v"][2] > 0.0
    share = first / (first + 0.5)
    excess = np.bincount(p["cell"], in_first - share) / np.sqrt(np.bincount(p["cell"], share * (1.0 - share)))
    assert stats.kstest(excess, "norm").pvalue > 1e-3
    assert p["v"][0, in_first].std() == pytest.approx(0.01, rel=0.02)
    assert p["v"][0, ~in_first].std() == pytest.approx(0.02, rel=0.02)


def test_uniform_weight_is_one_number():
    grid = Grid((2, 2), (1.0, 3.0))
    assert WARM.uniform_weight(grid.volume, 7) == pytest.approx(0.7 * 0.75 / 7)
    assert MIXED.uniform_weight(grid.volume, 7) is None
    assert "weight" not in loaded(WARM, Block(grid), species=0, particles_per_cell=7)


# -- quiet start -----------------------------------------------------------------------------------


def test_quiet_positions_are_a_lattice():
    p = loaded(COLD, Block(Grid((2, 2), (1.0, 1.0))), species=0, particles_per_cell=(2, 3), start="quiet")
    cell = p["s"][:, p["cell"] == 3]
    np.testing.assert_allclose(np.unique(cell[0]), [-0.25, 0.25])
    np.testing.assert_allclose(np.unique(np.round(cell[1], 12)), [-1 / 3, 0.0, 1 / 3], atol=1e-12)
    assert len(np.unique(np.round(cell, 12), axis=1).T) == 6
    assert np.all(p["v"] == 0.0)


@pytest.mark.parametrize("per_cell", [8, 27, 64, 216])
def test_quiet_velocities_have_the_moments_of_the_maxwellian(per_cell):
    """In every cell the mean is the drift and the pressure tensor that of the Maxwellian, to rounding."""
    block = Block(Grid((2, 2, 2), (1.0, 1.0, 1.0)))
    u, v_th = np.array(WARM.populations[0].drift), np.array(WARM.populations[0].thermal_velocity)
    p = loaded(WARM, block, species=0, particles_per_cell=per_cell, start="quiet", seed=6)
    for cell in np.split((p["v"] - u[:, None]) / v_th[:, None], block.n_cells, axis=1):
        np.testing.assert_allclose(cell.mean(axis=1), 0.0, atol=1e-13)
        np.testing.assert_allclose(cell @ cell.T / per_cell, np.eye(3), atol=1e-13)


def test_quiet_velocities_are_normal():
    """The distribution of a set of 1000 velocities is closer to the normal one than a random set would be."""
    p = loaded(WARM, Block(Grid((1,), (1.0,))), species=0, particles_per_cell=1000, start="quiet", seed=8)
    for component, spread, drift in zip(p["v"], (0.01, 0.02, 0.03), (0.1, 0.0, -0.2), strict=True):
        assert stats.kstest((component - drift) / spread, "norm").statistic < 0.01


def test_quiet_species_and_seeds_differ():
    block, how = Block(Grid((1,), (1.0,))), dict(particles_per_cell=64, start="quiet")
    sets = [loaded(WARM, block, species=k, seed=seed, **how)["v"] for k, seed in ((0, 1), (1, 1), (0, 2))]
    assert not np.any(sets[0] == sets[1]) and not np.any(sets[0] == sets[2])


def test_quiet_mixture_draws_populations_cell_by_cell():
    """Mixtures are not the same in every cell, but each population has its share."""
    p = loaded(MIXED, Block(Grid((400,), (np.pi,))), species=0, particles_per_cell=64, start="quiet")
    in_first = (p["v"][2] > 0.0).reshape(400, 64)
    assert len(np.unique(in_first, axis=0)) > 100
    x = np.pi * (np.arange(400) + 0.5) / 400
    share = (1.0 + np.sin(x) ** 2) / (1.5 + np.sin(x) ** 2)
    assert in_first.mean() == pytest.approx(share.mean(), abs=2e-3)
    binomial = np.sqrt(share * (1.0 - share) / 64)
    assert ((in_first.mean(axis=1) - share) / binomial).std() < 0.5


def test_quiet_refuses_too_few_warm_particles():
    with pytest.raises(ValueError, match="at least 8"):
        loaded(WARM, Block(Grid((1,), (1.0,))), species=0, particles_per_cell=7, start="quiet")


@pytest.mark.parametrize(
    ("count", "d", "sides"), [(64, 3, (4, 4, 4)), (9, 2, (3, 3)), (7, 1, (7,)), ((2, 5), 2, (2, 5))]
)
def test_lattice_counts(count, d, sides):
    assert lattice(count, d) == sides


@pytest.mark.parametrize(("count", "d"), [(60, 3), (8, 2), ((2, 2), 3), ((2, 0), 2)])
def test_lattice_refuses_what_does_not_fit(count, d):
    with pytest.raises(ValueError, match="particles_per_cell"):
        lattice(count, d)


def test_unknown_start():
    with pytest.raises(ValueError, match="start = 'silent'"):
        loaded(COLD, Block(Grid((1,), (1.0,))), species=0, particles_per_cell=1, start="silent")


def test_recipe_refuses_a_mixture_with_varying_drift():
    with pytest.raises(ValueError, match="drift"):
        Recipe(1.0, (Population(drift=lambda x: x), Population()))
