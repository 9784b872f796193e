"""How a run is stopped from outside: what SIGTERM and Ctrl-C leave behind at every stage, and what can follow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

from ecsim.cli import main
from ecsim.output.checkpoint import find_checkpoint, list_checkpoints
from ecsim.output.energies import read_energies
from ecsim.output.snapshots import list_snapshots
from ecsim.simulation import Simulation

SMALL = ["--device", "cpu", "--threads", "1", "--set", "grid.cells=[6,5]", "--set", "species.ions.particles_per_cell=4"]
SLOW = """
import sys, time
from importlib import import_module

def slow(*arguments, **more):
    print("here", flush=True)
    time.sleep(60)

setattr(import_module({module!r}), {name!r}, slow)
from ecsim.cli import main
sys.exit(main(sys.argv[1:]))
"""


def started(*arguments, code=None) -> subprocess.Popen:
    """A command in a process of its own; ``code`` in place of ``-m ecsim``."""
    program = ["-m", "ecsim"] if code is None else ["-c", code]
    return subprocess.Popen([sys.executable, *program, *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})


def wait_for(process: subprocess.Popen, beginning: str) -> None:
    """Read what it prints until a line begins so."""
    assert any(line.startswith(beginning) for line in process.stdout), process.communicate()


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 4), (signal.SIGINT, 130)])
@pytest.mark.parametrize("module, name", [("ecsim.builder", "load"), ("ecsim.output.series", "reserve"),
                                          ("ecsim.diagnostics.fields", "write_meshes")])
def test_a_start_that_is_stopped_leaves_nothing(tmp_path, number, code, module, name):
    """While particles are loaded, before the first row of the ledger, before the first snapshot."""
    run = ["run", "thermal", *SMALL, "-o", tmp_path / "new" / "run", "--set", "output.fields_every=1"]
    process = started(*run, code=SLOW.format(module=module, name=name))
    wait_for(process, "here")
    process.send_signal(number)
    _, message = process.communicate(timeout=60)
    assert process.returncode == code
    assert message == "ecsim: stopped before the first cycle, as asked; the same command starts again\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("module, name", [("ecsim.runner", "opening"), ("ecsim.runner", "Progress"),
                                          ("ecsim.simulation", "advance")])
def test_two_interrupts_before_the_end_of_the_first_cycle_leave_nothing(tmp_path, module, name):
    """While the run is announced, just before its first cycle, and in it."""
    process = started("run", "thermal", *SMALL, "-o", tmp_path / "new" / "run",
                      code=SLOW.format(module=module, name=name))
    wait_for(process, "here")
    process.send_signal(signal.SIGINT)
    assert "stopping after this cycle" in process.stderr.readline() + process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 130
    assert message == "ecsim: stopped before the first cycle, as asked; the same command starts again\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 4), (signal.SIGINT, 130)])
def test_a_signal_of_which_the_exception_is_lost_ends_the_start_all_the_same(tmp_path, monkeypatch, capsys, number,
                                                                             code):
    """Python drops what is raised in a callback, as those of the compiler are."""
    make = Simulation.from_deck

    def interrupted(*arguments, **more):
        try:
            os.kill(os.getpid(), number)
            signal.pthread_sigmask(signal.SIG_BLOCK, [])      # the handler has run by now
        except KeyboardInterrupt:
            pass
        return make(*arguments, **more)

    monkeypatch.setattr(Simulation, "from_deck", interrupted)
    assert main(["run", "thermal", *SMALL, "-o", str(tmp_path / "run"), "--quiet"]) == code
    assert "stopped before the first cycle, as asked" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_start_keeps_an_earlier_run(tmp_path):
    run = ["run", "thermal", *SMALL, "-o", str(tmp_path), "--set", "checkpoint.every=2", "--quiet"]
    assert main([*run, "--steps", "4"]) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for more in (["--overwrite"], ["--restart", tmp_path / "checkpoints" / "step_000002", "--steps", "9"]):
        process = started(*run, *more, code=SLOW.format(module="ecsim.builder", name="_plasma"))
        wait_for(process, "here")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 4
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_start_that_fails_leaves_nothing(tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError("no room")

    monkeypatch.setattr("ecsim.diagnostics.fields.write_meshes", full)
    run = ["run", "thermal", *SMALL, "-o", str(tmp_path / "run"), "--set", "output.fields_every=1", "--steps", "1"]
    assert main(run) == 3 and "no room" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    assert main(run) == 0 and len(list_snapshots(tmp_path / "run")) == 2


@pytest.mark.parametrize("number, code, how", [(signal.SIGTERM, 4, "stopped"), (signal.SIGINT, 130, "interrupted")])
def test_a_signal_ends_the_run_after_its_cycle_with_a_checkpoint(tmp_path, number, code, how):
    process = started("run", "thermal", *SMALL, "--steps", "1000000", "-o", tmp_path)
    wait_for(process, "step ")
    process.send_signal(number)
    _, message = process.communicate(timeout=60)
    assert process.returncode == code and "Traceback" not in message
    steps = read_energies(tmp_path)["step"]
    assert steps.tolist() == list(range(len(steps))) and find_checkpoint(tmp_path)[0].step == steps[-1]
    assert message.endswith(f"{how} after step {steps[-1]} of 1000000, as asked; go on with `ecsim run --restart "
                            f"{tmp_path}`\n")
    assert ("Ctrl-C again stops at once" in message) == (number == signal.SIGINT)


def test_a_second_interrupt_stops_at_once(tmp_path):
    slow = SLOW.format(module="ecsim.resume", name="write_checkpoint")
    process = started("run", "thermal", *SMALL, "--steps", "1000000", "-o", tmp_path, code=slow)
    wait_for(process, "step ")
    process.send_signal(signal.SIGINT)
    wait_for(process, "here")
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=60)
    steps = read_energies(tmp_path)["step"]
    assert process.returncode == 130 and f"interrupted after step {steps[-1]}; what was written is kept" in message
    assert list_checkpoints(tmp_path) == []


def test_a_restart_with_nothing_left_to_do(tmp_path, capsys):
    run = ["run", "thermal", *SMALL, "-o", str(tmp_path), "--set", "checkpoint.every=2", "--steps", "4"]
    assert main([*run, "--quiet"]) == 0
    before = {path: path.read_bytes() for path in Path(tmp_path).rglob("*") if path.is_file()}
    for arguments in (["--restart", str(tmp_path)], ["--restart", str(tmp_path), "--steps", "4"],
                      [*run[1:], "--restart", "latest"]):
        assert main(["run", *arguments]) == 0
        assert capsys.readouterr().out == f"nothing to do: all 4 steps of {tmp_path} are done; more with --steps\n"
    assert main(["run", "--restart", str(tmp_path), "--steps", "3"]) == 2
    assert f"{tmp_path} is at step 4, past the 3 steps asked for" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in Path(tmp_path).rglob("*") if path.is_file()} == before
    (tmp_path / "checkpoints" / "step_000004" / "manifest.json").write_text("{")
    assert main(["run", "--restart", str(tmp_path), "--steps", "3"]) == 0
    assert read_energies(tmp_path)["step"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [RuntimeError, ValueError, OSError])
@pytest.mark.parametrize("call", ["resize", "flush", "close"])
def test_a_fault_that_hdf5_finds_ends_the_run_with_one_sentence(tmp_path, monkeypatch, capsys, kind, call):
    """While rows are written, or when the file is closed."""
    owner = h5py.File if call == "close" else h5py.Dataset
    original, calls = getattr(owner, call), []

    def faulty(self, *arguments, **more):
        name = self.filename if call == "close" else self.file.filename
        if name.endswith("energies.h5.part") and not calls:
            calls.append(original(self, *arguments, **more))
            raise kind("Can't write data (disk at fault)\nmore lines")
        return original(self, *arguments, **more)

    simulate = Simulation.run

    def later(self, *arguments, **more):
        monkeypatch.setattr(owner, call, faulty)
        return simulate(self, *arguments, **more)

    monkeypatch.setattr(Simulation, "run", later)
    assert main(["run", "thermal", *SMALL, "-o", str(tmp_path), "--steps", "3", "--quiet"]) == 3
    message = capsys.readouterr().err
    verb = "close" if call == "close" else "write"
    assert calls and message == (f"ecsim: the run failed: cannot {verb} the time series {tmp_path / 'energies.h5'}: "
                                 f"Can't write data (disk at fault); what was written is kept in {tmp_path}\n")
