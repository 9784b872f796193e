"""A small double Harris sheet by the CUDA backend: as on the CPU, and its energy kept for long, by every method."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_devices import DEVICES, simulate_on

from ecsim import Simulation
from ecsim.backend.cuda import CudaBackend
from ecsim.cycle import advance

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


@pytest.mark.parametrize(("shape", "method", "precision", "device", "cycles"), [
    ("cic", "pair", "tf32", "host", 5),
    *(pytest.param(*case, "cuda", 200, marks=pytest.mark.cuda)
      for case in (("cic", "pair", "tf32"), ("tsc", "pair", "tf32"), ("tsc", "mma", "tf32")))])
def test_energy_in_low_precision_drifts_as_the_matrix_is_rounded(shape, method, precision, device, cycles, monkeypatch):
    simulate_on(device, monkeypatch)
    run = sheet(device="cuda", shape=shape, method=method, precision=precision)
    run.step(cycles)
    assert 1e-12 < run.worst_drift < 1e-5


@pytest.mark.parametrize("device", DEVICES)
def test_auto_is_a_method_of_the_list(device, monkeypatch):
    """Scalars of a whole run of few cells: the same bits as with the method that it stands for there, mma or pair."""
    simulate_on(device, monkeypatch)
    for shape, meant in (("cic", "mma"), ("tsc", "pair")):
        ones, others = (sheet(device="cuda", shape=shape, method=method) for method in ("auto", meant))
        ones.step(2)
        others.step(2)
        exact = shape == "tsc" or device == "host"      # mma adds with atomics, in any order
        np.testing.assert_allclose(ones.E, others.E, rtol=0, atol=0 if exact else 1e-13 * np.abs(others.E).max())


@pytest.mark.parametrize("shape", ["cic", "tsc"])
@pytest.mark.parametrize("device", DEVICES)
def test_energy_is_kept_with_B_at_particles_in_float32(device, shape, monkeypatch):
    """Whatever B is, the magnetic force does no work if assembly and mover take the same."""
    simulate_on(device, monkeypatch)
    new_store = CudaBackend.new_store
    monkeypatch.setattr(CudaBackend, "new_store", lambda self, block, **options: new_store(
        self, block, **options, gather_dtype="float32"))
    run, exact = sheet(device="cuda", shape=shape), sheet(device="cpu", shape=shape)
    run.step(5)
    exact.step(5)
    assert run.worst_drift <= 1e-14
    assert 0 < np.abs(run.E - exact.E).max() <= 1e-5 * np.abs(exact.E).max()


@pytest.mark.parametrize(("shape", "method"), [("cic", "pair"), ("tsc", "pair"), ("cic", "mma")])
@pytest.mark.parametrize("device", DEVICES)
def test_matrix_and_moments_are_set_whatever_was_there(shape, method, device, monkeypatch):
    simulate_on(device, monkeypatch)
    runs = [sheet(device="cuda", shape=shape, method=method).plasma for _ in range(2)]
    runs[0].mass_matrix.values[...] = np.nan
    runs[0].moments[...] = np.nan
    found, expected = ([*map(run.backend.to_host, (advanced(run).mass_matrix.values, run.moments))] for run in runs)
    for a, b in zip(found, expected, strict=True):
        exact = method != "mma" or device == "host"     # mma adds with atomics, in any order
        np.testing.assert_allclose(a, b, rtol=0, atol=0 if exact else 1e-13 * np.abs(b).max())


def advanced(plasma):
    advance(plasma)
    return plasma


@pytest.mark.parametrize("device", DEVICES)
def test_a_run_without_particles(device, monkeypatch):
    simulate_on(device, monkeypatch)
    one, other = (Simulation.from_deck("vacuum_wave", device=name) for name in ("cuda", "cpu"))
    assert not one.species
    one.step(3)
    other.step(3)
    np.testing.assert_allclose(one.E, other.E, rtol=0, atol=1e-14 * np.abs(other.E).max())
