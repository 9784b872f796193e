"""The state that a cycle advances: fields, particle stores, and the tools that act on them."""

from __future__ import annotations

import numpy as np

from ecsim.fields.operators import FieldOperators, field_energy
from ecsim.grid import Block
from ecsim.massmatrix.stencil import MassMatrix
from ecsim.particles.species import Species
from ecsim.solver.gmres import Gmres, Solution
from ecsim.solver.operator import FieldOperator


class Plasma:
    """Fields and species of one block, in plain values; knows nothing of decks or files.

    Parameters
    ----------
    block, halo, backend : where, how ghosts are exchanged, who computes.
    species : list of Species with loaded stores.
    E : (3, *cells) at nodes.  B : (3, *cells) at centres; owned values on the host.
    dt, theta : time step in 1/ω_pi and implicitness (½ conserves energy).
    tolerance, restart, max_iterations, guess : of the field solve; guess is "last" or "extrapolated".
    method, precision : of the mass-matrix assembly.

    Attributes (arrays of the backend, padded with ghosts): ``E`` E^n, ``B`` B^n, ``E_theta`` E^{n+θ}, ``B_nodes``,
    ``moments`` (ρ and Ĵ at the last assembly), ``mass_matrix``; ``step`` counts finished cycles.
    """

    def __init__(self, block: Block, halo, backend, species: list[Species], E, B, *, dt: float, theta: float = 0.5,
                 tolerance: float = 1e-12, restart: int = 30, max_iterations: int = 500,
                 guess: str = "extrapolated", method: str = "pair", precision: str = "fp64") -> None:
        self.block, self.halo, self.backend, self.species = block, halo, backend, species
        self.dt, self.theta, self.tolerance = dt, theta, tolerance
        self.method, self.precision, self.guess_kind = method, precision, guess
        self.step = 0
        self.owned = block.interior
        xp = backend.xp
        self.E, self.B, self.E_theta, self.B_nodes = (xp.zeros((3, *block.padded)) for _ in range(4))
        self.moments = xp.zeros((4, *block.padded))
        self.operators = FieldOperators(block)
        self.mass_matrix = MassMatrix(block, halo, backend)
        self.field_operator = FieldOperator(self.operators, self.mass_matrix, halo, theta * dt)
        self.gmres = Gmres(xp, 3 * block.n_cells, restart, max_iterations, backend.krylov, halo.sum)
        self.solution: Solution | None = None
        self._previous_E = None
        self.set_fields(E, B)
        for s in species:
            s.sums = s.store.sums()

    def set_fields(self, E, B) -> None:
        """Take owned nodal E and centred B from the host and fill the ghosts."""
        for padded, values in ((self.E, E), (self.B, B)):
            padded[self.owned] = self.backend.from_host(np.ascontiguousarray(values, dtype=np.float64))
            self.halo.fill(padded)
        self.E_theta[...] = self.E

    @property
    def time(self) -> float:
        """Time of the fields and velocities, nΔt in 1/ω_pi."""
        return self.step * self.dt

    def guess(self, E):
        """Where GMRES starts: E^n, or E^n + θ(E^n − E^{n−1}) once there is a history."""
        if self.guess_kind == "last" or self._previous_E is None:
            return E
        return E + self.theta * (E - self._previous_E)

    def remember(self, E) -> None:
        """Keep E^n for the next extrapolation."""
        if self.guess_kind == "extrapolated":
            self._previous_E = E.copy()

    def check_finite(self) -> None:
        """Raise FloatingPointError naming the species if the last move met a value that is not finite."""
        for s in self.species:
            sums = self.backend.to_host(s.sums)
            if not np.isfinite(sums).all():
                raise FloatingPointError(
                    f"species '{s.name}' has a position or velocity that is not finite after cycle {self.step + 1}")

    def total_current(self):
        """J̄ = Ĵ + M E^{n+θ} at the last cycle's middle, owned (3, *cells): the current that Ampère's law has seen."""
        out = self.backend.xp.empty((3, *self.block.cells))
        self.mass_matrix.multiply_padded(self.E_theta, out)
        return self.moments[1:][self.owned] + out

    def energies(self) -> dict:
        """Energies over all ranks at time nΔt: electric, magnetic, kinetic (per species name) and total."""
        volume, total = self.block.volume, self.halo.sum
        electric = float(total(field_energy(self.E[self.owned], volume)))
        magnetic = float(total(field_energy(self.B[self.owned], volume)))
        kinetic = {s.name: float(total(self.backend.to_host(s.sums)[0])) / s.charge_to_mass for s in self.species}
        return {"electric": electric, "magnetic": magnetic, "kinetic": kinetic,
                "total": electric + magnetic + sum(kinetic.values())}

    def momentum(self) -> np.ndarray:
        """Total particle momentum (3,) over all ranks, in m_i c n0 (c/ω_pi)^d."""
        return sum((self.halo.sum(self.backend.to_host(s.sums)[1:4]) / s.charge_to_mass for s in self.species),
                   np.zeros(3))

    def charge(self) -> float:
        """Total charge of all species over all ranks."""
        return float(sum(self.halo.sum(self.backend.to_host(s.sums)[4]) for s in self.species))
