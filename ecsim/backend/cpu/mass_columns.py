"""Mass matrices of coefficients that the caller gives per particle: M_ab = Σ_p S_c(p) W_a W_b / V, in both forms.

One column makes a scalar mass matrix (as the material point method needs), nine a 3×3 tensorial one. Particles come
sorted by cell; ``given`` (components · particles,) holds the columns one after the other.
"""

from __future__ import annotations

from functools import cache

from ecsim.backend.cpu.access import borrow_three, load, load_position
from ecsim.backend.cpu.compilation import inline, kernel
from ecsim.backend.cpu.lanes import WIDTH, spread
from ecsim.backend.cpu.lattice import pair_row_count
from ecsim.backend.cpu.mass_direct import add_item, put_node_weights
from ecsim.backend.cpu.memory import borrow, get_item, put, stack_array, transpose
from ecsim.backend.cpu.products import CHUNK, add_8x1, add_nine_columns, nine_at, nine_step, put_monomials
from ecsim.backend.cpu.scatter import expand_pairs, prefetch_pairs, scatter_pairs


@inline
def put_given(d, order, components, scale, s, given, particles, visit, at, n, columns, phi):
    """Columns and monomials of the n particles from ``at`` on."""
    for p in range(0, n, WIDTH):
        x, y, z = load_position(d, s, visit, at + p, n - p)
        put_monomials(d, 2 * order + 1, 2.0 * x, 2.0 * y, 2.0 * z, phi, p)
        for c in range(components):
            put(columns, (c, p), scale * load(given, visit, c * particles + at + p, n - p))


@inline
def add_column(rows, phi, columns, n, out, slot):
    """All power rows times one column, sums in their order."""
    for r in range(0, rows, WIDTH):
        add_8x1(phi, r, columns, 0, n, out, slot, r)


@cache
def columns_pair(d: int, order: int, components: int):
    """The pair-product kernel: particles of planes [first, last) -> stencil (+=)."""
    powers, products = 2 * order + 1, (3 * order) ** d
    products_and_zero = products + 1
    rows = -(-powers**d // WIDTH) * WIDTH
    outer_step, step = (nine_step(order), 3) if components == 9 else (powers, 1)
    width = -(-outer_step * powers ** (d - 1) // WIDTH) * WIDTH
    carried = components * pair_row_count(d, order)

    @kernel
    def columns_pair_slab(first, last, lattice, tables, start, s, given, visit, scale, stencil):
        """stencil (offsets, components, nodes) flat += W_a W_b S_c, cell sums first, eight cells at a time."""
        s, given, stencil, visit = borrow_three(s), borrow(given), borrow(stencil), borrow(visit)
        columns, phi = stack_array(components, CHUNK), stack_array(rows, CHUNK)
        cell_sums, sums, carry = stack_array(WIDTH, width), stack_array(width, WIDTH), stack_array(carried, WIDTH)
        work, pairs = stack_array(products, WIDTH), stack_array(products_and_zero, WIDTH)
        carry[:, :] = 0.0
        phi[:, :] = 0.0
        put(pairs, (products, 0), spread(0.0))
        for plane in range(first, last):
            for row in range(lattice.rows):
                for i in range(0, lattice.length, WIDTH):
                    count, ends = min(WIDTH, lattice.length - i), i + WIDTH >= lattice.length
                    cell = (plane * lattice.rows + row) * lattice.length + i
                    base = lattice.first + plane * lattice.plane_stride + row * lattice.row_stride + i
                    prefetch_pairs(tables, stencil, components, lattice.size, base)
                    cell_sums[:, :] = 0.0
                    for slot in range(count):
                        end = get_item(start, cell + slot + 1)
                        for at in range(get_item(start, cell + slot), end, CHUNK):
                            n = min(CHUNK, end - at)
                            put_given(d, order, components, scale, s, given, s[0].size, visit, at, n, columns, phi)
                            if components == 9:
                                add_nine_columns(d, order, phi, columns, n, cell_sums, slot)
                            else:
                                add_column(rows, phi, columns, n, cell_sums, slot)
                    for r in range(0, width, WIDTH):
                        transpose(cell_sums, r, sums, r)
                    for c in range(components):
                        expand_pairs(d, order, sums, nine_at(order, c), outer_step, step, work, pairs)
                        scatter_pairs(order, pairs, tables, stencil, components, c, lattice.size, carry, base, count,
                                      ends)

    return columns_pair_slab


@cache
def columns_direct(d: int, order: int, components: int):
    """The conventional kernel with the same arguments."""
    nodes = (order + 1) ** d

    @kernel
    def columns_direct_slab(first, last, lattice, tables, start, s, given, visit, scale, stencil):
        """stencil (offsets, components, nodes) flat += W_a W_b S_c, particle by particle and pair by pair."""
        s, given, stencil = borrow_three(s), borrow(given), borrow(stencil)
        W = stack_array(nodes, 1)
        for plane in range(first, last):
            for row in range(lattice.rows):
                for i in range(lattice.length):
                    cell = (plane * lattice.rows + row) * lattice.length + i
                    base = lattice.first + plane * lattice.plane_stride + row * lattice.row_stride + i
                    for p in range(get_item(start, cell), get_item(start, cell + 1)):
                        put_node_weights(d, order, s, p, W)
                        for k in range(tables.pair_a.size):
                            a, o = get_item(tables.pair_a, k), get_item(tables.pair_offset, k)
                            ww = scale * W[a, 0] * W[get_item(tables.pair_b, k), 0]
                            at = o * components * lattice.size + base + get_item(tables.node, a)
                            for c in range(components):
                                add_item(stencil, at + c * lattice.size, ww * get_item(given, c * s[0].size + p))

    return columns_direct_slab
