"""The state that a cycle advances: fields, particle stores, and the tools that act on them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ecsim.fields.operators import FieldOperators, field_energy
from ecsim.massmatrix.stencil import MassMatrix
from ecsim.parallel.domain import Domain
from ecsim.particles.species import Species
from ecsim.solver.gmres import Gmres, Solution
from ecsim.solver.operator import FieldOperator

CHARGE_ROUNDING = 1e-10     # of a sum over all particles, whose order changes


class Plasma:
    """Fields and species of one rank's block, in plain values; knows nothing of decks or files.

    Parameters
    ----------
    domain, backend : which block, how it deals with other ranks, who computes.
    species : list of Species with loaded stores.
    E : (3, *cells) at nodes.  B : (3, *cells) at centres; owned values on the host.
    dt, theta : time step in 1/ω_pi and implicitness (½ conserves energy).
    tolerance, restart, max_iterations, guess : of the field solve; guess is "last" or "extrapolated".
    method, precision : of the mass-matrix assembly.
    graphs : whether a backend that can record the work of the solve and around it, and replay it, does.

    Attributes (arrays of the backend, padded with ghosts): ``E`` E^n, ``B`` B^n, ``E_theta`` E^{n+θ}, ``B_nodes``,
    ``moments`` (ρ and Ĵ at the last assembly), ``mass_matrix``; ``previous_E`` E^{n−1}, owned, once there is one and
    the guess needs it; ``stores`` of the species, their ``betas`` q Δt/2m, and ``sums`` of each, (5,) over this
    block's particles at their last velocities: Σ ½ w v², Σ w v, Σ w, with the macro-charge w; ``step`` counts finished
    cycles. ``stop_requested`` may be set on any rank (by a signal, say); ``stopping`` then becomes true on all of them
    after the cycle.
    """

    def __init__(self, domain: Domain, backend, species: list[Species], E, B, *, dt: float, theta: float = 0.5,
                 tolerance: float = 1e-12, restart: int = 30, max_iterations: int = 500,
                 guess: str = "extrapolated", method: str = "pair", precision: str = "fp64",
                 graphs: bool = True) -> None:
        block, halo = domain.block, domain.halo
        self.domain, self.block, self.halo, self.backend, self.species = domain, block, halo, backend, species
        self.dt, self.theta, self.tolerance = dt, theta, tolerance
        self.method, self.precision, self.guess_kind = method, precision, guess
        self.step = 0
        self.owned = block.interior
        xp = backend.xp
        self.E, self.B, self.E_theta, self.B_nodes = (xp.zeros((3, *block.padded)) for _ in range(4))
        self.moments = xp.zeros((4, *block.padded))
        staggered = getattr(backend, "staggered", None)
        self.operators = FieldOperators(block, staggered and staggered(block))
        self.mass_matrix = MassMatrix(block, halo, backend)
        self.field_operator = FieldOperator(self.mass_matrix, halo, theta * dt)
        record = self._recorder(graphs)
        self.gmres = Gmres(xp, 3 * block.n_cells, restart, max_iterations, backend.krylov, halo.sum, record)
        self.average_B = record(partial(_average, halo, self.operators, self.B, self.B_nodes))
        self._E_thetas = (self.E_theta, xp.zeros_like(self.E_theta))    # the last one, and where the next is made
        self._spread = record(partial(_spread, halo, self.gmres.x.reshape(3, *block.cells), self._E_thetas))
        self._guessed_from = None
        self.solution: Solution | None = None
        self.previous_E = None
        self.stop_requested = self.stopping = False
        self.stores, self.betas = [s.store for s in species], [s.beta(dt) for s in species]
        self.sums = [store.sums() for store in self.stores]
        self.set_fields(E, B)
        self._first_numbers, self._first_charges = self._numbers, self._sums[:, 4]
        self._check_finite("at the start")

    def _recorder(self, graphs: bool) -> Callable[[Callable], Callable]:
        """What records functions for the device, where backend and transport let it; else leaves them as they are."""
        make, transport = getattr(self.backend, "graph_recorder", None), self.halo.transport
        return make(transport) if graphs and make and transport.stream_ordered else lambda function: function

    def set_fields(self, E, B) -> None:
        """Take owned nodal E and centred B from the host and fill the ghosts (collective)."""
        for padded, values in ((self.E, E), (self.B, B)):
            padded[self.owned] = self.backend.from_host(np.ascontiguousarray(values, dtype=np.float64))
        self.halo.fill(self.E, self.B)
        self.E_theta[...] = self.E
        self._sum_up()

    def resume(self, step: int, E_theta, previous_E=None) -> None:
        """Go on after ``step`` cycles, from the fields and particles that the plasma was made with (collective).

        E_theta, previous_E : E^{n−1+θ} and, if there is a history, E^{n−1}; owned (3, *cells), on the host.
        """
        self.step = step
        self.E_theta[self.owned] = self.backend.from_host(np.ascontiguousarray(E_theta))
        self.halo.fill(self.E_theta)
        self.previous_E = None if previous_E is None else self.backend.from_host(np.ascontiguousarray(previous_E))

    @property
    def time(self) -> float:
        """Time of the fields and velocities, nΔt in 1/ω_pi."""
        return self.step * self.dt

    def guess(self, E):
        """Where GMRES starts: E^n, or E^n + θ(E^n − E^{n−1}) once there is a history."""
        if self.guess_kind == "last":
            return E
        self._guessed_from = E.copy()
        return E if self.previous_E is None else E + self.theta * (E - self.previous_E)

    @property
    def _other(self) -> int:
        """Which of the two arrays is not E^{n−1+θ}."""
        return int(self.E_theta is self._E_thetas[0])

    def spread_E(self) -> None:
        """Spread what GMRES has found, ghosts included, where it can become E^{n+θ}."""
        self._spread(self._other)

    def accept(self) -> None:
        """After a solve that has succeeded: what was spread is E^{n+θ}, and E^n is kept for the next extrapolation."""
        self.E_theta = self._E_thetas[self._other]
        self.previous_E, self._guessed_from = self._guessed_from, None

    def take_stock(self) -> None:
        """Sum up the state over all ranks and raise, on all of them, if it is no longer a plasma.

        FloatingPointError names the species that met a value which is not finite; RuntimeError one of which the number
        of particles, or the charge beyond rounding, is not what it was.
        """
        self._sum_up()
        self._check_finite(f"after cycle {self.step}")
        for s, number, first in zip(self.species, self._numbers, self._first_numbers, strict=True):
            if number != first:
                raise RuntimeError(f"species '{s.name}' has {number:.0f} particles after cycle {self.step}, "
                                   f"not {first:.0f}: some were lost or doubled on their way")
        for s, charge, first in zip(self.species, self._sums[:, 4], self._first_charges, strict=True):
            if abs(charge - first) > CHARGE_ROUNDING * abs(first):
                raise RuntimeError(f"species '{s.name}' has the charge {charge:.12g} after cycle {self.step}, "
                                   f"not {first:.12g}: particles have changed on their way")

    def _check_finite(self, when: str) -> None:
        for s, sums in zip(self.species, self._sums, strict=True):
            if not np.isfinite(sums).all():
                raise FloatingPointError(f"species '{s.name}' has a position or velocity that is not finite {when}")
        if not np.isfinite(self.energies()["total"]):
            raise FloatingPointError(f"the energy is not finite {when}")

    @np.errstate(all="ignore")
    def _sum_up(self) -> None:
        """Field energies, sums and numbers of the species and the wish to stop, over all ranks in one reduction."""
        xp, volume = self.backend.xp, self.block.volume
        energies = xp.stack([field_energy(self.E[self.owned], volume), field_energy(self.B[self.owned], volume)])
        mine = xp.concatenate([energies, *self.sums, xp.zeros(1 + len(self.species))])  # beside the mover
        for store in self.stores:
            store.finish_move()
        counts = [float(self.stop_requested), *(float(s.store.n) for s in self.species)]
        mine[-len(counts):] = xp.asarray(counts)
        total = self.backend.to_host(self.halo.sum(mine))
        self._electric, self._magnetic = float(total[0]), float(total[1])
        self._sums = total[2:2 + 5 * len(self.species)].reshape(-1, 5)
        self.stopping, self._numbers = bool(total[2 + self._sums.size]), total[3 + self._sums.size:]

    def total_current(self):
        """J̄ = Ĵ + M E^{n+θ} at the last cycle's middle, owned (3, *cells): the current that Ampère's law has seen."""
        out = self.backend.xp.empty((3, *self.block.cells))
        self.mass_matrix.multiply_padded(self.E_theta, out)
        return self.moments[1:][self.owned] + out

    def energies(self) -> dict:
        """Energies over all ranks at time nΔt: electric, magnetic, kinetic (per species name) and total."""
        kinetic = {s.name: float(sums[0]) / s.charge_to_mass for s, sums in zip(self.species, self._sums, strict=True)}
        return {"electric": self._electric, "magnetic": self._magnetic, "kinetic": kinetic,
                "total": self._electric + self._magnetic + sum(kinetic.values())}

    def momentum(self) -> np.ndarray:
        """Total particle momentum (3,) over all ranks, in m_i c n0 (c/ω_pi)^d."""
        each = (sums[1:4] / s.charge_to_mass for s, sums in zip(self.species, self._sums, strict=True))
        return sum(each, np.zeros(3))

    def charge(self) -> float:
        """Total charge of all species over all ranks."""
        return float(self._sums[:, 4].sum())

    def temperatures(self) -> np.ndarray:
        """m ⟨(v − ⟨v⟩)²⟩/3 of each species over the whole box, in m_i c²; 0 where there are no particles."""
        found = np.zeros(len(self.species))
        for k, (s, sums) in enumerate(zip(self.species, self._sums, strict=True)):
            if sums[4]:
                found[k] = (2 * sums[0] / sums[4] - ((sums[1:4] / sums[4]) ** 2).sum()) / (3 * abs(s.charge_to_mass))
        return found

    @property
    def numbers(self) -> np.ndarray:
        """Macro-particles of each species on all ranks."""
        return self._numbers

    @property
    def n_particles(self) -> int:
        """Macro-particles of all species on all ranks."""
        return int(self._numbers.sum())


def _average(halo, operators, B, B_nodes) -> None:
    """``B_nodes`` = B at the nodes, with ghosts."""
    halo.pad(operators.to_nodes(B), B_nodes)


def _spread(halo, x, targets: tuple, k: int) -> None:
    """``targets[k]`` = x, with ghosts."""
    halo.pad(x, targets[k])
