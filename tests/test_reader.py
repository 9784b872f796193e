"""Reading a run back: arrays with units, lazily, and as xarray."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from restart_cases import run

import ecsim
from ecsim.output.series import Column, SeriesFile
from ecsim.reader import ReadError

DIAGNOSTICS = [
    {"kind": "fields", "every": 2, "precision": "float64", "records": ["E", "B", "rho", "P_ions"],
     "region": [0.3, 0.9, 0.0, 0.7]},
    {"kind": "particles", "every": 3},
    {"kind": "cut", "every": 1, "along": ["x"], "at": [0.3]},
    {"kind": "health", "every": 2},
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run in memory and as it is read."""
    directory = tmp_path_factory.mktemp("reader") / "run"
    return run(directory, 6, DIAGNOSTICS, fields_every=0), ecsim.open_run(directory)


def test_series_have_units_and_axes(finished):
    simulation, files = finished
    assert files.energies["total"][-1] == simulation.energies()["total"] and files.energies.unit("time") == "1/ω_pi"
    assert files.species == ["ions", "electrons"] and len(files.energies) == 7
    assert files.series_names == ["cut", "health"] and files.deck == simulation.deck
    cut = files.series("cut")
    assert cut["E"].shape == (7, 3, 6) and list(cut.axes("B")) == ["component3", "x_centre"]
    np.testing.assert_allclose(cut.axes("E")["x"], 0.15 * np.arange(6))
    with pytest.raises(ReadError, match="no time series probe; it has cut, health"):
        files.series("probe")
    with pytest.raises(KeyError, match="no column Q; it has B, E, step, time"):
        cut["Q"]


def test_columns_fit_together_while_rows_are_added(tmp_path):
    """As many rows of each as there were at the first look."""
    (tmp_path / "deck.toml").touch()
    file = SeriesFile(tmp_path / "energies.h5", {"step": Column("i8"), "value": Column("f8")}, attributes={})
    seen = []
    for step in range(5):
        file.append({"step": step, "value": 0.5 * step})
        file.flush()
        files = ecsim.open_run(tmp_path)
        seen.append((len(files.energies["step"]), files.energies))
    assert [length for length, _ in seen] == [1, 2, 3, 4, 5]
    for length, energies in seen:
        assert len(energies) == len(energies["value"]) == energies["step"][-1] + 1 == length
    file.close()


def test_records_are_read_when_they_are_indexed(finished, monkeypatch):
    simulation, files = finished
    fields = files.fields()
    assert fields.steps == [0, 2, 4, 6] and sorted(fields.names) == ["B", "E", "P_ions", "rho"]
    B = fields.record("B")
    assert B.shape == (4, 3, 4, 5) and B.dims == ("time", "component", "x", "y")
    np.testing.assert_array_equal(B[-1], simulation.B[:, 2:])
    np.testing.assert_array_equal(B[1:, 2, ..., 0], np.stack([s.meshes["B"].values[2, :, 0] for s in list(fields)[1:]]))
    np.testing.assert_allclose(B.coordinates["x"], 0.15 * (np.arange(2, 6) + 0.5))
    opened = []
    original = h5py.File.__init__
    monkeypatch.setattr(h5py.File, "__init__", lambda self, name, *a,
                        **k: (opened.append(str(name)), original(self, name, *a, **k))[1])
    fields.record("rho")[2]
    assert len([name for name in opened if name.endswith("fields_000004.h5")]) == 1
    with pytest.raises(ReadError, match="no record Q; there are B, E"):
        fields.record("Q")
    with pytest.raises(ReadError, match="no snapshot of step 5; there are 0, 2, 4, 6"):
        fields.snapshot(5)


def test_xarray_has_the_same_values_lazily(finished):
    pytest.importorskip("xarray")
    simulation, files = finished
    E = files.fields().record("E").to_xarray()
    assert E.attrs["units"] == "m_i c ω_pi/q_i" and not E.variable._in_memory
    np.testing.assert_array_equal(E.isel(time=-1).sel(component="z").values, simulation.E[2, 2:])
    assert float(E.time[-1]) == pytest.approx(1.2)
    data = files.series("health").to_xarray()
    assert data.species.values.tolist() == ["ions", "electrons"]
    assert data.temperature.sel(species="electrons").shape == (4,)
    assert files.energies.to_xarray().kinetic.dims == ("time", "kinetic_0")


def test_particles_come_back(finished):
    simulation, files = finished
    assert files.particle_steps() == [0, 3, 6]
    ions = files.particles()["ions"]
    np.testing.assert_array_equal(ions["id"], simulation.species[0].id)
    with pytest.raises(ReadError, match="no particles particles of step 2; it has 0, 3, 6"):
        files.particles(step=2)


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(ReadError, match="not the directory of a run: it has no deck.toml"):
        ecsim.open_run(tmp_path)
