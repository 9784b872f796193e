"""The whole cycle against exact cases from an independent direct-solve program, to 1e-12."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cuda_devices import simulate_on

from ecsim.simulation import Simulation

CASES = sorted((Path(__file__).parent / "reference").glob("*.npz"))
TOLERANCE = 1e-12


def from_case(case, **options):
    species = [dict(name=f"s{k}", charge_to_mass=qm, x=case[f"x0_{k}"], v=case[f"v0_{k}"], q=case[f"q_{k}"])
               for k, qm in enumerate(case["charge_to_mass"])]
    return Simulation.from_arrays(
        cells=case["cells"], size=case["size"], dt=float(case["dt"]), theta=float(case["theta"]),
        shape=str(case["shape"]), species=species, E=case["E0"], B=case["B0"], **{"tolerance": 1e-15, **options})


def close(a, b):
    assert np.shape(a) == np.shape(b)
    np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE * np.abs(b).max())


def compare_particles(simulation, case, step):
    for k, s in enumerate(simulation.species):
        order = np.argsort(s.id)
        size = np.asarray(case["size"])
        x, expected = s.x[order], case[f"x{step}_{k}"]
        apart = (x - expected + 0.5 * size) % size - 0.5 * size
        assert np.abs(apart).max() <= TOLERANCE * size.max()
        assert (x >= 0).all() and (x < size).all()
        close(s.v[order], case[f"v{step}_{k}"])
        close(s.q[order], case[f"q_{k}"])


@pytest.mark.parametrize("method", ["pair", "direct"])
@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_reference_case(path, method):
    case = np.load(path)
    check(from_case(case, method=method), case)


def cuda_cases():
    """All cases and methods on a GPU; with the kernels on the host, `pair`, and the others once each."""
    for path in CASES:
        for method in ("pair", "conventional", "flat", "mma"):
            yield pytest.param(path, method, "cuda", marks=pytest.mark.cuda, id=f"{path.stem}-{method}-cuda")
            if method == "pair" or path.stem == "cic_3d" or (method, path.stem) == ("mma", "tsc_1d"):
                yield pytest.param(path, method, "host", id=f"{path.stem}-{method}-host")


@pytest.mark.parametrize(("path", "method", "device"), list(cuda_cases()))
def test_reference_case_by_the_kernels_of_cuda(path, method, device, monkeypatch):
    case = np.load(path)
    simulate_on(device, monkeypatch)
    if method == "mma" and case["shape"] == "tsc":
        with pytest.raises(ValueError, match="tf32"):
            from_case(case, method=method, device="cuda")
    else:
        check(from_case(case, method=method, device="cuda"), case)


def check(simulation, case):
    energies = [simulation.energies()]
    for step in range(1, 6):
        simulation.step()
        energies.append(simulation.energies())
        if step == 1:
            matrix = simulation.mass_matrix.to_scipy().toarray()
            expected = np.zeros_like(matrix)
            expected[case["M_row"], case["M_col"]] = case["M_val"]
            close(matrix, expected)
            close(simulation.J_hat, case["J_hat"])
            close(simulation.rho, case["rho"])
            close(simulation.E_theta, case["E_theta1"])
        if step in (1, 5):
            close(simulation.E, case[f"E{step}"])
            close(simulation.B, case[f"B{step}"])
            compare_particles(simulation, case, step)
    table = np.array([[e["electric"], e["magnetic"], sum(e["kinetic"].values())] for e in energies])
    np.testing.assert_allclose(table, case["energies"], rtol=TOLERANCE, atol=TOLERANCE * case["energies"].max())
    if float(case["theta"]) == 0.5:
        total = table.sum(axis=1)
        assert np.abs(total - total[0]).max() <= 1e-14 * total[0]
