"""Particles on their way to the block that owns their new cell, however far.

Dimension by dimension through the neighbours, as ghosts go: after one round everybody who has crossed one face, edge or
corner is at home; as long as anyone is still under way, another round follows.
"""

from __future__ import annotations

import numpy as np

from ecsim.parallel.topology import Topology

MOST_CELLS = 2**31


class Migration:
    """Moves particles between the blocks of a topology.

    A particle travels as a row of float64: global flat support cell, then whatever belongs to it (words of other
    types are viewed as float64 and never computed with). Raises ValueError if the cells of the grid cannot be numbered
    by 32 bits, which stores use.

    ``axis`` : the first dimension that is cut.  ``sides`` : int8, where a particle with a coordinate along it goes
    first: 0 it stays, 1 to the low, 2 to the high neighbour.
    """

    def __init__(self, topology: Topology, transport) -> None:
        self.topology, self.transport = topology, transport
        self.block = topology.block(transport.rank)
        self.place = topology.coordinates(transport.rank)
        self.neighbours = topology.neighbours(transport.rank)
        if topology.grid.n_nodes >= MOST_CELLS:
            raise ValueError(f"{topology.grid.n_nodes:,} cells; on several ranks fewer than 2^31 are allowed")
        self.axis = topology.split[0]
        steps = self._steps(self.axis, np.arange(topology.grid.cells[self.axis]))
        self.sides = np.where(steps < 0, 1, np.where(steps > 0, 2, 0)).astype(np.int8)

    def exchange(self, travellers, numbers: tuple[int, int, int] | None = None):
        """Send (n, words) rows to the owners of their cells and return those that arrive here (collective).

        numbers : where the rows lie by ``sides`` already, how many there are of each. The order of what is returned
        depends on the ranks only.
        """
        with self.transport.phase("migrate"):
            home, away = self._round(travellers, numbers)
            while away:
                home, away = self._round(home)
            return home

    def local(self, cells):
        """Flat cells of this block, int64, of global ones that it owns."""
        flat = 0
        for axis, (origin, n) in enumerate(zip(self.block.origin, self.block.cells, strict=True)):
            flat = flat * n + self._coordinate(axis, cells) - origin
        return flat

    def _round(self, travellers, numbers=None):
        """One exchange along every cut dimension; returns what is here then, and how many anywhere are not at home.

        With at most three ranks along a dimension, the shorter way is never longer than one.
        """
        for axis in self.topology.split:
            travellers = self._along(axis, travellers, numbers if axis == self.axis else None)
        if max(self.topology.ranks) <= 3:
            return travellers, 0
        xp = self.transport.xp
        away = xp.zeros(len(travellers), bool)
        for axis in self.topology.split:
            away |= self._steps(axis, self._coordinate(axis, travellers[:, 0])) != 0
        return travellers, float(self.transport.sum(away.sum(dtype=np.float64).reshape(1))[0])

    def _along(self, axis: int, travellers, numbers=None):
        """Pass on, to the nearer side, those whose owner sits elsewhere along a dimension; what stays comes first."""
        peers, xp = self.neighbours[axis], self.transport.xp
        if numbers is None:
            steps = self._steps(axis, self._coordinate(axis, travellers[:, 0]))
            stay, low, high = (xp.ascontiguousarray(travellers[chosen])
                               for chosen in (steps == 0, steps < 0, steps > 0))
        else:
            ends = np.cumsum(numbers)
            stay, low, high = travellers[: ends[0]], travellers[ends[0] : ends[1]], travellers[ends[1] : ends[2]]
        from_low, from_high = self.transport.exchange_counts(peers, len(low), len(high))
        here = xp.empty((len(stay) + from_low + from_high, travellers.shape[1]))
        here[: len(stay)] = stay
        arrivals = here[len(stay) :]
        self.transport.exchange(peers, low, high, arrivals[:from_low], arrivals[from_low:])
        return here

    def _steps(self, axis: int, coordinate):
        """Ranks to go along a dimension, negative towards the low side, the shorter way round the box."""
        p = self.topology.ranks[axis]
        distance = (self.topology.owner(axis, coordinate) - self.place[axis]) % p
        return distance - p * (2 * distance > p)

    def _coordinate(self, axis: int, cells):
        """Global cell index along a dimension of global flat cells."""
        shape = self.topology.grid.cells
        stride = int(np.prod(shape[axis + 1:], dtype=np.int64))
        return cells.astype(np.int64) // stride % shape[axis]
