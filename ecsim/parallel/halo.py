"""Ghost layers: two verbs, ``fill`` (owner → ghost) and ``add`` (ghost → owner), on any number of ranks.

Dimension by dimension, so that edges and corners come out right, and in a fixed order, so that sums are
deterministic. A dimension that this rank owns whole is its own neighbour on both sides; there ghost indices are taken
modulo the number of cells, so that a dimension of one cell works. Along a dimension that is cut, what goes to a
neighbour travels in one message, whatever the number of arrays and components.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from ecsim.grid import Block
from ecsim.parallel.transport import Alone

LOW, HIGH = 0, 1


def _along(axis_from_end: int, index) -> tuple:
    """Index that selects ``index`` along the axis counted from the end (1 = last)."""
    return (..., index, *(slice(None),) * (axis_from_end - 1))


class Dimension(NamedTuple):
    """The layers along one dimension, as indices: those on the low side, then those on the high side.

    peers : ranks there, None if this rank owns the dimension whole.  ghosts, owners : the outermost ghost and owned
    layers.  mirrored : the owned layers that ``ghosts`` repeat where the dimension is whole.
    """

    peers: tuple[int, int] | None
    ghosts: list[tuple]
    owners: list[tuple]
    mirrored: list[tuple]


def _dimension(block: Block, k: int, peers: tuple[int, int] | None) -> Dimension:
    g, n = block.ghosts, block.cells[k]
    ghosts, owners = [slice(0, g), slice(n + g, n + 2 * g)], [slice(g, 2 * g), slice(n, n + g)]
    mirrored = owners[::-1]
    if peers is None and n < g:
        thin = [*range(g), *range(n + g, n + 2 * g)]
        ghosts = [slice(j, j + 1) for j in thin]
        mirrored = [slice(g + (j - g) % n, g + (j - g) % n + 1) for j in thin]
    return Dimension(peers, *([_along(block.d - k, i) for i in some] for some in (ghosts, owners, mirrored)))


class Halo:
    """Ghost exchange of one block of a periodic box.

    neighbours : for each dimension the ranks (low, high) beside the block, or None where it spans the box; by default
    it does everywhere.  transport : how arrays get there.  periodic : the backend's own ``fill(a)`` and ``add(a)`` of a
    block that spans the box, where it has them.
    """

    def __init__(self, block: Block, neighbours=None, transport=None, periodic=None) -> None:
        self.block, self.transport, self.periodic = block, transport or Alone(), periodic
        self._dimensions = [_dimension(block, k, neighbours and neighbours[k]) for k in range(block.d)]

    def fill(self, *arrays) -> None:
        """Copy owned values into the ghosts of arrays (..., *padded), in place."""
        if self.periodic:
            for a in arrays:
                self.periodic.fill(a)
            return
        for peers, ghosts, owners, mirrored in self._dimensions:
            if peers:
                for side, a, values in self._exchange(peers, arrays, owners):
                    a[ghosts[side]] = values
            else:
                for a, (ghost, owner) in product(arrays, zip(ghosts, mirrored, strict=True)):
                    a[ghost] = a[owner]

    def add(self, *arrays) -> None:
        """Add what lies on ghosts of arrays (..., *padded) to its owners, in place; ghosts stay as they were."""
        if self.periodic:
            for a in arrays:
                self.periodic.add(a)
            return
        for peers, ghosts, owners, mirrored in reversed(self._dimensions):
            if peers:
                for side, a, values in self._exchange(peers, arrays, ghosts):
                    a[owners[side]] += values
            else:
                for a, (ghost, owner) in product(arrays, zip(ghosts, mirrored, strict=True)):
                    a[owner] += a[ghost]

    def _exchange(self, peers, arrays, layers):
        """Send the layers (low, high) of all arrays; yields (side, array, values) of what came, high side first."""
        xp = self.transport.xp
        sent = [xp.concatenate([a[layer].reshape(-1) for a in arrays]) for layer in layers]
        came = [xp.empty_like(packed) for packed in sent]
        self.transport.exchange(peers, *sent, *came)
        for side in (HIGH, LOW):
            begin = 0
            for a in arrays:
                shape = a[layers[side]].shape
                end = begin + a[layers[side]].size
                yield side, a, came[side][begin:end].reshape(shape)
                begin = end

    def sum(self, a):
        """Sum of an array over all ranks, the same bits on each."""
        return self.transport.sum(a)

    def max(self, value: float) -> float:
        """Largest of a number over all ranks."""
        return self.transport.max(value)
