"""The cells of particles that were appended to a store: a number a cell where they come in order, as loaded ones do."""

from __future__ import annotations

import numpy as np

from ecsim.backend.cpu import sort


class Waiting:
    """Support cells of appended particles, by batches (first cell, number of each from it on), or (None, cells)."""

    def __init__(self) -> None:
        self._batches: list[tuple] = []
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def add(self, cell: np.ndarray) -> None:
        """Take the cells (P,) int32 of a batch."""
        self._n += len(cell)
        if len(cell):
            first, last = int(cell[0]), int(cell[-1])
            counts = np.zeros(max(last - first + 1, 0), np.int32)
            in_order = sort.tally(cell, first, counts)
            self._batches.append((first, counts) if in_order else (None, cell.copy()))

    def after(self, last: int, counts: np.ndarray) -> bool:
        """Whether all follow in order on particles of cells up to ``last``; if so, adds their numbers to ``counts``."""
        for first, held in self._batches:
            if first is None or first < last:
                return False
            last = first + len(held) - 1
        for first, held in self._batches:
            counts[first:first + len(held)] += held
        return True

    def write(self, out: np.ndarray) -> None:
        """The cells themselves, into ``out``, in the order in which they came."""
        begin = 0
        for first, held in self._batches:
            cells = held if first is None else np.repeat(np.arange(first, first + len(held), dtype=np.int32), held)
            out[begin:begin + len(cells)] = cells
            begin += len(cells)
