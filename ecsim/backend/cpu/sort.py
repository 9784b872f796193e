"""A stable counting sort by cell that many threads can share and that no number of threads can change.

The source is cut into ranges, the cells into slabs. Range k and slab k belong together (after a move most particles of
range k stay in slab k), so only the others, the leavers, are listed: grouped by slab, in the order of their place. Each
slab then counts and places what it keeps and what it receives.
"""

from __future__ import annotations

from ecsim.backend.cpu.compilation import inline, kernel
from ecsim.backend.cpu.memory import borrow, get_item, put_item


@kernel
def tally(cell, first, counts):
    """counts[c − first] += particles of ``cell`` (P,) in c; False if they are not in order, or others than these."""
    cell, counts, previous = borrow(cell), borrow(counts), first
    for p in range(cell.size):
        c = get_item(cell, p)
        if c < previous or c >= first + counts.size:
            return False
        previous = c
        put_item(counts, c - first, get_item(counts, c - first) + 1)
    return True


@kernel
def count_leavers(begin, end, own_first, own_last, destination, cells_per_slab, counts):
    """counts[slab] += particles of [begin, end) whose cell is outside [own_first, own_last)."""
    destination, counts = borrow(destination), borrow(counts)
    for p in range(begin, end):
        cell = get_item(destination, p)
        if cell < own_first or cell >= own_last:
            counts[cell // cells_per_slab] += 1


@kernel
def list_leavers(begin, end, own_first, own_last, destination, cells_per_slab, cursor, leavers):
    """Write the places of the particles counted by ``count_leavers`` from cursor[slab] on."""
    destination, cursor, leavers = borrow(destination), borrow(cursor), borrow(leavers)
    for p in range(begin, end):
        cell = get_item(destination, p)
        if cell < own_first or cell >= own_last:
            slab = cell // cells_per_slab
            leavers[cursor[slab]] = p
            cursor[slab] += 1


@inline
def count(cell, start):
    """One more particle in ``cell``."""
    put_item(start, cell, get_item(start, cell) + 1)


@inline
def place(p, cell, start, order):
    """Particle p takes the next place of ``cell``."""
    at = get_item(start, cell)
    put_item(order, at, p)
    put_item(start, cell, at + 1)


@kernel
def place_slab(first_cell, last_cell, base, begin, end, low, middle, high, destination, leavers, start, order):
    """Sort what ends up in cells [first_cell, last_cell): order[base …] = places, start[cell] = where a cell begins.

    In order of place: leavers [low, middle), then those of [begin, end) that stay here, then leavers [middle, high).
    """
    destination, leavers, start, order = borrow(destination), borrow(leavers), borrow(start), borrow(order)
    for cell in range(first_cell, last_cell):
        put_item(start, cell, 0)
    for k in range(low, high):
        count(get_item(destination, get_item(leavers, k)), start)
    for p in range(begin, end):
        cell = get_item(destination, p)
        if first_cell <= cell < last_cell:
            count(cell, start)
    total = base
    for cell in range(first_cell, last_cell):
        here = get_item(start, cell)
        put_item(start, cell, total)
        total += here
    for k in range(low, middle):
        p = get_item(leavers, k)
        place(p, get_item(destination, p), start, order)
    for p in range(begin, end):
        cell = get_item(destination, p)
        if first_cell <= cell < last_cell:
            place(p, cell, start, order)
    for k in range(middle, high):
        p = get_item(leavers, k)
        place(p, get_item(destination, p), start, order)
    for cell in range(last_cell - 1, first_cell, -1):
        put_item(start, cell, get_item(start, cell - 1))
    if last_cell > first_cell:
        put_item(start, first_cell, base)


@kernel
def gather(begin, end, source, order, target):
    """target[j] = source[order[j]] for j in [begin, end)."""
    source, order, target = borrow(source), borrow(order), borrow(target)
    for j in range(begin, end):
        put_item(target, j, get_item(source, get_item(order, j)))
