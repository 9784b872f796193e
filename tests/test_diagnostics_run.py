"""Diagnostics of whole runs: what they write is right, and writing it changes nothing."""

from __future__ import annotations

import re

import numpy as np
import pytest
from restart_cases import DECK, EVERYTHING, assert_same, run, state

from ecsim.deck import DeckError, load_deck
from ecsim.output.energies import read_energies
from ecsim.output.particles import read_particles
from ecsim.output.rundir import RunDirectoryError
from ecsim.output.series import read_series
from ecsim.output.snapshots import list_snapshots, read_fields
from ecsim.simulation import Simulation
from ecsim.solver.gmres import SolverError


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A run of 6 cycles with every diagnostic, still in memory, and its directory."""
    directory = tmp_path_factory.mktemp("full") / "run"
    return run(directory, 6, EVERYTHING), directory


def series(directory, name):
    return read_series(directory / "diagnostics" / f"{name}.h5")


def test_the_plasma_does_not_notice(tmp_path, full):
    sparse = Simulation.from_deck(DECK, steps=6)
    sparse.run()
    assert_same(state(full[0]), state(sparse))
    rare = run(tmp_path, 6, [{**entry, "every": 5} for entry in EVERYTHING], energies_every=5, gauss_every=0)
    assert_same(state(rare), state(sparse))


def test_snapshots_hold_the_fields(full):
    simulation, directory = full
    paths = list_snapshots(directory, "fields")
    assert [path.name for path in paths] == [f"fields_{step:06d}.h5" for step in (0, 2, 4, 6)]
    last = read_fields(paths[-1]).meshes
    np.testing.assert_array_equal(last["E"].values, simulation.E)
    np.testing.assert_array_equal(last["B"].values, simulation.B)
    np.testing.assert_array_equal(last["rho"].values, simulation.rho)
    np.testing.assert_allclose(last["rho_ions"].values + last["rho_electrons"].values, simulation.rho, atol=1e-12)
    np.testing.assert_array_equal(last["n_electrons"].values, -last["rho_electrons"].values)
    np.testing.assert_allclose(last["u_ions"].values * last["rho_ions"].values, last["J_ions"].values, atol=1e-14)
    trace = last["P_ions"].values[[0, 3, 5]].sum(axis=0)
    np.testing.assert_allclose(last["T_ions"].values * 3 * last["n_ions"].values, trace, rtol=1e-13)
    assert last["T_ions"].quantity == "temperature" and last["JE"].values.any()
    assert [last[name].time_offset for name in ("E", "J", "T_ions")] == [0.0, -0.1, -0.1]
    assert [mesh.time_offset for mesh in read_fields(paths[0]).meshes.values()] == [0.0] * len(last)


def test_dissipation_is_that_of_its_own_file(full):
    """J·(E + u_e×B) at nodes; E is the E^{n−1+θ} that does the work on J, and E⁰ before the first cycle."""
    simulation, directory = full
    paths = list_snapshots(directory, "fields")
    for path, E in ((paths[0], None), (paths[-1], simulation.E_theta)):
        found = {name: mesh.values for name, mesh in read_fields(path).meshes.items()}
        B = found["B"]
        for axis in (1, 2):
            B = 0.5 * (B + np.roll(B, 1, axis))
        moving = found["J_electrons"] / found["rho_electrons"]
        expected = np.sum(found["J"] * ((found["E"] if E is None else E) + np.cross(moving, B, axis=0)), axis=0)
        assert np.abs(expected).max() > 1e-4
        np.testing.assert_allclose(found["JE"], expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_a_part_of_the_grid_with_a_stride(full):
    simulation, directory = full
    last = read_fields(list_snapshots(directory, "corner")[-1])
    assert last.cells == (2, 3) and last.spacing == pytest.approx((0.3, 0.14)) and last.offset == pytest.approx((0.3,
                                                                                                                 0.0))
    np.testing.assert_array_equal(last.meshes["E"].values, simulation.E[:, 2:6:2, 0:3].astype(np.float32))
    assert last.meshes["B"].centring == "centre"


def test_particle_files_hold_the_particles(full):
    simulation, directory = full
    last = read_particles(list_snapshots(directory, "particles")[-1])
    for s in simulation.species:
        found = last[s.name]
        np.testing.assert_array_equal(found["x"].T, s.x)
        np.testing.assert_allclose(found["v"].T, s.v, rtol=1e-15)
        np.testing.assert_array_equal(found["id"], s.id)
        np.testing.assert_allclose(found["weight"] * found["charge"], s.q, rtol=1e-15)
        assert found["mass"] == pytest.approx(1 / abs(s.charge_to_mass)) and found["time_offset"] == -0.1
    some = read_particles(list_snapshots(directory, "some")[-1])
    electrons = simulation.species[1]
    chosen = (electrons.id % 3 == 0) & (electrons.x[:, 0] >= 0.1) & (electrons.x[:, 0] < 0.6)
    assert list(some) == ["electrons"] and 0 < chosen.sum() < len(chosen) / 3
    np.testing.assert_array_equal(some["electrons"]["id"], electrons.id[chosen])


def test_probe_cut_and_spectrum_agree_with_the_fields(full):
    simulation, directory = full
    probe, line, plane = (series(directory, name) for name in ("probe", "line", "plane"))
    assert probe["step"].tolist() == list(range(7))
    np.testing.assert_allclose(probe["E"][-1], simulation.E[:, 2, 2], rtol=1e-13)
    around = simulation.B[:, 1:3, 1:3].mean(axis=(1, 2))
    np.testing.assert_allclose(probe["B"][-1], around, rtol=1e-13)
    np.testing.assert_array_equal(line["E"][-1], simulation.E[:, 2])
    np.testing.assert_array_equal(line["B"][-1], simulation.B[:, 2])
    np.testing.assert_allclose(line["axes"]["y_centre"], 0.14 * (np.arange(5) + 0.5))
    np.testing.assert_array_equal(plane["B"][-1], simulation.B)
    assert probe["T_electrons"][-1] > 0
    spectrum = series(directory, "spectrum")
    np.testing.assert_allclose(spectrum["power"][-1].sum(axis=-1), (simulation.E**2).mean(axis=(1, 2)), rtol=1e-12)
    assert spectrum["axes"]["kx"][1] == pytest.approx(2 * np.pi / 0.9)
    density = read_fields(list_snapshots(directory, "fields")[-1]).meshes["n_electrons"].values
    np.testing.assert_allclose(series(directory, "both")["power"][-1].sum(), (density**2).mean(), rtol=1e-12)


def test_histogram_counts_every_particle(full):
    simulation, directory = full
    table = series(directory, "histogram")
    electrons = simulation.species[1]
    expected, _, _ = np.histogram2d(electrons.v[:, 0], electrons.v[:, 1], [6, 5], [[-3, 3], [-3, 3]],
                                    weights=-electrons.q)
    np.testing.assert_allclose(table["f"][-1] * (1.0 * 1.2), expected, rtol=1e-12)
    np.testing.assert_allclose(table["f"][-1].sum() * 1.2 + table["outside"][-1], -electrons.q.sum(), rtol=1e-12)


def test_histogram_and_tracers_of_a_few(tmp_path):
    """A histogram of a box has the particles of that box at the time of v; tracers of a list those of the list."""
    region, edges = [0.2, 0.61, 0.13, 0.6], [np.linspace(-0.6, 1, 5), np.linspace(0, 1.2, 4)]
    entries = [{"kind": "histogram", "every": 1, "species": "electrons", "axes": ["vz", "speed"], "low": [-0.6, 0],
                "high": [1, 1.2], "bins": [4, 3], "region": region},
               {"kind": "tracers", "every": 1, "species": "ions", "ids": [50, 3, 99999, 7]}]
    simulation = Simulation.from_deck({**DECK, "diagnostic": entries}, output=tmp_path)

    def seen():
        """x at the time of v, v and numbers of both species."""
        half = 0.1 if simulation.plasma.step else 0.0
        return [((s.x + half * s.v[:, :2]) % [0.9, 0.7], s.v, s.id) for s in simulation.species]

    one, rows = -simulation.species[1].q[0], [seen()]
    for _ in range(3):
        simulation.step()
        rows.append(seen())
    simulation.close()
    histogram, tracers = series(tmp_path, "histogram"), series(tmp_path, "tracers")
    assert tracers["axes"]["id"].tolist() == [3, 7, 50]
    for row, (ions, electrons) in enumerate(rows):
        x, v, _ = electrons
        chosen = ((x >= region[::2]) & (x < region[1::2])).all(axis=1)
        expected, _, _ = np.histogram2d(v[chosen, 2], np.linalg.norm(v[chosen], axis=1), edges)
        assert 20 < expected.sum() < chosen.sum() < len(chosen) / 2
        np.testing.assert_allclose(histogram["f"][row] * (0.4 * 0.4) / one, expected, atol=1e-9)
        assert histogram["outside"][row] / one == pytest.approx(chosen.sum() - expected.sum())
        x, v, numbers = ions
        place = [np.flatnonzero(numbers == number)[0] for number in (3, 7, 50)]
        np.testing.assert_array_equal(tracers["v"][row], v[place])
        np.testing.assert_allclose(tracers["x"][row], x[place], atol=1e-14)


def test_tracers_follow_the_same_particles(full):
    simulation, directory = full
    table = series(directory, "tracers")
    ions = simulation.species[0]
    assert table["axes"]["id"].tolist() == sorted(i for i in ions.id if i % 7 == 0)
    order = np.argsort(ions.id)
    chosen = order[np.isin(np.sort(ions.id), table["axes"]["id"])]
    np.testing.assert_array_equal(table["v"][-1], ions.v[chosen])
    step = (table["x"][1:] - table["x"][:-1] + np.array([0.45, 0.35])) % np.array([0.9, 0.7]) - np.array([0.45, 0.35])
    np.testing.assert_allclose(step[1:], 0.1 * (table["v"][1:-1, :, :2] + table["v"][2:, :, :2]), atol=1e-12)


def test_health_and_temperature(full):
    simulation, directory = full
    table = series(directory, "health")
    electrons = simulation.species[1]
    assert not table["not_finite"].any()
    cells = np.abs(electrons.v[:, :2]) * 0.2 / np.array([0.15, 0.14])
    assert table["fastest"][-1][1] == pytest.approx(cells.max(), rel=1e-14)
    assert table["skipping"][-1][1] == pytest.approx((cells > 1).any(axis=1).mean(), rel=1e-14)
    random = ((electrons.v - electrons.v.mean(axis=0)) ** 2).sum(axis=1).mean() / 3 / 25
    assert table["temperature"][-1][1] == pytest.approx(random, rel=1e-12)


def test_temperatures_of_every_row_are_those_of_the_particles(full):
    """So that their drift is one of the plasma: m ⟨(v − ⟨v⟩)²⟩/3 of each file of particles."""
    _, directory = full
    table = series(directory, "health")
    assert table["axes"]["species"].tolist() == [b"ions", b"electrons"] and len(table["step"]) == 4
    for path, row in zip(list_snapshots(directory, "particles"), table["temperature"], strict=True):
        for found, temperature in zip((read_particles(path)[name] for name in ("ions", "electrons")), row, strict=True):
            random = found["v"] - found["v"].mean(axis=1, keepdims=True)
            assert temperature == pytest.approx(found["mass"] * (random**2).sum(axis=0).mean() / 3, rel=1e-12)
    assert (np.abs(np.diff(table["temperature"], axis=0)) > 1e-9).all()


def test_fields_that_are_not_finite_are_counted(tmp_path):
    simulation = Simulation.from_deck({**DECK, "diagnostic": [EVERYTHING[-1]]}, output=tmp_path)
    simulation.step(2)
    health, sample, p = simulation.recorder.diagnostics[0], simulation.recorder.sample, simulation.plasma
    assert health.row(sample)["not_finite"] == 0
    p.E[p.owned][1, 2, 3] = p.E[p.owned][2, 0, 0] = np.nan
    p.B[p.owned][0, 1, 1] = np.inf
    assert health.row(sample)["not_finite"] == 3
    simulation.close()


@pytest.mark.parametrize("when, error, text", [
    ("before the cycle", SolverError, "cycle 3 .*the right-hand side of the field solve is not finite"),
    ("after the solve", FloatingPointError, "species 'electrons' has a position or velocity that is not finite"),
])
def test_a_velocity_that_is_not_a_number_stops_the_run(tmp_path, when, error, text):
    """In the cycle in which it arises or the next; nothing of that cycle is written."""
    simulation = Simulation.from_deck({**DECK, "diagnostic": [EVERYTHING[-1]]}, output=tmp_path)
    simulation.step(2)

    def plant(p):
        dict(p.species[1].store.columns())["v1"][4] = np.nan

    if when == "after the solve":
        simulation.recorder.inspect = plant
    else:
        plant(simulation.plasma)
    with pytest.raises(error, match=text):
        simulation.run()
    assert series(tmp_path, "health")["step"].tolist() == [0, 2]
    assert read_energies(tmp_path)["step"].tolist() == [0, 1, 2]


def test_a_restart_continues_every_file(tmp_path, full):
    more = {"checkpoint.every": 3}
    run(tmp_path, 5, EVERYTHING, **more)
    (tmp_path / "checkpoints" / "step_000005" / "manifest.json").unlink()
    run(tmp_path, 6, EVERYTHING, restart_from=tmp_path, **more)
    for path in sorted((full[1] / "diagnostics").glob("*.h5")):
        once, twice = read_series(path), read_series(tmp_path / "diagnostics" / path.name)
        for name in once:
            if name not in ("attributes", "axes"):
                np.testing.assert_array_equal(twice[name], once[name], err_msg=f"{path.stem} {name}")
    assert [path.name for path in list_snapshots(tmp_path,
                                                 "corner")] == [path.name for path in list_snapshots(full[1], "corner")]
    assert read_energies(tmp_path)["step"].tolist() == list(range(7))


def test_one_more_diagnostic_after_a_restart(tmp_path, full):
    run(tmp_path, 4, **{"checkpoint.every": 4})
    resumed = run(tmp_path, 6, EVERYTHING[4:5], restart_from=tmp_path)
    assert_same(state(resumed), state(full[0]))
    assert series(tmp_path, "probe")["step"].tolist() == [5, 6]


@pytest.mark.parametrize("index, change, what", [
    (4, {"moments": False}, "moments was True and is False"),
    (4, {"position": [0.3, 0.3]}, r"position was \[0.3, 0.28\]"),
    (9, {"high": [3, 4]}, "high was"), (11, {"every_id": 8}, "every_id was 7 and is 8"),
    (5, {"kind": "spectrum", "record": "E", "along": ["y"]}, "kind was cut and is spectrum"),
])
def test_a_file_goes_on_with_what_it_holds(tmp_path, index, change, what):
    """Rows of another place or of other bins in the same file would be taken for the same thing."""
    run(tmp_path, 4, EVERYTHING, **{"checkpoint.every": 4})
    entry = {**EVERYTHING[index], **change}
    if "kind" in change:
        entry = {"name": EVERYTHING[index]["name"], "every": 2, **change}
    with pytest.raises(RunDirectoryError, match=f"holds another diagnostic: .*{what}"):
        run(tmp_path, 6, [entry], restart_from=tmp_path)
    run(tmp_path, 6, [{**entry, "name": "another"}, {**EVERYTHING[4], "every": 2}], restart_from=tmp_path)
    assert series(tmp_path, "probe")["step"].tolist() == [0, 1, 2, 3, 4, 6]
    assert series(tmp_path, "another")["step"].tolist() == ([5, 6] if entry["every"] == 1 else [6])


def test_a_refused_restart_changes_nothing(tmp_path):
    """Not even what is later than the checkpoint that it would go on from."""
    entries = [{**EVERYTHING[4], "every": 1}, {"kind": "fields", "every": 2}]
    run(tmp_path, 8, entries, **{"checkpoint.every": 2, "checkpoint.keep": 9})

    def tree():
        return {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}

    def refused(error, changed):
        before = tree()
        with pytest.raises(error):
            run(tmp_path, 9, changed, restart_from=tmp_path / "checkpoints" / "step_000004")
        assert tree() == before

    refused(RunDirectoryError, [{**entries[0], "position": [0.3, 0.3]}, entries[1]])
    for name in ("diagnostics/probe.h5", "energies.h5"):
        path = tmp_path / name
        whole = path.read_bytes()
        for damaged in (whole[:len(whole) // 2], whole[:11] + b"\5" + whole[12:100] + bytes(len(whole) - 100)):
            path.write_bytes(damaged)
            refused(OSError, entries)
        path.write_bytes(whole)
    run(tmp_path, 9, entries, restart_from=tmp_path / "checkpoints" / "step_000004")
    assert series(tmp_path, "probe")["step"].tolist() == list(range(10))


def test_the_sidecar_holds_what_fits_together(tmp_path):
    """Not a snapshot that is damaged, nor those of other cells from before a restart."""
    run(tmp_path, 4, [{"kind": "fields", "every": 1}], **{"checkpoint.every": 4})
    (tmp_path / "fields" / "fields_000001.h5").write_text("damaged")
    run(tmp_path, 5, [{"kind": "fields", "every": 1}], restart_from=tmp_path)
    steps = re.findall(r'Grid Name="(\d+)"', (tmp_path / "fields.xdmf").read_text())
    assert steps == ["0", "2", "3", "4", "5"] * 2
    run(tmp_path, 6, [{"kind": "fields", "every": 1, "stride": 100}], restart_from=tmp_path / "checkpoints/step_000004")
    assert re.findall(r'Grid Name="(\d+)"', (tmp_path / "fields.xdmf").read_text()) == ["5", "6"] * 2
    assert read_fields(tmp_path / "fields" / "fields_000006.h5").cells == (1, 1)


def test_a_record_that_is_named_twice_is_written_once(tmp_path):
    run(tmp_path, 1, [{"kind": "fields", "every": 1, "records": ["E", "moments", "E", "n_ions"]}])
    names = list(read_fields(list_snapshots(tmp_path, "fields")[-1]).meshes)
    assert names[0] == "E" and "T_ions" in names and len(set(names)) == len(names)


@pytest.mark.parametrize("entry, fault", [
    ({"kind": "field", "every": 1}, r"diagnostic.0.kind = \"field\": must be one of .*did you mean `fields`"),
    ({"kind": "fields"}, "diagnostic.0.every: missing"),
    ({"kind": "fields", "every": 1, "records": ["n_muons"]}, "records .*has no record n_muons"),
    ({"kind": "fields", "every": 1, "region": [0.0, 2.0, 0.0, 0.1]}, "region .*0 <= low < high <= 0.9 × 0.7"),
    ({"kind": "cut", "every": 1, "along": ["z"]}, "along .*different axes out of x, y"),
    ({"kind": "cut", "every": 1, "along": ["x"]}, "at .*a place for each other dimension, 1"),
    ({"kind": "histogram", "every": 1, "species": "ions", "axes": ["z"], "low": [0], "high": [1], "bins": [2]},
     "axes .*z"),
    ({"kind": "histogram", "every": 1, "species": "ions", "axes": ["vx", "vy", "vz"], "low": [-1, -1, -1],
      "high": [1, 1, 1], "bins": [10**5, 10**5, 10**5]}, "bins .*makes 1000000000000000 bins"),
    ({"kind": "probe", "every": 1, "position": [1.0, 0.0]}, "position .*in the box"),
    ({"kind": "tracers", "every": 1, "species": "ions"}, "give either ids or every_id"),
    ({"kind": "reconnection", "every": 1, "normal": "x"}, "normal .*two of the 2"),
    ({"kind": "health", "every": 1, "evry": 2}, "evry = 2: unknown key; did you mean `every`"),
])
def test_faults_of_the_deck_are_named(entry, fault):
    with pytest.raises(DeckError, match=fault):
        load_deck({**DECK, "diagnostic": [entry]})
    with pytest.raises(DeckError, match="name .*diagnostic.0 already"):
        load_deck({**DECK, "diagnostic": [{"kind": "health", "every": 1}] * 2})
