"""Arrays whose last axis counts particles, some on every rank, brought to rank 0 one rank after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

TAG = 8


class Rows:
    """Host arrays (..., n) of this rank, by name, with the same n; those of all ranks seen as one (collective).

    ``counts`` : n of every rank.  ``n`` : their sum.
    """

    def __init__(self, columns: Mapping[str, np.ndarray], comm=None) -> None:
        self.columns, self.comm = {name: np.ascontiguousarray(a) for name, a in columns.items()}, comm
        mine = next(iter(self.columns.values())).shape[-1]
        self.counts = [mine] if comm is None else comm.allgather(mine)
        self.n = sum(self.counts)

    def pieces(self) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """On rank 0: (place of the first, arrays) of each rank in turn. On others nothing; they send (collective)."""
        if self.comm is not None and self.comm.rank:
            for a in self.columns.values():
                self.comm.Send(a, 0, TAG)
            return
        yield 0, self.columns
        place = self.counts[0]
        for rank, count in enumerate(self.counts[1:], start=1):
            part = {name: np.empty((*a.shape[:-1], count), a.dtype) for name, a in self.columns.items()}
            for a in part.values():
                self.comm.Recv(a, rank, TAG)
            yield place, part
            place += count

    def whole(self) -> dict[str, np.ndarray]:
        """The whole arrays on rank 0; elsewhere those of this rank (collective)."""
        parts = [part for _, part in self.pieces()]
        if not parts:
            return self.columns
        return {name: np.concatenate([part[name] for part in parts], axis=-1) for name in self.columns}
