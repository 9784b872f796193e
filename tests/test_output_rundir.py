"""A run directory is made safely: nothing that ecsim did not write is ever touched."""

import pytest

from ecsim.output.energies import EnergyFile
from ecsim.output.rundir import (
    RunDirectoryError,
    check_run_directory,
    create_run_directory,
    is_run_directory,
    read_deck_text,
)


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


def test_checking_creates_nothing(tmp_path):
    check_run_directory(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
