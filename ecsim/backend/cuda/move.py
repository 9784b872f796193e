"""Kick, push and sort in one pass over the cells, and what to do when a cell or the outbox runs full.

Two kernels do the work (kernels/move.cu, kernels/move_arrivals.cu): every cell keeps those that stay, compacted, and
puts those that leave into an outbox; then every cell collects what its neighbours sent it. The host looks at a few
counters once a move. Nothing is ever lost: a full outbox leaves particles unbinned in their cells, a full cell leaves
its arrivals in the outbox, and both are finished after the outbox or the store has grown. Particles that cross more
than one cell, or leave the block where it is cut, stay in the outbox and go through ecsim.backend.cuda.migrate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ecsim.backend.cuda import migrate
from ecsim.grid import roomy

STATUS_WORDS = 9                            # of kernels/outbox.cuh, in this order:
(RECORDS, EXTRA_RUNS, UNBINNED, FAR_RECORDS, SHORT_CELLS, LEAVERS, AWAY_LOW, AWAY_HIGH,
 CELLS_DRAWN) = range(STATUS_WORDS)
STAGE = 96                                  # leavers a cell stages before it writes a run, kernels/outbox.cuh
MANY_LEAVERS = STAGE // 2                   # of a cell, from which on some cells will write two runs
LEAST_IN_FULL_RUN = STAGE - 64              # a run is written early only where fewer than 64 places are left
POOL = 512                                  # records a warp reserves at a time, kernels/outbox.cuh
HEAD_BYTES = 64
FRACTION, LEAST_RECORDS = 0.125, 1024       # share of its particles that a species may send before the outbox grows
GROWTH = 0.125                              # by which it then becomes larger than what it is to hold
WARPS = 4                                   # of a block
ROUNDS = 4                                  # blocks of the second kernel that follow each other in one place


def rows_of(arrays: dict) -> tuple:
    """The eight component arrays of a store or a batch, by the names s, v, w, id; None where there is none."""
    return (*arrays["s"], *(None,) * (3 - len(arrays["s"])), *arrays["v"], arrays["w"], arrays["id"])


class Outbox:
    """Work space of the mover, shared by all species of a backend: records, run heads, counters, per-cell numbers.

    ``status`` : the counters above, of the latest move, and ``seen`` on the host.  ``progress`` : (n_cells, 2) slots
    that a full outbox has left unbinned.  ``need`` : (n_cells,) particles a cell has with its arrivals.
    """

    def __init__(self, backend) -> None:
        self.xp, self._release = backend.xp, backend.release_memory
        self.seen = backend.page_locked(STATUS_WORDS).view(np.uint64)
        xp = self.xp
        self.words = xp.empty(0, np.uint64)
        self.heads = xp.empty((0, HEAD_BYTES), np.uint8)
        self.status = xp.zeros(STATUS_WORDS, np.uint64)
        self._prepare(0)

    def _prepare(self, n_cells: int) -> None:
        xp = self.xp
        self.n_cells = n_cells
        self.progress = xp.zeros((n_cells, 2), np.int32)
        self.need = xp.zeros(n_cells, np.int32)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(a.nbytes for a in (self.words, self.heads, self.status, self.progress, self.need))

    def capacity(self, words: int) -> int:
        """Records of ``words`` 8-byte words that fit."""
        return self.words.size // words

    def reserve(self, n_cells: int, records: int, words: Sequence[int]) -> list:
        """Make room for moves with records of so many ``words`` each, the largest of ``records``.

        What is in the outbox is lost. Returns a status for each move.
        """
        if n_cells != self.n_cells:
            self._prepare(n_cells)
        if self.capacity(max(words)) < records:
            had, self.words = self.words.size, self.xp.empty(0, np.uint64)
            if had:
                self._release()
            self.words = self.xp.empty(roomy(records) * max(words), np.uint64)
        heads = self._heads_for(n_cells, self.capacity(min(words)))
        if len(self.heads) < heads:
            self.heads = self.xp.empty((heads, HEAD_BYTES), np.uint8)
        return list(self.xp.zeros((len(words), len(self.status)), np.uint64))

    def grow(self, n_cells: int, status, spare: int, words: int) -> None:
        """Make room for those whom the move of this ``status`` (on the host) left unbinned; what is there is kept.

        Warps that found it full have counted what they did not get.
        """
        xp = self.xp
        used, unbinned = min(int(status[RECORDS]), self.capacity(words)), int(status[UNBINNED])
        records = int((1.0 + GROWTH) * (used + unbinned)) + spare
        old_words, old_heads = self.words, self.heads
        self.words = xp.empty(records * words, np.uint64)
        self.words[: old_words.size] = old_words
        del old_words
        self._release()
        self.heads = xp.empty((max(len(old_heads), self._heads_for(n_cells, records)), HEAD_BYTES), np.uint8)
        self.heads[: len(old_heads)] = old_heads
        self.status[RECORDS] = used
        for k in (UNBINNED, AWAY_LOW, AWAY_HIGH, CELLS_DRAWN):
            self.status[k] = 0

    @staticmethod
    def _heads_for(n_cells: int, records: int) -> int:
        return n_cells + records // LEAST_IN_FULL_RUN + 1


def move(stores: list, betas: list[float], dt: float, E_nodes=None, B_nodes=None) -> list:
    """Kick (where fields are given) and push the particles of all stores and bring every one to its cell.

    Returns the sums of each store's new velocities (5,) on the device where there was a kick. Particles that are not
    finite stay in their cell and make the energy NaN. The host works ahead of the device: the travellers of one store
    pass between blocks while the kernels of the next run, and the last store is still on its way. Each store's
    ``finish_move`` is to be called before anything looks at its particles. Collective where stores have a migration.
    """
    flights = [Flight(store, beta, dt, E_nodes, B_nodes) for store, beta in zip(stores, betas, strict=True)]
    if not flights:
        return []
    outbox = stores[0].backend.outbox
    statuses = outbox.reserve(stores[0].n_cells, max(flight.records for flight in flights),
                              [store.record_words for store in stores])
    for before, flight, status in zip([None, *flights], flights, statuses, strict=False):
        if before is None:
            flight.launch(status)
        else:
            before.depart()
            before.settle(partial(flight.launch, status))
    stores[-1].flight = flights[-1]
    return [flight.sums for flight in flights]


class Flight:
    """The move of one store, in three steps; the first and second use the outbox, which all stores share.

    ``sums`` : see `move`.  ``records`` : room that it wants in the outbox.
    """

    def __init__(self, store, beta: float, dt: float, E_nodes, B_nodes) -> None:
        self.store, self.arguments = store, (beta, dt, E_nodes, B_nodes)
        self.plan = _plan(store, E_nodes is not None)
        self.records = max(int(FRACTION * store.n), LEAST_RECORDS) + POOL * WARPS * self.plan[2]
        self.sums = self._counted = self._rows = None
        self._numbers = (0, 0, 0)

    def launch(self, status) -> None:
        """Start the kernels. Rows for the travellers are packed ahead, as many as there may be by the last time."""
        store = self.store
        with store.backend.timer.phase("mover"):
            store.backend.outbox.status = status
            self.sums = _move_cells(store, self.plan, *self.arguments)
            _append_arrivals(store)
            if store.migration is not None:
                self._counted = migrate.count(store)
                self._rows = migrate.pack(store, self._counted, store.most_travellers)
            store.backend.copy_to_host(status, store.backend.outbox.seen)
            self._arrived = store.backend.mark()

    def depart(self) -> None:
        """Finish what a full cell or outbox has left, and take far leavers out of the outbox, if there may be any."""
        store, backend, outbox = self.store, self.store.backend, self.store.backend.outbox
        self._arrived()
        status = outbox.seen
        while status[UNBINNED]:
            plan = _plan(store, False)
            outbox.grow(store.n_cells, status, POOL * WARPS * plan[2], store.record_words)
            _move_cells(store, plan, 0.0, 0.0, resume=1)
            _append_arrivals(store)
            self._counted = self._rows = None
            status = backend.to_host(outbox.status)
        store.leavers = int(status[LEAVERS])
        if status[SHORT_CELLS]:
            store.make_room(outbox.need)
            _append_arrivals(store, again=1)
        if store.migration is None and not status[FAR_RECORDS]:
            return
        if self._counted is None:
            self._counted = migrate.count(store)
            status = backend.to_host(outbox.status)
        self._take_out(*(int(status[k]) for k in (FAR_RECORDS, AWAY_LOW, AWAY_HIGH)))

    def _take_out(self, n: int, low: int, high: int) -> None:
        """The rows of n far leavers, of which some go to the low and to the high neighbour."""
        store = self.store
        if self._rows is None or len(self._rows) < n:
            self._rows = migrate.pack(store, self._counted, n)
            store.most_travellers = n + n // 4
        self._rows, self._numbers = self._rows[:n], (n - low - high, low, high)
        store.n_inserted -= n

    def settle(self, meanwhile=None) -> None:
        """Bring the far leavers to their blocks and cells; ``meanwhile`` is called while they travel."""
        beside = [] if meanwhile is None else [meanwhile]
        if self.store.migration is not None:
            self._rows = self.store.migration.exchange(self._rows, self._numbers, beside)
        elif meanwhile is not None:
            meanwhile()
        if self._rows is not None:
            migrate.append(self.store, self._rows)


def _plan(store, kick: bool) -> tuple[dict, int, int]:
    """Macros, dynamic shared memory and blocks of the first kernel, looked up once for a store."""
    if kick in store.plans:
        return store.plans[kick]
    macros = {"DIM": store.block.d, "ORDER": store.block.order, "KICK": int(kick), "GATHER": store.gather_type,
              **store.macros}
    shared = store.backend.launch_sizes("move.cu", **macros)[0]
    resident = store.backend.resident_blocks("move.cu", "move_cells", 32 * WARPS, shared, **macros)
    store.plans[kick] = macros, shared, min(_blocks(store), resident)
    return store.plans[kick]


def _move_cells(store, plan: tuple, beta: float, dt: float, E_nodes=None, B_nodes=None, resume: int = 0):
    backend, outbox, kick = store.backend, store.backend.outbox, E_nodes is not None
    macros, shared, blocks = plan
    sums = backend.xp.empty((store.n_cells, 5)) if kick else None
    backend.launch(
        "move.cu", "move_cells", (blocks, 1), 32 * WARPS,
        (*store.rows, store.first, store.count, outbox.progress, outbox.words, outbox.capacity(store.record_words),
         outbox.heads, outbox.status, sums, *store.geometry, E_nodes, B_nodes, float(beta), *store.steps(dt),
         store.uniform_weight, store.cut, resume),
        shared=shared, **macros)
    return None if sums is None else backend.sum_rows(sums)


def _append_arrivals(store, again: int = 0) -> None:
    backend, outbox = store.backend, store.backend.outbox
    runs = 2 if store.leavers > MANY_LEAVERS * store.n_cells else 1
    macros = {"DIM": store.block.d, "RUNS": runs, **store.macros}
    resident = backend.resident_blocks("move_arrivals.cu", "append_arrivals", 32 * WARPS, 0, **macros)
    blocks = min(_blocks(store), ROUNDS * resident)
    backend.launch(
        "move_arrivals.cu", "append_arrivals", (blocks, 1), 32 * WARPS,
        (*store.rows, store.first, store.count, outbox.need, outbox.words, outbox.capacity(store.record_words),
         outbox.heads, outbox.status, *store.geometry, again),
        **macros)


def push_in_place(store, beta: float, dt: float, E_nodes=None, B_nodes=None):
    """The plain way: push where they are.

    Returns the new cell of every slot, n_cells for slots without a particle, and the sums of the new velocities.
    """
    xp, kick = store.backend.xp, int(E_nodes is not None)
    to, sums = xp.full(store.slots, store.n_cells, np.int32), xp.empty((store.n_cells, 5))
    store.backend.launch(
        "sort.cu", "push_in_place", (_blocks(store), 1), 32 * WARPS,
        (*store.rows, store.first, store.count, to, sums, *store.geometry, E_nodes, B_nodes, float(beta),
         *store.steps(dt), store.uniform_weight),
        DIM=store.block.d, ORDER=store.block.order, KICK=kick, GATHER=store.gather_type, **store.macros)
    return to, store.backend.sum_rows(sums) if kick else None


def _blocks(store) -> int:
    return -(-store.n_cells // WARPS)
