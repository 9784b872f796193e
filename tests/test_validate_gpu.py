"""scripts/validate_gpu.py fails where it must; the numbers themselves need a GPU."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = str(Path(__file__).parents[1] / "scripts" / "validate_gpu.py")


def outcome(monkeypatch, path, value, limit):
    script = runpy.run_path(SCRIPT)
    monkeypatch.setitem(script["CHECKS"], "drift", lambda: {"fine": (0.0, 0.0), "this": (value, limit)})
    monkeypatch.setattr(sys, "argv", ["validate_gpu.py", "--only", "drift", "--json", str(path)])
    script["main"]()


def test_numbers_within_their_limits_pass(monkeypatch, tmp_path):
    outcome(monkeypatch, tmp_path / "out.json", 1e-13, 1e-13)
    found = json.loads((tmp_path / "out.json").read_text())["drift"]
    assert found == {"fine": {"value": 0.0, "limit": 0.0}, "this": {"value": 1e-13, "limit": 1e-13}}


@pytest.mark.parametrize("value", [1.1e-13, float("nan"), float("inf")])
def test_others_fail(monkeypatch, tmp_path, capsys, value):
    with pytest.raises(SystemExit, match="limit"):
        outcome(monkeypatch, tmp_path / "out.json", value, 1e-13)
    assert [line.endswith("FAILED") for line in capsys.readouterr().out.splitlines()] == [False, False, True]
    assert (tmp_path / "out.json").exists()
