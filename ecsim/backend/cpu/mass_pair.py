"""Mass matrix and moments in the pair-product form: one small matrix product per support cell.

D[u, c] = Σ_p t_p^u S_c(p) over the particles of a cell, with the nine columns β w α / V, and for the rows of first
(TSC: second) degree also w (α v) / V and w / V. A constant matrix then turns powers into products of node pairs (and
into nodes), once per cell.

slab of planes -> rows -> WIDTH cells of a row, one column each -> chunks of a cell's particles, one lane each.
Source: docs/theory, equation (12); moments as in Lapenta 2017, J. Comput. Phys. 334, eqs. 28 to 30.
"""

from __future__ import annotations

from functools import cache

from ecsim.backend.cpu.access import (
    borrow_three,
    field_powers,
    load_position,
    load_velocity,
    load_weight,
    prefetch_particles,
)
from ecsim.backend.cpu.compilation import inline, kernel
from ecsim.backend.cpu.formulas import evaluate, rotation
from ecsim.backend.cpu.lanes import WIDTH, spread
from ecsim.backend.cpu.lattice import pair_row_count
from ecsim.backend.cpu.memory import borrow, get_item, put, stack_array, transpose
from ecsim.backend.cpu.products import CHUNK, add_2x4, add_nine_columns, nine_at, nine_step, put_monomials
from ecsim.backend.cpu.scatter import expand_pairs, prefetch_pairs, scatter_nodes, scatter_pairs


@inline
def put_columns(d, order, beta, fields, slot, x, y, z, v, w, columns, p):
    """columns[0:9] = β w α, [9:12] = w α v, [12] = w of the particles in the lanes p … of a chunk."""
    nodes = (order + 1) ** d
    axx, axy, axz, ayx, ayy, ayz, azx, azy, azz = rotation(
        evaluate(d, order, fields, 0, slot, x, y, z),
        evaluate(d, order, fields, nodes, slot, x, y, z),
        evaluate(d, order, fields, 2 * nodes, slot, x, y, z))
    c = beta * w
    put(columns, (0, p), c * axx)
    put(columns, (1, p), c * axy)
    put(columns, (2, p), c * axz)
    put(columns, (3, p), c * ayx)
    put(columns, (4, p), c * ayy)
    put(columns, (5, p), c * ayz)
    put(columns, (6, p), c * azx)
    put(columns, (7, p), c * azy)
    put(columns, (8, p), c * azz)
    vx, vy, vz = v
    put(columns, (9, p), w * (axx * vx + axy * vy + axz * vz))
    put(columns, (10, p), w * (ayx * vx + ayy * vy + ayz * vz))
    put(columns, (11, p), w * (azx * vx + azy * vy + azz * vz))
    put(columns, (12, p), w)


@inline
def put_chunk(d, order, beta, scale, fields, slot, s, v, weight, weights, visit, at, n, columns, phi):
    """Columns and monomials of the n particles from ``at`` on, in visiting order; ``fields`` are the powers of β B."""
    for p in range(0, n, WIDTH):
        x, y, z = load_position(d, s, visit, at + p, n - p)
        x, y, z = 2.0 * x, 2.0 * y, 2.0 * z
        w = scale * load_weight(weight, weights, visit, at + p, n - p)
        put_columns(d, order, beta, fields, slot, x, y, z, load_velocity(v, visit, at + p, n - p), w, columns, p)
        put_monomials(d, 2 * order + 1, x, y, z, phi, p)


@inline
def add_moments(nodes, low_row, phi, columns, n, out, slot, low):
    """Power rows of the moments, two at a time, times columns 9 … 12: sum of row r and column c at low + 4r + c."""
    for r in range(0, nodes, 2):
        u0, u1 = get_item(low_row, r), get_item(low_row, min(r + 1, nodes - 1))
        add_2x4(phi, u0, u1, columns, 9, n, out, slot, low + 4 * r)


@cache
def assemble_pair(d: int, order: int):
    """The kernel for a dimension and a shape: particles of planes [first, last) -> stencil and moments (+=)."""
    nodes, rows, products = (order + 1) ** d, (2 * order + 1) ** d, (3 * order) ** d
    products_and_zero, field_rows = products + 1, 3 * nodes
    outer_step = nine_step(order)
    low = outer_step * (2 * order + 1) ** (d - 1)
    width = -(-(low + 4 * (nodes + nodes % 2)) // WIDTH) * WIDTH
    pair_rows = pair_row_count(d, order)
    carried = 9 * pair_rows + 4 * nodes

    @kernel
    def assemble_pair_slab(first, last, lattice, tables, start, s, v, weight, weights, visit, beta, scale, B,
                           stencil, moments):
        """stencil (offsets, 9, nodes) and moments (4, nodes) flat +=, cell sums first, eight cells at a time."""
        s, v, stencil, moments, B = borrow_three(s), borrow_three(v), borrow(stencil), borrow(moments), borrow(B)
        visit, weights = borrow(visit), borrow(weights)
        columns, phi, fields = stack_array(13, CHUNK), stack_array(rows, CHUNK), stack_array(field_rows, WIDTH)
        cell_sums, sums, carry = stack_array(WIDTH, width), stack_array(width, WIDTH), stack_array(carried, WIDTH)
        work, pairs = stack_array(products, WIDTH), stack_array(products_and_zero, WIDTH)
        carry[:, :] = 0.0
        put(pairs, (products, 0), spread(0.0))
        for plane in range(first, last):
            for row in range(lattice.rows):
                for i in range(0, lattice.length, WIDTH):
                    count, ends = min(WIDTH, lattice.length - i), i + WIDTH >= lattice.length
                    cell = (plane * lattice.rows + row) * lattice.length + i
                    base = lattice.first + plane * lattice.plane_stride + row * lattice.row_stride + i
                    field_powers(d, order, B, beta, lattice.size, base, count, tables.node, fields, 0)
                    prefetch_pairs(tables, stencil, 9, lattice.size, base)
                    cell_sums[:, :] = 0.0
                    for slot in range(count):
                        end = get_item(start, cell + slot + 1)
                        for at in range(get_item(start, cell + slot), end, CHUNK):
                            n = min(CHUNK, end - at)
                            for p in range(at + CHUNK, at + 2 * CHUNK, WIDTH):
                                prefetch_particles(d, s, v, p)
                            put_chunk(d, order, beta, scale, fields, slot, s, v, weight, weights, visit, at, n,
                                      columns, phi)
                            add_nine_columns(d, order, phi, columns, n, cell_sums, slot)
                            add_moments(nodes, tables.low_row, phi, columns, n, cell_sums, slot, low)
                    for r in range(0, width, WIDTH):
                        transpose(cell_sums, r, sums, r)
                    for c in range(9):
                        expand_pairs(d, order, sums, nine_at(order, c), outer_step, 3, work, pairs)
                        scatter_pairs(order, pairs, tables, stencil, 9, c, lattice.size, carry, base, count, ends)
                    for c in range(4):
                        to = (c + 1) % 4 * lattice.size + base
                        scatter_nodes(d, order, sums, low + c, 4, tables.node, moments, to, carry,
                                      9 * pair_rows + c * nodes, count, ends)

    return assemble_pair_slab
