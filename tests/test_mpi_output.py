"""Files and restarts on several ranks against one rank."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from test_mpi import MPIEXEC, pytestmark, start  # noqa: F401

from ecsim.output.checkpoint import find_checkpoint
from ecsim.output.energies import read_energies
from ecsim.output.particles import read_particles
from ecsim.output.series import read_series
from ecsim.output.snapshots import list_snapshots

TOLERANCE = 1e-11


def execute(ranks, *arguments):
    done = start(ranks, "output_run.py", *arguments, timeout=60)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Directories of six cycles by how they were run: on 1, 2 and 3 ranks, and on 1, then 2, then 3."""
    folder = tmp_path_factory.mktemp("output")
    for ranks in (1, 2, 3):
        execute(ranks, folder / str(ranks), 6)
    for ranks, steps in ((1, 2), (2, 4), (3, 6)):
        execute(ranks, folder / "mixed", steps, *(["go-on"] if steps > 2 else []))
    return {name: folder / name for name in ("1", "2", "3", "mixed")}


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
    for name in ("fields", "corner"):
        for ours, theirs in zip(list_snapshots(runs[which], name), list_snapshots(runs["1"], name), strict=True):
            one, other = datasets(ours), datasets(theirs)
            assert one.keys() == other.keys()
            for record in one:
                np.testing.assert_allclose(one[record], other[record], rtol=0,
                                           atol=1e-6 * max(1, np.abs(other[record]).max()))


@pytest.mark.parametrize("which", ["2", "3", "mixed"])
def test_particles_are_those_of_one_rank(runs, which):
    for name in ("particles", "some"):
        ours, theirs = (read_particles(list_snapshots(runs[key], name)[-1]) for key in (which, "1"))
        for species, found in theirs.items():
            mine, other = (np.argsort(p["id"]) for p in (ours[species], found))
            np.testing.assert_array_equal(ours[species]["id"][mine], found["id"][other])
            for column in ("x", "v"):
                np.testing.assert_allclose(ours[species][column][:, mine], found[column][:, other], rtol=0, atol=1e-6)


def test_checkpoints_have_a_file_a_rank(runs):
    for name, ranks in (("1", 1), ("2", 2), ("3", 3), ("mixed", 3)):
        found, passed_over = find_checkpoint(runs[name])
        assert found.step == 6 and found.ranks == ranks and not passed_over
        counted = sum(int(found.array(rank, "electrons/count").sum()) for rank in range(ranks))
        assert counted == 6 * 5 * 7


def test_the_validator_has_nothing_to_say_of_several_ranks(runs):
    pytest.importorskip("openpmd_validator")
    tool = Path(sys.executable).with_name("openPMD_check_h5")
    for path in (list_snapshots(runs["3"], "fields")[-1], list_snapshots(runs["3"], "particles")[-1]):
        said = subprocess.run([tool, "-i", path, "--EDPIC"], capture_output=True, text=True, timeout=120)
        assert "Result: 0 Errors and 0 Warnings." in said.stdout, said.stdout + said.stderr
