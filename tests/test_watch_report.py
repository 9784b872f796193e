"""What a run shows while it goes on and afterwards, made from its files alone."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from restart_cases import DECK, run

from ecsim.output.checkpoint import FOLDER
from ecsim.output.timings import read_timings
from ecsim.plot import PlotError, plot_comparison, plot_run
from ecsim.reader import ReadError, open_run
from ecsim.run_report import page, write_report
from ecsim.simulation import Simulation
from ecsim.watch import sparkline, view

DIAGNOSTICS = [
    {"kind": "probe", "every": 1, "position": [0.3, 0.28], "moments": True},
    {"kind": "spectrum", "every": 1, "record": "E", "along": ["x"]},
    {"kind": "spectrum", "name": "both", "every": 2, "record": "B", "along": ["x", "y"]},
    {"kind": "histogram", "every": 2, "species": "electrons", "axes": ["vx", "vy"], "low": [-2, -2], "high": [2, 2],
     "bins": [8, 8]},
    {"kind": "histogram", "name": "line", "every": 2, "species": "ions", "axes": ["speed"], "low": [0], "high": [1],
     "bins": [9]},
    {"kind": "health", "every": 1},
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A run in two stretches, with a diagnostic for every kind of figure."""
    directory = tmp_path_factory.mktemp("watch") / "run"
    more = {"checkpoint.every": 4, "fields_every": 2}
    run(directory, 4, DIAGNOSTICS, **more)
    run(directory, 8, DIAGNOSTICS, restart_from=directory, **more)
    return directory


def test_timings_tell_both_stretches(directory):
    first, second = read_timings(directory)
    assert (first["from_step"], first["to_step"], second["from_step"], second["to_step"]) == (0, 4, 4, 8)
    for stretch in (first, second):
        assert stretch["particles"] == 360 and "CPU" in stretch["device"]
        assert 0 < stretch["seconds"]["assembly"] < stretch["wall_seconds"]


def test_watch_shows_the_last_row(directory):
    text, done, _ = view(open_run(directory))
    ledger = open_run(directory).energies
    assert done and "step 8 of 8  (100.0 %)   t = 1.6" in text and "thermal, finished" in text
    assert f"{ledger['total'][-1]:.5e}" in text and f"worst {np.abs(ledger['drift']).max():.1e}" in text
    assert re.search(r"! electrons +fastest [1-9]", text), "the fast electrons of this run cross more than a cell"
    assert "newest checkpoint    step_000008" in text
    said = subprocess.run([sys.executable, "-m", "ecsim", "watch", str(directory), "--once"], capture_output=True,
                          text=True)
    assert said.returncode == 0 and "thermal, finished" in said.stdout
    nothing = subprocess.run([sys.executable, "-m", "ecsim", "watch", str(directory.parent)], capture_output=True,
                             text=True)
    assert nothing.returncode == 2 and "is not the directory of a run" in nothing.stderr


def test_watch_knows_the_end_of_a_run(tmp_path):
    """Also where the last step has no row; and a run that was stopped, or goes on."""
    run(tmp_path / "rare", 7, energies_every=3)
    text, done, _ = view(open_run(tmp_path / "rare"))
    assert done and "thermal, finished" in text and "step 6 of 7" in text
    simulation = Simulation.from_deck(DECK, output=tmp_path / "run")
    simulation.step(3)
    simulation.recorder.flush()
    text, done, _ = view(open_run(tmp_path / "run"))
    assert not done and "thermal, running" in text and "step 3 of 12" in text
    simulation.close()
    text, done, _ = view(open_run(tmp_path / "run"))
    assert not done and "thermal, stopped" in text


def test_a_run_without_rows(tmp_path):
    pytest.importorskip("matplotlib")
    run(tmp_path / "whole", 2, **{"checkpoint.every": 2})
    run(tmp_path / "run", 3, restart_from=tmp_path / "whole", energies_every=10)
    assert view(open_run(tmp_path / "run"))[0].endswith("run: no rows yet")
    with pytest.raises(ReadError, match="has no rows in its energies.h5 yet"):
        write_report(tmp_path / "run")
    assert [path.name for path in plot_run(tmp_path / "run")] == ["stages.png"]


@pytest.mark.parametrize("text", ["", "{", "[1, {}]", "{}", "null"])
def test_timings_that_are_none(directory, tmp_path, text):
    shutil.copytree(directory, tmp_path / "run", ignore=shutil.ignore_patterns("diagnostics", "fields", FOLDER))
    (tmp_path / "run" / "timings.json").write_text(text)
    assert read_timings(tmp_path / "run") == []
    text = page(open_run(tmp_path / "run"))
    assert "Deck" in text and text.count("<img") == 1 and 'alt="energy"' in text


MANY = [{"name": f"s{k}", "charge_to_mass": (-1.0)**k, "particles_per_cell": 2, "thermal_velocity": 0.1}
        for k in range(14)]
VACUUM = {"species": [], "problem": {"name": "vacuum_wave", "mode": [1, 0]}}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("change, steps", [
    ({}, 1), ({"species": MANY}, 2), (VACUUM, 2), ({"grid": {"cells": [1], "size": [0.5]}}, 2),
    ({"grid": {"cells": [1, 4, 1], "size": [0.5, 2.0, 0.5]}}, 2),
], ids=["one row", "many species", "vacuum", "one cell", "a line in 3D"])
def test_odd_runs_are_drawn_without_a_word(tmp_path, change, steps):
    pytest.importorskip("matplotlib")
    deck = {**DECK, **change}
    d, names = len(deck["grid"]["cells"]), [s["name"] for s in deck["species"]]
    deck["diagnostic"] = [
        {"kind": "probe", "every": 1, "position": [0.1] * d, "moments": True}, {"kind": "health", "every": 1},
        {"kind": "spectrum", "every": 1, "record": "E", "along": ["x"]},
        *({"kind": "histogram", "name": name, "every": 9, "species": name, "axes": ["vx"], "low": [9], "high": [10],
           "bins": [3]} for name in names[:2]),
        *([{"kind": "reconnection", "every": 1}] if d == 2 else [])]
    Simulation.from_deck(deck, output=tmp_path, steps=steps, fields_every=1).run()
    assert write_report(tmp_path).read_text(encoding="utf-8").count("<img") > 4


def test_sparkline_spans_its_values():
    assert sparkline(np.arange(8.0)) == "▁▂▃▄▅▆▇█"
    assert sparkline(np.ones(3)) == "▁▁▁" and sparkline(np.array([1.0, np.nan])) == "not finite"
    assert len(sparkline(np.arange(500.0))) == 32


def test_every_kind_is_drawn(directory, tmp_path):
    pytest.importorskip("matplotlib")
    names = {path.name for path in plot_run(directory, output=tmp_path)}
    assert names == {"energy.png", "fields_000008.png", "probe.png", "spectrum.png", "spectrum_both.png",
                     "histogram.png",
                     "histogram_line.png", "health.png", "stages.png"}
    assert all((tmp_path / name).stat().st_size > 5000 for name in names)
    with pytest.raises(PlotError, match="no rows of a .*diagnostic.* of kind reconnection|no current sheets"):
        plot_run(directory, ["reconnection"], tmp_path)


def test_a_film_has_a_frame_a_snapshot(directory, tmp_path):
    pytest.importorskip("matplotlib")
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    film = plot_run(directory, ["fields"], tmp_path, movie=True)[-1]
    frames = ffmpeg.read_frames(str(film))
    size = next(frames)["size"]
    assert sum(1 for _ in frames) == 5 and size[0] > 900 and size[1] > 300


def test_runs_are_compared(directory, tmp_path):
    pytest.importorskip("matplotlib")
    assert plot_comparison([directory, directory], tmp_path).stat().st_size > 5000
    with pytest.raises(PlotError, match="no run directory"):
        plot_comparison([directory, tmp_path / "none"], tmp_path)


def test_the_report_needs_no_other_file(directory, tmp_path):
    pytest.importorskip("matplotlib")
    text = write_report(directory, tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count("data:image/png;base64,") == 9
    assert not re.search(r'(src|href)="(?!data:)', text)
    for part in ("[problem]", "8 of 8", "worst relative drift", "particle-steps/s", "git hash", "steps 4 to 8"):
        assert part in text
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
