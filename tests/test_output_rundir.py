"""A run directory is made safely: nothing that ecsim did not write is ever touched."""

import fcntl
import gc
import os

import pytest
from restart_cases import DECK, EVERYTHING, run

from ecsim.output.checkpoint import list_checkpoints
from ecsim.output.energies import EnergyFile, read_energies
from ecsim.output.hold import Hold
from ecsim.output.rundir import (
    RunDirectoryError,
    check_run_directory,
    create_run_directory,
    is_run_directory,
    read_deck_text,
)
from ecsim.plot import plot_run
from ecsim.run_report import write_report
from ecsim.simulation import Simulation


def test_new_and_empty_directories_are_taken(tmp_path):
    run = create_run_directory(tmp_path / "a" / "b", "x = 1\n")
    assert is_run_directory(run)
    assert read_deck_text(run).endswith("\nx = 1\n") and read_deck_text(run).startswith("# ecsim")
    (tmp_path / "empty").mkdir()
    assert not is_run_directory(tmp_path / "empty")
    create_run_directory(tmp_path / "empty", "")


def test_an_earlier_run_is_kept_unless_told(tmp_path):
    run = create_run_directory(tmp_path / "run", "x = 1\n")
    with pytest.raises(RunDirectoryError, match="exists; .*--overwrite"):
        create_run_directory(run, "x = 2\n")
    assert "x = 1" in read_deck_text(run)


def test_overwriting_removes_only_what_a_run_makes(tmp_path):
    run = create_run_directory(tmp_path / "run", "x = 1\n")
    EnergyFile(run / "energies.h5", species=["e"], attributes={}).close()
    (run / "fields").mkdir()
    (run / "figures").mkdir()
    ours = ("fields/fields_000001.h5", "fields/.fields_000002.h5.part", "figures/energy.png",
            "figures/fields_000001.pdf")
    for name in (*ours, "fields/fields_mine.h5", "figures/mine.png", "notes.txt"):
        (run / name).write_text("x")
    create_run_directory(run, "x = 2\n", overwrite=True)
    left = {str(p.relative_to(run)) for p in run.rglob("*") if p.is_file()}
    assert left == {"deck.toml", "fields/fields_mine.h5", "figures/mine.png", "notes.txt"}
    assert "x = 2" in read_deck_text(run)


def test_a_run_without_its_deck_is_known_by_its_time_series(tmp_path):
    EnergyFile(tmp_path / "energies.h5", species=["e"], attributes={}).close()
    assert is_run_directory(tmp_path)


@pytest.mark.parametrize("names", [["thesis.tex"], ["deck.toml"], ["energies.h5", "deck.toml"]])
@pytest.mark.parametrize("overwrite", [False, True])
def test_foreign_directories_are_left_alone(tmp_path, names, overwrite):
    for name in names:
        (tmp_path / name).write_text("[grid]\ncells = [4]\n")
    with pytest.raises(RunDirectoryError, match="not made by ecsim, so it is left alone"):
        create_run_directory(tmp_path, "x = 1", overwrite)
    left = {p.name: p.read_text() for p in tmp_path.iterdir()}
    assert left == dict.fromkeys(names, "[grid]\ncells = [4]\n")


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "run").write_text("x")
    with pytest.raises(RunDirectoryError, match="exists and is a file"):
        check_run_directory(tmp_path / "run", overwrite=True)
    with pytest.raises(RunDirectoryError, match="run is not a writable directory"):
        check_run_directory(tmp_path / "run" / "below")


@pytest.mark.parametrize("lacking", ["R_OK", "W_OK", "X_OK"])
def test_a_directory_that_may_not_be_used(tmp_path, monkeypatch, lacking):
    monkeypatch.setattr("os.access", lambda path, mode: not mode & getattr(os, lacking))
    with pytest.raises(RunDirectoryError, match="is not readable and writable"):
        check_run_directory(tmp_path)


def test_checking_creates_nothing(tmp_path):
    check_run_directory(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_one_run_at_a_time_by_any_way_in(tmp_path):
    """Held from the start until the simulation is closed or forgotten; what is refused changes nothing."""
    more = {"checkpoint.every": 2}
    first = Simulation.from_deck(DECK, output=tmp_path / "run", **more)
    first.step(2)
    first.recorder.flush()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for arguments in ({"overwrite": True}, {"restart_from": tmp_path / "run"},
                      {"restart_from": tmp_path / "run" / "checkpoints" / "step_000002"}):
        with pytest.raises(RunDirectoryError, match="another run is writing into .*run; wait for its end"):
            Simulation.from_deck(DECK, output=tmp_path / "run", **more, **arguments)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    first.close()
    second = Simulation.from_deck(DECK, output=tmp_path / "run", restart_from=tmp_path / "run", **more)
    second.step()
    del second
    gc.collect()
    third = Simulation.from_deck(DECK, output=tmp_path / "run", restart_from=tmp_path / "run", steps=4, **more)
    third.run()
    assert read_energies(tmp_path / "run")["step"].tolist() == list(range(5))


@pytest.mark.parametrize("moment", ["open", "flock"])
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_directory_removed_before_its_lock_is_not_held(tmp_path, monkeypatch, moment, goes_on):
    """By a start that failed: a new run makes it again, one that would go on finds none."""
    directory = tmp_path / "new" / "run"
    directory.mkdir(parents=True)
    module = {"open": os, "flock": fcntl}[moment]
    original, removed = getattr(module, moment), []

    def late(*arguments):
        if not removed:
            removed.append(directory)
            directory.rmdir()
            directory.parent.rmdir()
        return original(*arguments)

    hold = Hold()
    with monkeypatch.context() as patch:
        patch.setattr(module, moment, late)
        hold.take(directory, goes_on=goes_on)
    assert removed and directory.is_dir() != goes_on
    if not goes_on:
        with pytest.raises(RunDirectoryError, match="another run is writing"):
            Hold().take(directory)
    hold.abandon()
    assert list(tmp_path.iterdir()) == []


def test_a_closed_run_says_so(tmp_path):
    simulation = Simulation.from_deck(DECK, output=tmp_path, steps=1)
    simulation.run()
    for go_on in (simulation.step, simulation.save, lambda: simulation.run(2)):
        with pytest.raises(ValueError, match="files of this run are closed"):
            go_on()
    assert simulation.E.shape == (3, 6, 5) and simulation.plasma.step == 1


def test_overwriting_removes_all_that_was_made_of_a_run(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    run(tmp_path, 4, EVERYTHING, **{"checkpoint.every": 2})
    plot_run(tmp_path)
    plot_run(tmp_path, ["energy"], format="pdf")
    monkeypatch.setattr("ecsim.run_report.plot_run", lambda *_, **__: [])  # the same figures again
    write_report(tmp_path)
    (tmp_path / "figures" / "fields.mp4").touch()
    (tmp_path / "checkpoints" / ".step_000009.part").mkdir()
    for name in ("checkpoints/.step_000009.part/rank_0000.bin", ".timings.json.part", ".report.html.part",
                 "diagnostics/.probe.h5.part", "diagnostics/some/.some_000003.h5.part", ".fields.xdmf.h5.part"):
        (tmp_path / name).touch()
    create_run_directory(tmp_path, "x = 2\n", overwrite=True)
    assert [path.name for path in tmp_path.rglob("*")] == ["deck.toml"]


def test_a_restart_clears_up_after_a_killed_run(tmp_path):
    """A writer that was killed may leave a checkpoint too many and files that are half written."""
    run(tmp_path, 6, EVERYTHING, **{"checkpoint.every": 1, "checkpoint.keep": 3})
    (tmp_path / "checkpoints" / ".step_000007.part").mkdir()
    left = [".deck.toml.part", ".energies.h5.part", ".timings.json.part", "diagnostics/.probe.h5.part",
            "diagnostics/some/.some_000006.h5.part", "checkpoints/.step_000007.part/rank_0000.bin"]
    for name in left:
        (tmp_path / name).write_text("half")
    again = Simulation.from_deck({**DECK, "diagnostic": EVERYTHING}, output=tmp_path, restart_from=tmp_path,
                                 **{"checkpoint.every": 1, "checkpoint.keep": 2})
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step_000005", "step_000006"]
    assert not list(tmp_path.rglob(".*"))
    again.close()
