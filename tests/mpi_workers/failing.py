"""``python failing.py RANK``: a run in which one rank (or with −1 every rank) raises after the second cycle."""

from __future__ import annotations

import sys

from cases import random_plasma

from ecsim.parallel.launch import world
from ecsim.simulation import Simulation

if __name__ == "__main__":
    which = int(sys.argv[1])

    def fail(run):
        if which in (-1, world().rank):
            raise ZeroDivisionError("planned")

    run = Simulation.from_arrays(**random_plasma((255,), 3))
    run.on(2, fail)
    run.step(100)
    print("not reached")
