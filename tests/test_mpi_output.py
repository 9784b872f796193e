"""Files and restarts on several ranks against one rank."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from openpmd_cases import CELLS, assert_valid, files, small_run
from test_mpi import MPIEXEC, pytestmark, start  # noqa: F401

from ecsim.output.checkpoint import find_checkpoint
from ecsim.output.energies import read_energies
from ecsim.output.particles import read_particles
from ecsim.output.series import read_series
from ecsim.output.snapshots import list_snapshots
from ecsim.output.timings import read_timings

TOLERANCE = 1e-11
SINGLE = 1e-6                   # of files in float32


def execute(ranks, *arguments):
    done = start(ranks, "output_run.py", *arguments, timeout=60)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Directories of six cycles by how they were run: on 1, 2 and 3 ranks; on 1, then 2, then 3; on 2 and again 2."""
    folder = tmp_path_factory.mktemp("output")
    for ranks in (1, 2, 3):
        execute(ranks, folder / str(ranks), 6)
    for ranks, steps in ((1, 2), (2, 4), (3, 6)):
        execute(ranks, folder / "mixed", steps, *(["go-on"] if steps > 2 else []))
    for steps in (3, 6):
        execute(2, folder / "halves", steps, *(["go-on"] if steps > 3 else []))
    return {name: folder / name for name in ("1", "2", "3", "mixed", "halves")}


def datasets(path):
    found = {}
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return found


def close(a, b, name):
    scale = max(np.abs(np.nan_to_num(b)).max(initial=0), 1e-3)
    np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE * scale, err_msg=name)


@pytest.mark.parametrize("which", ["2", "3", "mixed"])
def test_series_and_snapshots_are_those_of_one_rank(runs, which):
    ledger, expected = read_energies(runs[which]), read_energies(runs["1"])
    assert ledger["step"].tolist() == list(range(7))
    for name in ("electric", "magnetic", "kinetic", "total", "momentum", "divergence_B"):
        close(ledger[name], expected[name], name)
    for path in sorted((runs["1"] / "diagnostics").glob("*.h5")):
        table, wanted = read_series(runs[which] / "diagnostics" / path.name), read_series(path)
        for name in wanted:
            if name not in ("attributes", "axes"):
                close(table[name], wanted[name], f"{path.stem} {name}")
    for name, tolerance in (("fields", TOLERANCE), ("corner", SINGLE)):
        for ours, theirs in zip(list_snapshots(runs[which], name), list_snapshots(runs["1"], name), strict=True):
            one, other = datasets(ours), datasets(theirs)
            assert one.keys() == other.keys()
            for record in one:
                np.testing.assert_allclose(one[record], other[record], rtol=0,
                                           atol=tolerance * max(1, np.abs(other[record]).max()), err_msg=record)


@pytest.mark.parametrize("which", ["2", "3", "mixed"])
def test_particles_are_those_of_one_rank(runs, which):
    for name, tolerance in (("particles", TOLERANCE), ("some", SINGLE)):
        ours, theirs = (read_particles(list_snapshots(runs[key], name)[-1]) for key in (which, "1"))
        for species, found in theirs.items():
            mine, other = (np.argsort(p["id"]) for p in (ours[species], found))
            np.testing.assert_array_equal(ours[species]["id"][mine], found["id"][other])
            for column in ("x", "v"):
                np.testing.assert_allclose(ours[species][column][:, mine], found[column][:, other], rtol=0,
                                           atol=tolerance, err_msg=f"{name} {species} {column}")


def test_the_same_ranks_go_on_bit_for_bit(runs):
    """3 + 3 cycles on 2 ranks are 6: the arrays of each rank in their order, and every file."""
    halves, whole = (find_checkpoint(runs[name])[0] for name in ("halves", "2"))
    assert halves.step == whole.step == 6 and halves.ranks == whole.ranks == 2
    for rank in range(2):
        assert halves.names(rank) == whole.names(rank)
        for name in whole.names(rank):
            np.testing.assert_array_equal(halves.array(rank, name), whole.array(rank, name), err_msg=f"{rank} {name}")
    paths = [path.relative_to(runs["2"]) for path in sorted(runs["2"].rglob("*.h5")) if "xdmf" not in path.name]
    assert len(paths) > 20
    for path in paths:
        ours, theirs = datasets(runs["halves"] / path), datasets(runs["2"] / path)
        assert ours.keys() == theirs.keys(), path
        for name in theirs:
            np.testing.assert_array_equal(ours[name], theirs[name], err_msg=f"{path} {name}")


def test_checkpoints_have_a_file_a_rank(runs):
    for name, ranks in (("1", 1), ("2", 2), ("3", 3), ("mixed", 3)):
        found, passed_over = find_checkpoint(runs[name])
        assert found.step == 6 and found.ranks == ranks and not passed_over
        counted = sum(int(found.array(rank, "electrons/count").sum()) for rank in range(ranks))
        assert counted == 6 * 5 * 7


def test_the_validator_has_nothing_to_say_of_several_ranks(runs):
    pytest.importorskip("openpmd_validator")
    for path in (list_snapshots(runs["3"], "fields")[-1], list_snapshots(runs["3"], "particles")[-1]):
        assert_valid(path)


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    """Folder with the small openPMD runs in 1D, 2D and 3D, each on 2 ranks."""
    folder = tmp_path_factory.mktemp("two_ranks")
    done = start(2, "openpmd_run.py", folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.parametrize("name", CELLS)
def test_openpmd_tools_take_the_files_of_two_ranks(two_ranks, tmp_path, name):
    """The validator is silent; the viewer shows fields and particles of the same run on one rank."""
    directory = two_ranks / name
    assert read_timings(directory)[-1]["ranks"] == 2
    small_run(tmp_path, CELLS[name])
    viewer = pytest.importorskip("openpmd_viewer").OpenPMDTimeSeries
    ours, theirs = (viewer(str(run / "fields"), check_all_files=True) for run in (directory, tmp_path))
    for record, component in (("E", "x"), ("B", "z"), ("rho", None)):
        values, wanted = (s.get_field(record, component, iteration=2, slice_across=None)[0] for s in (ours, theirs))
        assert values.shape == CELLS[name]
        np.testing.assert_allclose(values, wanted, rtol=0, atol=TOLERANCE * np.abs(wanted).max(), err_msg=record)
    ours, theirs = (viewer(str(files(run)[1].parent)) for run in (directory, tmp_path))
    columns, wanted = (s.get_particle(["id", "x", "ux", "uz", "w"], species="electrons", iteration=2)
                       for s in (ours, theirs))
    mine, other = np.argsort(columns[0]), np.argsort(wanted[0])
    np.testing.assert_array_equal(columns[0][mine], wanted[0][other])
    for column, expected in zip(columns[1:], wanted[1:], strict=True):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(column[mine], expected[other], rtol=0, atol=TOLERANCE * scale)
    pytest.importorskip("openpmd_validator")
    for path in files(directory):
        assert_valid(path)
