"""The conventional form: every particle, every pair of nodes, every component. The second method, and the check.

Source: Lapenta 2017, J. Comput. Phys. 334, eq. 30.
"""

from __future__ import annotations

from functools import lru_cache

from ecsim.backend.cpu.cell import SLOTS, field_powers
from ecsim.backend.cpu.compilation import inline, kernel
from ecsim.backend.cpu.formulas import evaluate, rotation, shape
from ecsim.backend.cpu.scratch import stack_array


@inline
def node_weights(d, order, s, p, scale, W):
    """W[a, 0] = scale · Π φ of the particle at place p, nodes in C order."""
    m = order + 1
    a = 0
    for i in range(m):
        wx = scale * shape(order, i, s[0][p])
        for j in range(m if d > 1 else 1):
            wy = wx * shape(order, j, s[1][p]) if d > 1 else wx
            for k in range(m if d > 2 else 1):
                W[a, 0] = wy * shape(order, k, s[2][p]) if d > 2 else wy
                a += 1


@lru_cache(maxsize=None)
def assemble_direct(d: int, order: int):
    """The kernel for a dimension and a shape: particles of planes [first, last) -> stencil and moments (+=)."""
    nodes = (order + 1) ** d
    field_rows = 3 * nodes

    @kernel
    def assemble_direct_slab(first, last, lattice, tables, start, s, v, weight, weights, visit, beta, scale, B,
                             stencil, moments):
        b_powers, W, alpha = stack_array(field_rows, SLOTS), stack_array(nodes, 1), stack_array(9, 1)
        for plane in range(first, last):
            for row in range(lattice.rows):
                for i in range(lattice.length):
                    cell = (plane * lattice.rows + row) * lattice.length + i
                    base = lattice.first + plane * lattice.plane_stride + row * lattice.row_stride + i
                    field_powers(d, order, B, base, 1, tables.node, b_powers)
                    for j in range(start[cell], start[cell + 1]):
                        p = visit[j] if visit.size else j
                        charge = scale * (weights[p] if weights.size else weight)
                        x, y, z = 2.0 * s[0][p], 2.0 * s[1][p], 2.0 * s[2][p]
                        a = rotation(beta * evaluate(d, order, b_powers, 0, 0, x, y, z),
                                     beta * evaluate(d, order, b_powers, nodes, 0, x, y, z),
                                     beta * evaluate(d, order, b_powers, 2 * nodes, 0, x, y, z))
                        for c in range(9):
                            alpha[c, 0] = a[c]
                        node_weights(d, order, s, p, 1.0, W)
                        vx, vy, vz = v[0][p], v[1][p], v[2][p]
                        for n in range(nodes):
                            at, q = base + tables.node[n], charge * W[n, 0]
                            moments[at] += q
                            for c in range(3):
                                moments[(c + 1) * lattice.size + at] += q * (
                                    alpha[3 * c, 0] * vx + alpha[3 * c + 1, 0] * vy + alpha[3 * c + 2, 0] * vz)
                        for k in range(tables.pair_a.size):
                            ww = beta * charge * W[tables.pair_a[k], 0] * W[tables.pair_b[k], 0]
                            at = tables.pair_offset[k] * 9 * lattice.size + base + tables.node[tables.pair_a[k]]
                            for c in range(9):
                                stencil[at + c * lattice.size] += ww * alpha[c, 0]

    return assemble_direct_slab
