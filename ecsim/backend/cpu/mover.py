"""Kick and push: v̄ = α (v + β E), v ← 2 v̄ − v, x ← x + Δt v, and the sums over the new velocities.

slab of planes -> rows -> WIDTH cells of a row (fields as polynomials in t) -> WIDTH particles of a cell, one lane each.
Source: Lapenta 2017, J. Comput. Phys. 334, eqs. 12 to 15.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ecsim.backend.cpu.access import (
    borrow_three,
    field_powers,
    load_position,
    load_velocity,
    load_weight,
    prefetch_particles,
    store,
)
from ecsim.backend.cpu.compilation import inline, kernel
from ecsim.backend.cpu.formulas import evaluate, rotation, wrap
from ecsim.backend.cpu.lanes import WIDTH, all_less, floor, spread, total, where_less
from ecsim.backend.cpu.memory import borrow, get, get_item, put, put_some, rounded, stack_array
from ecsim.backend.cpu.products import CHUNK

FARTHEST = 2.0**30
PIECE = 4096


@inline
def kick(d, order, fields, slot, x, y, z, v):
    """Velocities one Δt on; ``fields`` holds the powers of β E, then of β B."""
    nodes = (order + 1) ** d
    axx, axy, axz, ayx, ayy, ayz, azx, azy, azz = rotation(
        evaluate(d, order, fields, 3 * nodes, slot, x, y, z),
        evaluate(d, order, fields, 4 * nodes, slot, x, y, z),
        evaluate(d, order, fields, 5 * nodes, slot, x, y, z))
    v0, v1, v2 = v
    u0 = v0 + evaluate(d, order, fields, 0, slot, x, y, z)
    u1 = v1 + evaluate(d, order, fields, nodes, slot, x, y, z)
    u2 = v2 + evaluate(d, order, fields, 2 * nodes, slot, x, y, z)
    return (2.0 * (axx * u0 + axy * u1 + axz * u2) - v0,
            2.0 * (ayx * u0 + ayy * u1 + ayz * u2) - v1,
            2.0 * (azx * u0 + azy * u1 + azz * u2) - v2)


@inline
def push_along(old, moved, i, n, count, stage):
    """In-cell coordinate and cell coordinate in [0, n) of particles that moved from ``old`` to ``moved`` of cell i.

    A particle without a finite position stays, and is counted in stage[2, 0]. (½ − 2⁻⁵⁴ plus ½ rounds to 1: such a
    particle counts to the next cell, 2⁻⁵⁴ before its rim.)
    """
    shift = floor(moved + 0.5)
    to = shift + i
    to = where_less(to, spread(-0.5), to + n, to)
    to = where_less(spread(n - 0.5), to, to - n, to)
    if all_less(spread(-0.5), to) and all_less(to, spread(n - 0.5)):
        return moved - shift, to
    put(stage, (0, 0), old)
    put(stage, (1, 0), moved)
    for p in range(count):
        steps = np.floor(stage[1, p] + 0.5)
        if abs(steps) < FARTHEST:
            stage[0, p] = stage[1, p] - steps
            stage[1, p] = wrap(i + steps, n)
        else:
            stage[1, p] = i
            stage[2, 0] += 1.0
    return get(stage, (0, 0)), get(stage, (1, 0))


@inline
def where_away(to, box, k, away, here):
    """``away`` in the lanes whose cell coordinate along dimension k the block does not own, ``here`` elsewhere."""
    here = where_less(to, spread(box.origin[k] - 0.5), away, here)
    return where_less(spread(box.origin[k] + box.owned[k] - 0.5), to, away, here)


@inline
def flat_cell(d, box, i, j, k):
    """Flat local cell, or −1 − flat cell of the whole grid for those that another block owns."""
    cell, everywhere = i - box.origin[0], i
    if d > 1:
        cell, everywhere = cell * box.owned[1] + (j - box.origin[1]), everywhere * box.cells[1] + j
    if d > 2:
        cell, everywhere = cell * box.owned[2] + (k - box.origin[2]), everywhere * box.cells[2] + k
    if box.whole:
        return cell
    away = spread(-1.0) - everywhere
    cell = where_away(i, box, 0, away, cell)
    if d > 1:
        cell = where_away(j, box, 1, away, cell)
    if d > 2:
        cell = where_away(k, box, 2, away, cell)
    return cell


@inline
def push(d, box, s, x, y, z, v, steps, i, j, k, visit, at, n, stage):
    """Store new in-cell coordinates and return the new cells; i, j, k are the cell coordinates in the whole grid."""
    new, i_to = push_along(x, rounded(x + steps[0] * v[0], s[0]), i, box.cells[0], n, stage)
    store(s[0], visit, at, n, new)
    j_to = k_to = i_to
    if d > 1:
        new, j_to = push_along(y, rounded(y + steps[1] * v[1], s[1]), j, box.cells[1], n, stage)
        store(s[1], visit, at, n, new)
    if d > 2:
        new, k_to = push_along(z, rounded(z + steps[2] * v[2], s[2]), k, box.cells[2], n, stage)
        store(s[2], visit, at, n, new)
    return flat_cell(d, box, i_to, j_to, k_to)


@inline
def tally(sums, v, w):
    """The five sums (energy twice) of some lanes added to ``sums``."""
    x, y, z = v
    energy, p0, p1, p2, charge = sums
    return energy + w * (x * x + y * y + z * z), p0 + w * x, p1 + w * y, p2 + w * z, charge + w


@inline
def add_totals(sums, out):
    """out[0:5] += [Σ w v²/2, Σ w v, Σ w] from the lanes of ``tally``."""
    energy, p0, p1, p2, charge = sums
    out[0] += 0.5 * total(energy)
    out[1] += total(p0)
    out[2] += total(p1)
    out[3] += total(p2)
    out[4] += total(charge)


@cache
def move(d: int, order: int):
    """The kernel for a dimension and a shape: particles of planes [first, last) in place, new cells to ``destination``.

    ``out`` (6,) receives [Σ w v²/2, Σ w v (3), Σ w, number of particles that are not finite].
    """
    nodes = (order + 1) ** d
    field_rows = 6 * nodes

    @kernel
    def move_slab(first, last, lattice, box, node, start, s, v, weight, weights, visit, beta, steps, E, B, destination,
                  out):
        """Kick and push the particles, eight of a cell at a time; fields are expanded for eight cells at a time."""
        s, v, E, B, destination = borrow_three(s), borrow_three(v), borrow(E), borrow(B), borrow(destination)
        visit, weights = borrow(visit), borrow(weights)
        fields, stage = stack_array(field_rows, WIDTH), stack_array(3, WIDTH)
        stage[2, 0] = 0.0
        zero = spread(0.0)
        for plane in range(first, last):
            for row in range(lattice.rows):
                sums = (zero, zero, zero, zero, zero)
                for i in range(0, lattice.length, WIDTH):
                    cell = (plane * lattice.rows + row) * lattice.length + i
                    base = lattice.first + plane * lattice.plane_stride + row * lattice.row_stride + i
                    count = min(WIDTH, lattice.length - i)
                    field_powers(d, order, E, beta, lattice.size, base, count, node, fields, 0)
                    field_powers(d, order, B, beta, lattice.size, base, count, node, fields, 3 * nodes)
                    for slot in range(count):
                        end = get_item(start, cell + slot + 1)
                        for at in range(get_item(start, cell + slot), end, WIDTH):
                            n = min(WIDTH, end - at)
                            prefetch_particles(d, s, v, at + CHUNK)
                            x, y, z = load_position(d, s, visit, at, n)
                            u = kick(d, order, fields, slot, 2.0 * x, 2.0 * y, 2.0 * z, load_velocity(v, visit, at, n))
                            u = (rounded(u[0], v[0]), rounded(u[1], v[1]), rounded(u[2], v[2]))
                            for k in range(3):
                                store(v[k], visit, at, n, u[k])
                            sums = tally(sums, u, load_weight(weight, weights, visit, at, n))
                            last_index = box.origin[d - 1] + (i + slot)
                            to = push(d, box, s, x, y, z, u, steps, box.origin[0] + plane,
                                      box.origin[1] + row if d == 3 else last_index, last_index, visit, at, n, stage)
                            if n == WIDTH:
                                put(destination, at, to)
                            else:
                                put_some(destination, at, n, to)
                add_totals(sums, out)
        out[5] += stage[2, 0]

    return move_slab


@kernel
def sum_range(begin, end, v, weight, weights, visit, out):
    """``out`` (5,) += [Σ w v²/2, Σ w v (3), Σ w] of the particles [begin, end) in visiting order."""
    v, visit, weights = borrow_three(v), borrow(visit), borrow(weights)
    zero = spread(0.0)
    for piece in range(begin, end, PIECE):
        sums = (zero, zero, zero, zero, zero)
        for at in range(piece, min(piece + PIECE, end), WIDTH):
            n = min(WIDTH, end - at)
            sums = tally(sums, load_velocity(v, visit, at, n), load_weight(weight, weights, visit, at, n))
        add_totals(sums, out)
