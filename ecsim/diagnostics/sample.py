"""What diagnostics see of a plasma: fields and moments by name on this rank's cells, each computed once a step.

Names: ``E``, ``B``, ``rho``, ``J``, ``JE`` (J·E′) and, for each species S, ``rho_S``, ``n_S``, ``J_S``, ``u_S``,
``P_S``, ``T_S``. Moments are of x^{n−1/2} beside v^{n−1}, taken in the middle of the cycle, and of x⁰, v⁰ before the
first one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ecsim.output.snapshots import Mesh

COMMON = ("E", "B", "rho", "J", "JE")
OF_SPECIES = {
    "rho": "charge density", "n": "number density", "J": "current density", "u": "mean velocity",
    "P": "pressure tensor", "T": "temperature",
}
PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


def record_names(species: Iterable[str]) -> list[str]:
    """All names of records for these species."""
    return [*COMMON, *(f"{kind}_{name}" for name in species for kind in OF_SPECIES)]


def needs_moments(names: Iterable[str]) -> bool:
    """Whether any of these records needs the moments of the species."""
    return any(name == "JE" or "_" in name for name in names)


class Sample:
    """One step of a plasma. Everything is collective: all ranks ask for the same things in the same order."""

    def __init__(self, plasma) -> None:
        self.plasma = plasma
        self._moments: dict[str, np.ndarray] = {}
        self._particles: dict[str, dict] = {}

    @property
    def step(self) -> int:
        """Cycles done."""
        return self.plasma.step

    @property
    def time(self) -> float:
        """Time of fields and velocities, in 1/ω_pi."""
        return self.plasma.time

    @property
    def position_offset(self) -> float:
        """Time of the positions that `particles` gives, minus that of the velocities."""
        return -0.5 * self.plasma.dt if self.plasma.step else 0.0

    def take_moments(self) -> None:
        """Sum up the species now, in the middle of a cycle (or before the first)."""
        p = self.plasma
        for s in p.species:
            padded = s.store.deposit_moments()
            p.halo.add(padded)
            self._moments[s.name] = p.backend.to_host(padded[p.owned])

    def forget(self) -> None:
        """What was computed belongs to a step that is over."""
        self._moments.clear()
        self._particles.clear()

    def gather(self, local: np.ndarray) -> np.ndarray:
        """An array of the whole grid on rank 0 from those of all ranks; other ranks get their own back (collective)."""
        spread = self.plasma.domain.spread(local)
        if local.shape == spread.shape:
            return local
        whole = np.empty(spread.shape, local.dtype) if self.plasma.domain.world.is_root else local
        for index, values in spread.pieces():
            whole[index] = values
        return whole

    def particles(self, name: str) -> dict:
        """Host copies in stored order: cell, s, v, weight, id, as a store gives them."""
        if name not in self._particles:
            store = next(s.store for s in self.plasma.species if s.name == name)
            self._particles[name] = store.to_host()
        return self._particles[name]

    def field(self, name: str) -> Mesh:
        """A record by name: owned values of this rank on the host. Raises KeyError if there is no such record."""
        p, offset = self.plasma, self.position_offset
        host = p.backend.to_host
        if name == "E":
            return Mesh(host(p.E[p.owned]), "node", "electric_field")
        if name == "B":
            return Mesh(host(p.B[p.owned]), "centre", "magnetic_field")
        if name == "rho":
            rho = host(p.moments[0][p.owned]) if p.solution else self._total(slice(0, 1))[0]
            return Mesh(rho, "node", "charge_density", offset)
        if name == "J":
            return Mesh(self._current(), "node", "current_density", offset)
        if name == "JE":
            return Mesh(self._dissipation(), "node", "power_density", offset)
        kind, _, species = name.partition("_")
        return self._moment(kind, next(s for s in p.species if s.name == species), offset)

    def _total(self, rows) -> np.ndarray:
        if not self._moments:
            self.take_moments()
        empty = np.zeros((rows.stop - rows.start, *self.plasma.block.cells))
        return sum((m[rows] for m in self._moments.values()), empty)

    def _current(self) -> np.ndarray:
        p = self.plasma
        return p.backend.to_host(p.total_current()) if p.solution else self._total(slice(1, 4))

    def _dissipation(self) -> np.ndarray:
        """J·(E + u×B), u of the species with the largest |charge/mass| (Zenitani et al. 2011, PRL 106, 195003).

        E is E^{n−1+θ}, which does the work on this J (E⁰ before the first cycle); u and B are those of their records.
        """
        p, host = self.plasma, self.plasma.backend.to_host
        light = max(p.species, key=lambda s: abs(s.charge_to_mass), default=None)
        E = host((p.E_theta if p.solution else p.E)[p.owned])
        if light is not None:
            u = self._moment("u", light, 0.0).values
            E = E + np.cross(u, host(p.operators.to_nodes(p.B)), axis=0)
        return np.sum(self._current() * E, axis=0)

    def _moment(self, kind: str, species, offset: float) -> Mesh:
        if not self._moments:
            self.take_moments()
        m = self._moments[species.name]
        rho, J = m[0], m[1:4]
        if kind == "rho":
            return Mesh(rho, "node", "charge_density", offset)
        if kind == "J":
            return Mesh(J, "node", "current_density", offset)
        if kind == "n":
            return Mesh(np.abs(rho), "node", "number_density", offset)
        u = np.divide(J, rho, out=np.zeros_like(J), where=rho != 0)
        if kind == "u":
            return Mesh(u, "node", "velocity", offset)

        def pressure(c):
            """One component of the tensor."""
            i, j = PAIRS[c]
            return (m[4 + c] - J[i] * u[j]) / species.charge_to_mass

        if kind == "P":
            return Mesh(np.stack([pressure(c) for c in range(6)]), "node", "pressure", offset)
        if kind == "T":
            n = np.abs(rho)
            trace = sum(pressure(c) for c in (0, 3, 5))
            return Mesh(np.divide(trace, 3 * n, out=np.zeros_like(n), where=n != 0), "node", "temperature", offset)
        raise KeyError(f"no record {kind}_{species.name}")
