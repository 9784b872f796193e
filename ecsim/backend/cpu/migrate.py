"""Particles that left the block give up their places, those that arrive take them; both before the sort."""

from __future__ import annotations

import numpy as np


def migrate(store, destination: np.ndarray, ranges: list[tuple[int, int]]) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Send away the particles of a store without visiting index whose ``destination`` is negative, −1 − global cell.

    Returns destination and ranges (of places, one a slab) as they are then; every destination is a local cell.
    """
    n, gone = len(destination), np.flatnonzero(destination < 0)
    columns = [as_words(a) for a in store.attributes()]
    travellers = np.empty((len(gone), 1 + len(columns)))
    travellers[:, 0] = -1 - destination[gone].astype(np.int64)
    for k, column in enumerate(columns):
        travellers[:, 1 + k] = column[gone]
    came = store.migration.exchange(travellers)
    total = n - len(gone) + len(came)
    destination = store.reserve(total, destination)
    cells = destination[: max(n, total)]
    columns = [as_words(a) for a in store.attributes()]
    spots = np.concatenate([gone[: len(came)], np.arange(n, total)])
    cells[spots] = store.migration.local(came[:, 0])
    for k, column in enumerate(columns):
        column[spots] = came[:, 1 + k]
    tail = np.arange(total, n)
    movers, holes = tail[cells[total:n] >= 0], gone[len(came):]
    for column in (cells, *columns):
        column[holes[holes < total]] = column[movers]
    clipped = [(min(begin, total), min(end, total)) for begin, end in ranges]
    return destination[:total], [*clipped[:-1], (clipped[-1][0], total)]


def as_words(a: np.ndarray) -> np.ndarray:
    """The same memory; ids as float64, which only carry them."""
    return a.view(np.float64) if a.dtype == np.uint64 else a
