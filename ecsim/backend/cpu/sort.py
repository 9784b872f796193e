"""A stable counting sort by cell that many threads can share and that no number of threads can change.

The source is cut into ranges, the cells into slabs. Range k and slab k belong together (after a move most particles of
range k stay in slab k), so only the others, the leavers, are listed: grouped by slab, in the order of their place. Each
slab then counts and places what it keeps and what it receives.
"""

from __future__ import annotations

from ecsim.backend.cpu.compilation import kernel


@kernel
def count_leavers(begin, end, own_first, own_last, destination, cells_per_slab, counts):
    """counts[slab] += particles of [begin, end) whose cell is outside [own_first, own_last)."""
    for p in range(begin, end):
        cell = destination[p]
        if cell < own_first or cell >= own_last:
            counts[cell // cells_per_slab] += 1


@kernel
def list_leavers(begin, end, own_first, own_last, destination, cells_per_slab, cursor, leavers):
    """Write the places of the particles counted by ``count_leavers`` from cursor[slab] on."""
    for p in range(begin, end):
        cell = destination[p]
        if cell < own_first or cell >= own_last:
            slab = cell // cells_per_slab
            leavers[cursor[slab]] = p
            cursor[slab] += 1


@kernel
def place_slab(first_cell, last_cell, base, begin, end, low, middle, high, destination, leavers, start, order):
    """Sort what ends up in cells [first_cell, last_cell): order[base …] = places, start[cell] = where a cell begins.

    In order of place: leavers [low, middle), then those of [begin, end) that stay in the slab, then leavers [middle, high).
    """
    for cell in range(first_cell, last_cell):
        start[cell] = 0
    for k in range(low, high):
        start[destination[leavers[k]]] += 1
    for p in range(begin, end):
        cell = destination[p]
        if first_cell <= cell < last_cell:
            start[cell] += 1
    total = base
    for cell in range(first_cell, last_cell):
        count = start[cell]
        start[cell] = total
        total += count
    for k in range(low, middle):
        p = leavers[k]
        order[start[destination[p]]] = p
        start[destination[p]] += 1
    for p in range(begin, end):
        cell = destination[p]
        if first_cell <= cell < last_cell:
            order[start[cell]] = p
            start[cell] += 1
    for k in range(middle, high):
        p = leavers[k]
        order[start[destination[p]]] = p
        start[destination[p]] += 1
    for cell in range(last_cell - 1, first_cell, -1):
        start[cell] = start[cell - 1]
    if last_cell > first_cell:
        start[first_cell] = base


@kernel
def gather(begin, end, source, order, target):
    """target[j] = source[order[j]] for j in [begin, end)."""
    for j in range(begin, end):
        target[j] = source[order[j]]
