"""A species: its numbers and its particle store; and positions on the way in and out."""

from __future__ import annotations

import numpy as np

from ecsim.grid import Block


def locate(block: Block, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Local support cell and in-cell coordinate of positions anywhere in the box.

    x : (P, d) in c/ω_pi, wrapped into the box.  Returns ``cell`` (P,) int32 in C order, −1 where another block owns it,
    and ``s`` (d, P) in [−½, ½), relative to the support cell's centre in cell widths (CIC: the cell that holds x; TSC:
    the cell around the nearest node).
    """
    cell, owned = np.zeros(len(x), dtype=np.int64), np.ones(len(x), dtype=bool)
    s = np.empty((block.d, len(x)))
    for k, (n, width, size) in enumerate(zip(block.grid.cells, block.spacing, block.grid.size, strict=True)):
        wrapped = np.mod(x[:, k], size)
        xi = np.where(wrapped < size, np.minimum(wrapped / width, np.nextafter(n, 0)), 0.0)
        i = np.floor(xi + 0.5 * (block.order - 1))
        s[k] = xi - i - 0.5 * (2 - block.order)
        local = np.where(i == n, 0, i).astype(np.int64) - block.origin[k]
        owned &= (local >= 0) & (local < block.cells[k])
        cell = cell * block.cells[k] + local
    return np.where(owned, cell, -1).astype(np.int32), s


def positions(block: Block, cell: np.ndarray, s: np.ndarray, back: np.ndarray | None = None) -> np.ndarray:
    """Positions (P, d) in [0, L) from stored ones, moved back by ``back`` (d, P) cell widths where given."""
    index = np.unravel_index(cell, block.cells)
    x = np.empty((len(cell), block.d))
    for k in range(block.d):
        n, size = block.grid.cells[k], block.grid.size[k]
        xi = block.origin[k] + index[k] + 0.5 * (2 - block.order) + s[k]
        if back is not None:
            xi = xi - back[k]
        x[:, k] = np.mod(xi, n) * block.spacing[k]
        x[x[:, k] >= size, k] = 0.0
    return x


class Species:
    """One population of macro-particles.

    name : unique.  charge_to_mass : q/m in units of the ion's.  store : particle store of the backend.
    """

    def __init__(self, name: str, charge_to_mass: float, store) -> None:
        self.name, self.charge_to_mass, self.store = name, float(charge_to_mass), store
        self.plasma = None

    def beta(self, dt: float) -> float:
        """β = q Δt / 2m."""
        return 0.5 * self.charge_to_mass * dt

    def __len__(self) -> int:
        return self.store.n

    def _host(self) -> dict:
        return self.store.to_host()

    @property
    def x(self) -> np.ndarray:
        """Host copy of the positions (P, d), in c/ω_pi: x⁰ before the first cycle, then x^{n−1/2} beside v^n."""
        h, block = self._host(), self.store.block
        if self.plasma is None or self.plasma.step == 0:
            return positions(block, h["cell"], h["s"])
        width = np.asarray(block.spacing)[:, None]
        return positions(block, h["cell"], h["s"], self.plasma.dt * h["v"][: block.d] / width)

    @property
    def v(self) -> np.ndarray:
        """Host copy of the velocities (P, 3), in c, in the same order as ``x`` and ``id``."""
        return np.ascontiguousarray(self._host()["v"].T)

    @property
    def q(self) -> np.ndarray:
        """Host copy of the macro-charges (P,)."""
        h = self._host()
        return np.broadcast_to(np.asarray(h["weight"], dtype=np.float64), (len(h["cell"]),)).copy()

    @property
    def id(self) -> np.ndarray:
        """Host copy of the particle numbers (P,), uint64. Raises ValueError where the run keeps none."""
        ids = self._host()["id"]
        if ids is None:
            raise ValueError(f"species '{self.name}' keeps no ids; set particles.ids = true in the deck")
        return ids
