"""``python output_run.py DIRECTORY STEPS [go-on]``: the restart deck with every kind of diagnostic."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from restart_cases import EVERYTHING, run

if __name__ == "__main__":
    directory, steps, *more = sys.argv[1:]
    run(directory, int(steps), EVERYTHING, restart_from=directory if more else None, **{"checkpoint.every": 100})
