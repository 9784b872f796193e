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

    A particle travels as a column of float64: global flat support cell, then whatever belongs to it (words of other
    types are viewed as float64 and never computed with). Raises ValueError if the cells of the grid cannot be numbered
    by 32 bits, which stores use.
    """

    def __init__(self, topology: Topology, transport) -> None:
        self.topology, self.transport = topology, transport
        self.block = topology.block(transport.rank)
        self.place = topology.coordinates(transport.rank)
        self.neighbours = topology.neighbours(transport.rank)
        if topology.grid.n_nodes >= MOST_CELLS:
            raise ValueError(f"{topology.grid.n_nodes:,} cells; on several ranks fewer than 2^31 are allowed")

    def exchange(self, travellers):
        """Send (rows, n) columns to the owners of their cells and return those that arrive here (collective).

        In what is returned the first row is the local flat cell. The order depends on the ranks only.
        """
        with self.transport.phase("migrate"):
            home, away = self._round(travellers)
            while away:
                home, away = self._round(home)
            home[0] = self._local(home[0])
            return home

    def _round(self, travellers):
        """One exchange along every cut dimension; returns what is here then, and how many anywhere are not at home.

        With at most three ranks along a dimension, the shorter way is never longer than one.
        """
        for axis in self.topology.split:
            travellers = self._along(axis, travellers)
        if max(self.topology.ranks) <= 3:
            return travellers, 0
        xp = self.transport.xp
        away = xp.zeros(travellers.shape[1], bool)
        for axis in self.topology.split:
            away |= self._steps(axis, travellers[0]) != 0
        return travellers, float(self.transport.sum(away.sum(dtype=np.float64).reshape(1))[0])

    def _along(self, axis: int, travellers):
        """Pass on, to the nearer side, those whose owner sits elsewhere along a dimension; what stays comes first."""
        xp, peers = self.transport.xp, self.neighbours[axis]
        steps = self._steps(axis, travellers[0])
        stay, low, high = (xp.ascontiguousarray(travellers[:, chosen]) for chosen in (steps == 0, steps < 0, steps > 0))
        counts = self.transport.exchange_counts(peers, low.shape[1], high.shape[1])
        from_low, from_high = (xp.empty((len(travellers), n)) for n in counts)
        self.transport.exchange(peers, low, high, from_low, from_high)
        return xp.concatenate([stay, from_low, from_high], axis=1)

    def _steps(self, axis: int, cells):
        """Ranks to go along a dimension, negative towards the low side, the shorter way round the box."""
        p = self.topology.ranks[axis]
        distance = (self.topology.owner(axis, self._coordinate(axis, cells)) - self.place[axis]) % p
        return distance - p * (2 * distance > p)

    def _coordinate(self, axis: int, cells):
        """Global cell index along a dimension of global flat cells."""
        shape = self.topology.grid.cells
        stride = int(np.prod(shape[axis + 1:], dtype=np.int64))
        return cells.astype(np.int64) // stride % shape[axis]

    def _local(self, cells):
        """Local flat cells of global ones."""
        flat = 0
        for axis, (origin, n) in enumerate(zip(self.block.origin, self.block.cells, strict=True)):
            flat = flat * n + self._coordinate(axis, cells) - origin
        return flat
