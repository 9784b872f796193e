"""The conventional form: every particle, every pair of nodes, every component. The second method, and the check.

Source: Lapenta 2017, J. Comput. Phys. 334, eq. 30.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ecsim.backend.cpu.access import borrow_three, field_powers
from ecsim.backend.cpu.compilation import inline, kernel
from ecsim.backend.cpu.formulas import evaluate, rotation, shape
from ecsim.backend.cpu.lanes import WIDTH
from ecsim.backend.cpu.memory import borrow, get_item, put_item, stack_array


@inline
def add_item(array, i, x):
    """array[i] += x."""
    put_item(array, i, get_item(array, i) + x)


@inline
def put_node_weights(d, order, s, place, W):
    """W[a, 0] = Π φ of the particle at ``place``, nodes in C order."""
    x, y, z = np.float64(get_item(s[0], place)), np.float64(get_item(s[1], place)), np.float64(get_item(s[2], place))
    m = order + 1
    a = 0
    for i in range(m):
        wx = shape(order, i, x)
        for j in range(m if d > 1 else 1):
            wy = wx * shape(order, j, y) if d > 1 else wx
            for k in range(m if d > 2 else 1):
                W[a, 0] = wy * shape(order, k, z) if d > 2 else wy
                a += 1


@inline
def put_rotation(d, order, fields, s, place, alpha):
    """alpha[3i + j, 0] = α_ij of the particle at ``place``; ``fields`` are the powers of β B in its cell."""
    nodes = (order + 1) ** d
    x, y, z = 2.0 * get_item(s[0], place), 2.0 * get_item(s[1], place), 2.0 * get_item(s[2], place)
    a = rotation(evaluate(d, order, fields, 0, 0, x, y, z), evaluate(d, order, fields, nodes, 0, x, y, z),
                 evaluate(d, order, fields, 2 * nodes, 0, x, y, z))
    for c in range(9):
        alpha[c, 0] = a[c]


@inline
def add_particle_moments(nodes, node, W, charge, alpha, v, place, size, base, moments):
    """moments += w W and w (α v) W of one particle."""
    vx, vy, vz = get_item(v[0], place), get_item(v[1], place), get_item(v[2], place)
    for n in range(nodes):
        at, q = base + get_item(node, n), charge * W[n, 0]
        add_item(moments, at, q)
        for i in range(3):
            add_item(moments, (i + 1) * size + at,
                     q * (alpha[3 * i, 0] * vx + alpha[3 * i + 1, 0] * vy + alpha[3 * i + 2, 0] * vz))


@cache
def assemble_direct(d: int, order: int):
    """The kernel for a dimension and a shape: particles of planes [first, last) -> stencil and moments (+=)."""
    nodes = (order + 1) ** d
    field_rows = 3 * nodes

    @kernel
    def assemble_direct_slab(first, last, lattice, tables, start, s, v, weight, weights, visit, beta, scale, B,
                             stencil, moments):
        """stencil (offsets, 9, nodes) and moments (4, nodes) flat +=, particle by particle and pair by pair."""
        s, v, stencil, moments, B = borrow_three(s), borrow_three(v), borrow(stencil), borrow(moments), borrow(B)
        fields, W, alpha = stack_array(field_rows, WIDTH), stack_array(nodes, 1), stack_array(9, 1)
        for plane in range(first, last):
            for row in range(lattice.rows):
                for i in range(lattice.length):
                    cell = (plane * lattice.rows + row) * lattice.length + i
                    base = lattice.first + plane * lattice.plane_stride + row * lattice.row_stride + i
                    field_powers(d, order, B, beta, lattice.size, base, 1, tables.node, fields, 0)
                    for j in range(get_item(start, cell), get_item(start, cell + 1)):
                        place = visit[j] if visit.size else j
                        charge = scale * (weights[place] if weights.size else weight)
                        put_node_weights(d, order, s, place, W)
                        put_rotation(d, order, fields, s, place, alpha)
                        add_particle_moments(nodes, tables.node, W, charge, alpha, v, place, lattice.size, base,
                                             moments)
                        for k in range(tables.pair_a.size):
                            a, o = get_item(tables.pair_a, k), get_item(tables.pair_offset, k)
                            ww = beta * charge * W[a, 0] * W[get_item(tables.pair_b, k), 0]
                            at = o * 9 * lattice.size + base + get_item(tables.node, a)
                            for c in range(9):
                                add_item(stencil, at + c * lattice.size, ww * alpha[c, 0])

    return assemble_direct_slab
