"""What goes wrong on one rank of several ends the job with a word, and loses nothing."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
from test_mpi import MPIEXEC, command, environment, start

from ecsim.output.checkpoint import list_checkpoints
from ecsim.reader import open_run

pytest.importorskip("mpi4py", reason="mpi4py is not installed")
pytestmark = pytest.mark.skipif(not MPIEXEC.exists(), reason=f"there is no {MPIEXEC}: install the package mpich")

SMALL = ["--device", "cpu", "--threads", "1", "--quiet", "--set", "grid.cells=[16,16]", "--set", "checkpoint.every=2"]


def apart(*commands, folders=None, timeout=60):
    """`ecsim` with other arguments, or in another folder, on each rank."""
    line = [str(MPIEXEC)]
    for k, arguments in enumerate(commands):
        where = [] if folders is None else ["-wdir", str(folders[k])]
        line += [*([":"] if k else []), "-n", "1", *where, sys.executable, "-m", "ecsim", *map(str, arguments)]
    return subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=timeout)


@pytest.mark.parametrize("kind", ["early", "argument"])
def test_an_exception_of_one_rank_before_mpi_is_there(kind):
    done = start(2, "faults.py", kind, timeout=60)
    assert done.returncode and "not reached" not in done.stdout
    assert done.stderr.count("rank 1: Traceback") == 1
    assert {"early": "ZeroDivisionError: planned", "argument": "ValueError: dt = -1"}[kind] in done.stderr


@pytest.mark.parametrize(("kind", "text"), [("arrays", "ranks 0 and 1 were given different arrays or options"),
                                            ("charge", "'ions' has the charge")])
def test_what_all_ranks_notice_is_told_once(kind, text):
    done = start(2, "faults.py", kind, timeout=120)
    assert done.returncode and "not reached" not in done.stdout
    assert done.stderr.count(text) == 1 and "Abort" not in done.stderr


def test_a_job_ends_though_its_last_words_cannot_be_written():
    mute = shlex.join(command(None, "failing.py", 1)) + " 2>/dev/full"
    done = subprocess.run([str(MPIEXEC), "-n", "2", "sh", "-c", mute], env=environment(), capture_output=True,
                          text=True, timeout=60)
    assert done.returncode and "not reached" not in done.stdout


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_are_printed_once_and_need_no_peers(option):
    done = apart([option], [option])
    assert done.returncode == 0 and done.stdout.count("ecsim") and not done.stderr
    assert done.stdout == apart([option]).stdout
    unseen = subprocess.run([sys.executable, "-m", "ecsim", option], env=environment(SLURM_STEP_NUM_TASKS="4"),
                            capture_output=True, text=True, timeout=60)
    assert unseen.returncode == 0 and unseen.stdout == done.stdout


def test_ranks_that_fail_for_other_reasons_at_once_are_all_heard():
    done = start(3, "faults.py", "several", timeout=60)
    assert done.returncode and "Abort" not in done.stderr
    assert done.stderr.count("RuntimeError: planned 0") == done.stderr.count("RuntimeError: planned 1") == 1
    assert "rank 1 of 3: Traceback" in done.stderr and "rank 2" not in done.stderr


@pytest.mark.parametrize("other", [["decks"], ["run", "thermal", "--bogus"], ["run", "thermal", "--steps", "3"],
                                   ["--version"]])
def test_ranks_with_different_commands_are_refused(tmp_path, other):
    done = apart(["run", "thermal", *SMALL, "--steps", "2", "-o", tmp_path / "run"], other)
    assert done.returncode == 2 and not (tmp_path / "run").exists()
    assert done.stderr.strip() == "ecsim: ranks 0 and 1 were given different commands; all ranks must be given the same"


def test_ranks_that_find_different_decks_are_refused(tmp_path):
    for name, cells in (("a", 16), ("b", 24)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "deck.toml").write_text(
            f"[grid]\ncells = [{cells}, 8]\nsize = [1.6, 0.8]\n[time]\ndt = 0.1\nsteps = 2\n"
            "[problem]\nname = 'thermal'\n"
            "[[species]]\nname = 'ions'\ncharge_to_mass = 1.0\nparticles_per_cell = 4\nthermal_velocity = 0.02\n"
            "[[species]]\nname = 'electrons'\ncharge_to_mass = -25.0\nparticles_per_cell = 4\nthermal_velocity = 0.1\n")
    arguments = ["run", "deck.toml", "--device", "cpu", "--threads", "1", "-o", tmp_path / "run"]
    done = apart(arguments, arguments, folders=[tmp_path / "a", tmp_path / "b"])
    assert done.returncode == 2 and not (tmp_path / "run").exists()
    assert "were given different decks" in done.stderr and done.stderr.count("\n") == 1


def test_a_checkpoint_that_one_rank_does_not_see_is_passed_over(tmp_path):
    """Ranks on hosts with other directories must not go on from different steps."""
    a, b = tmp_path / "a", tmp_path / "b"
    a.mkdir()
    started = [str(MPIEXEC), "-n", "2", sys.executable, "-m", "ecsim", "run", "thermal", *SMALL]
    subprocess.run([*started, "--steps", "4", "-o", "run"], env=environment(), cwd=a, check=True, timeout=120)
    shutil.copytree(a, b)
    newest = list_checkpoints(a / "run")[-1]
    shutil.rmtree(b / "run" / "checkpoints" / newest.name)
    again = ["run", "--restart", "run", *SMALL[:4], "--steps", "6"]
    done = apart(again, again, folders=[a, b], timeout=120)
    assert done.returncode in (0, 3), done.stderr       # rank 1 has no place for its next checkpoint
    assert f"passed over: {newest.relative_to(a)}" in done.stdout
    assert "step_000002, step 2" in done.stdout
    energies = open_run(a / "run").energies
    assert np.ptp(energies["total"]) <= 1e-12 * energies["total"][0]


def test_all_ranks_wait_for_rank_0_to_close_its_files(tmp_path):
    done = start(2, "faults.py", "closing", tmp_path / "run", timeout=120)
    assert done.returncode == 3 and done.stderr.count("\n") == 1 and "the run failed" in done.stderr
    assert list(open_run(tmp_path / "run").energies["step"]) == [0]


def test_a_start_that_fails_on_another_rank_leaves_nothing(tmp_path):
    done = start(2, "faults.py", "start", tmp_path / "deep" / "run", timeout=120)
    assert done.returncode == 3 and "rank 1 of 2: ecsim: not enough memory" in done.stderr
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_goes_on_when_nobody_reads_what_it_prints(tmp_path, ranks):
    run = [sys.executable, "-m", "ecsim", "run", "thermal", *(option for option in SMALL if option != "--quiet"),
           "--steps", "6", "-o", str(tmp_path / "run")]
    launcher = [str(MPIEXEC), "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run([*launcher, "sh", "-c", f"{shlex.join(run)} | true"], env=environment(), capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0 and not done.stderr
    assert len(open_run(tmp_path / "run").energies) == 7
