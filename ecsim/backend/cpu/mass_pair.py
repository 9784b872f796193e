"""Mass matrix and moments in the pair-product form: one small matrix product per support cell.

D[u, c] = Σ_p t_p^u S_c(p) over the particles of a cell, with the 9 columns β w α / V, and for the first-degree rows also
w (α v) / V and w / V. A constant matrix then turns powers into products of node pairs (and nodes), once per cell.
Source: PHYSICS of the pair-product form in docs/theory; moments as in Lapenta 2017, J. Comput. Phys. 334.
"""

from __future__ import annotations

from functools import lru_cache

from ecsim.backend.cpu.cell import (
    CHUNK,
    SLOTS,
    add_product,
    add_products,
    add_row,
    expand_nodes,
    expand_pairs,
    field_powers,
    load,
    load_coordinates,
    load_weights,
    monomials,
)
from ecsim.backend.cpu.compilation import inline, kernel
from ecsim.backend.cpu.formulas import evaluate, rotation
from ecsim.backend.cpu.scratch import stack_array


@inline
def response_columns(d, order, beta, b_powers, slot, t, v, w, columns):
    """columns[0:9] = β w α, [9:12] = w α v, [12] = w of a chunk."""
    nodes = (order + 1) ** d
    for p in range(CHUNK):
        x, y, z = t[0, p], t[1, p], t[2, p]
        axx, axy, axz, ayx, ayy, ayz, azx, azy, azz = rotation(
            beta * evaluate(d, order, b_powers, 0, slot, x, y, z),
            beta * evaluate(d, order, b_powers, nodes, slot, x, y, z),
            beta * evaluate(d, order, b_powers, 2 * nodes, slot, x, y, z))
        weight = w[0, p]
        c = beta * weight
        columns[0, p] = c * axx
        columns[1, p] = c * axy
        columns[2, p] = c * axz
        columns[3, p] = c * ayx
        columns[4, p] = c * ayy
        columns[5, p] = c * ayz
        columns[6, p] = c * azx
        columns[7, p] = c * azy
        columns[8, p] = c * azz
        vx, vy, vz = v[0, p], v[1, p], v[2, p]
        columns[9, p] = weight * (axx * vx + axy * vy + axz * vz)
        columns[10, p] = weight * (ayx * vx + ayy * vy + ayz * vz)
        columns[11, p] = weight * (azx * vx + azy * vy + azz * vz)
        columns[12, p] = weight


@inline
def scatter_pairs(sums, row, d, order, work, products, tables, stencil, components, component, size, base, count):
    """Add one component of ``count`` cells to the stencil (flat) whose first support node is ``base``."""
    expand_pairs(d, order, sums, row, work, products)
    for k in range(tables.pair_a.size):
        at = (tables.pair_offset[k] * components + component) * size + base + tables.node[tables.pair_a[k]]
        add_row(products, tables.pair_product[k], stencil, at, count)


@lru_cache(maxsize=None)
def assemble_pair(d: int, order: int):
    """The kernel for a dimension and a shape: particles of planes [first, last) -> stencil and moments (+=)."""
    nodes, powers = (order + 1) ** d, 2 * order + 1
    rows = -(-powers**d // 3) * 3
    products = (3 * order) ** d
    all_rows = 9 * rows + 4 * nodes
    field_rows = 3 * nodes

    @kernel
    def assemble_pair_slab(first, last, lattice, tables, start, s, v, weight, weights, visit, beta, scale, B,
                           stencil, moments):
        t, u, w = stack_array(3, CHUNK), stack_array(3, CHUNK), stack_array(1, CHUNK)
        columns, phi = stack_array(13, CHUNK), stack_array(rows, CHUNK)
        b_powers, sums = stack_array(field_rows, SLOTS), stack_array(all_rows, SLOTS)
        work, pair = stack_array(products, SLOTS), stack_array(products, SLOTS)
        for r in range(powers**d, rows):
            for p in range(CHUNK):
                phi[r, p] = 0.0
        for plane in range(first, last):
            for row in range(lattice.rows):
                for i in range(0, lattice.length, SLOTS):
                    cell = (plane * lattice.rows + row) * lattice.length + i
                    base = lattice.first + plane * lattice.plane_stride + row * lattice.row_stride + i
                    count = min(SLOTS, lattice.length - i)
                    if start[cell] == start[cell + count]:
                        continue
                    field_powers(d, order, B, base, count, tables.node, b_powers)
                    sums[:, :] = 0.0
                    for slot in range(count):
                        begin, end = start[cell + slot], start[cell + slot + 1]
                        for at in range(begin, end, CHUNK):
                            n = min(CHUNK, end - at)
                            load_coordinates(d, s, t, at, n, visit)
                            for k in range(3):
                                load(v[k], u, k, at, n, visit, 1.0)
                            load_weights(weight, weights, w, 0, at, n, visit, scale)
                            response_columns(d, order, beta, b_powers, slot, t, u, w, columns)
                            monomials(d, powers, t, phi)
                            whole = (n + 7) // 8 * 8
                            for r in range(0, rows, 3):
                                for c in range(0, 9, 3):
                                    add_products(phi, r, columns, c, whole, sums, c * rows + r, rows, slot)
                            for c in range(4):
                                for r in range(nodes):
                                    add_product(phi, tables.low_row[r], columns, 9 + c, whole, sums,
                                                9 * rows + c * nodes + r, slot)
                    for c in range(9):
                        scatter_pairs(sums, c * rows, d, order, work, pair, tables, stencil, 9, c, lattice.size, base,
                                      count)
                    for c in range(4):
                        at = 9 * rows + c * nodes
                        expand_nodes(d, order, sums, at)
                        to = ((c + 1) % 4) * lattice.size + base
                        for a in range(nodes):
                            add_row(sums, at + a, moments, to + tables.node[a], count)

    return assemble_pair_slab
