"""The package finds its decks and kernels, says one version, and starts without what it need not load."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ecsim
from ecsim.deck import load_deck, shipped_decks

ROOT = Path(__file__).parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_version_is_that_of_the_project():
    assert f'version = "{ecsim.__version__}"' in PYPROJECT


@pytest.mark.parametrize("deck", shipped_decks())
def test_shipped_decks_are_valid_and_say_what_they_are(deck):
    load_deck(deck)
    assert shipped_decks()[deck].read_text(encoding="utf-8").startswith("# ")


def test_wheel_ships_folders_that_exist():
    section = PYPROJECT.split("[tool.hatch.build.targets.wheel.force-include]")[1].split("\n[")[0]
    shipped = dict(re.findall(r'"(\w+)" = "ecsim/(\w+)"', section))
    assert shipped == {"kernels": "_kernels", "decks": "_decks"}
    assert all(any((ROOT / folder).iterdir()) for folder in shipped)


@pytest.mark.parametrize("module", ["ecsim.cli", "ecsim.plan"])
def test_the_command_line_starts_without_compilers(module):
    heavy = "numba", "cupy", "matplotlib", "scipy"
    code = f"import {module}, sys; print(*(m for m in {heavy!r} if m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []
