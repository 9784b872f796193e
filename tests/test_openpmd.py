"""The official validator has nothing to say, and the official viewer shows the right axes and values, in 1D to 3D."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import h5py
import numpy as np
import pytest
from restart_cases import DECK
from scipy import constants as si

from ecsim.output.quantities import QUANTITIES
from ecsim.simulation import Simulation

DENSITY = 1e6
OMEGA = 1316.56


def small_run(directory, cells, shape="cic") -> Simulation:
    """Two cycles with fields and particles each step; the last species has no particles in the files."""
    deck = {
        **DECK, "grid": {"cells": list(cells), "size": [0.2 * n for n in cells], "shape": shape},
        "time": {"dt": 0.2, "steps": 2}, "units": {"density": DENSITY}, "output": {"author": "A. Person <a@b.org>"},
        "diagnostic": [
            {"kind": "fields", "every": 1, "precision": "float64"},
            {"kind": "particles", "every": 1, "precision": "float64"},
            {"kind": "particles", "name": "nobody", "every": 2, "region": [0.0, 1e-12] * len(cells)},
        ],
    }
    simulation = Simulation.from_deck(deck, output=directory)
    simulation.run()
    return simulation


@pytest.fixture(scope="module", params=[(7,), (4, 3), (3, 4, 5)], ids=["1D", "2D", "3D"])
def finished(request, tmp_path_factory):
    """A run that has ended and its directory."""
    directory = tmp_path_factory.mktemp("openpmd") / "run"
    return small_run(directory, request.param), directory


def files(directory):
    return [directory / "fields" / "fields_000002.h5", directory / "diagnostics" / "particles" / "particles_000002.h5",
            directory / "diagnostics" / "nobody" / "nobody_000002.h5"]


def test_the_validator_finds_no_error_and_no_warning(finished):
    pytest.importorskip("openpmd_validator")
    tool = Path(sys.executable).with_name("openPMD_check_h5")
    for path in files(finished[1]):
        said = subprocess.run([tool, "-i", path, "--EDPIC"], capture_output=True, text=True, timeout=120)
        assert "Result: 0 Errors and 0 Warnings." in said.stdout, said.stdout + said.stderr


def test_the_viewer_shows_fields_on_the_right_axes(finished):
    viewer = pytest.importorskip("openpmd_viewer")
    simulation, directory = finished
    series = viewer.OpenPMDTimeSeries(str(directory / "fields"), check_all_files=True)
    assert series.iterations.tolist() == [0, 1, 2]
    np.testing.assert_allclose(series.t, np.array([0, 0.2, 0.4]) / OMEGA, rtol=1e-4)
    d, cells = len(simulation.deck.grid.cells), simulation.deck.grid.cells
    skin_depth = si.c / OMEGA
    for name, component, expected, unit, shift in (
        ("E", "x", simulation.E[0], "electric_field", 0.0), ("B", "z", simulation.B[2], "magnetic_field", 0.5),
        ("rho", None, simulation.rho, "charge_density", 0.0),
    ):
        values, info = series.get_field(name, component, iteration=2, slice_across=None)
        assert values.shape == cells
        assert [info.axes[k] for k in range(d)] == list("xyz")[:d]
        np.testing.assert_allclose(values, expected * QUANTITIES[unit].unit_si(OMEGA), rtol=1e-4)
        for k, axis in enumerate("xyz"[:d]):
            np.testing.assert_allclose(getattr(info, axis), 0.2 * (np.arange(cells[k]) + shift) * skin_depth, rtol=1e-4)


def test_the_viewer_shows_particles(finished):
    viewer = pytest.importorskip("openpmd_viewer")
    simulation, directory = finished
    series = viewer.OpenPMDTimeSeries(str(directory / "diagnostics" / "particles"), check_all_files=True)
    electrons = simulation.species[1]
    x, ux, uz, w, number = series.get_particle(["x", "ux", "uz", "w", "id"], species="electrons", iteration=2)
    np.testing.assert_allclose(x, electrons.x[:, 0] * si.c / OMEGA, rtol=1e-4)
    np.testing.assert_allclose(np.stack([ux, uz]), electrons.v.T[[0, 2]], rtol=1e-4)
    np.testing.assert_array_equal(number, electrons.id)
    np.testing.assert_allclose(w, -electrons.q * DENSITY * (si.c / OMEGA) ** 3, rtol=1e-3)
    nobody = viewer.OpenPMDTimeSeries(str(directory / "diagnostics" / "nobody"))
    assert [len(a) for a in nobody.get_particle(["x", "ux"], species="ions", iteration=2)] == [0, 0]


def test_the_sidecar_leads_to_the_arrays_at_their_places(finished):
    simulation, directory = finished
    root = ElementTree.parse(directory / "fields.xdmf").getroot()
    collections = {grid.get("Name"): grid for grid in root.iter("Grid") if grid.get("GridType") == "Collection"}
    assert set(collections) == {"nodes", "centres"}
    assert [time.get("Value") for time in collections["nodes"].iter("Time")] == ["0.0", "0.2", "0.4"]

    def load(item):
        file, path = item.text.split(":")
        with h5py.File(directory / file) as source:
            values = source[path][()]
        return values.reshape([int(n) for n in item.get("Dimensions").split()])

    cells = simulation.deck.grid.cells
    for name, record, component, expected, shift in (("nodes", "E", 1, simulation.E[1], 0.0),
                                                     ("centres", "B", 2, simulation.B[2], 0.5)):
        last = collections[name].findall("Grid")[-1]
        points = [load(item) for item in last.find("Geometry")]
        vector = next(a for a in last.findall("Attribute") if a.get("Name") == record).find("DataItem")
        assert vector.get("Function") == "JOIN($0, $1, $2)"
        values = load(vector.findall("DataItem")[component])
        np.testing.assert_array_equal(values.reshape(cells), expected)
        index = tuple(n - 1 for n in cells)
        place = [a.reshape(cells)[index] for a in points]
        np.testing.assert_allclose(place, [0.2 * (n - 1 + shift) for n in cells] + [0.0] * (3 - len(cells)), rtol=1e-6)


def test_author_and_offsets_are_told(finished):
    with h5py.File(files(finished[1])[1]) as file:
        assert file.attrs["author"] == b"A. Person <a@b.org>"
        electrons = file["data/2/particles/electrons"]
        assert electrons["position"].attrs["timeOffset"] == -0.1 and electrons["momentum"].attrs["timeOffset"] == 0.0
        assert electrons["charge"].attrs["value"] == -1.0 and electrons["mass"].attrs["value"] == 0.04
