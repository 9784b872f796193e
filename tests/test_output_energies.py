"""The time series: complete, readable while written, and surviving kills and full disks."""

import os
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

from ecsim.output.energies import COLUMNS, EnergyFile, read_energies
from ecsim.output.provenance import git_revision, provenance

SPECIES = ["electrons", "ions"]


def row(step: int) -> dict:
    """A row whose every number is tied to ``step``."""
    return dict(step=step, time=0.1 * step, electric=1.0 + step, magnetic=2.0 + step,
                kinetic=[3.0 + step, 4.0 + step], total=10.0 + 4 * step, drift=1e-16 * step,
                momentum=(step, -step, 0.5), charge=-1e-17, divergence_B=1e-18,
                gauss_residual=np.nan if step % 10 else 1e-3, iterations=7, residual=1e-13,
                at_rounding=step % 2 == 1)


def check(table: dict, steps) -> None:
    """Assert that ``table`` holds exactly the rows ``row(step)`` of ``steps``."""
    assert table["step"].tolist() == list(steps)
    for k, step in enumerate(steps):
        for name, value in row(step).items():
            np.testing.assert_array_equal(table[name][k], np.asarray(value), err_msg=name)


WRITER = """
import sys
sys.path.insert(0, {tests!r})
from test_output_energies import row, SPECIES
from ecsim.output.energies import EnergyFile
import time
file = EnergyFile({path!r}, species=SPECIES, attributes=dict(deck="x = 1", seed=7), flush_every={flush})
for step in range({steps}):
    file.append(row(step))
    print(step, flush=True)
    if step >= {fast}:
        time.sleep(0.02)
"""


def start_writer(path, flush: float, steps: int = 100_000, fast: int = 0) -> subprocess.Popen:
    code = WRITER.format(tests=os.path.dirname(__file__), path=str(path), flush=flush, steps=steps, fast=fast)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def wait_for(process: subprocess.Popen, step: int) -> None:
    for line in process.stdout:
        if int(line) >= step:
            return
    raise AssertionError("the writer ended early")


def test_rows_and_attributes_come_back(tmp_path):
    attributes = {"deck": "[grid]\ncells = [4]  # ω\n" * 5000, "seed": 3, **provenance()}
    with EnergyFile(tmp_path / "energies.h5", species=SPECIES, attributes=attributes) as file:
        for step in range(2500):
            file.append(row(step))
    table = read_energies(tmp_path)
    check(table, range(2500))
    assert table["species"] == SPECIES
    assert table["attributes"] == attributes
    assert {p.name for p in tmp_path.iterdir()} == {"energies.h5"}


def test_no_room_is_left_reserved(tmp_path):
    with EnergyFile(tmp_path / "energies.h5", species=SPECIES, attributes={}) as file:
        for step in range(5000):
            file.append(row(step))
    used = sum(np.asarray(column).nbytes for name, column in read_energies(tmp_path).items() if name in COLUMNS)
    assert (tmp_path / "energies.h5").stat().st_size < 1.3 * used + 50_000
    check(read_energies(tmp_path), range(5000))


def test_columns_carry_units_and_meaning(tmp_path):
    EnergyFile(tmp_path / "energies.h5", species=["e"], attributes={}).close()
    with h5py.File(tmp_path / "energies.h5") as file:
        assert set(file) == set(COLUMNS)
        assert all(file[name].attrs["meaning"] for name in COLUMNS)
        assert file["time"].attrs["unit"] == "1/ω_pi"
        assert file["kinetic"].shape == (0, 1)


def test_readable_from_another_process_while_written(tmp_path):
    path = tmp_path / "energies.h5"
    process = start_writer(path, flush=0.0)
    try:
        wait_for(process, 20)
        first = read_energies(path)
        wait_for(process, 40)
        second = read_energies(path)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    assert len(first["step"]) >= 20 and len(second["step"]) >= 40
    check(first, range(len(first["step"])))
    check(second, range(len(second["step"])))


@pytest.mark.parametrize("flush", [0.0, 0.2])
def test_complete_after_kill(tmp_path, flush):
    path = tmp_path / "energies.h5"
    process = start_writer(path, flush, fast=1500)
    wait_for(process, 1540)
    process.send_signal(signal.SIGKILL)
    last = max(int(line) for line in process.stdout.read().split() or ["1540"])
    process.wait()
    table = read_energies(path)
    check(table, range(len(table["step"])))
    lost = last + 1 - len(table["step"])
    assert lost <= 1 if flush == 0 else lost <= 0.2 / 0.02 + 2
    assert table["attributes"] == {"deck": "x = 1", "seed": 7}


def test_resumes_after_a_kill_without_duplicates(tmp_path):
    path = tmp_path / "energies.h5"
    process = start_writer(path, flush=0.0)
    wait_for(process, 25)
    process.kill()
    process.wait()
    with EnergyFile(path, species=SPECIES, attributes={"seed": 8}, resume_at=20) as file:
        for step in range(21, 30):
            file.append(row(step))
    check(read_energies(path), range(30))
    with pytest.raises(ValueError, match="species"):
        EnergyFile(path, species=["other"], attributes={}, resume_at=3)
    check(read_energies(path), range(30))


def test_a_vacuum_has_no_species(tmp_path):
    with EnergyFile(tmp_path / "energies.h5", species=[], attributes={}) as file:
        for step in range(3):
            file.append(row(step) | {"kinetic": []})
    table = read_energies(tmp_path)
    assert table["kinetic"].shape == (3, 0) and table["species"] == []
    assert table["step"].tolist() == [0, 1, 2]


def test_row_with_wrong_columns_is_refused(tmp_path):
    with EnergyFile(tmp_path / "e.h5", species=SPECIES, attributes={}) as file:
        wrong = row(1)
        wrong["elctric"] = wrong.pop("electric")
        with pytest.raises(ValueError, match=r"missing \['electric'\], unknown \['elctric'\]"):
            file.append(wrong)


def test_cost_of_a_row(tmp_path):
    with EnergyFile(tmp_path / "e.h5", species=SPECIES, attributes={}) as file:
        rows = [row(step) for step in range(4000)]
        start = time.process_time()
        for one in rows:
            file.append(one)
        seconds = (time.process_time() - start) / len(rows)
    assert seconds < 1e-4


FULL = """
import resource, signal, sys
sys.path.insert(0, {tests!r})
from test_output_energies import row, SPECIES
from ecsim.output.energies import EnergyFile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = EnergyFile({path!r}, species=SPECIES, attributes={{}}, flush_every=0.02)
resource.setrlimit(resource.RLIMIT_FSIZE, (2_500_000, 2_500_000))
try:
    for step in range(100_000):
        file.append(row(step))
except OSError as error:
    print(error)
    try:
        file.close()
    except OSError:
        pass
    sys.exit(3)
"""


def test_full_disk_stops_with_the_path_and_keeps_the_rows(tmp_path):
    path = tmp_path / "energies.h5"
    code = FULL.format(tests=os.path.dirname(__file__), path=str(path))
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 3, result.stderr
    assert str(path) in result.stdout and "File too large" in result.stdout
    table = read_energies(path)
    assert len(table["step"]) > 2048
    check(table, range(len(table["step"])))


def test_flushes_take_a_small_part_of_the_time(tmp_path, monkeypatch):
    """However slow they are."""
    clock = [0.0]
    monkeypatch.setattr("ecsim.output.series.time.monotonic", lambda: clock[0])
    with EnergyFile(tmp_path / "energies.h5", species=SPECIES, attributes={}) as file:
        extend, flushes = file._extend, []

        def slow(*arguments):
            flushes.append(clock[0])
            clock[0] += 0.05
            extend(*arguments)

        file._extend = slow
        for step in range(1000):
            clock[0] += 0.1
            file.append(row(step))
        assert 0.05 * len(flushes) < 0.006 * clock[0] and np.diff(flushes).max() < 11


@pytest.mark.parametrize("length", [0, 20, 3000, 20_000])
def test_a_file_that_is_cut_short_is_told_at_once(tmp_path, length):
    path = tmp_path / "energies.h5"
    with EnergyFile(path, species=SPECIES, attributes={}) as file:
        for step in range(30):
            file.append(row(step))
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(OSError, match="energies.h5 is not a readable time series of ecsim"):
        read_energies(path)
    with pytest.raises(OSError, match="energies.h5 is not a readable time series of ecsim"):
        EnergyFile(path, species=SPECIES, attributes={}, resume_at=20)


def resized(column: str, rows: int):
    return lambda file: file[column].resize(rows, axis=0)


@pytest.mark.parametrize("change", [
    lambda file: file.create_group("step"), lambda file: file.create_dataset("step", data=3.0),
    lambda file: file.create_dataset("step", data=h5py.Empty("f8")), resized("time", 3), resized("step", 40)],
    ids=["a group", "one number", "nothing", "a short column", "too many steps"])
def test_what_only_looks_like_a_time_series_is_refused(tmp_path, change):
    path = tmp_path / "energies.h5"
    with EnergyFile(path, species=SPECIES, attributes={}) as energies:
        for step in range(5):
            energies.append(row(step))
    with h5py.File(path, "a") as file:
        try:
            change(file)
        except ValueError:
            del file["step"]
            change(file)
    with pytest.raises(OSError, match="energies.h5 is not a readable time series of ecsim"):
        read_energies(path)


KILLED = """
import os, sys
sys.path.insert(0, {tests!r})
from test_output_energies import row, SPECIES
from ecsim.output.energies import EnergyFile
file = EnergyFile({path!r}, species=SPECIES, attributes={{"deck": "x = 1"}})
for step in range(30):
    file.append(row(step))
file.flush()
os.kill(os.getpid(), 9)
"""
READER = """
import sys, time
from ecsim.output.energies import read_energies
from ecsim.reader import Series
from pathlib import Path
for path in map(Path, sys.argv[1:]):
    for read in (read_energies, lambda path: Series(path)["step"], lambda path: Series(path).attributes):
        begun = time.monotonic()
        try:
            read(path)
        except OSError as error:
            said = f"{path} is not a readable time series of ecsim: damaged, or its run is just writing"
            assert said in str(error), error
            print(path.name, flush=True)
        assert time.monotonic() - begun < 5
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> bytes:
    """The file of a writer that was killed."""
    path = tmp_path_factory.mktemp("killed") / "energies.h5"
    subprocess.run([sys.executable, "-c", KILLED.format(tests=os.path.dirname(__file__), path=str(path))])
    return path.read_bytes()


def test_a_damaged_file_of_a_killed_run_hangs_no_reader(tmp_path, killed):
    """HDF5 itself waits without end for the rest of a file that is marked as being written, and loops in a bad heap."""
    assert killed[11] == 5
    used, random = len(killed.rstrip(b"\0")), np.random.default_rng(1)
    damaged = {"cut": killed[:20_000], "superblock": killed[:20] + b"\1" + killed[21:],
               "root": killed[:52] + bytes(100) + killed[152:]}
    heap = killed.index(b"GCOL") + 16
    damaged["heap"] = killed[:heap] + bytes(16) + killed[heap + 16:]
    for k in range(20):
        data = bytearray(killed)
        for place in random.integers(12, used, 64):
            data[place] ^= 1 << random.integers(8)
        damaged[f"random_{k}"] = bytes(data)
    for name, data in damaged.items():
        (tmp_path / name).write_bytes(data)
    result = subprocess.run([sys.executable, "-c", READER, *(tmp_path / name for name in damaged)],
                            capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert {"cut", "superblock", "root", "heap"} <= set(result.stdout.split())


def test_a_damaged_file_of_a_killed_run_stops_the_restart(tmp_path, killed):
    path = tmp_path / "energies.h5"
    path.write_bytes(killed)
    EnergyFile(path, species=SPECIES, attributes={}, resume_at=20).close()
    assert len(read_energies(path)["step"]) == 21
    path.write_bytes(killed[:20_000])
    with pytest.raises(OSError, match="energies.h5 is not .*: damaged, or its .*; move it away to go on"):
        EnergyFile(path, species=SPECIES, attributes={}, resume_at=20)


def test_what_is_just_being_written_is_read_again(tmp_path, killed, monkeypatch):
    """A look in the middle of a write sees damage, which is gone at the next look."""
    path, states = tmp_path / "energies.h5", [killed[:52] + bytes(100) + killed[152:], killed]
    path.write_bytes(states[0])
    pauses = []

    def written(seconds):
        pauses.append(seconds)
        path.write_bytes(states[len(pauses) > 2])

    monkeypatch.setattr("ecsim.output.series.time.sleep", written)
    check(read_energies(path), range(30))
    assert len(pauses) == 3


def test_unwritable_place_is_one_clear_error(tmp_path):
    with pytest.raises(OSError, match="cannot create the time series .*nowhere/energies.h5: No such file"):
        EnergyFile(tmp_path / "nowhere" / "energies.h5", species=["e"], attributes={})
    with pytest.raises(FileNotFoundError, match="no time series"):
        read_energies(tmp_path)
    (tmp_path / "energies.h5").write_text("not HDF5")
    with pytest.raises(OSError, match="not a readable time series"):
        read_energies(tmp_path)


def test_git_revision_only_of_the_source_tree_itself(tmp_path):
    assert git_revision(tmp_path) == "unknown"
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "inside").mkdir()
    assert git_revision(tmp_path / "inside") == "unknown"
