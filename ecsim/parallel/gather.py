"""An array of the whole grid that lies spread over the ranks' blocks, put together on the host."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ecsim.parallel.topology import Topology

TAG = 7


class Spread:
    """Host arrays (..., *cells), one a rank, of the blocks of a topology, seen as one array of the whole grid.

    ``shape`` is that of the whole. Never more than one block of another rank is held at a time.
    """

    def __init__(self, local: np.ndarray, topology: Topology, comm=None) -> None:
        self.local, self.topology, self.comm = local, topology, comm
        self.shape = (*local.shape[: local.ndim - topology.grid.d], *topology.grid.cells)
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, component: int) -> Spread:
        return Spread(self.local[component], self.topology, self.comm)

    def __iter__(self) -> Iterator[Spread]:
        return (self[component] for component in range(len(self)))

    def pieces(self) -> Iterator[tuple[tuple, np.ndarray]]:
        """On rank 0: (index into the whole, values) of each rank in turn. On others nothing; they send (collective)."""
        if self.comm is None:
            yield self._index(0), self.local
        elif self.comm.rank:
            self.comm.Send(np.ascontiguousarray(self.local), 0, TAG)
        else:
            yield self._index(0), self.local
            for rank in range(1, self.comm.size):
                cells = self.topology.block(rank).cells
                values = np.empty((*self.shape[: -len(cells)], *cells), self.local.dtype)
                self.comm.Recv(values, rank, TAG)
                yield self._index(rank), values

    def whole(self) -> np.ndarray:
        """The whole array, on every rank (collective)."""
        out = np.empty(self.shape, self.local.dtype)
        parts = self.comm.allgather(self.local) if self.comm else [self.local]
        for rank, values in enumerate(parts):
            out[self._index(rank)] = values
        return out

    def _index(self, rank: int) -> tuple:
        block = self.topology.block(rank)
        return (..., *(slice(o, o + n) for o, n in zip(block.origin, block.cells, strict=True)))
