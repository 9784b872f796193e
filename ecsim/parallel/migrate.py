"""Particles on their way to the block that owns their new cell, however far.

Dimension by dimension through the neighbours, as ghosts go: after one round everybody who has crossed one face, edge or
corner is at home; as long as anyone is still under way, another round follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ecsim.grid import roomy
from ecsim.parallel.topology import Topology

MOST_CELLS = 2**31


class Migration:
    """Moves particles between the blocks of a topology.

    A particle travels as a row of float64: global flat support cell, then whatever belongs to it (words of other
    types are viewed as float64 and never computed with). Raises ValueError if the cells of the grid cannot be numbered
    by 32 bits, which stores use.

    ``split``, ``axis`` : the dimensions that are cut, and the first of them.  ``sides`` : int8, where a particle with
    a coordinate along it goes first: 0 it stays, 1 to the low, 2 to the high neighbour.
    """

    def __init__(self, topology: Topology, transport) -> None:
        self.topology, self.transport = topology, transport
        self.block = topology.block(transport.rank)
        self.place = topology.coordinates(transport.rank)
        self.neighbours = topology.neighbours(transport.rank)
        if topology.grid.n_nodes >= MOST_CELLS:
            raise ValueError(f"{topology.grid.n_nodes:,} cells; on several ranks fewer than 2^31 are allowed")
        self.split, self.axis = topology.split, topology.split[0]
        n = topology.grid.cells[self.axis]
        steps = self._steps(self.axis, np.arange(n))
        if topology.ranks[self.axis] == 1:  # a loop: who is in the lower half now has left over the high face
            steps = np.where(np.arange(n) < n // 2, 1, -1)
        self.sides = np.where(steps < 0, 1, np.where(steps > 0, 2, 0)).astype(np.int8)

    def exchange(self, travellers, numbers: tuple[int, int, int] | None = None, meanwhile: Sequence = ()):
        """Send (n, words) rows to the owners of their cells and return those that arrive here (collective).

        numbers : where the rows lie by ``sides`` already, how many there are of each.  meanwhile : functions that are
        called while rows travel. The order of what is returned depends on the ranks only.
        """
        with self.transport.phase("migrate"):
            home: list = []
            self.transport.beside(self._passing(travellers, numbers, home), meanwhile)
            return home[0]

    def local(self, cells):
        """Flat cells of this block, int64, of global ones that it owns."""
        flat = 0
        for axis, (origin, n) in enumerate(zip(self.block.origin, self.block.cells, strict=True)):
            flat = flat * n + self._coordinate(axis, cells) - origin
        return flat

    def _passing(self, travellers, numbers, home: list) -> Iterator[None]:
        """Rounds along every cut dimension until nobody is away; yields whenever an exchange is under way.

        With at most three ranks along a dimension, the shorter way is never longer than one, and one round will do.
        """
        away = True
        while away:
            for axis in self.topology.split:
                sides = self._by_side(axis, travellers, numbers if axis == self.axis else None)
                from_low, from_high = self.transport.exchange_counts(self.neighbours[axis], *map(len, sides[1:]))
                total = len(sides[0]) + from_low + from_high
                travellers = self.transport.xp.empty((roomy(total), travellers.shape[1]))[:total]
                travellers[: len(sides[0])] = sides[0]
                arrivals = travellers[len(sides[0]) :]
                pending = self.transport.start(self.neighbours[axis], *sides[1:], arrivals[:from_low],
                                               arrivals[from_low:])
                yield
                self.transport.finish(pending)
            numbers = None
            away = max(self.topology.ranks) > 3 and self._anyone_away(travellers)
        home.append(travellers)

    def _anyone_away(self, travellers) -> bool:
        """Whether anyone anywhere is not at home."""
        away = self.transport.xp.zeros(len(travellers), bool)
        for axis in self.topology.split:
            away |= self._steps(axis, self._coordinate(axis, travellers[:, 0])) != 0
        return float(self.transport.sum(away.sum(dtype=np.float64).reshape(1))[0]) > 0.0

    def _by_side(self, axis: int, travellers, numbers=None) -> tuple:
        """Those that stay along a dimension, and those whose way leads to the low and to the high neighbour."""
        if numbers is None:
            steps = self._steps(axis, self._coordinate(axis, travellers[:, 0]))
            return tuple(self.transport.xp.ascontiguousarray(travellers[chosen])
                         for chosen in (steps == 0, steps < 0, steps > 0))
        ends = np.cumsum(numbers)
        return travellers[: ends[0]], travellers[ends[0] : ends[1]], travellers[ends[1] : ends[2]]

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
