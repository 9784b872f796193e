"""``python openpmd_run.py FOLDER``: the small runs of the openPMD tests in 1D, 2D and 3D, in FOLDER/1D and so on."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from openpmd_cases import CELLS, small_run

if __name__ == "__main__":
    for name, cells in CELLS.items():
        small_run(Path(sys.argv[1]) / name, cells)
