"""Kick, push and sort in one pass over the cells, and what to do when a cell or the outbox runs full.

Two kernels do the work (kernels/move.cu, kernels/move_arrivals.cu): every cell keeps those that stay, compacted, and
puts those that leave into an outbox; then every cell collects what its neighbours sent it. The host looks at five
counters once a move. Nothing is ever lost: a full outbox leaves particles unbinned in their cells, a full cell leaves
its arrivals in the outbox, and both are finished after the outbox or the store has grown. Particles that cross more
than one cell stay in the outbox and go through the plain insertion, in the order of the cells they come from.
"""

from __future__ import annotations

import numpy as np

RECORDS, EXTRA_RUNS, UNBINNED, FAR_RECORDS, SHORT_CELLS = range(5)  # enum Status of kernels/outbox.cuh
STAGE = 128                                 # leavers a cell stages before it writes a run, kernels/outbox.cuh
LEAST_IN_FULL_RUN = STAGE - 64              # a run is written early only where fewer than 64 places are left
HEAD_BYTES = 64
FRACTION, LEAST_RECORDS = 0.125, 1024       # share of its particles that a species may send before the outbox grows
CELLS_PER_BLOCK = 4


class Outbox:
    """Work space of the mover, shared by all species of a backend: records, run heads, counters, per-cell numbers.

    ``status`` : the five counters above.  ``progress`` : (n_cells, 2) slots a full outbox has left unbinned.
    ``need`` : (n_cells,) particles a cell has with its arrivals.  ``sums`` : (n_cells, 5) of the present move.
    """

    def __init__(self, xp) -> None:
        self.xp = xp
        self.words = xp.empty(0, np.uint64)
        self.heads = xp.empty((0, HEAD_BYTES), np.uint8)
        self.status = xp.zeros(5, np.uint64)
        self._prepare(0)

    def _prepare(self, n_cells: int) -> None:
        xp = self.xp
        self.n_cells = n_cells
        self.progress = xp.zeros((n_cells, 2), np.int32)
        self.need = xp.zeros(n_cells, np.int32)
        self.sums = xp.zeros((n_cells, 5))

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(a.nbytes for a in (self.words, self.heads, self.status, self.progress, self.need, self.sums))

    def capacity(self, words: int) -> int:
        """Records of ``words`` 8-byte words that fit."""
        return self.words.size // words

    def reserve(self, n_cells: int, records: int, words: int) -> None:
        """Make room for a move; what is in the outbox is lost."""
        if n_cells != self.n_cells:
            self._prepare(n_cells)
        if self.capacity(words) < records:
            self.words = self.xp.empty(0, np.uint64)
            self.words = self.xp.empty(records * words, np.uint64)
        heads = self._heads_for(n_cells, self.capacity(words))
        if len(self.heads) < heads:
            self.heads = self.xp.empty((heads, HEAD_BYTES), np.uint8)
        self.status[...] = 0

    def grow(self, n_cells: int, records: int, words: int) -> None:
        """Make room for ``records`` in all and keep what is there."""
        xp = self.xp
        old_words, old_heads = self.words, self.heads
        self.words = xp.empty(records * words, np.uint64)
        self.words[: old_words.size] = old_words
        self.heads = xp.empty((self._heads_for(n_cells, records), HEAD_BYTES), np.uint8)
        self.heads[: len(old_heads)] = old_heads
        self.status[UNBINNED] = 0

    @staticmethod
    def _heads_for(n_cells: int, records: int) -> int:
        return n_cells + records // LEAST_IN_FULL_RUN + 1


def advance(store, beta: float, dt: float, E_nodes=None, B_nodes=None) -> None:
    """Kick (where fields are given) and push all particles of ``store`` and bring every one to its cell.

    The sums of the new velocities are left in the outbox, a row a cell. Particles that are not finite stay in their
    cell and make the energy NaN.
    """
    backend, outbox = store.backend, store.backend.outbox
    outbox.reserve(store.n_cells, max(int(FRACTION * store.n), LEAST_RECORDS), store.record_words)
    _move_cells(store, beta, dt, E_nodes, B_nodes)
    _append_arrivals(store)
    status = backend.to_host(outbox.status)
    if status[UNBINNED]:
        records = int(status[RECORDS]) + int(status[UNBINNED])
        outbox.grow(store.n_cells, records + records // 8, store.record_words)
        _move_cells(store, 0.0, 0.0, resume=1)
        _append_arrivals(store)
        status = backend.to_host(outbox.status)
    if status[SHORT_CELLS]:
        store.make_room(outbox.need)
        _append_arrivals(store, again=1)
    if status[FAR_RECORDS]:
        _settle_far_leavers(store, int(status[FAR_RECORDS]))


def _move_cells(store, beta, dt, E_nodes=None, B_nodes=None, resume: int = 0) -> None:
    outbox, kick = store.backend.outbox, int(E_nodes is not None)
    store.backend.launch(
        "move.cu", "move_cells", (_blocks(store), 1), 32 * CELLS_PER_BLOCK,
        (*store.pointers, store.first, store.count, outbox.progress, outbox.words, outbox.capacity(store.record_words),
         outbox.heads, outbox.status, outbox.sums, *store.geometry, E_nodes, B_nodes, float(beta), *store.steps(dt),
         store.uniform_weight, resume),
        DIM=store.block.d, ORDER=store.block.order, KICK=kick, GATHER=store.gather_type, **store.macros)


def _append_arrivals(store, again: int = 0) -> None:
    outbox = store.backend.outbox
    store.backend.launch(
        "move_arrivals.cu", "append_arrivals", (_blocks(store), 1), 32 * CELLS_PER_BLOCK,
        (*store.pointers, store.first, store.count, outbox.need, outbox.words, outbox.capacity(store.record_words),
         outbox.heads, outbox.status, *store.geometry, again),
        DIM=store.block.d, **store.macros)


def _settle_far_leavers(store, n: int) -> None:
    """Take the n particles that crossed more than one cell out of the outbox and insert them where they belong."""
    xp, outbox = store.backend.xp, store.backend.outbox
    batch = store.empty_batch(n)
    to, per_cell = xp.empty(n, np.int32), xp.empty(store.n_cells, np.int32)

    def run(first) -> None:
        store.backend.launch(
            "move_arrivals.cu", "far_leavers", (_blocks(store), 1), 32 * CELLS_PER_BLOCK,
            (batch["s"], batch["v"], batch["w"], batch["id"], n, to, per_cell, first, outbox.words, outbox.heads,
             *store.geometry),
            DIM=store.block.d, **store.macros)

    run(None)
    run(xp.cumsum(per_cell, dtype=np.int64) - per_cell)
    store.insert(to, batch)


def push_in_place(store, beta: float, dt: float, E_nodes=None, B_nodes=None):
    """The plain way: push where they are; returns the new cell of every slot, n_cells for slots without a particle."""
    outbox, kick = store.backend.outbox, int(E_nodes is not None)
    outbox.reserve(store.n_cells, 0, store.record_words)
    to = store.backend.xp.full(store.slots, store.n_cells, np.int32)
    store.backend.launch(
        "sort.cu", "push_in_place", (_blocks(store), 1), 32 * CELLS_PER_BLOCK,
        (*store.pointers, store.first, store.count, to, outbox.sums, *store.geometry, E_nodes, B_nodes,
         float(beta), *store.steps(dt), store.uniform_weight),
        DIM=store.block.d, ORDER=store.block.order, KICK=kick, GATHER=store.gather_type, **store.macros)
    return to


def _blocks(store) -> int:
    return -(-store.n_cells // CELLS_PER_BLOCK)
