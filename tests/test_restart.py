"""Restart: N + N cycles are 2N, bit for bit; what cannot be gone on from is refused; series go on without a seam."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from restart_cases import DECK, EVERYTHING, assert_same, run, state

from ecsim.output.checkpoint import FOLDER, CheckpointError, find_checkpoint, list_checkpoints
from ecsim.output.energies import read_energies
from ecsim.output.series import read_series
from ecsim.output.snapshots import list_snapshots, read_fields
from ecsim.simulation import Simulation
from ecsim.solver.gmres import SolverError

EVERY = {"checkpoint.every": 4}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """State and time series of an uninterrupted run of 12 cycles."""
    directory = tmp_path_factory.mktemp("whole") / "run"
    return state(run(directory, 12)), read_energies(directory)


@pytest.mark.parametrize("pieces", [(6, 12), (3, 7, 12), (1, 2, 12)])
@pytest.mark.parametrize("more", [{}, {"sort_every": 3}])
def test_pieces_are_the_whole_bit_for_bit(tmp_path, whole, pieces, more):
    simulation = run(tmp_path / "run", pieces[0], **EVERY, **more)
    for steps in pieces[1:]:
        simulation = run(tmp_path / "run", steps, restart_from=tmp_path / "run", **EVERY, **more)
    assert_same(state(simulation), whole[0])
    series = read_energies(tmp_path / "run")
    for name in ("step", "time", "electric", "magnetic", "kinetic", "total", "drift", "divergence_B", "iterations"):
        np.testing.assert_array_equal(series[name], whole[1][name], err_msg=name)
    assert simulation.worst_drift == np.abs(whole[1]["drift"]).max()


SERIES = [entry for entry in EVERYTHING if entry["kind"] not in ("fields", "particles")]


def assert_same_series(directory, expected):
    """Every row of the energies and of all diagnostics, bit for bit."""
    tables = [(read_energies(directory), read_energies(expected))]
    paths = sorted((expected / "diagnostics").glob("*.h5"))
    tables += [(read_series(directory / "diagnostics" / path.name), read_series(path)) for path in paths]
    assert len(tables) == 1 + len(SERIES)
    for found, wanted in tables:
        assert found.keys() == wanted.keys()
        for name in wanted:
            if name not in ("attributes", "axes"):
                np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)


def run_in_pieces(directory, pieces, **more):
    """One run after the other up to the step of each piece, all in one directory; the last one."""
    for k, steps in enumerate(pieces):
        simulation = run(directory, steps, SERIES, restart_from=directory if k else None,
                         **{"checkpoint.every": 1000}, **more)
    return simulation


def assert_same_runs(found, expected):
    """State, and what users see of it: fields, particles in their order, drift."""
    assert_same(state(found), state(expected))
    for name in ("E", "B", "E_theta"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    for ours, theirs in zip(found.species, expected.species, strict=True):
        for name in ("id", "x", "v", "q"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=f"{ours.name} {name}")
    assert found.worst_drift == expected.worst_drift and found.plasma.step == expected.plasma.step


def test_a_hundred_cycles_in_two_and_in_three_pieces(tmp_path):
    """100 = 50 + 50 = 30 + 30 + 40, bit for bit."""
    whole = run_in_pieces(tmp_path / "whole", [100])
    for pieces in ([50, 100], [30, 60, 100]):
        directory = tmp_path / f"in_{len(pieces)}"
        assert_same_runs(run_in_pieces(directory, pieces), whole)
        assert_same_series(directory, tmp_path / "whole")


def test_two_threads_go_on_bit_for_bit(tmp_path):
    more = {"backend.threads": 2, "grid.cells": [24, 16], "grid.size": [3.6, 2.24]}
    whole = run_in_pieces(tmp_path / "whole", [20], **more)
    assert_same_runs(run_in_pieces(tmp_path / "halves", [10, 20], **more), whole)
    assert_same_series(tmp_path / "halves", tmp_path / "whole")


@pytest.mark.parametrize("shape, position, velocity, guess", [("cic", "float32", "float32", "last"),
                                                              ("tsc", "float64", "float64", "extrapolated")])
def test_other_schemes_and_numbers(tmp_path, shape, position, velocity, guess):
    more = dict(position=position, velocity=velocity, ids=False, shape=shape, guess=guess, **{"checkpoint.every": 100})
    expected = state(run(tmp_path / "whole", 8, **more))
    run(tmp_path / "run", 3, **more)
    assert_same(state(run(tmp_path / "run", 8, restart_from=tmp_path / "run", **more)), expected)


def test_every_keeps_the_newest(tmp_path):
    run(tmp_path, 11, **{"checkpoint.every": 2, "checkpoint.keep": 3})
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step_000008", "step_000010", "step_000011"]
    earlier = tmp_path / FOLDER / "step_000008"
    run(tmp_path, 9, restart_from=earlier, **{"checkpoint.every": 2})
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step_000008", "step_000009"]
    assert read_energies(tmp_path)["step"].tolist() == list(range(10))


def test_wall_clock_and_limits(tmp_path):
    run(tmp_path / "often", 4, **{"checkpoint.wall_minutes": 1e-9, "checkpoint.keep": 9})
    assert len(list_checkpoints(tmp_path / "often")) == 4
    simulation = Simulation.from_deck(DECK, output=tmp_path / "short")
    simulation.run(max_minutes=0.0)
    assert simulation.plasma.stopping and 1 <= simulation.plasma.step < 12
    assert find_checkpoint(tmp_path / "short")[0].step == simulation.plasma.step


def damage(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "flipped":
        data[len(data) // 3] ^= 4
        path.write_bytes(data)
    else:
        path.unlink()


@pytest.mark.parametrize("how, file, why", [
    ("cut", "rank_0000.bin", "cut short"), ("flipped", "rank_0000.bin", "checksum"),
    ("gone", "rank_0000.bin", "No such file"),
    ("cut", "manifest.json", "no readable manifest"), ("gone", "manifest.json", "no readable manifest"),
])
def test_a_damaged_checkpoint_is_passed_over(tmp_path, whole, how, file, why):
    run(tmp_path, 9, **EVERY)
    damage(tmp_path / FOLDER / "step_000009" / file, how)
    found, passed_over = find_checkpoint(tmp_path)
    assert found.step == 8 and len(passed_over) == 1 and "step_000009" in passed_over[0] and why in passed_over[0]
    assert_same(state(run(tmp_path, 12, restart_from=tmp_path, **EVERY)), whole[0])
    for name in ("step_000008", "step_000012"):
        damage(tmp_path / FOLDER / name / file, how)
    with pytest.raises(CheckpointError, match=f"no valid checkpoint: .*step_000012.*{why}.*; .*step_000008.*{why}"):
        find_checkpoint(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "3", "null", "{}", '{"checksum": 0}', "\udcff"])
def test_a_manifest_that_is_none(tmp_path, text):
    run(tmp_path, 4, **EVERY)
    (tmp_path / FOLDER / "step_000004" / "manifest.json").write_text(text, errors="surrogateescape")
    with pytest.raises(CheckpointError, match="step_000004.*manifest"):
        find_checkpoint(tmp_path)


def test_what_else_lies_among_the_checkpoints_is_left_alone(tmp_path, whole):
    run(tmp_path, 8, **EVERY)
    (tmp_path / FOLDER / "step_²").mkdir()
    (tmp_path / FOLDER / "step_000009").write_text("mine")
    assert_same(state(run(tmp_path, 12, restart_from=tmp_path, **EVERY)), whole[0])
    assert (tmp_path / FOLDER / "step_²").is_dir() and (tmp_path / FOLDER / "step_000009").read_text() == "mine"


def test_a_changed_manifest_is_damaged(tmp_path):
    run(tmp_path, 4, **EVERY)
    path = tmp_path / FOLDER / "step_000004" / "manifest.json"
    path.write_text(path.read_text().replace('"step": 4', '"step": 5'))
    with pytest.raises(CheckpointError, match="damaged: its checksum"):
        find_checkpoint(tmp_path / FOLDER / "step_000004")


def test_another_deck_or_version_is_refused_with_the_reason(tmp_path, monkeypatch):
    run(tmp_path / "run", 4, **EVERY)
    changes = {"time.dt": 0.1, "species.electrons.thermal_velocity": 0.3, "particles.seed": 4}
    with pytest.raises(CheckpointError) as refused:
        Simulation.from_deck(DECK, restart_from=tmp_path / "run", **changes)
    for text in ("time.dt was 0.2 and is 0.1", "species.1.thermal_velocity was 0.4 and is 0.3",
                 "particles.seed was 3 and is 4"):
        assert text in str(refused.value)
    monkeypatch.setattr("ecsim.builder.provenance", lambda: {"version": "9.9"})
    with pytest.raises(CheckpointError, match="written by ecsim .*; this is 9.9"):
        Simulation.from_deck(DECK, restart_from=tmp_path / "run")
    with pytest.raises(CheckpointError, match="has no checkpoints"):
        Simulation.from_deck(DECK, restart_from=tmp_path)


def test_into_another_directory_with_other_output(tmp_path, whole):
    run(tmp_path / "first", 5, **EVERY)
    simulation = run(tmp_path / "second", 12, restart_from=tmp_path / "first", fields_every=4, energies_every=2)
    assert_same(state(simulation), whole[0])
    assert read_energies(tmp_path / "second")["step"].tolist() == [6, 8, 10, 12]
    assert read_energies(tmp_path / "first")["step"].tolist() == list(range(6))


ENDLESS = """
import sys
sys.path.insert(0, {tests!r})
from restart_cases import DECK
from ecsim.simulation import Simulation
Simulation.from_deck(DECK, output={run!r}, steps=100000, **{{"checkpoint.every": 1, "checkpoint.keep": 3}}).run()
"""


def test_killed_at_any_moment_the_newest_checkpoint_is_whole(tmp_path):
    """SIGKILL while a checkpoint is written after every cycle; then the same cycles again, bit for bit."""
    directory = tmp_path / "run"
    code = ENDLESS.format(tests=str(Path(__file__).parent), run=str(directory))
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        deadline = time.monotonic() + 120
        while not (list_checkpoints(directory) and list_checkpoints(directory)[-1].name >= "step_000010"):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    found, passed_over = find_checkpoint(directory)
    assert found.step >= 10 and not passed_over
    more = {"checkpoint.every": 1, "checkpoint.keep": 3}
    resumed = run(directory, found.step + 3, restart_from=directory, **more)
    assert_same(state(resumed), state(run(tmp_path / "whole", found.step + 3)))
    assert read_energies(directory)["step"].tolist() == list(range(found.step + 4))
    assert not list((directory / FOLDER).glob(".*"))


HANGING = """
import sys, time
sys.path.insert(0, {tests!r})
from unittest import mock
from restart_cases import DECK
from ecsim.simulation import Simulation

real, calls = {{}}, [0]

def hang(*arguments, **keys):
    calls[0] += hangs(arguments)
    if calls[0] == {call}:
        print("inside", flush=True)
        time.sleep(300)
    return real["function"](*arguments, **keys)

def hangs(arguments):
    return simulation.plasma.step == 4 and {when}

simulation = Simulation.from_deck(DECK, output={run!r}, steps=8, fields_every=2, **{{"checkpoint.every": 2}})
import {module} as module
real["function"] = module.{function}
with mock.patch("{module}.{function}", hang):
    simulation.run()
"""


@pytest.mark.parametrize("what, module, function, when, call", [
    ("checkpoint", "os", "replace", "'step_000004' in str(arguments[1])", 1),
    ("checkpoint", "zlib", "crc32", "isinstance(arguments[0], memoryview)", 2),
    ("snapshot", "os", "replace", "'fields_000004' in str(arguments[1])", 1),
    ("snapshot", "ecsim.output.snapshots", "_write_record", "True", 2),
], ids=["checkpoint-rename", "checkpoint-second-array", "snapshot-rename", "snapshot-second-record"])
def test_killed_inside_a_dump_what_was_there_is_whole(tmp_path, whole, what, module, function, when, call):
    """SIGKILL in the middle of a dump at step 4, held up there: earlier files are whole, and the run goes on."""
    directory = tmp_path / "run"
    code = HANGING.format(tests=str(Path(__file__).parent), run=str(directory), module=module, function=function,
                          when=when, call=call)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "inside\n"
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    left = [path.name for path in directory.rglob(".*.part")]
    assert left == [".step_000004.part" if what == "checkpoint" else ".fields_000004.h5.part"]
    assert [path.name for path in list_checkpoints(directory)] == ["step_000002"]
    found, passed_over = find_checkpoint(directory)
    assert found.step == 2 and not passed_over
    written = [0, 2, 4] if what == "checkpoint" else [0, 2]
    assert [read_fields(path).step for path in list_snapshots(directory)] == written
    resumed = run(directory, 12, restart_from=directory, fields_every=2, **{"checkpoint.every": 2})
    assert_same(state(resumed), whole[0])
    snapshots = [read_fields(path) for path in list_snapshots(directory)]
    assert [snapshot.step for snapshot in snapshots] == list(range(0, 13, 2))
    np.testing.assert_array_equal(snapshots[-1].meshes["E"].values, resumed.E)
    assert read_energies(directory)["step"].tolist() == list(range(13))
    assert find_checkpoint(directory)[0].step == 12 and not list(directory.rglob(".*.part"))


FULL = """
import resource, signal, sys
sys.path.insert(0, {tests!r})
from restart_cases import DECK
from ecsim.simulation import Simulation
simulation = Simulation.from_deck(DECK, output={run!r}, steps=9, **{{"species.electrons.particles_per_cell": 2000}})
simulation.step(2)
simulation.save()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2_500_000, 2_500_000))
simulation.step()
try:
    simulation.save()
except OSError as error:
    print(error)
    sys.exit(3)
"""


def test_full_disk_leaves_the_earlier_checkpoint(tmp_path):
    code = FULL.format(tests=str(Path(__file__).parent), run=str(tmp_path / "run"))
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 3, result.stderr
    assert "cannot write the checkpoint" in result.stdout and "File too large" in result.stdout
    assert find_checkpoint(tmp_path / "run")[0].step == 2
    assert [path.name for path in (tmp_path / "run" / FOLDER).iterdir()] == ["step_000002"]


def test_manifest_is_readable_by_people(tmp_path):
    run(tmp_path, 4, **EVERY)
    manifest = json.loads((tmp_path / FOLDER / "step_000004" / "manifest.json").read_text())
    assert manifest["step"] == 4 and manifest["time"] == 0.8 and manifest["cells"] == [6, 5]
    assert "[problem]" in manifest["deck"] and manifest["version"]
    assert manifest["files"][0]["electrons/id"]["shape"] == [210]


def command(*arguments, **kwargs):
    return subprocess.run([sys.executable, "-m", "ecsim", *map(str, arguments)], capture_output=True, text=True,
                          timeout=300,
                          **kwargs)


def test_command_line_goes_on_where_it_stopped(tmp_path):
    small = ["--device", "cpu", "--set", "grid.cells=[6,5]", "--set", "species.ions.particles_per_cell=4", "--steps",
             "9"]
    first = command("run", "thermal", *small, "-o", tmp_path / "run", "--max-minutes", "0")
    assert first.returncode == 4, first.stderr
    assert f"stopped after step 1 of 9, as asked; go on with `ecsim run --restart {tmp_path / 'run'}`" in first.stderr
    again = command("run", "--restart", tmp_path / "run")
    assert again.returncode == 0, again.stderr
    assert f"going on from {tmp_path / 'run' / FOLDER / 'step_000001'}, step 1" in again.stdout
    assert read_energies(tmp_path / "run")["step"].tolist() == list(range(10))
    other = command("run", "thermal", *small, "-o", tmp_path / "run", "--restart", "latest", "--set", "time.dt=0.3")
    assert other.returncode == 2 and "belongs to another deck: time.dt was 0.1 and is 0.3" in other.stderr
    nothing = command("run", "--restart", tmp_path)
    assert nothing.returncode == 2 and "neither a checkpoint nor the directory of a run" in nothing.stderr


def test_sigterm_ends_with_a_checkpoint(tmp_path):
    arguments = ["run", "thermal", "--device", "cpu", "--set", "grid.cells=[6,5]", "--steps", "1000000", "-o",
                 str(tmp_path)]
    process = subprocess.Popen([sys.executable, "-m", "ecsim", *arguments], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not ((tmp_path / "energies.h5").exists() and len(read_energies(tmp_path)["step"]) > 2):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 4 and "as asked" in message
    assert find_checkpoint(tmp_path)[0].step == read_energies(tmp_path)["step"][-1]


@pytest.mark.parametrize("guess", ["last", "extrapolated"])
def test_a_solve_that_fails_leaves_the_state_as_it_was(guess):
    """Also where it fails after a restart of GMRES: tried again with more iterations, the run goes on bit for bit."""
    deck = DECK | {"solver": {"guess": guess, "restart": 3}}
    plain, failing = Simulation.from_deck(deck), Simulation.from_deck(deck)
    plain.step(3)
    failing.step(3)
    before, most = state(failing), failing.plasma.gmres.max_iterations
    failing.plasma.gmres.max_iterations = 4
    with pytest.raises(SolverError, match="stopped after 4 iterations"):
        failing.step(1)
    assert_same(state(failing), before)
    failing.plasma.gmres.max_iterations = most
    plain.step(1)
    failing.step(1)
    assert_same(state(failing), state(plain))
