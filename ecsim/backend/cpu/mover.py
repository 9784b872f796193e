"""Kick and push: v̄ = α (v + β E), v ← 2 v̄ − v, x ← x + Δt v, and the sums over the new velocities.

Source: Lapenta 2017, J. Comput. Phys. 334, eqs. 12 to 15; E and B at a particle are the cell's polynomials in t.
"""

from __future__ import annotations

import math
from functools import lru_cache

from ecsim.backend.cpu.cell import CHUNK, SLOTS, field_powers, load, load_weights
from ecsim.backend.cpu.compilation import inline, kernel
from ecsim.backend.cpu.formulas import evaluate, rotation, wrap
from ecsim.backend.cpu.scratch import stack_array

FARTHEST = 2.0**30


@inline
def kick(d, order, beta, fields, slot, s, v):
    """Velocities of a chunk one Δt on; ``fields`` holds the powers of E, then of B."""
    nodes = (order + 1) ** d
    for p in range(CHUNK):
        x, y, z = 2.0 * s[0, p], 2.0 * s[1, p], 2.0 * s[2, p]
        axx, axy, axz, ayx, ayy, ayz, azx, azy, azz = rotation(
            beta * evaluate(d, order, fields, 3 * nodes, slot, x, y, z),
            beta * evaluate(d, order, fields, 4 * nodes, slot, x, y, z),
            beta * evaluate(d, order, fields, 5 * nodes, slot, x, y, z))
        ux = v[0, p] + beta * evaluate(d, order, fields, 0, slot, x, y, z)
        uy = v[1, p] + beta * evaluate(d, order, fields, nodes, slot, x, y, z)
        uz = v[2, p] + beta * evaluate(d, order, fields, 2 * nodes, slot, x, y, z)
        v[0, p] = 2.0 * (axx * ux + axy * uy + axz * uz) - v[0, p]
        v[1, p] = 2.0 * (ayx * ux + ayy * uy + ayz * uz) - v[1, p]
        v[2, p] = 2.0 * (azx * ux + azy * uy + azz * uz) - v[2, p]


@inline
def push_along(s, row, v, step, i, n, count, stored, place, first, visit):
    """x ← x + step v along one dimension, wrapped into the n cells of the box; place[row, p] = new cell coordinate there.

    i : the present one.  Returns how many particles of the chunk had no finite or no representable position; these stay
    where they were.
    """
    lost = 0
    for p in range(count):
        spot = visit[first + p] if visit.size else first + p
        old = stored[spot]
        stored[spot] = s[row, p] + step * v[row, p]
        moved = float(stored[spot])
        shift = math.floor(moved + 0.5)
        to = float(i)
        if abs(shift) < FARTHEST:
            stored[spot] = moved - shift
            to = wrap(i + shift, n)
        else:
            stored[spot] = old
            lost += 1
        place[row, p] = to
    return lost


@inline
def new_cells(d, place, region, count, destination, first):
    """destination[first + p] = local flat cell of a particle at place (d, p), or −1 − global flat cell if not here."""
    for p in range(count):
        local, everywhere, here = 0, 0, True
        for k in range(d):
            index = int(place[k, p])
            inside = index - region[k, 0]
            here &= 0 <= inside < region[k, 1]
            local = local * region[k, 1] + inside
            everywhere = everywhere * region[k, 2] + index
        destination[first + p] = local if here else -1 - everywhere


@inline
def store(source, row, target, first, count, visit):
    """The inverse of ``load``."""
    if visit.size:
        for p in range(count):
            target[visit[first + p]] = source[row, p]
    else:
        for p in range(count):
            target[first + p] = source[row, p]


@inline
def add_sums(v, w, count, sums):
    """sums += [Σ w v²/2, Σ w v, Σ w] of a chunk."""
    energy = px = py = pz = charge = 0.0
    for p in range(count):
        x, y, z, weight = v[0, p], v[1, p], v[2, p], w[0, p]
        energy += weight * (x * x + y * y + z * z)
        px += weight * x
        py += weight * y
        pz += weight * z
        charge += weight
    sums[0] += 0.5 * energy
    sums[1] += px
    sums[2] += py
    sums[3] += pz
    sums[4] += charge


@lru_cache(maxsize=None)
def move(d: int, order: int):
    """The kernel for a dimension and a shape: particles of planes [first, last) in place, new cells to ``destination``.

    region : see `lattice.region`; who leaves the block gets −1 − global flat cell.
    ``sums`` (6,) receives [Σ w v²/2, Σ w v (3), Σ w, number of particles that are not finite].
    """
    nodes = (order + 1) ** d
    field_rows = 6 * nodes

    @kernel
    def move_slab(first, last, lattice, region, node, start, s, v, weight, weights, visit, beta, steps, E, B,
                  destination, sums):
        position, velocity, w = stack_array(3, CHUNK), stack_array(3, CHUNK), stack_array(1, CHUNK)
        place = stack_array(3, CHUNK)
        e_powers, fields = stack_array(field_rows, SLOTS), stack_array(field_rows, SLOTS)
        lost = 0
        for plane in range(first, last):
            for row in range(lattice.rows):
                for i in range(0, lattice.length, SLOTS):
                    cell = (plane * lattice.rows + row) * lattice.length + i
                    base = lattice.first + plane * lattice.plane_stride + row * lattice.row_stride + i
                    count = min(SLOTS, lattice.length - i)
                    if start[cell] == start[cell + count]:
                        continue
                    field_powers(d, order, B, base, count, node, e_powers)
                    for k in range(3 * nodes):
                        for slot in range(SLOTS):
                            fields[3 * nodes + k, slot] = e_powers[k, slot]
                    field_powers(d, order, E, base, count, node, fields)
                    for slot in range(count):
                        begin, end = start[cell + slot], start[cell + slot + 1]
                        for at in range(begin, end, CHUNK):
                            n = min(CHUNK, end - at)
                            for k in range(3):
                                load(s[k], position, k, at, n, visit, 1.0)
                                load(v[k], velocity, k, at, n, visit, 1.0)
                            load_weights(weight, weights, w, 0, at, n, visit, 1.0)
                            kick(d, order, beta, fields, slot, position, velocity)
                            for k in range(3):
                                store(velocity, k, v[k], at, n, visit)
                            add_sums(velocity, w, n, sums)
                            lost += push_along(position, 0, velocity, steps[0], plane + region[0, 0], region[0, 2], n,
                                               s[0], place, at, visit)
                            if d > 1:
                                if d == 3:
                                    lost += push_along(position, 1, velocity, steps[1], row + region[1, 0],
                                                       region[1, 2], n, s[1], place, at, visit)
                                lost += push_along(position, d - 1, velocity, steps[d - 1], i + slot + region[d - 1, 0],
                                                   region[d - 1, 2], n, s[d - 1], place, at, visit)
                            new_cells(d, place, region, n, destination, at)
        sums[5] += lost

    return move_slab


@kernel
def sum_range(begin, end, v, weight, weights, visit, sums):
    """``sums`` (5,) += [Σ w v²/2, Σ w v (3), Σ w] of the particles [begin, end) in visiting order."""
    velocity, w = stack_array(3, CHUNK), stack_array(1, CHUNK)
    for at in range(begin, end, CHUNK):
        n = min(CHUNK, end - at)
        for k in range(3):
            load(v[k], velocity, k, at, n, visit, 1.0)
        load_weights(weight, weights, w, 0, at, n, visit, 1.0)
        add_sums(velocity, w, n, sums)
