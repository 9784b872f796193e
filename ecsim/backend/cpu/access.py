"""Particles and fields on their way into registers.

Kernels take the particles of a cell ``WIDTH`` at a time. ``visit`` maps visiting order to place and is empty where they
agree. Cells are taken ``WIDTH`` at a time along a row: what belongs to a cell stands in arrays (…, WIDTH), one column a
cell, so that what is done once a cell runs along the row in vector registers.
"""

from __future__ import annotations

from ecsim.backend.cpu.compilation import inline
from ecsim.backend.cpu.formulas import nodes_to_powers
from ecsim.backend.cpu.lanes import WIDTH, first_lanes, spread
from ecsim.backend.cpu.memory import (
    borrow,
    get,
    get_item,
    get_some,
    get_visited,
    prefetch,
    put,
    put_some,
    put_visited,
)


@inline
def load(array, visit, first, count):
    """Lanes of the particles ``first`` … in visiting order, 0 from ``count`` ≥ 1 on."""
    if visit.size:
        return get_visited(array, visit, first, count)
    if count >= WIDTH:
        return get(array, first)
    return get_some(array, first, count)


@inline
def store(array, visit, first, count, x):
    """The inverse of ``load``."""
    if visit.size:
        put_visited(array, visit, first, count, x)
    elif count >= WIDTH:
        put(array, first, x)
    else:
        put_some(array, first, count, x)


@inline
def load_position(d, s, visit, first, count):
    """The in-cell coordinates as ``load`` gives them; those beyond d repeat the first."""
    x = load(s[0], visit, first, count)
    return x, load(s[1], visit, first, count) if d > 1 else x, load(s[2], visit, first, count) if d > 2 else x


@inline
def load_velocity(v, visit, first, count):
    """The three velocity components as ``load`` gives them."""
    return load(v[0], visit, first, count), load(v[1], visit, first, count), load(v[2], visit, first, count)


@inline
def load_weight(weight, weights, visit, first, count):
    """The macro-charges as ``load`` gives them: one number ``weight``, or ``weights`` where it is not empty."""
    if weights.size:
        return load(weights, visit, first, count)
    return first_lanes(count, spread(weight))


@inline
def prefetch_particles(d, s, v, place):
    """Ask for coordinates and velocities that will soon be wanted."""
    prefetch(s[0], place)
    if d > 1:
        prefetch(s[1], place)
    if d > 2:
        prefetch(s[2], place)
    prefetch(v[0], place)
    prefetch(v[1], place)
    prefetch(v[2], place)


@inline
def borrow_three(arrays):
    """``borrow`` for a tuple of three arrays."""
    return borrow(arrays[0]), borrow(arrays[1]), borrow(arrays[2])


@inline
def field_powers(d, order, field, scale, size, base, count, node, c, row):
    """c[row + k·nodes + u]: coefficients in t of component k of ``scale`` times a nodal field, in ``count`` cells.

    field : (3·size,) flat.  base : first support node of the first cell.  node : offsets of the others from it.
    """
    m = order + 1
    nodes = m**d
    for k in range(3):
        for a in range(nodes):
            at = k * size + base + get_item(node, a)
            put(c, (row + k * nodes + a, 0), scale * (get(field, at) if count == WIDTH else get_some(field, at, count)))
    step = 1
    for _ in range(d):
        for a in range(3 * nodes):
            if (a // step) % m == 0:
                at = row + a
                p0, p1, p2 = nodes_to_powers(order, get(c, (at, 0)), get(c, (at + step, 0)),
                                             get(c, (at + order * step, 0)))
                put(c, (at, 0), p0)
                put(c, (at + step, 0), p1)
                if order == 2:
                    put(c, (at + order * step, 0), p2)
        step *= m
