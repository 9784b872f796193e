"""The official validator has nothing to say, and the official viewer shows the right axes and values, in 1D to 3D."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import h5py
import numpy as np
import pytest
from openpmd_cases import CELLS, DENSITY, assert_valid, files, small_run
from scipy import constants as si

from ecsim.diagnostics import registry
from ecsim.diagnostics.base import Setting
from ecsim.diagnostics.sample import Sample
from ecsim.output.particles import read_particles
from ecsim.output.quantities import QUANTITIES
from ecsim.output.snapshots import list_snapshots, read_fields
from ecsim.simulation import Simulation

OMEGA = 1316.56


@pytest.fixture(scope="module", params=CELLS.values(), ids=CELLS.keys())
def finished(request, tmp_path_factory):
    """A run that has ended and its directory."""
    directory = tmp_path_factory.mktemp("openpmd") / "run"
    return small_run(directory, request.param), directory


def test_the_validator_finds_no_error_and_no_warning(finished):
    pytest.importorskip("openpmd_validator")
    for path in files(finished[1]):
        assert_valid(path)


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


def test_a_species_without_particles(tmp_path):
    """Its records are 0 everywhere and its arrays empty; validator and viewer take the files."""
    species = [dict(name="none", charge_to_mass=2.0, x=np.empty((0, 2)), v=np.empty((0, 3)), q=-0.0),
               dict(name="ions", charge_to_mass=1.0, x=np.full((5, 2), 0.3), v=np.full((5, 3), 0.1), q=0.2)]
    nothing = np.zeros((3, 4, 3))
    simulation = Simulation.from_arrays(cells=(4, 3), size=(0.8, 0.6), dt=0.2, threads=1, species=species, E=nothing,
                                        B=nothing)
    sample, setting = Sample(simulation.plasma), Setting(tmp_path, {})
    simulation.step()
    for kind in ("fields", "particles"):
        module = registry()[kind]
        module.Diagnostic(module.Params(every=1), kind, simulation.plasma, setting).record(sample)
    (fields,), (particles,) = (list_snapshots(tmp_path, kind) for kind in ("fields", "particles"))
    meshes = read_fields(fields).meshes
    assert meshes["n_ions"].values.any()
    for record in ("rho", "n", "J", "P", "T"):
        assert not meshes[f"{record}_none"].values.any() and meshes[f"{record}_none"].values.shape[-2:] == (4, 3)
    found = read_particles(particles)
    assert found["none"]["x"].shape == (2, 0) and found["ions"]["x"].shape == (2, 5)
    pytest.importorskip("openpmd_validator")
    for path in (fields, particles):
        assert_valid(path)
    viewer = pytest.importorskip("openpmd_viewer").OpenPMDTimeSeries(str(particles.parent))
    assert [len(a) for a in viewer.get_particle(["x", "uz", "w"], species="none", iteration=1)] == [0, 0, 0]
