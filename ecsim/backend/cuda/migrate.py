"""Particles that went further than the outbox reaches: across a face where the block is cut, or by more than one cell.

They are packed into rows (kernels/migrate.cu), the migration takes those that must to other blocks, and what is then
here is appended to its cells, in an order that depends on the particles and ranks alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ecsim.backend.cuda.fields import right_aligned
from ecsim.grid import roomy

BOX = np.dtype([("cells", "i4", 3), ("origin", "i4", 3)])  # struct Box of kernels/wander.cuh
THREADS = 128


@dataclass(frozen=True)
class Count:
    """Far leavers of every cell by side, (3, n_cells) int32, and their running sums; both on the device."""

    counts: Any
    ends: Any


def count(store) -> Count:
    """Count the far leavers in the outbox; their numbers in all are added to its status."""
    xp, outbox = store.backend.xp, store.backend.outbox
    counts = xp.empty((3, store.n_cells), np.int32)
    _launch(store, "count_leavers", store.n_cells,
            (counts, outbox.words, outbox.capacity(store.record_words), outbox.heads, outbox.status, *store.geometry,
             *_where(store)))
    return Count(counts, xp.cumsum(counts, dtype=np.int32))


def pack(store, counted: Count, n: int):
    """Rows (n, 1 + words) float64 of the far leavers in the outbox, or of the first n of them."""
    outbox, rows = store.backend.outbox, store.backend.xp.empty((n, 1 + store.record_words))
    if n:
        _launch(store, "pack_leavers", store.n_cells,
                (rows, n, counted.counts, counted.ends, outbox.words, outbox.capacity(store.record_words), outbox.heads,
                 outbox.status, *store.geometry, *_where(store)))
    return rows


def append(store, rows) -> None:
    """Append rows to their cells. Where a cell has no room, or a crowd comes, they are left to `append_late`."""
    n, xp = len(rows), store.backend.xp
    if not n:
        return
    cells, order = (xp.empty(roomy(n), np.int32)[:n] for _ in range(2))
    added = xp.zeros(store.n_cells + 1, np.int32)
    _launch(store, "count_arrivals", n, (rows, n, cells, added, *store.geometry, _box(store)))
    starts = xp.cumsum(added, dtype=np.int32)
    _launch(store, "list_arrivals", n, (cells, n, starts, order))
    _launch(store, "append_rows", store.n_cells,
            (*store.rows, store.first, store.count, rows, order, starts, added, store.n_cells))
    store.n_inserted += n
    store.backend.copy_to_host(added[store.n_cells:], store.late_seen)
    store.late = rows, cells, added, store.backend.mark()


def append_late(store, rows, cells, added, arrived) -> None:
    """Sort in those rows that ``append`` has left, if there are any."""
    arrived()
    if store.late_seen[0]:
        late = added[cells] > 0
        store.n_inserted -= int(late.sum())
        store.insert(cells[late], _batch(store, rows[late]))


def _batch(store, rows) -> dict:
    """Rows as a batch of particles."""
    xp, batch = store.backend.xp, store.empty_batch(len(rows))
    d, words = store.block.d, xp.ascontiguousarray(rows[:, 1:])
    batch["s"][...] = words.view(batch["s"].dtype)[:, :d].T
    words = words[:, words.shape[1] - 3 - (store.w is not None) - (store.id is not None) :]
    batch["v"][...] = words[:, :3].T
    if store.w is not None:
        batch["w"][...] = words[:, 3]
    if store.id is not None:
        batch["id"][...] = xp.ascontiguousarray(words[:, -1]).view(np.uint64)
    return batch


def _box(store) -> np.ndarray:
    box = np.zeros(1, BOX)
    box["cells"], box["origin"] = right_aligned(store.block.grid.cells), right_aligned(store.block.origin, 0)
    return box


def _where(store) -> tuple:
    """The whole box, and which way to go along the first dimension that is cut."""
    if store.migration is None:
        return _box(store), None, 0
    return _box(store), store.sides, store.migration.axis + 3 - store.block.d


def _launch(store, name: str, n: int, arguments: tuple) -> None:
    store.backend.launch("migrate.cu", name, (-(-n // THREADS), 1), THREADS, arguments, DIM=store.block.d,
                         **store.macros)
