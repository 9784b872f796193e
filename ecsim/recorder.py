"""What a run writes while it goes on: rows of energies.h5 and field snapshots, each on its own interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ecsim.diagnostics.conservation import divergence_B, gauss_residual
from ecsim.output.energies import EnergyFile
from ecsim.output.rundir import ENERGIES, continue_run_directory, create_run_directory
from ecsim.output.snapshots import Mesh, write_fields
from ecsim.plasma import Plasma


class Recorder:
    """Writes the files of one run.

    directory : run directory, made here.  deck_text, attributes : stored with the results.
    energies_every, gauss_every, fields_every : intervals in steps; 0 is never (energies: at least 1).
    resume_at : go on after this step in a directory that a run has written.
    moments : whether snapshots hold each species' charge density, current and pressure tensor.
    Raises OSError naming the path when something cannot be written.
    """

    def __init__(self, plasma: Plasma, directory, *, deck_text: str, attributes: Mapping[str, Any],
                 energies_every: int = 1, gauss_every: int = 10, fields_every: int = 0, moments: bool = True,
                 overwrite: bool = False, resume_at: int | None = None) -> None:
        self.plasma, self.attributes = plasma, dict(attributes)
        self.energies_every, self.gauss_every, self.fields_every = energies_every, gauss_every, fields_every
        self.moments = moments
        self.resumed = resume_at is not None
        prepare = continue_run_directory if self.resumed else partial(create_run_directory, overwrite=overwrite)
        self.directory: Path = prepare(directory, deck_text)
        self.file = EnergyFile(self.directory / ENERGIES, species=[s.name for s in plasma.species],
                               attributes={**self.attributes, "deck": deck_text}, resume_at=resume_at)
        self._gauss = math.nan
        self._meshes: dict[str, Mesh] = {}

    def inspect(self, p: Plasma) -> None:
        """In the middle of a cycle, with x^{n+1/2}, v^n and E^{n+θ} in hand: what the end of the cycle cannot see."""
        step = p.step + 1
        self._gauss, self._meshes = math.nan, {}
        if _due(step, self.gauss_every):
            with p.backend.timer.phase("output"):
                self._gauss = self._gauss_residual(p)
        if _due(step, self.fields_every):
            with p.backend.timer.phase("output"):
                self._meshes = self._species_moments(p, -0.5 * p.dt) if self.moments else {}

    def record(self, simulation) -> None:
        """After a cycle, or before the first: whatever is due at this step."""
        p = self.plasma
        with p.backend.timer.phase("output"):
            if _due(p.step, self.energies_every):
                self.file.append(self._row(simulation))
            if _due(p.step, self.fields_every):
                self._snapshot(p)

    def start(self, simulation) -> None:
        """Before the first cycle: what is due at step 0; a run that goes on has that already."""
        if not self.resumed:
            self.record(simulation)

    def flush(self) -> None:
        """Write what is buffered."""
        self.file.flush()

    def close(self) -> None:
        """Write what is buffered and close."""
        self.file.close()

    def _row(self, simulation) -> dict[str, Any]:
        p = self.plasma
        energies, solution = p.energies(), p.solution
        centred_B = p.backend.to_host(p.operators.divergence_of_centres(p.B))
        return {
            "step": p.step, "time": p.time, "electric": energies["electric"], "magnetic": energies["magnetic"],
            "kinetic": np.array(list(energies["kinetic"].values())), "total": energies["total"],
            "drift": simulation.drift(), "momentum": p.momentum(), "charge": p.charge(),
            "divergence_B": divergence_B(centred_B), "gauss_residual": self._gauss,
            "iterations": solution.iterations if solution else 0, "residual": solution.residual if solution else 0.0,
            "at_rounding": bool(solution and solution.at_rounding),
        }

    def _gauss_residual(self, p: Plasma) -> float:
        xp = p.backend.xp
        charge = xp.zeros(p.block.padded)
        for s in p.species:
            s.store.deposit_centre_charge(charge)
        p.halo.add(charge)
        E_half = xp.zeros_like(p.E)
        E_half[...] = p.E + 0.5 * (p.E_theta - p.E) / p.theta
        divergence = p.operators.divergence_of_nodes(E_half)
        return gauss_residual(p.backend.to_host(divergence), p.backend.to_host(charge[p.owned]))

    def _species_moments(self, p: Plasma, time_offset: float) -> dict[str, Mesh]:
        meshes = {}
        for s in p.species:
            padded = s.store.deposit_moments()
            p.halo.add(padded)
            m = p.backend.to_host(padded[p.owned])
            meshes[f"rho_{s.name}"] = Mesh(m[0], "node", "charge_density", time_offset)
            meshes[f"J_{s.name}"] = Mesh(m[1:4], "node", "current_density", time_offset)
            meshes[f"P_{s.name}"] = Mesh(_pressure(m, s.charge_to_mass), "node", "pressure", time_offset)
        return meshes

    def _snapshot(self, p: Plasma) -> None:
        host, offset = p.backend.to_host, -0.5 * p.dt
        fields = {"E": Mesh(host(p.E[p.owned]), "node", "electric_field"),
                  "B": Mesh(host(p.B[p.owned]), "centre", "magnetic_field")}
        if p.step:
            fields["rho"] = Mesh(host(p.moments[0][p.owned]), "node", "charge_density", offset)
            fields["J"] = Mesh(host(p.total_current()), "node", "current_density", offset)
        elif self.moments:
            self._meshes = self._species_moments(p, 0.0)
        write_fields(self.directory, step=p.step, time=p.time, dt=p.dt, spacing=p.block.spacing,
                     fields={**fields, **self._meshes}, attributes=self.attributes)


def _due(step: int, interval: int) -> bool:
    return interval > 0 and step % interval == 0


def _pressure(m: np.ndarray, charge_to_mass: float) -> np.ndarray:
    """Pressure tensor (6, *cells) of one species from Σ w W (1, v, v v)/V: Σ m (v−u)(v−u) W/V; 0 on empty nodes."""
    rho, J, second = m[0], m[1:4], m[4:10]
    inverse = np.divide(1.0, rho, out=np.zeros_like(rho), where=rho != 0)
    pairs = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
    return np.stack([second[c] - J[i] * J[j] * inverse for c, (i, j) in enumerate(pairs)]) / charge_to_mass
