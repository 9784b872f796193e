"""A disk that fills up while a run writes to it: one message, exit code 3, and every file that is there can be read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ecsim.output.checkpoint import find_checkpoint
from ecsim.reader import open_run

DECK = """
[grid]
cells = [16, 12]
size = [1.6, 1.2]
[time]
dt = 0.2
steps = 400
[problem]
name = "thermal"
[[species]]
name = "ions"
charge_to_mass = 1.0
particles_per_cell = 16
thermal_velocity = 0.02
[[species]]
name = "electrons"
charge_to_mass = -25.0
particles_per_cell = 16
thermal_velocity = 0.1
[output]
fields_every = 10
[checkpoint]
every = 20
[[diagnostic]]
kind = "cut"
along = ["x", "y"]
every = 1
"""


@pytest.fixture(params=["5m", "6m"])
def small_disk(request, tmp_path):
    """A file system in memory of a few megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    command = ["mount", "-t", "tmpfs", "-o", f"size={request.param}", "tmpfs", place]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_full_disk_ends_the_run_cleanly(small_disk, tmp_path, ranks):
    deck = tmp_path / "deck.toml"
    deck.write_text(DECK, encoding="utf-8")
    command = [sys.executable, "-m", "ecsim", "run", deck, "-o", small_disk / "run", "--device", "cpu", "--quiet"]
    if ranks > 1:
        mpiexec = Path(sys.executable).with_name("mpiexec")
        if not mpiexec.exists():
            pytest.skip("the extra 'test' brings an mpiexec, which is not there")
        command = [mpiexec, "-n", str(ranks), *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 3, done.stderr
    message, = (line for line in done.stderr.splitlines() if "ecsim: " in line)
    assert ranks > 1 or message == done.stderr.strip()
    assert "Traceback" not in done.stderr
    assert "the run failed: cannot write the" in message and "No space left on device" in message
    run = open_run(small_disk / "run")
    assert len(run.energies) > 20 and np.isfinite(run.energies["total"]).all()
    assert len(run.series("cut")) > 20 and run.series("cut")["E"].any(axis=(1, 2, 3))[1:].all()
    assert len(list(run.fields())) >= 2
    assert find_checkpoint(small_disk / "run")[0].step >= 20
    assert not list((small_disk / "run").rglob(".*.part"))
