"""``ecsim run``: from a checked deck to its results, with what the user sees of it."""

from __future__ import annotations

import time
from typing import Any

from ecsim.backend import BackendError, select
from ecsim.backend.cpu import on_compile
from ecsim.deck import Deck, DeckError, device_faults
from ecsim.exits import BAD_INPUT, FAILED, INTERRUPTED, CommandError
from ecsim.memory import available
from ecsim.output.rundir import RunDirectoryError
from ecsim.plan import make_plan
from ecsim.report import Progress, cost_table, human, opening
from ecsim.simulation import Simulation
from ecsim.solver.gmres import SolverError


def run(deck: Deck, directory: str, quiet: bool = False) -> None:
    """Run a deck into a directory that it may use; prints unless `quiet`.

    Raises CommandError: bad input before anything is allocated or written, else a failed or interrupted run, whose
    results so far are kept.
    """
    started = time.perf_counter()
    if not quiet:
        on_compile(Announcement("compiling kernels for this machine; later runs will find them ready"))
    try:
        backend = select(deck.backend.device, threads=deck.backend.threads)
        refuse(deck, backend)
        simulation = Simulation.from_deck(deck, output=directory)
    except (RunDirectoryError, BackendError, DeckError) as error:
        raise CommandError(error, BAD_INPUT) from None
    except (OSError, MemoryError) as error:
        raise CommandError(reason(error), FAILED) from None
    if not quiet:
        seconds = time.perf_counter() - started
        print(opening(make_plan(deck, backend.name), simulation.plasma.backend.describe(), seconds), flush=True)
    advance(simulation, deck, quiet, f"what was written is kept in {directory}")
    if not quiet:
        print(f"results in {directory}")


class Announcement:
    """Prints a line when it is called for the first time."""

    def __init__(self, text: str) -> None:
        self.text: str | None = text

    def __call__(self, *ignored: object) -> None:
        if self.text is not None:
            print(self.text, flush=True)
        self.text = None


def refuse(deck: Deck, backend: Any) -> None:
    """Raise for what the device that was taken cannot do, and for more memory than it has."""
    faults = device_faults(deck, backend.name)
    if faults:
        raise DeckError(faults, deck.source)
    plan = make_plan(deck, backend.name)
    limit = backend.memory["free"] if backend.name == "cuda" else available("cpu")
    if limit is not None and plan.bytes > limit:
        raise CommandError(
            f"the run needs {human(plan.bytes)} of memory and there are {human(limit)}; `ecsim check` shows what for. "
            "Lower grid.cells or particles_per_cell"
        )


def advance(simulation: Simulation, deck: Deck, quiet: bool, kept: str) -> None:
    """Run to the end and report; what goes wrong becomes a CommandError that says what is `kept`."""
    n_particles = sum(len(species) for species in simulation.species)
    before, started = simulation.timings, time.perf_counter()
    progress = None if quiet else Progress(deck.time.n_steps, n_particles)
    if progress:
        simulation.on(1, lambda sim: progress.update(sim.plasma.step, sim.time, sim.drift()))
    try:
        simulation.run()
    except KeyboardInterrupt:
        raise CommandError(f"interrupted after step {simulation.plasma.step}; {kept}", INTERRUPTED) from None
    except (SolverError, FloatingPointError, OSError, MemoryError) as error:
        raise CommandError(f"the run failed: {reason(error)}; {kept}", FAILED) from None
    finally:
        if progress:
            progress.close()
    if not quiet:
        seconds = {phase: total - before.get(phase, 0.0) for phase, total in simulation.timings.items()}
        print(cost_table(seconds, time.perf_counter() - started, n_particles, simulation.iterations))
        print(f"worst relative energy drift  {simulation.worst_drift:.1e}")


def reason(error: BaseException) -> str:
    """What an exception says; a bare MemoryError says nothing by itself."""
    return str(error) or ("not enough memory" if isinstance(error, MemoryError) else type(error).__name__)
