"""A stable counting sort by cell that many threads can share and that no number of threads can change.

The source is cut into ranges, the cells into slabs. Range k and slab k belong together (after a move most particles of
range k stay in slab k), so only the others, the leavers, are listed: grouped by slab, in the order of their place. Each
slab then counts and places what it keeps and what it receives.

Neighbours in the source mostly go to the same cell, and a number in memory that was just written has to be waited for.
So the lower and the upper half of a range are counted and placed in turn, with numbers of their own.
"""

from __future__ import annotations

from ecsim.backend.cpu.compilation import inline, kernel
from ecsim.backend.cpu.lanes import WIDTH
from ecsim.backend.cpu.memory import borrow, fence, get_item, get_visited, put_item, put_nontemporal


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


@inline
def count(cell, counts):
    """One more particle in ``cell``."""
    put_item(counts, cell, get_item(counts, cell) + 1)


@inline
def place(p, cell, cursor, order):
    """Particle p takes the next place of ``cell``."""
    at = get_item(cursor, cell)
    put_item(order, at, p)
    put_item(cursor, cell, at + 1)


@inline
def count_or_list(p, first_cell, last_cell, destination, cells_per_slab, counts, away, listed, at):
    """Particle p is counted in its cell, or in its slab if that is another, and listed; returns where the next goes."""
    cell = get_item(destination, p)
    if first_cell <= cell < last_cell:
        count(cell, counts)
        return at
    away[cell // cells_per_slab] += 1
    put_item(listed, at, p)
    return at + 1


@kernel
def count_range(begin, end, first_cell, last_cell, destination, cells_per_slab, lower, upper, away, listed):
    """lower, upper [cell] = particles of the halves of [begin, end) in own cells; away[slab] += those in other slabs.

    The places of the latter: ``listed`` from begin on for the lower half, from its end on for the upper one. The last
    two items of ``away`` say how many these are.
    """
    destination, lower, upper, listed = borrow(destination), borrow(lower), borrow(upper), borrow(listed)
    for cell in range(first_cell, last_cell):
        put_item(lower, cell, 0)
        put_item(upper, cell, 0)
    half = (end - begin) // 2
    a, b = begin, begin + half
    for p in range(begin, begin + half):
        a = count_or_list(p, first_cell, last_cell, destination, cells_per_slab, lower, away, listed, a)
        b = count_or_list(p + half, first_cell, last_cell, destination, cells_per_slab, upper, away, listed, b)
    for p in range(begin + 2 * half, end):
        b = count_or_list(p, first_cell, last_cell, destination, cells_per_slab, upper, away, listed, b)
    away[-2], away[-1] = a - begin, b - begin - half


@kernel
def list_leavers(begin, end, in_lower, in_upper, listed, destination, cells_per_slab, cursor, leavers):
    """Bring the places that ``count_range`` has listed to where their slabs want them, cursor[slab] and on."""
    listed, destination, cursor, leavers = borrow(listed), borrow(destination), borrow(cursor), borrow(leavers)
    for k in range(in_lower + in_upper):
        p = get_item(listed, begin + k if k < in_lower else begin + (end - begin) // 2 + k - in_lower)
        slab = get_item(destination, p) // cells_per_slab
        leavers[cursor[slab]] = p
        cursor[slab] += 1


@kernel
def place_slab(first_cell, last_cell, base, begin, end, low, middle, high, destination, leavers, start, upper, order):
    """Sort what ends up in cells [first_cell, last_cell): order[base …] = places, start[cell] = where a cell begins.

    In order of place: leavers [low, middle), then those of [begin, end) that stay here, then leavers [middle, high).
    start, upper : of ``count_range``; upper is used up.
    """
    destination, leavers, start, upper = borrow(destination), borrow(leavers), borrow(start), borrow(upper)
    order = borrow(order)
    for k in range(low, high):
        count(get_item(destination, get_item(leavers, k)), start if k < middle else upper)
    total = base
    for cell in range(first_cell, last_cell):
        in_lower, in_upper = get_item(start, cell), get_item(upper, cell)
        put_item(start, cell, total)
        put_item(upper, cell, total + in_lower)
        total += in_lower + in_upper
    for k in range(low, middle):
        p = get_item(leavers, k)
        place(p, get_item(destination, p), start, order)
    half = (end - begin) // 2
    for p in range(begin, begin + half):
        cell, other = get_item(destination, p), get_item(destination, p + half)
        if first_cell <= cell < last_cell:
            place(p, cell, start, order)
        if first_cell <= other < last_cell:
            place(p + half, other, upper, order)
    for p in range(begin + 2 * half, end):
        cell = get_item(destination, p)
        if first_cell <= cell < last_cell:
            place(p, cell, upper, order)
    for k in range(middle, high):
        p = get_item(leavers, k)
        place(p, get_item(destination, p), upper, order)
    for cell in range(last_cell - 1, first_cell, -1):
        put_item(start, cell, get_item(upper, cell - 1))
    if last_cell > first_cell:
        put_item(start, first_cell, base)


@kernel
def gather(begin, end, source, order, target):
    """target[j] = source[order[j]] for j in [begin, end)."""
    source, order, target = borrow(source), borrow(order), borrow(target)
    for j in range(begin, end):
        put_item(target, j, get_item(source, get_item(order, j)))


@kernel
def gather_nontemporal(begin, end, source, order, target, aligned):
    """As ``gather`` for real arrays much larger than the caches; items aligned, aligned + 8, … of target begin a line.

    What is written is not read before: a memory access in three is saved.
    """
    source, order, target = borrow(source), borrow(order), borrow(target)
    first = min(end, begin + (aligned - begin) % WIDTH)
    last = first + (end - first) // WIDTH * WIDTH
    for j in range(begin, first):
        put_item(target, j, get_item(source, get_item(order, j)))
    for j in range(first, last, WIDTH):
        put_nontemporal(target, j, get_visited(source, order, j, WIDTH))
    for j in range(last, end):
        put_item(target, j, get_item(source, get_item(order, j)))
    fence()
