"""``python run_cases.py OUT [CASE …]``: run cases on as many ranks as there are; rank 0 saves what they return."""

from __future__ import annotations

import sys

import numpy as np
from cases import CASES

from ecsim.parallel.launch import world

if __name__ == "__main__":
    results = {"size": np.array(world().size)}
    for name in sys.argv[2:] or CASES:
        results.update({f"{name}:{key}": value for key, value in CASES[name]().items()})
    if world().is_root:
        np.savez(sys.argv[1], **results)
