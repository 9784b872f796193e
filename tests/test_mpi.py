"""Runs on several ranks against the run on one, with the mpiexec of the ``mpich`` package beside this Python.

Every test starts processes of its own; what they run is in ``mpi_workers``.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
WORKERS = Path(__file__).parent / "mpi_workers"
MPIEXEC = Path(sys.executable).with_name("mpiexec")
LAUNCHER = re.compile("^(PMI|PMIX|OMPI|MPI|HYDI|SLURM)_")
RANKS = [1, 2, 3, 4, 6, 8]

pytest.importorskip("mpi4py", reason="mpi4py is not installed")
pytestmark = pytest.mark.skipif(not MPIEXEC.exists(), reason=f"there is no {MPIEXEC}: install the package mpich")


def environment(**extra):
    kept = {name: value for name, value in os.environ.items() if not LAUNCHER.match(name)}
    paths = [str(ROOT), str(ROOT / "tests"), *filter(None, [kept.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), **extra}


def command(ranks, worker, *arguments):
    launcher = [str(MPIEXEC), "-n", str(ranks)] if ranks else []
    return [*launcher, sys.executable, str(WORKERS / worker), *map(str, arguments)]


def start(ranks, worker, *arguments, timeout=240, **extra):
    """Run a worker on ``ranks`` ranks (None: without a launcher)."""
    return subprocess.run(command(ranks, worker, *arguments), env=environment(**extra), capture_output=True, text=True,
                          timeout=timeout)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What the cases return on so many ranks (None: one process without a launcher), each computed once."""
    folder = tmp_path_factory.mktemp("cases")

    @functools.cache
    def on(ranks):
        out = folder / f"on_{ranks}.npz"
        done = start(ranks, "run_cases.py", out)
        assert done.returncode == 0, done.stderr[-3000:]
        with np.load(out) as file:
            return dict(file)

    return on


@pytest.mark.parametrize("ranks", RANKS)
def test_the_launcher_belongs_to_the_mpi_of_mpi4py(results, ranks):
    assert results(ranks)["size"] == ranks


@pytest.mark.parametrize("ranks", RANKS)
def test_ten_cycles_as_on_one_rank(results, ranks):
    one, many = results(None), results(ranks)
    assert one.keys() == many.keys()
    for key in (k for k in one if ":" in k and ":exact" not in k and ":check" not in k):
        scale = np.abs(one[key]).max()
        assert np.abs(many[key] - one[key]).max() <= 1e-11 * scale, key


@pytest.mark.parametrize("ranks", RANKS)
def test_initial_particles_are_the_same_bit_for_bit(results, ranks):
    one, many = results(None), results(ranks)
    keys = [key for key in one if ":exact" in key]
    assert sum(one[key].size for key in keys) > 100_000
    for key in keys:
        assert np.array_equal(one[key], many[key]), key


@pytest.mark.parametrize("ranks", RANKS)
def test_every_particle_arrives_where_it_belongs(results, ranks):
    assert all(results(ranks)[f"shower-{shape}:check_places"] == 0.0 for shape in ("cic", "tsc"))


@pytest.mark.parametrize("ranks", RANKS)
def test_energy_and_current_are_kept(results, ranks):
    many = results(ranks)
    drifts = {key: float(many[key][0]) for key in many if key.endswith(":check_drift")}
    currents = {key: float(many[key][0]) for key in many if key.endswith(":check_current")}
    assert len(drifts) == 11 and max(drifts.values()) < 2e-14, drifts
    assert len(currents) == 8 and max(currents.values()) < 1e-14, currents


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_ghosts_sums_and_gathering_by_every_transport(ranks):
    done = start(ranks, "exchange.py")
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not there")
def test_the_cuda_backend_on_two_ranks_as_the_cpu_on_one(results, tmp_path):
    done = start(2, "emulated_cuda.py", tmp_path / "cuda.npz")
    assert done.returncode == 0, done.stderr[-3000:]
    one = results(None)
    with np.load(tmp_path / "cuda.npz") as many:
        for key in (key for key in many if ":check" not in key):
            assert np.abs(many[key] - one[key]).max() <= 1e-11 * np.abs(one[key]).max(), key


def test_an_exception_on_one_rank_ends_the_job():
    done = start(3, "failing.py", 1, timeout=60)
    assert done.returncode != 0 and "not reached" not in done.stdout
    assert done.stderr.count("ZeroDivisionError: planned") == 1 and "rank 1 of 3: Traceback" in done.stderr


def test_an_exception_on_all_ranks_is_told_once():
    done = start(3, "failing.py", -1, timeout=60)
    assert done.returncode != 0 and done.stderr.count("ZeroDivisionError: planned") == 1
    assert "Abort" not in done.stderr


def test_the_message_of_a_job_that_is_aborted_is_not_lost():
    done = start(2, "unread.py", timeout=60)
    assert done.returncode == 3 and "not reached" not in done.stdout
    assert "rank 1 of 2: the last words" in done.stderr


@pytest.mark.parametrize("hidden", [False, True])
def test_peers_that_are_not_seen_are_explained(tmp_path, hidden):
    """Another MPI's mpirun starts processes that mpi4py takes for single ones; without mpi4py they all are."""
    if hidden:
        (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['mpi4py'] = None\n")
    launched = environment(OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="0")
    launched["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{launched['PYTHONPATH']}"
    done = subprocess.run([sys.executable, "-m", "ecsim", "run", "thermal", "-o", tmp_path / "run"], env=launched,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and not (tmp_path / "run").exists()
    (line,) = done.stderr.splitlines()
    wanted = ["has started 2 processes", "mpi4py is not installed"] if hidden else ["sees one", "mpiexec"]
    assert all(text in line for text in wanted), line


def test_wrong_usage_is_told_once():
    done = subprocess.run([str(MPIEXEC), "-n", "2", sys.executable, "-m", "ecsim", "run", "--bogus"], env=environment(),
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and done.stderr.count("unrecognized arguments: --bogus") == 1


def test_a_grid_too_small_for_its_ranks_is_refused(tmp_path):
    done = start(8, "named_run.py", tmp_path, "run", "two_stream", "-o", tmp_path / "run", "--device", "cpu",
                 "--set", "grid.cells=[7]")
    assert done.returncode == 2 and not (tmp_path / "run").exists()
    (line,) = done.stderr.splitlines()
    assert "7 cells cannot be cut for 8 ranks" in line and "start 7 ranks" in line


def run_directory(folder, ranks, *arguments):
    """A run by the command line on so many ranks; its output."""
    done = start(ranks, "named_run.py", folder, "run", "two_stream", "-o", folder / f"run_{ranks}", "--device", "cpu",
                 "--set", "output.fields_every=5", "--steps", "10", *arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_files_are_those_of_a_run_on_one_rank(tmp_path):
    from ecsim.output.energies import read_energies
    from ecsim.output.snapshots import list_snapshots, read_fields

    said = run_directory(tmp_path, 3)
    assert said.count("results in") == 1 and "3 ranks, blocks of 11 down to 10 cells, transport host (MPICH" in said
    run_directory(tmp_path, None)
    one, many = (read_energies(tmp_path / f"run_{ranks}") for ranks in (None, 3))
    for column in ("step", "time", "total", "kinetic", "electric", "magnetic", "charge", "gauss_residual"):
        assert np.allclose(one[column], many[column], rtol=1e-11, atol=1e-11 * one["total"][0], equal_nan=True), column
    paths = [list_snapshots(tmp_path / f"run_{ranks}") for ranks in (None, 3)]
    assert [p.name for p in paths[0]] == [p.name for p in paths[1]] and len(paths[0]) == 3
    for mine, theirs in zip(*([read_fields(path) for path in some] for some in paths), strict=True):
        assert mine.meshes.keys() == theirs.meshes.keys() and mine.cells == theirs.cells == (32,)
        for name, mesh in mine.meshes.items():
            scale = max(np.abs(m.values).max() for m in mine.meshes.values())
            assert np.abs(mesh.values - theirs.meshes[name].values).max() <= 1e-11 * scale, name


@pytest.mark.parametrize("number, code, how", [(signal.SIGTERM, 4, "stopped"), (signal.SIGINT, 130, "interrupted")])
@pytest.mark.parametrize("rank", [1, None])
def test_a_signal_stops_all_ranks_after_the_cycle(tmp_path, number, code, how, rank):
    """To one rank, or to the launcher, which hands it to all."""
    from ecsim.output.energies import read_energies

    arguments = ("run", "two_stream", "-o", tmp_path / "run", "--device", "cpu", "--steps", "1000000")
    process = subprocess.Popen(command(3, "named_run.py", tmp_path, *arguments), env=environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        next(line for line in process.stdout if line.startswith("step "))
        os.kill(process.pid if rank is None else int((tmp_path / f"rank_{rank}").read_text()), number)
        _, message = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == code and message.count(f"{how} after step") == 1 and "Abort" not in message
    stopped = int(re.search(rf"{how} after step (\d+)", message)[1])
    assert read_energies(tmp_path / "run")["step"][-1] == stopped
    time.sleep(0.1)
    assert not any(alive(int(path.read_text())) for path in tmp_path.glob("rank_*"))


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 4), (signal.SIGINT, 130)])
def test_a_signal_before_the_first_cycle_leaves_nothing(tmp_path, number, code):
    particles = "species.ions.particles_per_cell=4000"
    arguments = ("run", "thermal", "-o", tmp_path / "runs" / "one", "--device", "cpu", "--set", particles)
    process = subprocess.Popen(command(3, "named_run.py", tmp_path, *arguments), env=environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "runs" / "one").exists():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        _, message = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == code and "stopped before the first cycle, as asked" in message, message
    assert not (tmp_path / "runs").exists()


def alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
