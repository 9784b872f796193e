"""Small runs in 1D, 2D and 3D with openPMD files, and what the official validator says of such files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from restart_cases import DECK

from ecsim.simulation import Simulation

DENSITY = 1e6
CELLS = {"1D": (7,), "2D": (4, 3), "3D": (3, 4, 5)}


def small_run(directory, cells, shape="cic") -> Simulation:
    """Two cycles with fields and particles each step; the last species has no particles in the files."""
    deck = {
        **DECK, "grid": {"cells": list(cells), "size": [0.2 * n for n in cells], "shape": shape},
        "time": {"dt": 0.2, "steps": 2}, "units": {"density": DENSITY}, "output": {"author": "A. Person <a@b.org>"},
        "diagnostic": [
            {"kind": "fields", "every": 1, "precision": "float64"},
            {"kind": "particles", "every": 1, "precision": "float64"},
            {"kind": "particles", "name": "nobody", "every": 2, "region": [0.0, 1e-12] * len(cells)},
        ],
    }
    simulation = Simulation.from_deck(deck, output=directory)
    simulation.run()
    return simulation


def files(directory):
    return [directory / "fields" / "fields_000002.h5", directory / "diagnostics" / "particles" / "particles_000002.h5",
            directory / "diagnostics" / "nobody" / "nobody_000002.h5"]


def assert_valid(path) -> None:
    """The validator finds no error and no warning."""
    tool = Path(sys.executable).with_name("openPMD_check_h5")
    said = subprocess.run([tool, "-i", path, "--EDPIC"], capture_output=True, text=True, timeout=120)
    assert "Result: 0 Errors and 0 Warnings." in said.stdout, said.stdout + said.stderr
