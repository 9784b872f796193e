"""The command line from outside: what it prints, what it refuses, what it leaves on disk, and its exit codes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ecsim.cli import main
from ecsim.deck import load_deck, shipped_decks
from ecsim.output.energies import read_energies
from ecsim.output.hold import Hold

ROOT = Path(__file__).resolve().parents[1]
QUICK = ["--device", "cpu", "--threads", "1", "--steps", "3"]
DECK = """\
[grid]
cells = [8]
size = [8.0]
[time]
dt = 0.5
steps = 4
[problem]
name = "vacuum_wave"
mode = [1]
"""


@pytest.fixture
def deck(tmp_path, monkeypatch) -> Path:
    """A small deck in an otherwise empty working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "wave.toml"
    path.write_text(DECK)
    return path


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def refused(capsys, *arguments: str, code: int = 2) -> str:
    """Runs a command that must fail; its one message."""
    assert main([str(argument) for argument in arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("ecsim: ") and captured.err.count("ecsim: ") == 1
    assert "Traceback" not in captured.err
    return captured.err


def ecsim(*arguments: str, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "ecsim", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=options.pop("cwd", ROOT), **options)


def test_run_writes_its_results_and_tells_what_they_cost(deck, capsys):
    assert main(["run", "wave.toml", *QUICK]) == 0
    out = capsys.readouterr().out
    for part in ("vacuum_wave: 8 cells", "CPU", "step 3/3", "phase", "share", "ns per particle-step", "solve",
                 "GMRES iterations", "worst relative energy drift", "results in runs/wave"):  # fmt: skip
        assert part in out
    assert files(deck.parent) == {"wave.toml", "runs/wave/deck.toml", "runs/wave/energies.h5",
                                  "runs/wave/timings.json"}
    assert read_energies("runs/wave")["step"].tolist() == [0, 1, 2, 3]


def test_the_stored_deck_repeats_the_run(deck):
    assert main(["run", "wave.toml", *QUICK, "--set", "time.dt=0.25", "-o", "first", "--quiet"]) == 0
    assert main(["run", "first/deck.toml", "-o", "second", "--quiet"]) == 0
    first, second = read_energies("first"), read_energies("second")
    assert first["total"].tolist() == second["total"].tolist() and first["time"][-1] == 0.75
    assert load_deck("first/deck.toml") == load_deck("second/deck.toml")


def test_quiet_prints_nothing(deck, capsys):
    assert main(["run", "wave.toml", *QUICK, "--quiet"]) == 0
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_run_directory_named_in_the_deck_or_the_option(deck):
    deck.write_text(DECK + '[output]\ndirectory = "from_deck"\n')
    assert main(["run", "wave.toml", *QUICK, "--quiet"]) == 0
    assert main(["run", "wave.toml", *QUICK, "--quiet", "-o", "from_option"]) == 0
    assert Path("from_deck/energies.h5").is_file() and Path("from_option/energies.h5").is_file()


def test_an_existing_run_is_refused_and_kept(deck, capsys):
    assert main(["run", "wave.toml", *QUICK, "--quiet"]) == 0
    before = {name: (deck.parent / name).read_bytes() for name in files(deck.parent)}
    assert "runs/wave exists" in refused(capsys, "run", "wave.toml", "--device", "cpu")
    assert {name: (deck.parent / name).read_bytes() for name in files(deck.parent)} == before


def test_overwrite_replaces_a_run_and_nothing_else(deck, capsys):
    assert main(["run", "wave.toml", *QUICK, "--quiet"]) == 0
    Path("runs/wave/notes.txt").write_text("mine")
    assert main(["run", "wave.toml", "--device", "cpu", "--steps", "2", "--quiet", "--overwrite"]) == 0
    assert read_energies("runs/wave")["step"].tolist() == [0, 1, 2]
    assert Path("runs/wave/notes.txt").read_text() == "mine"


def test_overwrite_never_touches_a_foreign_directory(deck, capsys):
    Path("results").mkdir()
    Path("results/thesis.tex").write_text("years of work")
    message = refused(capsys, "run", "wave.toml", "-o", "results", "--overwrite")
    assert "results" in message and "not made by ecsim" in message
    assert files(deck.parent) == {"wave.toml", "results/thesis.tex"}


def test_a_file_in_place_of_the_run_directory(deck, capsys):
    Path("taken").write_text("x")
    assert "taken" in refused(capsys, "run", "wave.toml", "-o", "taken", "--overwrite")
    assert Path("taken").read_text() == "x"


@pytest.mark.parametrize("arguments", [["--restart", "runs/wave", "--steps", "4"],
                                       ["wave.toml", "--overwrite"]])
def test_a_directory_that_another_run_is_writing_into(deck, capsys, arguments):
    assert main(["run", "wave.toml", *QUICK, "--quiet", "--set", "checkpoint.every=1"]) == 0
    before = {name: Path(name).read_bytes() for name in files(deck.parent)}
    hold = Hold()
    hold.take("runs/wave", overwrite=True)
    assert "another run is writing into runs/wave" in refused(capsys, "run", *QUICK, *arguments)
    assert before == {name: Path(name).read_bytes() for name in files(deck.parent)}
    hold.release()
    assert main(["run", *QUICK, *arguments, "--quiet"]) == 0


@pytest.mark.parametrize("name", ["a\0b", "a" * 5000, "dangling"])
def test_names_that_no_run_directory_can_have(deck, capsys, name):
    Path("dangling").symlink_to("nowhere")
    assert "run directory" in refused(capsys, "run", "wave.toml", "-o", name)
    assert files(deck.parent) == {"wave.toml"}


def test_a_restart_from_a_name_that_cannot_be_one(deck, capsys):
    refused(capsys, "run", "--restart", "a" * 5000)
    refused(capsys, "run", "wave.toml", "--restart", "a" * 5000)
    refused(capsys, "decks", "copy", "thermal", "a" * 5000)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--set", "time.theat=0.5"], ["time.theat = 0.5", "did you mean `theta`?"]),
        (["--set", 'time.dt="0.5"'], ['time.dt = "0.5"', "must be a number"]),
        (["--set", "time.theta=1.2"], ["time.theta = 1.2", "0.5 <= theta <= 1"]),
        (["--set", "grid.cells=[0]"], ["grid.cells[0] = 0", ">= 1"]),
        (["--steps", "-4"], ["time.steps = -4", ">= 1"]),
        (["--steps", "many"], ['time.steps = "many"', "an integer"]),
        (["--threads", "-1"], ["backend.threads = -1", "0 <= threads"]),
        (["--set", "nonsense"], ["section.key=value"]),
        (["--set", "time.theta=2", "--steps", "0"], ["2 faults", "time.theta = 2", "time.steps = 0"]),
        (["--device", "cpu", "--set", "assembly.method=mma"], ["assembly.method", "device is cpu"]),
    ],
)
@pytest.mark.parametrize("command", ["run", "check"])
def test_bad_decks_are_refused_before_anything_happens(deck, capsys, command, arguments, parts):
    message = refused(capsys, command, "wave.toml", *arguments)
    assert all(part in message for part in parts), message
    assert files(deck.parent) == {"wave.toml"}


@pytest.mark.parametrize(
    ("name", "part"),
    [("none.toml", "no such deck"), (".", "is a directory"), ("vacuum_wav", "did you mean `vacuum_wave`?")],
)
def test_decks_that_are_no_files(deck, capsys, name, part):
    assert part in refused(capsys, "run", name)
    assert files(deck.parent) == {"wave.toml"}


def test_a_run_that_cannot_fit_is_refused(deck, capsys):
    message = refused(capsys, "run", "wave.toml", "--device", "cpu", "--set", "grid.cells=[1000000000000]")
    assert "memory" in message and "PiB" in message and "ecsim check" in message
    assert files(deck.parent) == {"wave.toml"}


def test_cuda_that_is_missing_is_an_error(deck, capsys, monkeypatch):
    from ecsim.backend import BackendError

    def no_gpu(device, threads=0, **_):
        raise BackendError(f"no {device} here")

    monkeypatch.setattr("ecsim.runner.select", no_gpu)
    assert "no cuda here" in refused(capsys, "run", "wave.toml", "--device", "cuda")
    assert files(deck.parent) == {"wave.toml"}


def test_a_method_that_the_taken_device_lacks_is_refused(deck, capsys, monkeypatch):
    from ecsim.backend import select

    monkeypatch.setattr("ecsim.runner.select", lambda device, threads=0, **_: select("cpu", threads))
    message = refused(capsys, "run", "wave.toml", "--device", "auto", "--set", "assembly.method=mma")
    assert "assembly.method" in message and "device is cpu" in message
    assert files(deck.parent) == {"wave.toml"}


def test_a_failed_solve_stops_the_run_and_keeps_what_was_written(deck, capsys):
    changes = ["--set", "solver.max_iterations=2", "--set", "grid.cells=[8, 8]"]
    assert main(["run", "thermal", "--device", "cpu", "--quiet", *changes]) == 3
    message = capsys.readouterr().err
    assert "the run failed: cycle 1" in message and "residual" in message and "kept in runs/thermal" in message
    assert read_energies("runs/thermal")["step"].tolist() == [0]


@pytest.mark.parametrize(("change", "part"), [
    ("species.electrons.thermal_velocity=1e50", "cycle 1"),
    ("time.dt=1e50", "cycle 1"),
    ("species.electrons.charge_to_mass=-5e-324", "not finite at the start"),
])
def test_overflow_stops_the_run(deck, change, part):
    """With one message; there is nothing to keep."""
    done = ecsim("run", "thermal", "--device", "cpu", "--quiet", "--set", "grid.cells=[8, 8]", "--set", change,
                 "-o", str(deck.parent / "run"))
    assert done.returncode == 3 and part in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert "cycle 1" in done.stderr or not (deck.parent / "run").exists()


@pytest.mark.parametrize("change", ["species.electrons.charge_to_mass=-1e300", "time.dt=1e300"])
def test_absurd_numbers_are_refused(deck, capsys, change):
    assert "1e+50" in refused(capsys, "run", "thermal", "--device", "cpu", "--set", change)


def test_a_number_that_is_not_finite_stops_the_run(deck, capsys, monkeypatch):
    from ecsim.simulation import advance

    def failing(plasma, *arguments):
        if plasma.step == 2:
            raise FloatingPointError("species 'ions' is not finite after cycle 3")
        advance(plasma, *arguments)

    monkeypatch.setattr("ecsim.simulation.advance", failing)
    assert main(["run", "wave.toml", "--device", "cpu", "--quiet"]) == 3
    assert "not finite after cycle 3" in capsys.readouterr().err
    assert read_energies("runs/wave")["step"].tolist() == [0, 1, 2]


def test_check_prints_the_plan_and_writes_nothing(deck, capsys):
    assert main(["check", "wave.toml", "--set", "time.dt=2"]) == 0
    out = capsys.readouterr().out
    assert "4 steps of 2" in out and "c Δt/Δx" in out and "memory on cpu" in out
    assert files(deck.parent) == {"wave.toml"}


@pytest.mark.parametrize("name", sorted(shipped_decks()))
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_shipped_deck_has_a_plan_without_warnings(name, device, capsys):
    assert main(["check", name, "--device", device]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("! ") and "than there is here" not in line] == []


def test_decks_lists_them_all(capsys):
    for command in (["decks"], ["decks", "list"]):
        assert main(command) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines] == sorted(shipped_decks())
        assert all(len(line.split()) > 3 for line in lines)


def test_decks_copy_never_overwrites(deck, capsys):
    assert main(["decks", "copy", "vacuum_wave"]) == 0
    assert "vacuum_wave.toml" in capsys.readouterr().out
    assert load_deck("vacuum_wave.toml") == load_deck("vacuum_wave")
    Path("vacuum_wave.toml").write_text("edited")
    assert "exists" in refused(capsys, "decks", "copy", "vacuum_wave")
    assert Path("vacuum_wave.toml").read_text() == "edited"
    assert main(["decks", "copy", "vacuum_wave.toml", "mine.toml"]) == 0
    assert Path("mine.toml").is_file()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [(["langmiur"], "did you mean `langmuir`?"), (["langmuir", "no/such/place.toml"], "cannot write")],
)
def test_decks_copy_refuses_clearly(deck, capsys, arguments, part):
    assert part in refused(capsys, "decks", "copy", *arguments)
    assert files(deck.parent) == {"wave.toml"}


def test_plot_draws_the_figures_of_a_run(deck, capsys):
    pytest.importorskip("matplotlib")
    assert main(["run", "wave.toml", *QUICK, "--quiet"]) == 0
    assert main(["plot", "runs/wave", "--kind", "energy"]) == 0
    figures = capsys.readouterr().out.split()
    assert figures and all(Path(figure).stat().st_size > 1000 for figure in figures)


def test_plot_of_no_run(deck, capsys):
    assert "nowhere" in refused(capsys, "plot", "nowhere")


def test_info_names_versions_and_devices(capsys):
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    for name in ("ecsim", "python", "numpy", "numba", "h5py", "cupy", "mpi4py", "processor", "cpu", "cuda"):
        assert any(line.startswith(name) for line in out.splitlines())
    assert "thread" in out


@pytest.mark.parametrize("arguments", [
    [], ["runn"], ["run"], ["check", "thermal", "--device", "gpu"], ["run", "thermal", "--max-minutes", "nan"],
    ["run", "thermal", "--max-minutes", "-1"], ["watch", "somewhere", "--every", "inf"],
])
def test_wrong_usage_exits_with_two(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: ecsim" in capsys.readouterr().err


def processor_seconds() -> float:
    """Of all child processes so far, whatever else keeps the machine busy."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_the_first_compilation_is_announced_and_a_later_start_is_quick(tmp_path):
    """Without a cache the run says that it compiles; with one it says nothing, and takes at most 3 s of a processor."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    arguments = ["run", "two_stream", *QUICK]
    first = ecsim(*arguments, "-o", str(tmp_path / "first"), env=environment)
    assert first.returncode == 0 and first.stdout.startswith("compiling kernels for this machine")
    seconds = []
    for k in range(3):
        begin = processor_seconds()
        later = ecsim(*arguments, "-o", str(tmp_path / f"later{k}"), env=environment)
        seconds.append(processor_seconds() - begin)
        assert later.returncode == 0 and "compiling" not in later.stdout
    assert min(seconds) < 3.0


@pytest.mark.parametrize("arguments", [["--help"], ["check", "double_harris"], ["decks"]])
def test_light_commands_import_nothing_heavy(arguments):
    code = (
        "import sys; from ecsim.cli import main\n"
        f"try: main({arguments!r})\nexcept SystemExit: pass\n"
        "print('heavy:', [name for name in ('numba', 'matplotlib', 'cupy', 'scipy') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert result.returncode == 0 and result.stdout.splitlines()[-1] == "heavy: []", result.stdout + result.stderr


def test_output_into_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m ecsim check double_harris | head -n 1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert result.stdout.startswith("deck") and result.stderr == ""


def test_version():
    result = ecsim("--version")
    assert result.returncode == 0 and result.stdout.split()[0] == "ecsim"
