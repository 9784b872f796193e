"""The same two forms for coefficients that the caller gives per particle: Σ_p S_c(p) W_a W_b / V.

One column is a scalar mass matrix (as the material point method needs), nine are a 3×3 tensorial one.
"""

from __future__ import annotations

from functools import lru_cache

from ecsim.backend.cpu.cell import CHUNK, SLOTS, add_product, add_products, load, load_coordinates, monomials
from ecsim.backend.cpu.compilation import kernel
from ecsim.backend.cpu.mass_direct import node_weights
from ecsim.backend.cpu.mass_pair import scatter_pairs
from ecsim.backend.cpu.scratch import stack_array


@lru_cache(maxsize=None)
def columns_pair(d: int, order: int, components: int):
    """The pair-product kernel: particles of planes [first, last), visited through ``visit``, -> stencil (+=)."""
    powers = 2 * order + 1
    rows = -(-powers**d // 3) * 3
    products, all_rows = (3 * order) ** d, components * rows

    @kernel
    def columns_pair_slab(first, last, lattice, tables, start, s, given, visit, scale, stencil):
        t, columns, phi = stack_array(3, CHUNK), stack_array(components, CHUNK), stack_array(rows, CHUNK)
        sums, work, pair = stack_array(all_rows, SLOTS), stack_array(products, SLOTS), stack_array(products, SLOTS)
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
                    sums[:, :] = 0.0
                    for slot in range(count):
                        begin, end = start[cell + slot], start[cell + slot + 1]
                        for at in range(begin, end, CHUNK):
                            n = min(CHUNK, end - at)
                            load_coordinates(d, s, t, at, n, visit)
                            for c in range(components):
                                load(given[c], columns, c, at, n, visit, scale)
                            monomials(d, powers, t, phi)
                            if components == 9:
                                for r in range(0, rows, 3):
                                    for c in range(0, 9, 3):
                                        add_products(phi, r, columns, c, n, sums, c * rows + r, rows, slot)
                            else:
                                for r in range(rows):
                                    add_product(phi, r, columns, 0, n, sums, r, slot)
                    for c in range(components):
                        scatter_pairs(sums, c * rows, d, order, work, pair, tables, stencil, components, c, lattice.size,
                                      base, count)

    return columns_pair_slab


@lru_cache(maxsize=None)
def columns_direct(d: int, order: int, components: int):
    """The conventional kernel with the same arguments."""
    nodes = (order + 1) ** d

    @kernel
    def columns_direct_slab(first, last, lattice, tables, start, s, given, visit, scale, stencil):
        W = stack_array(nodes, 1)
        for plane in range(first, last):
            for row in range(lattice.rows):
                for i in range(lattice.length):
                    cell = (plane * lattice.rows + row) * lattice.length + i
                    base = lattice.first + plane * lattice.plane_stride + row * lattice.row_stride + i
                    for j in range(start[cell], start[cell + 1]):
                        p = visit[j]
                        node_weights(d, order, s, p, 1.0, W)
                        for k in range(tables.pair_a.size):
                            ww = scale * W[tables.pair_a[k], 0] * W[tables.pair_b[k], 0]
                            at = tables.pair_offset[k] * components * lattice.size + base + tables.node[tables.pair_a[k]]
                            for c in range(components):
                                stencil[at + c * lattice.size] += ww * given[c, p]

    return columns_direct_slab
