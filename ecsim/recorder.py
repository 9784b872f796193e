"""What a run writes while it goes on: rows of energies.h5, and the diagnostics of the deck when they are due."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ecsim.diagnostics import registry
from ecsim.diagnostics.base import Diagnostic, SeriesDiagnostic, Setting
from ecsim.diagnostics.conservation import divergence_B, gauss_residual
from ecsim.diagnostics.sample import Sample
from ecsim.output.energies import EnergyFile, check_energies
from ecsim.output.rundir import ENERGIES, RunDirectoryError
from ecsim.output.timings import write_timings
from ecsim.plasma import Plasma


class Recorder:
    """Writes the files of one run.

    setting : where, and what the files say of the run; existing ones are gone on with after ``setting.resume_at``.
    deck_text : stored with the results.  energies_every, gauss_every : intervals in steps; 0 is never (energies: at
    least 1).  entries : kind and Params of each diagnostic.
    Raises OSError naming the path when something cannot be written.
    """

    def __init__(self, plasma: Plasma, setting: Setting, *, deck_text: str, energies_every: int = 1,
                 gauss_every: int = 10, entries: Sequence[tuple[str, Any]] = ()) -> None:
        self.plasma, self.setting = plasma, setting
        self.energies_every, self.gauss_every = energies_every, gauss_every
        self.world, self.directory = plasma.domain.world, setting.directory
        self.file: EnergyFile | None = None
        self.world.on_root(partial(self._open, deck_text))
        self.diagnostics: list[Diagnostic] = [registry()[kind].Diagnostic(params, kind, plasma, setting)
                                              for kind, params in entries]
        self.sample = Sample(plasma)
        self._gauss = math.nan
        self._begun, self._first_step, self.closed = time.monotonic(), plasma.step, False
        self._before = dict(plasma.backend.timer.seconds)

    def _open(self, deck_text: str) -> None:
        """The energy file; on rank 0."""
        self.file = EnergyFile(self.directory / ENERGIES, species=[s.name for s in self.plasma.species],
                               attributes={**self.setting.attributes, "deck": deck_text},
                               resume_at=self.setting.resume_at)

    def inspect(self, p: Plasma) -> None:
        """In the middle of a cycle, with x^{n+1/2}, v^n and E^{n+θ} in hand: what the end of the cycle cannot see."""
        step = p.step + 1
        self.sample.forget()
        self._gauss = math.nan
        with p.backend.timer.phase("output"):
            if _due(step, self.gauss_every):
                self._gauss = self._gauss_residual(p)
            if any(d.moments and d.due(step) for d in self.diagnostics):
                self.sample.take_moments()

    def start(self, simulation) -> None:
        """Before the first cycle: what is due at step 0; a run that goes on has that already."""
        if self.setting.resume_at is None:
            self.record(simulation)

    def record(self, simulation) -> None:
        """After a cycle, or before the first: whatever is due at this step."""
        p = self.plasma
        with p.backend.timer.phase("output"):
            if _due(p.step, self.energies_every):
                row = self._row(simulation)
                if self.file is not None:
                    self.file.append(row)
            for diagnostic in self.diagnostics:
                if diagnostic.due(p.step):
                    diagnostic.record(self.sample)
            self.sample.forget()

    def flush(self) -> None:
        """Write what is buffered."""
        for file in (self.file, *self.diagnostics):
            if file is not None:
                file.flush()

    def close(self) -> None:
        """Write what is buffered and close, every file even if one fails; leave how long each stage took."""
        if self.closed:
            return
        error: OSError | None = None
        self.closed = True
        for file in (self.file, *self.diagnostics):
            try:
                if file is not None:
                    file.close()
            except OSError as caught:
                error = error or caught
        if error is not None:
            raise error
        if self.world.is_root and self.plasma.step > self._first_step:
            write_timings(self.directory, self._session(), fresh=self.setting.resume_at is None)

    def _session(self) -> dict[str, Any]:
        p = self.plasma
        seconds = {phase: total - self._before.get(phase, 0.0) for phase, total in p.backend.timer.seconds.items()}
        return {"from_step": self._first_step, "to_step": p.step, "wall_seconds": time.monotonic() - self._begun,
                "seconds": seconds, "particles": p.n_particles, "ranks": self.world.size,
                "device": p.backend.describe(),
                **{name: self.setting.attributes[name] for name in ("processor", "platform", "version", "git_hash",
                                                                    "date")
                   if name in self.setting.attributes}}

    def _row(self, simulation) -> dict[str, Any]:
        p = self.plasma
        energies, solution = p.energies(), p.solution
        return {
            "step": p.step, "time": p.time, "electric": energies["electric"], "magnetic": energies["magnetic"],
            "kinetic": np.array(list(energies["kinetic"].values())), "total": energies["total"],
            "drift": simulation.drift(), "momentum": p.momentum(), "charge": p.charge(),
            "divergence_B": divergence_B(p.operators.divergence_of_centres(p.B), p.halo.max),
            "gauss_residual": self._gauss,
            "iterations": solution.iterations if solution else 0, "residual": solution.residual if solution else 0.0,
            "at_rounding": bool(solution and solution.at_rounding),
        }

    def _gauss_residual(self, p: Plasma) -> float:
        xp, host = p.backend.xp, p.backend.to_host
        charge = xp.zeros(p.block.padded)
        for s in p.species:
            s.store.deposit_centre_charge(charge)
        p.halo.add(charge)
        E_half = xp.zeros_like(p.E)
        E_half[...] = p.E + 0.5 * (p.E_theta - p.E) / p.theta
        divergence = p.operators.divergence_of_nodes(E_half)

        def reduce_sum(values):
            """Sums over all ranks, on the host."""
            return host(p.halo.sum(p.backend.from_host(np.asarray(values, dtype=np.float64))))

        return gauss_residual(host(divergence), host(charge[p.owned]), reduce_sum)


def check_earlier(directory: Path, species: Sequence[str], entries: Sequence[tuple[str, Any]]) -> None:
    """Look whether a run can go on with the time series that are in a directory; nothing is changed.

    species : their names.  entries : as of `Recorder`. Raises OSError if a file is damaged, RunDirectoryError if it
    holds something else.
    """
    try:
        check_energies(directory / ENERGIES, species)
        for kind, params in entries:
            diagnostic = registry()[kind].Diagnostic
            if issubclass(diagnostic, SeriesDiagnostic):
                diagnostic.check_earlier(directory, params, kind)
    except ValueError as error:
        raise RunDirectoryError(str(error)) from error


def _due(step: int, interval: int) -> bool:
    return interval > 0 and step % interval == 0
