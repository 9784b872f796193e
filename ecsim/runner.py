"""``ecsim run``: a deck to its results, with what the user sees of it and the exit code."""

from __future__ import annotations

import sys
import time

from ecsim.backend import BackendError, select
from ecsim.deck import Deck, DeckError, device_faults
from ecsim.memory import available
from ecsim.output.rundir import RunDirectoryError, check_run_directory
from ecsim.plan import make_plan
from ecsim.report import Progress, cost_table, human, opening
from ecsim.simulation import Simulation
from ecsim.solver.gmres import SolverError

BAD_INPUT, FAILED, INTERRUPTED = 2, 3, 130


class NotEnoughMemory(Exception):
    """The plan of a run needs more memory than the machine has."""


def run(deck: Deck, quiet: bool = False) -> int:
    """Run a deck that names its run directory; returns 0 done, 2 refused, 3 failed or 130 interrupted.

    What can be refused is refused before anything is allocated or written. Errors are one message on stderr.
    """
    started = time.perf_counter()
    try:
        _refuse_what_cannot_run(deck)
        simulation = Simulation.from_deck(deck, output=deck.output.directory)
    except (RunDirectoryError, BackendError, DeckError, NotEnoughMemory) as error:
        return _fail(error, BAD_INPUT)
    except (OSError, MemoryError) as error:
        return _fail(str(error) or "not enough memory", FAILED)
    if not quiet:
        plan = make_plan(deck, simulation.plasma.backend.name)
        print(opening(plan, simulation.plasma.backend.describe(), time.perf_counter() - started), flush=True)
    return _advance(simulation, deck, quiet)


def _refuse_what_cannot_run(deck: Deck) -> None:
    """Raise for a run directory that may not be used, a device missing or unable, too little memory."""
    check_run_directory(deck.output.directory, deck.output.overwrite)
    device = select(deck.backend.device, threads=deck.backend.threads).name
    faults = device_faults(deck, device)
    if faults:
        raise DeckError(faults, deck.source)
    plan, limit = make_plan(deck, device), available(device)
    if limit is not None and plan.bytes > limit:
        raise NotEnoughMemory(
            f"the run needs {human(plan.bytes)} of memory and there are {human(limit)}; "
            "`ecsim check` shows what for. Lower grid.cells or particles_per_cell"
        )


def _advance(simulation: Simulation, deck: Deck, quiet: bool) -> int:
    """Run to the end and report; what goes wrong becomes one message, and results are kept."""
    n_particles = sum(len(species) for species in simulation.species)
    before, started = simulation.timings, time.perf_counter()
    progress = None if quiet else Progress(deck.time.n_steps, n_particles)
    if progress:
        simulation.on(1, lambda sim: progress.update(sim.plasma.step, sim.time, sim.drift()))
    kept = f"what was written is kept in {deck.output.directory}"
    try:
        simulation.run()
    except KeyboardInterrupt:
        return _fail(f"interrupted after step {simulation.plasma.step}; {kept}", INTERRUPTED)
    except (SolverError, FloatingPointError, OSError, MemoryError) as error:
        return _fail(f"the run failed: {str(error) or 'not enough memory'}; {kept}", FAILED)
    finally:
        if progress:
            progress.close()
    if not quiet:
        seconds = {phase: total - before.get(phase, 0.0) for phase, total in simulation.timings.items()}
        print(cost_table(seconds, time.perf_counter() - started, n_particles, simulation.iterations))
        print(f"worst relative energy drift  {simulation.worst_drift:.1e}")
        print(f"results in {deck.output.directory}")
    return 0


def _fail(error: object, code: int) -> int:
    print(f"ecsim: {error}", file=sys.stderr)
    return code
