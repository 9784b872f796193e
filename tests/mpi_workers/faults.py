"""``python faults.py KIND``: something goes wrong on rank 1, or on all ranks; see test_mpi_faults.py."""

from __future__ import annotations

import sys
import time

from cases import random_plasma

import ecsim  # noqa: F401  (what watches over the ranks)


def early() -> None:
    """Before MPI is there."""
    import os

    if os.environ["PMI_RANK"] == "1":
        raise ZeroDivisionError("planned")
    from ecsim.parallel.launch import world

    world().comm.Barrier()


def argument() -> None:
    """A wrong argument on one rank."""
    import os

    from ecsim.simulation import Simulation

    dt = {"dt": -1.0} if os.environ["PMI_RANK"] == "1" else {}
    Simulation.from_arrays(**{**random_plasma((255,), 3), **dt})


def arrays() -> None:
    """Other particles on one rank."""
    import os

    from ecsim.simulation import Simulation

    given = random_plasma((255,), 3)
    if os.environ["PMI_RANK"] == "1":
        given["species"][0]["v"][7, 1] *= 1.5
    Simulation.from_arrays(**given)


def several() -> None:
    """Each rank fails in its own way but for the last, which does as rank 0."""
    from ecsim.parallel.launch import world

    raise RuntimeError(f"planned {world().rank % 2}")


def charge() -> None:
    """Weights that change without a particle being lost."""
    from ecsim.parallel.launch import world
    from ecsim.simulation import Simulation

    run = Simulation.from_arrays(**random_plasma((255,), 3))
    run.step(2)
    if world().rank == 1:
        run.species[0].store.charges[1][...] *= 1.5
    run.step(1)


def closing() -> None:
    """A solve that fails everywhere, and a disk so slow that rank 0 closes its files for longer than others wait."""
    from ecsim import cli
    from ecsim.output.energies import EnergyFile
    from ecsim.parallel import launch

    close = EnergyFile.close
    EnergyFile.close = lambda self: (time.sleep(launch.GRACE_SECONDS + 1.0), close(self))
    sys.exit(cli.main(["run", "thermal", "--device", "cpu", "--threads", "1", "--quiet", "-o", sys.argv[2],
                       "--set", "grid.cells=[16,16]", "--set", "solver.max_iterations=3"]))


def start() -> None:
    """A start that fails on rank 1 alone, once the directory has files."""
    from ecsim import cli, recorder
    from ecsim.parallel.launch import world

    if world().rank == 1:
        def failing(self, simulation):
            raise MemoryError

        recorder.Recorder.start = failing
    sys.exit(cli.main(["run", "thermal", "--device", "cpu", "--threads", "1", "--quiet", "-o", sys.argv[2],
                       "--set", "grid.cells=[16,16]"]))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("not reached")
