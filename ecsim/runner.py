"""``ecsim run``: from a checked deck to its results, with what the user sees of it."""

from __future__ import annotations

import os
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
from ecsim.output.checkpoint import CheckpointError, newest_step
from ecsim.output.rundir import RunDirectoryError
from ecsim.parallel.launch import World, world
from ecsim.parallel.topology import TopologyError
from ecsim.parallel.transport import TransportError
from ecsim.plan import make_plan
from ecsim.plasma import Plasma
from ecsim.report import Progress, cost_table, human, opening, say
from ecsim.simulation import Simulation
from ecsim.solver.gmres import SolverError

NOT_BEGUN = "stopped before the first cycle, as asked; the same command starts again"


def run(deck: Deck, directory: str, quiet: bool = False, restart: str | None = None,
        max_minutes: float | None = None) -> None:
    """Run a deck into a directory that it may use and no other run is using; prints unless `quiet`.

    restart : a checkpoint, or a run directory whose newest valid one is meant.  max_minutes : stop after so long,
    with a checkpoint; SIGTERM and Ctrl-C do the same.

    Raises CommandError: bad input before anything is allocated or written, else a failed, stopped or interrupted run,
    whose results so far are kept.
    """
    started, here = time.perf_counter(), world()
    quiet = quiet or not here.is_root
    if restart is not None and here.on_root(partial(_nothing_to_do, restart, deck.time.n_steps)):
        if not quiet:
            say(f"nothing to do: all {deck.time.n_steps} steps of {restart} are done; more with --steps")
        return
    with stopping_on_signals() as stop:
        kept = f"what was written is kept in {directory}"
        simulation = _start(deck, directory, quiet, restart, stop)
        try:
            if simulation.plasma.halo.max(float(stop.signal is not None)):     # its exception may have been lost
                raise KeyboardInterrupt
            seconds = time.perf_counter() - started
            if not quiet:
                plasma = simulation.plasma
                say(opening(make_plan(deck, plasma.backend.name, here.size), plasma.backend.describe(), seconds,
                            plasma.domain.describe(deck.mpi.transport)))
                say(_origin(simulation), end="")
            advance(simulation, deck, quiet, kept, None if max_minutes is None else max_minutes - seconds / 60)
        except KeyboardInterrupt:
            if simulation.abandon():
                raise CommandError(f"interrupted after step {simulation.plasma.step}; {kept}", INTERRUPTED) from None
            raise CommandError(NOT_BEGUN, stop.code) from None
        step, last = simulation.plasma.step, deck.time.n_steps
        if step < last:
            by_hand = simulation.plasma.halo.max(float(stop.signal == signal.SIGINT)) > 0
            how, code = ("interrupted", INTERRUPTED) if by_hand else ("stopped", STOPPED)
            raise CommandError(f"{how} after step {step} of {last}, as asked; go on with `ecsim run --restart "
                               f"{directory}`", code)
    if not quiet:
        say(f"results in {directory}")


def _nothing_to_do(restart: str, n_steps: int) -> bool:
    """Whether the steps asked for are done. Raises CommandError if more are."""
    try:
        done = newest_step(restart)
    except CheckpointError as error:
        raise CommandError(error) from None
    if done is not None and done > n_steps:
        raise CommandError(f"{restart} is at step {done}, past the {n_steps} steps asked for; --steps counts from the "
                           "start of the run")
    return done == n_steps


def _start(deck: Deck, directory: str, quiet: bool, restart: str | None, stop: Stop) -> Simulation:
    """Everything before the first cycle; a run that does not get there leaves nothing behind."""
    here = world()
    if not quiet:
        on_compile(Announcement("compiling kernels for this machine; later runs will find them ready"))
    try:
        backend = select(deck.backend.device, threads=deck.backend.threads or here.threads, local_rank=here.local_rank)
        refuse(deck, backend, here)
        simulation = Simulation.from_deck(deck, output=directory, restart_from=restart)
        stop.plasma = simulation.plasma         # next to it: a signal in between would find nobody who clears up
        return simulation
    except (RunDirectoryError, CheckpointError, BackendError, DeckError, TopologyError, TransportError) as error:
        raise CommandError(error, BAD_INPUT) from None
    except (FloatingPointError, OSError, MemoryError) as error:
        raise CommandError(reason(error), FAILED) from None
    except KeyboardInterrupt:
        raise CommandError(NOT_BEGUN, stop.code) from None


def _origin(simulation: Simulation) -> str:
    """From which checkpoint the run goes on, and why from no newer one; nothing for a run from the start."""
    parts = simulation.origin
    if parts is None or parts.checkpoint is None:
        return ""
    skipped = "".join(f"! passed over: {reason}\n" for reason in parts.passed_over)
    return f"{skipped}going on from {parts.checkpoint.path}, step {parts.checkpoint.step}\n"


class Stop:
    """What SIGTERM and Ctrl-C do: end a start at once, and a run after its cycle; a second Ctrl-C always at once.

    plasma : set when the start is over.  signal : the first that came.
    """

    def __init__(self) -> None:
        self.plasma: Plasma | None = None
        self.signal: int | None = None

    @property
    def code(self) -> int:
        """Exit code of a start that it ended."""
        return STOPPED if self.signal == signal.SIGTERM else INTERRUPTED

    def __call__(self, number: int, *ignored: object) -> None:
        first, self.signal = self.signal is None, self.signal or number
        if self.plasma is None or (number == signal.SIGINT and not first):
            raise KeyboardInterrupt
        self.plasma.stop_requested = True
        if number == signal.SIGINT and world().is_root:
            os.write(2, b"\necsim: stopping after this cycle, with a checkpoint; Ctrl-C again stops at once\n")


@contextmanager
def stopping_on_signals() -> Iterator[Stop]:
    """SIGTERM and Ctrl-C as `Stop` says."""
    stop = Stop()
    numbers = (signal.SIGTERM, signal.SIGINT) if threading.current_thread() is threading.main_thread() else ()
    before = [signal.signal(number, stop) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


class Announcement:
    """Prints a line when it is called for the first time."""

    def __init__(self, text: str) -> None:
        self.text: str | None = text

    def __call__(self, *ignored: object) -> None:
        if self.text is not None:
            say(self.text)
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
        simulation.run(max_minutes=max_minutes)
    except (SolverError, FloatingPointError, OSError, MemoryError) as error:
        raise CommandError(f"the run failed: {reason(error)}; {kept}", FAILED) from None
    finally:
        if progress:
            progress.close()
    if not quiet:
        seconds = {phase: total - before.get(phase, 0.0) for phase, total in simulation.timings.items()}
        say(cost_table(seconds, time.perf_counter() - started, n_particles, simulation.iterations))
        say(f"worst relative energy drift  {simulation.worst_drift:.1e}")


def reason(error: BaseException) -> str:
    """What an exception says; a bare MemoryError says nothing by itself."""
    return str(error) or ("not enough memory" if isinstance(error, MemoryError) else type(error).__name__)
