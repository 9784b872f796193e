"""A run: builds its objects from a deck or from arrays, owns the clock and the schedule."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ecsim.arrays import check_arrays, fingerprint
from ecsim.builder import Parts, build, place
from ecsim.cycle import advance
from ecsim.deck import Deck, full_key, load_deck
from ecsim.deck.checks import backend_faults, option_faults, shape_faults
from ecsim.deck.schema import Assembly, Backend, Particles
from ecsim.diagnostics.schedule import Schedule
from ecsim.output.hold import Hold
from ecsim.parallel.launch import world
from ecsim.particles.species import Species, locate
from ecsim.plasma import Plasma
from ecsim.solver.gmres import SolverError


class Simulation:
    """An ECSIM run, from `from_deck` or `from_arrays`.

    Properties give host copies: ``E`` (3, *cells) at nodes and ``B`` (3, *cells) at centres at time nΔt, ``E_theta``
    E^{n−1+θ}, ``J_hat`` and ``rho`` of the last assembly (x^{n−1/2}), ``mass_matrix`` likewise; ``species`` as given.

    Under MPI a Simulation is made and used on all ranks alike. Fields are those of the whole grid, on every rank: to
    look at one is collective. ``species`` and ``mass_matrix`` are this rank's part.
    """

    def __init__(self, plasma: Plasma, *, steps: int | None = None, recorder=None, checkpointer=None) -> None:
        self.plasma, self.steps, self.recorder, self.checkpointer = plasma, steps, recorder, checkpointer
        self.species = plasma.species
        self.deck: Deck | None = None
        self.origin: Parts | None = None
        self._hold = Hold()
        self._schedule, self._first_step = Schedule(), plasma.step
        self._first_energy = plasma.energies()["total"]
        self.iterations: list[int] = []
        self.worst_drift = 0.0
        for s in self.species:
            s.plasma = plasma

    # -- construction ------------------------------------------------------------------------------------------

    @classmethod
    def from_deck(cls, deck, *, output=None, restart_from=None, **overrides) -> Simulation:
        """A run from a deck: a path, the name of a shipped deck, a mapping of sections, or a loaded Deck.

        output : run directory to write into, held against other runs until `close`; None writes nothing.
        restart_from : a checkpoint to go on from, or a run directory whose newest valid one is meant; where that is
        ``output`` its files are continued.  overrides : values of deck keys, as ``dt=0.1``, ``device="cpu"`` or, for
        keys that several sections have, ``**{"species.electrons.start": "quiet"}``.

        Raises DeckError listing every fault, BackendError, and OSError where the directory or the checkpoint cannot be
        used; nothing is allocated or written before these. A start that fails later leaves nothing behind.
        """
        checked = load_deck(deck, {full_key(name): value for name, value in overrides.items()})
        hold, here = Hold(), world()
        try:
            parts = build(checked, output, restart_from, hold)
            simulation = cls(parts.plasma, steps=checked.time.n_steps, recorder=parts.recorder,
                             checkpointer=parts.checkpointer)
            simulation.deck, simulation.origin, simulation._hold = checked, parts, hold
            if parts.checkpoint is not None:
                simulation._first_energy = parts.checkpoint.manifest["first_energy"]
                simulation.worst_drift = parts.checkpoint.manifest["worst_drift"]
            if parts.recorder:
                parts.recorder.start(simulation)
            return simulation
        except BaseException:
            hold.abandon_on_all(here)
            raise

    @classmethod
    def from_arrays(cls, *, cells, size, dt: float, theta: float = 0.5, shape: str = "cic", species=(), E, B,
                    tolerance: float = 1e-12, device: str = "cpu", method: str = "pair", precision: str = "fp64",
                    threads: int = 0, position: str = "float64", velocity: str = "float64",
                    sort_every: int = 1, restart: int = 30, max_iterations: int = 500, guess: str = "extrapolated",
                    ranks=None, transport: str = "auto") -> Simulation:
        """A periodic run from given particles and fields.

        cells, size : per active dimension (1 to 3).  dt : in 1/ω_pi.  species : dicts of name, charge_to_mass, x (P, d)
        at time 0, v (P, 3) at time 0, q (P,) or one number (macro-charge of each particle).  E : (3, *cells) at nodes,
        B : (3, *cells) at cell centres.  Ids number the given particles 0, 1, ….  Under MPI every rank gives the same
        and keeps its part; ranks, transport : as in the deck's section [mpi].

        Raises ValueError listing every fault of the arguments, BackendError where the device is not to be had, and
        FloatingPointError if the energy cannot be told.
        """
        options = dict(dt=dt, theta=theta, shape=shape, tolerance=tolerance, device=device, method=method,
                       precision=precision, threads=threads, position=position, velocity=velocity,
                       sort_every=sort_every, restart=restart, max_iterations=max_iterations, guess=guess,
                       ranks=ranks, transport=transport)
        grid, checked, E, B = check_arrays(cells=cells, size=size, shape=shape, species=species, E=E, B=B,
                                           faults=option_faults(options))
        here = world()
        if here.comm is not None:
            shared = {name: value for name, value in options.items() if name not in ("threads", "device")}
            here.same("arrays or options", fingerprint(shared, grid, checked, E, B))
        domain, backend = place(grid, device=device, threads=threads, ranks=ranks, transport=transport)
        assembly, taken = Assembly(method, precision), Backend(device=backend.name)
        faults = [*backend_faults(Particles(velocity=velocity), assembly, taken), *shape_faults(grid, assembly, taken)]
        if faults:
            raise ValueError("; ".join(map(str, faults)))
        block = domain.block
        members = []
        for s in checked:
            weight = s["q"] if isinstance(s["q"], float) else None
            store = backend.new_store(block, position_dtype=position, velocity_dtype=velocity, weight=weight, ids=True,
                                      sort_every=sort_every, migration=domain.migration)
            cell, local = locate(block, s["x"])
            mine = np.flatnonzero(cell >= 0)
            store.append(cell[mine], local[:, mine], s["v"][mine].T, None if weight is not None else s["q"][mine],
                         mine.astype(np.uint64))
            store.sort()
            members.append(Species(s["name"], s["charge_to_mass"], store))
        owned = (slice(None), *(slice(o, o + n) for o, n in zip(block.origin, block.cells, strict=True)))
        plasma = Plasma(domain, backend, members, E[owned], B[owned], dt=float(dt), theta=float(theta),
                        tolerance=float(tolerance), restart=restart, max_iterations=max_iterations, guess=guess,
                        method=method, precision=precision)
        return cls(plasma)

    # -- running -----------------------------------------------------------------------------------------------

    def on(self, step_interval: int, function: Callable[[Simulation], Any]) -> None:
        """Call ``function(simulation)`` after every ``step_interval``-th cycle. Raises ValueError unless it is ≥ 1."""
        self._schedule.on(step_interval, function)

    def step(self, n: int = 1) -> None:
        """Advance by n cycles.

        Raises SolverError (with the step) or FloatingPointError if one fails, ValueError if the files are closed.
        """
        self._check_open()
        p = self.plasma
        for _ in range(n):
            try:
                with np.errstate(all="ignore"):         # what is not finite is found by the cycle itself
                    advance(p, self.recorder.inspect if self.recorder else None)
            except SolverError as error:
                raise SolverError(f"cycle {p.step + 1} (t = {p.time + p.dt:g}): {error}") from None
            self.iterations.append(p.solution.iterations)
            self.worst_drift = max(self.worst_drift, abs(self.drift()))
            if self.recorder:
                self.recorder.record(self)
            self._schedule.call(p.step, self)
            if self.checkpointer and self.checkpointer.due:
                self.save()

    def save(self) -> Path | None:
        """Write a checkpoint of this step (collective); returns where, None if this step has one already.

        Raises OSError, and ValueError if the run has no directory.
        """
        if self.checkpointer is None:
            raise ValueError("a checkpoint needs a run directory: give output")
        self._check_open()
        self.recorder.flush()
        return self.checkpointer.write({"first_energy": self._first_energy, "worst_drift": self.worst_drift})

    def run(self, steps: int | None = None, max_minutes: float | None = None) -> None:
        """Run until ``steps`` cycles are done (the deck's number if None); files are closed whatever happens.

        Ends early, after a cycle, when ``max_minutes`` have passed or ``plasma.stop_requested`` is set; where the run
        has a directory it then leaves a checkpoint, as it does at its end if the deck asks for checkpoints. Raises
        what `step` raises, and ValueError if neither the deck nor the caller says how long. KeyboardInterrupt before
        the end of the first cycle leaves nothing behind of a new run.
        """
        last = self.steps if steps is None else steps
        if last is None:
            raise ValueError("how long? give run(steps) or a deck with time.steps or time.end_time")
        try:
            begun = time.monotonic()
            while self.plasma.step < last and not self.plasma.stopping:
                if max_minutes is not None and time.monotonic() - begun >= 60 * max_minutes:
                    self.plasma.stop_requested = True
                self.step()
            if self.checkpointer and (self.plasma.step < last or self.checkpointer.scheduled):
                self.save()
        except BaseException as error:
            self.plasma.domain.world.announce_closing()
            if isinstance(error, KeyboardInterrupt):
                self.abandon()
            raise
        finally:
            self.close()

    def abandon(self) -> bool:
        """Close, and where no cycle was done remove what this run wrote, and the directories that it made.

        Returns whether a cycle was done. May be called again.
        """
        if self.plasma.step > self._first_step:
            self.close()
            return True
        with suppress(OSError):
            if self.recorder:
                self.recorder.close()
        self._hold.abandon()
        return False

    def close(self) -> None:
        """Flush and close the files of the run, and let others write into its directory."""
        try:
            if self.recorder:
                self.recorder.close()
        finally:
            self._hold.release()

    def _check_open(self) -> None:
        if self.recorder and self.recorder.closed:
            raise ValueError("the files of this run are closed, as at the end of run(); go on with restart_from")

    # -- looking -----------------------------------------------------------------------------------------------

    def _host(self, padded) -> np.ndarray:
        p = self.plasma
        return p.domain.spread(p.backend.to_host(padded[p.owned])).whole()

    @property
    def time(self) -> float:
        """Time of E, B and v, in 1/ω_pi."""
        return self.plasma.time

    @property
    def E(self) -> np.ndarray:
        """Electric field (3, *cells) at nodes."""
        return self._host(self.plasma.E)

    @property
    def B(self) -> np.ndarray:
        """Magnetic field (3, *cells) at cell centres."""
        return self._host(self.plasma.B)

    @property
    def E_theta(self) -> np.ndarray:
        """E^{n−1+θ} (3, *cells), the solution of the last cycle's field equation."""
        return self._host(self.plasma.E_theta)

    @property
    def J_hat(self) -> np.ndarray:
        """Ĵ (3, *cells) at nodes of the last cycle. Raises RuntimeError before the first."""
        return self._host(self._assembled()[1:])

    @property
    def rho(self) -> np.ndarray:
        """Charge density (*cells) at nodes at the last cycle's x^{n−1/2}. Raises RuntimeError before the first."""
        return self._host(self._assembled()[0])

    def _assembled(self):
        if self.plasma.solution is None:
            raise RuntimeError("nothing is assembled before the first cycle; call step() first")
        return self.plasma.moments

    @property
    def mass_matrix(self):
        """The MassMatrix of the last cycle: ``matvec``, ``to_scipy()``, ``diagonal()``."""
        return self.plasma.mass_matrix

    def energies(self) -> dict:
        """electric, magnetic, kinetic (dict per species), total at time nΔt, in m_i c² n0 (c/ω_pi)^d."""
        return self.plasma.energies()

    def drift(self) -> float:
        """Relative change of the total energy since the start."""
        total = self.energies()["total"]
        return (total - self._first_energy) / self._first_energy if self._first_energy else total

    @property
    def timings(self) -> dict[str, float]:
        """Wall-clock seconds per phase."""
        return self.plasma.backend.timer.seconds
