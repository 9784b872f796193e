"""The reconnection kit on a pinched double sheet: points where the problem puts them, the flux of the snapshots."""

from __future__ import annotations

import numpy as np
import pytest

from ecsim.output.series import read_series
from ecsim.output.snapshots import list_snapshots, read_fields
from ecsim.plot.reconnection import history
from ecsim.plot.source import Run
from ecsim.simulation import Simulation

DECK = {
    "grid": {"cells": [32, 16], "size": [16.0, 8.0]}, "time": {"dt": 0.25, "steps": 4},
    "problem": {"name": "double_harris", "magnetic_field": 0.1, "perturbation": 0.8},
    "species": [{"name": "ions", "charge_to_mass": 1.0, "particles_per_cell": 16},
                {"name": "electrons", "charge_to_mass": -16.0, "particles_per_cell": 16}],
    "backend": {"device": "cpu", "threads": 1}, "output": {"fields_every": 2},
    "diagnostic": [{"kind": "reconnection", "every": 2, "B0": 0.1},
                   {"kind": "fields", "name": "all", "every": 2, "precision": "float64",
                    "records": ["E", "B", "JE", "n_ions"]}],
}


@pytest.fixture(scope="module", params=[(32, 16), (32, 16, 3)], ids=["2D", "3D"])
def run(request, tmp_path_factory):
    """Rows of the diagnostic, the directory, and the number of dimensions."""
    directory, cells = tmp_path_factory.mktemp("reconnection") / "run", request.param
    grid = {"cells": list(cells), "size": [16.0, 8.0, 1.5][: len(cells)]}
    Simulation.from_deck({**DECK, "grid": grid}, output=directory).run()
    return read_series(directory / "diagnostics" / "reconnection.h5"), directory, len(cells)


def test_points_lie_in_the_sheets(run):
    table, _, _ = run
    assert sorted(table["x_point"][0].tolist()) == [[4.0, 2.0], [12.0, 6.0]]
    np.testing.assert_array_equal(sorted(table["o_point"][0][:, 1]), [2.0, 6.0])
    assert [axis.decode() for axis in table["axes"]["axis"]] == ["x", "y"]


def test_flux_is_that_of_the_snapshots(run):
    table, directory, _ = run
    found = history(Run(directory))
    np.testing.assert_allclose(found.time, table["time"])
    np.testing.assert_allclose(found.flux, table["flux"], rtol=1e-12)
    assert (table["flux"] > 0).all()


def test_inflow_and_rate(run):
    table, _, _ = run
    np.testing.assert_allclose(table["B_inflow"][0], 0.1, rtol=0.1)
    assert (table["n_inflow"] > 0.1).all() and (table["n_inflow"] < 1.3).all()
    speed = table["B_inflow"] / np.sqrt(table["n_inflow"])
    np.testing.assert_allclose(table["rate"], np.abs(table["E_x_point"]) / (table["B_inflow"] * speed), rtol=1e-12)
    assert (table["E_x_point"][0] == 0).all() and table["JE_x_point"][1:].all()


def test_what_is_measured_at_the_x_points_is_in_the_fields(run):
    """E and J·E′ at the X-point and the inflow beside it, of fields smoothed by (1, 4, 6, 4, 1)/16 in the plane."""
    table, directory, d = run

    def smooth(plane):
        for axis in (0, 1):
            plane = sum(w / 16 * np.roll(plane, k, axis) for k, w in zip(range(-2, 3), (1, 4, 6, 4, 1), strict=True))
        return plane

    for row, path in enumerate(list_snapshots(directory, "all")):
        meshes = read_fields(path).meshes
        E, Bx, JE, n = (smooth(a if d == 2 else a[:, :, 1]) for a in (
            meshes["E"].values[2], meshes["B"].values[0], meshes["JE"].values, meshes["n_ions"].values))
        for sheet in range(2):
            i, j = np.rint(table["x_point"][row, sheet] / 0.5).astype(int) % (32, 16)
            most = np.argmax(np.abs(Bx[i]))
            expected = {"E_x_point": E[i, j], "JE_x_point": JE[i, j], "n_inflow": n[i, most],
                        "B_inflow": np.abs(Bx[i, most]), "rate": np.abs(E[i, j]) * np.sqrt(n[i, most]) / Bx[i, most]**2,
                        "rate_nominal": np.abs(E[i, j]) / 0.1**2}
            for name, value in expected.items():
                np.testing.assert_allclose(table[name][row, sheet], value, rtol=1e-10, atol=1e-15, err_msg=name)
