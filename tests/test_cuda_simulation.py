"""A small double Harris sheet by the CUDA backend: as on the CPU, and its energy kept for long, by every method."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_devices import simulate_on

from ecsim import Simulation

SMALL = {"grid.cells": [8, 4, 4], "grid.size": [5.6, 2.8, 2.8], "species.ions.particles_per_cell": 8,
         "species.electrons.particles_per_cell": 8, "solver.tolerance": 1e-14, "particles.position": "float64"}
METHODS = [("cic", "pair"), ("cic", "conventional"), ("cic", "mma"), ("cic", "flat"), ("tsc", "pair"),
           ("tsc", "conventional"), ("tsc", "flat")]


def sheet(**changes):
    return Simulation.from_deck("double_harris", **{**SMALL, **changes})


@pytest.mark.parametrize(("device", "cycles"), [("host", 3), pytest.param("cuda", 20, marks=pytest.mark.cuda)])
@pytest.mark.parametrize("shape", ["cic", "tsc"])
def test_fields_and_energies_are_those_of_the_cpu(shape, device, cycles, monkeypatch):
    simulate_on(device, monkeypatch)
    cpu, gpu = (sheet(device=name, shape=shape) for name in ("cpu", "cuda"))
    for mine, theirs in zip(gpu.species, cpu.species, strict=True):
        one, two = (np.argsort(s.x[:, 0], kind="stable") for s in (mine, theirs))
        np.testing.assert_array_equal(mine.x[one], theirs.x[two])
        np.testing.assert_allclose(mine.v[one], theirs.v[two], rtol=0, atol=1e-15)
    cpu.step(cycles)
    gpu.step(cycles)
    for name in ("E", "B", "rho", "J_hat"):
        expected = getattr(cpu, name)
        np.testing.assert_allclose(getattr(gpu, name), expected, rtol=0, atol=1e-11 * np.abs(expected).max())
    kinetic = [e["kinetic"] for e in (gpu.energies(), cpu.energies())]
    np.testing.assert_allclose(list(kinetic[0].values()), list(kinetic[1].values()), rtol=1e-11)
    for name in ("electric", "magnetic", "total"):
        assert abs(gpu.energies()[name] - cpu.energies()[name]) <= 1e-11 * cpu.energies()[name]


@pytest.mark.parametrize(("shape", "method", "device", "cycles"), [
    ("cic", "pair", "host", 5), ("tsc", "pair", "host", 5),
    *(pytest.param(shape, method, "cuda", 500, marks=pytest.mark.cuda) for shape, method in METHODS)])
def test_energy_is_kept(shape, method, device, cycles, monkeypatch):
    simulate_on(device, monkeypatch)
    run = sheet(device="cuda", shape=shape, method=method)
    electric = run.energies()["electric"]
    run.step(cycles)
    assert run.worst_drift <= 1e-13 and run.energies()["electric"] > electric
