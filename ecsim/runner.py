"""``ecsim run``: from a checked deck to its results, with what the user sees of it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from ecsim.backend import BackendError, select
from ecsim.backend.cpu import on_compile
from ecsim.deck import Deck, DeckError, device_faults
from ecsim.exits import BAD_INPUT, FAILED, INTERRUPTED, STOPPED, CommandError
from ecsim.memory import available
from ecsim.output.checkpoint import CheckpointError
from ecsim.output.rundir import Hold, RunDirectoryError
from ecsim.parallel.launch import World, world
from ecsim.parallel.topology import TopologyError
from ecsim.parallel.transport import TransportError
from ecsim.plan import make_plan
from ecsim.report import Progress, cost_table, human, opening
from ecsim.simulation import Simulation
from ecsim.solver.gmres import SolverError


def run(deck: Deck, directory: str, quiet: bool = False, restart: str | None = None,
        max_minutes: float | None = None) -> None:
    """Run a deck into a directory that it may use and no other run is using; prints unless `quiet`.

    restart : a checkpoint, or a run directory whose newest valid one is meant.  max_minutes : stop after so long,
    with a checkpoint; SIGTERM does the same.

    Raises CommandError: bad input before anything is allocated or written, else a failed, stopped or interrupted run,
    whose results so far are kept.
    """
    hold = Hold()
    try:
        _run(deck, directory, hold, quiet, restart, max_minutes)
    finally:
        hold.release()


def _run(deck: Deck, directory: str, hold: Hold, quiet: bool, restart: str | None,
         max_minutes: float | None) -> None:
    started, here = time.perf_counter(), world()
    quiet = quiet or not here.is_root
    if not quiet:
        on_compile(Announcement("compiling kernels for this machine; later runs will find them ready"))
    try:
        backend = select(deck.backend.device, threads=deck.backend.threads or here.threads, local_rank=here.local_rank)
        refuse(deck, backend, here)
        here.on_root(partial(hold.take, directory))
        simulation = Simulation.from_deck(deck, output=directory, restart_from=restart)
        here.on_root(partial(hold.take, directory))     # one that was made just now
    except (RunDirectoryError, CheckpointError, BackendError, DeckError, TopologyError, TransportError) as error:
        raise CommandError(error, BAD_INPUT) from None
    except (OSError, MemoryError) as error:
        raise CommandError(reason(error), FAILED) from None
    if not quiet:
        seconds = time.perf_counter() - started
        print(opening(make_plan(deck, backend.name, here.size), simulation.plasma.backend.describe(), seconds,
                      simulation.plasma.domain.describe()), flush=True)
        print(_origin(simulation), end="", flush=True)
    left = None if max_minutes is None else max_minutes - (time.perf_counter() - started) / 60
    advance(simulation, deck, quiet, f"what was written is kept in {directory}", left)
    if simulation.plasma.step < deck.time.n_steps:
        raise CommandError(f"stopped after step {simulation.plasma.step} of {deck.time.n_steps}, as asked; go on with "
                           f"`ecsim run --restart {directory}`", STOPPED)
    if not quiet:
        print(f"results in {directory}")


def _origin(simulation: Simulation) -> str:
    """From which checkpoint the run goes on, and why from no newer one; nothing for a run from the start."""
    parts = simulation.origin
    if parts is None or parts.checkpoint is None:
        return ""
    skipped = "".join(f"! passed over: {reason}\n" for reason in parts.passed_over)
    return f"{skipped}going on from {parts.checkpoint.path}, step {parts.checkpoint.step}\n"


@contextmanager
def stopping_on_sigterm(simulation: Simulation) -> Iterator[None]:
    """SIGTERM lets the cycle finish and ends the run with a checkpoint."""
    def stop(*ignored: object) -> None:
        """Ask the run to end after its cycle."""
        simulation.plasma.stop_requested = True

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Announcement:
    """Prints a line when it is called for the first time."""

    def __init__(self, text: str) -> None:
        self.text: str | None = text

    def __call__(self, *ignored: object) -> None:
        if self.text is not None:
            print(self.text, flush=True)
        self.text = None


def refuse(deck: Deck, backend: Any, here: World) -> None:
    """Raise for what the device that was taken cannot do, and for more memory than its ranks find there."""
    faults = device_faults(deck, backend.name)
    if faults:
        raise DeckError(faults, deck.source)
    plan = make_plan(deck, backend.name, here.size)
    limit = backend.memory["free"] if backend.name == "cuda" else available("cpu")
    needed = plan.bytes * (1 if backend.name == "cuda" else here.local_size)
    if limit is not None and needed > limit:
        raise CommandError(
            f"the run needs {human(needed)} of memory and there are {human(limit)}; `ecsim check` shows what for. "
            "Lower grid.cells or particles_per_cell"
        )


def advance(simulation: Simulation, deck: Deck, quiet: bool, kept: str, max_minutes: float | None = None) -> None:
    """Run to the end and report; what goes wrong becomes a CommandError that says what is `kept`."""
    n_particles = simulation.plasma.n_particles
    before, started = simulation.timings, time.perf_counter()
    progress = None if quiet else Progress(deck.time.n_steps, n_particles)
    if progress:
        simulation.on(1, lambda sim: progress.update(sim.plasma.step, sim.time, sim.drift()))
    try:
        with stopping_on_sigterm(simulation):
            simulation.run(max_minutes=max_minutes)
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
