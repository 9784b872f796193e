"""Whole cycles against the slow dense reference on fresh random plasmas, and the manners of the Python interface."""

from __future__ import annotations

import numpy as np
import pytest
from slow_reference import SlowEcsim

from ecsim.simulation import Simulation
from ecsim.solver.gmres import SolverError


def random_plasma(cells, seed, count=40, charge_to_mass=(1.0, -25.0, -1.5)):
    """Arguments for `from_arrays`: three species, one of them empty, one with one charge for all its particles."""
    rng = np.random.default_rng(seed)
    d, size = len(cells), tuple(0.4 * n * (1 + 0.3 * k) for k, n in enumerate(cells))
    species = []
    for k, qm in enumerate(charge_to_mass):
        n = 0 if k == 2 else count + 7 * k
        q = np.sign(qm) * 0.02 * rng.random(n) if k != 1 else -0.01
        species.append(dict(name=f"s{k}", charge_to_mass=qm, x=rng.random((n, d)) * size,
                            v=rng.standard_normal((n, 3)) * (0.3 if k else 2.0), q=q))
    return dict(cells=cells, size=size, species=species, E=0.3 * rng.standard_normal((3, *cells)),
                B=0.5 * rng.standard_normal((3, *cells)))


def slow(arguments):
    species = [{**s, "q": np.broadcast_to(s["q"], (len(s["x"]),))} for s in arguments["species"]]
    return SlowEcsim(**{**arguments, "species": species})


def close(a, b, tolerance=1e-12):
    scale = max(np.abs(b).max(initial=0), 1e-3)
    np.testing.assert_allclose(np.reshape(a, np.shape(b)), b, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("method", ["pair", "direct"])
@pytest.mark.parametrize("shape", ["cic", "tsc"])
@pytest.mark.parametrize("cells", [(5,), (1,), (2,), (3, 4), (1, 5), (2, 1), (3, 2, 4), (1, 1, 5), (3, 1, 1)])
def test_three_cycles_match_the_dense_reference(cells, shape, method):
    seed = sum(n * 7**k for k, n in enumerate(cells)) + (shape == "tsc")
    arguments = {**random_plasma(cells, seed), "dt": 0.37, "theta": 0.5 + 0.1 * (seed % 3), "shape": shape}
    run = Simulation.from_arrays(**arguments, method=method, tolerance=1e-15, guess=["last", "extrapolated"][seed % 2])
    reference = slow(arguments)
    for _ in range(3):
        run.step()
        reference.cycle()
        close(run.mass_matrix.to_scipy().toarray(), reference.mass)
        close(run.J_hat, reference.J_hat)
        close(run.rho, reference.rho)
        close(run.E_theta, reference.E_theta)
        close(run.E, reference.E)
        close(run.B, reference.B)
        for s, r in zip(run.species, reference.species, strict=True):
            order = np.argsort(s.id)
            close(s.v[order], r["v"])
            apart = s.x[order] - r["x"]
            size = np.asarray(arguments["size"])
            assert np.abs((apart + 0.5 * size) % size - 0.5 * size).max(initial=0.0) <= 1e-12 * size.max()
    energies = run.energies()
    electric, magnetic, kinetic = reference.energies()
    mine = [energies["electric"], energies["magnetic"], sum(energies["kinetic"].values())]
    close(mine, [electric, magnetic, kinetic])


def test_particles_crossing_many_cells():
    arguments = random_plasma((4, 3), seed=5)
    for s in arguments["species"]:
        s["v"] *= 30.0
    arguments.update(dt=0.5, theta=0.5, shape="tsc")
    run, reference = Simulation.from_arrays(**arguments, tolerance=1e-15), slow(arguments)
    run.step(2)
    reference.cycle().cycle()
    close(run.E, reference.E)


@pytest.mark.parametrize("guess", ["last", "extrapolated"])
def test_invariants_at_theta_half(guess):
    arguments = random_plasma((6, 5, 4), seed=1, count=4000)
    run = Simulation.from_arrays(**arguments, dt=0.8, tolerance=1e-14, guess=guess)
    p, start = run.plasma, run.energies()["total"]
    charge, mean_E = p.charge(), run.E.mean(axis=(1, 2, 3))
    for _ in range(20):
        run.step()
        mean_E = mean_E - 0.8 * np.asarray(p.total_current()).mean(axis=(1, 2, 3))
        close(run.E.mean(axis=(1, 2, 3)), mean_E, 1e-11)
        assert abs(run.energies()["total"] - start) <= 1e-13 * start
    assert p.charge() == pytest.approx(charge, abs=1e-13 * sum(np.abs(s.q).sum() for s in run.species))
    assert abs(run.rho.sum() * p.block.volume - charge) <= 1e-12


def test_axes_can_be_exchanged():
    """A plasma along x, y or z alone, or in one dimension, is the same after exchanging axes."""
    rng = np.random.default_rng(8)
    n, count, length = 16, 300, 6.4
    x, v = rng.random(count) * length, rng.standard_normal((count, 3)) * 0.3
    E, B = rng.standard_normal((2, 3, n)) * 0.2
    results = []
    for axis in (None, 0, 1, 2):
        turn = [0, 1, 2] if axis is None else [(k - axis) % 3 for k in range(3)]  # new component k is old turn[k]
        cells = (n,) if axis is None else tuple(n if k == axis else 1 for k in range(3))
        size = (length,) if axis is None else tuple(length if k == axis else 0.7 for k in range(3))
        place = x[:, None] if axis is None else rng.random((count, 3)) * 0.7
        if axis is not None:
            place[:, axis] = x
        volume = 1.0 if axis is None else 0.49
        species = [dict(name="e", charge_to_mass=-1.0, x=place, v=v[:, turn], q=-length * volume / count)]
        run = Simulation.from_arrays(cells=cells, size=size, dt=0.3, species=species, tolerance=1e-15,
                                     E=E[turn].reshape(3, *cells), B=B[turn].reshape(3, *cells))
        run.step(10)
        back = np.argsort(turn)
        results.append((run.E.reshape(3, n)[back], run.B.reshape(3, n)[back], run.energies()["total"] / volume))
    for E_k, B_k, energy in results[1:]:
        close(E_k, results[0][0])
        close(B_k, results[0][1])
        assert energy == pytest.approx(results[0][2], rel=1e-12)


def test_float32_positions_still_conserve_energy():
    arguments = random_plasma((8, 8), seed=2, count=2000)
    run = Simulation.from_arrays(**arguments, dt=0.4, tolerance=1e-14, position="float32")
    start = run.energies()["total"]
    run.step(20)
    assert abs(run.energies()["total"] - start) <= 1e-13 * start


def test_float32_velocities_are_those_of_float64_to_their_digits():
    """Energies are sums of what is stored, so they tell what the rounding of the velocities costs."""
    arguments = random_plasma((8, 8), seed=2, count=2000)
    runs = [Simulation.from_arrays(**arguments, dt=0.4, tolerance=1e-14, velocity=kind)
            for kind in ("float64", "float32")]
    for run in runs:
        run.step(5)
    fine, coarse = runs
    assert coarse.species[0].v.dtype == np.float32
    close(coarse.E, fine.E, 1e-5)
    assert 1e-12 < abs(coarse.drift()) < 1e-6
    kinetic = sum(s.store.sums()[0] / s.charge_to_mass for s in coarse.species)
    assert sum(coarse.energies()["kinetic"].values()) == pytest.approx(kinetic, rel=1e-13)


def test_every_fault_of_the_arguments_at_once():
    arguments = random_plasma((4, 4), seed=3)
    arguments["species"][0]["v"] = arguments["species"][0]["v"][:, :2]
    arguments["species"][1]["charge_to_mass"] = 0.0
    arguments["species"][2]["name"] = "s0"
    arguments["species"][2]["mass"] = 3
    arguments["E"] = arguments["E"][:2]
    arguments["B"][0, 0, 0] = np.nan
    with pytest.raises(ValueError) as caught:
        Simulation.from_arrays(**arguments, dt=-0.1, theta=1.2, shape="spline")
    text = str(caught.value)
    for fault in ("v has shape (40, 2); (40, 3)", "charge_to_mass = 0.0", "unknown key 'mass'", "dt = -0.1",
                  "theta = 1.2", 'shape = "spline": must be one of cic, tsc', "E has shape (2, 4, 4)",
                  "B holds values that are not finite", "'s0' is given 2 times"):
        assert fault in text, (fault, text)


@pytest.mark.parametrize("option", [
    {"method": "mma"}, {"method": "magic"}, {"precision": "tf32"}, {"threads": 1.5}, {"position": "float16"},
    {"sort_every": 0}, {"restart": 0}, {"max_iterations": 0}, {"guess": "wild"}, {"transport": "pigeon"},
    {"device": "tpu"}, {"ranks": (0, 1)}, {"species": 3}, {"species": [3]}, {"shape": []}, {"cells": (4, 3.5)},
], ids=str)
def test_options_are_checked_as_those_of_a_deck(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        Simulation.from_arrays(**{**random_plasma((4, 3), seed=3), "dt": 0.1, "threads": 1, **option})


NUMBERS = ("cells", "size", "dt", "theta", "tolerance", "threads", "sort_every", "restart", "max_iterations", "ranks")


@pytest.mark.parametrize("value", [True, np.True_, np.nan, np.inf, -np.inf, 10**400, "1", 1j, 1e200])
def test_no_argument_takes_what_is_no_number(value):
    """Nor one that is not finite or absurd; all of them are told at once, of lists as of single numbers."""
    arguments = {**random_plasma((4, 3), seed=3), **dict.fromkeys(NUMBERS, value), "cells": (value, 3),
                 "size": (1.0, value), "E": np.full((3, 4, 3), value), "B": [[[value] * 3] * 4] * 3}
    arguments["species"][0] |= {name: np.full(arguments["species"][0][name].shape, value) for name in ("x", "v", "q")}
    arguments["species"][0] |= {"charge_to_mass": value, "v": arguments["species"][0]["v"].astype(object)}
    arguments["species"][1] |= {"q": value}
    with pytest.raises(ValueError) as caught:
        Simulation.from_arrays(**arguments)
    for name in (*NUMBERS, "E ", "B ", "'s0': x", "'s0': v", "'s0': q", "'s0': charge_to_mass", "'s1': q"):
        assert name in str(caught.value), name


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("charge_to_mass", [1e-300, 1e-12, 1e6, 1e50, 5e-324])
def test_absurd_ratios_work_or_are_an_error(charge_to_mass):
    arguments = random_plasma((4, 3), seed=3, charge_to_mass=(charge_to_mass, -25.0, -1.5))
    arguments["species"][0]["q"] *= 1e-6
    try:
        run = Simulation.from_arrays(**arguments, dt=0.1, tolerance=1e-14)
        run.step(3)
    except (SolverError, FloatingPointError):
        assert charge_to_mass in (1e50, 5e-324)
    else:
        assert abs(run.drift()) < 1e-12


def test_a_step_in_float32_is_computed_with_in_float64():
    run = Simulation.from_arrays(**random_plasma((6, 5), seed=3), dt=np.float32(0.1), tolerance=1e-14)
    run.step(3)
    assert abs(run.drift()) < 1e-13


def test_positions_velocities_and_ids_at_the_start():
    arguments = random_plasma((4, 3), seed=4)
    run = Simulation.from_arrays(**arguments, dt=0.1)
    s, given = run.species[0], arguments["species"][0]
    order = np.argsort(s.id)
    np.testing.assert_array_equal(s.id[order], np.arange(40, dtype=np.uint64))
    np.testing.assert_allclose(s.x[order], given["x"], rtol=0, atol=1e-15)
    np.testing.assert_array_equal(s.v[order], given["v"])
    np.testing.assert_array_equal(s.q[order], given["q"])
    with pytest.raises(RuntimeError, match="nothing is assembled"):
        _ = run.rho


def test_observers_and_their_interval():
    run = Simulation.from_arrays(**random_plasma((4,), seed=6), dt=0.1)
    seen = []
    run.on(3, lambda sim: seen.append(sim.plasma.step))
    run.run(7)
    assert seen == [3, 6]
    for interval in (0, -1, 2.5):
        with pytest.raises(ValueError, match="at least 1"):
            run.on(interval, print)
    with pytest.raises(ValueError, match="how long"):
        Simulation.from_arrays(**random_plasma((4,), seed=6), dt=0.1).run()


def test_failed_solve_says_where():
    run = Simulation.from_arrays(**random_plasma((6, 6), seed=7, count=500), dt=2.0, max_iterations=2)
    with pytest.raises(SolverError, match=r"cycle 1 \(t = 2\): GMRES stopped after 2 iterations .* is 1.0e-12"):
        run.step()


def test_not_finite_particles_stop_the_run():
    run = Simulation.from_arrays(**random_plasma((6, 6), seed=7), dt=0.1)
    run.step()
    run.plasma.E[...] = 1e308
    with pytest.raises((FloatingPointError, SolverError), match="not finite"):
        run.step(5)
