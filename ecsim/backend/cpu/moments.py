"""Moments that only an output asks for: density, flux and pressure at nodes, and charge at cell centres."""

from __future__ import annotations

from functools import lru_cache

from ecsim.backend.cpu.cell import CHUNK, SLOTS, add_product, add_row, expand_nodes, load, load_coordinates, load_weights, monomials
from ecsim.backend.cpu.compilation import inline, kernel
from ecsim.backend.cpu.scratch import stack_array


@inline
def moment_columns(v, w, columns):
    """columns = w·[1, v (3), v_i v_j (xx, xy, xz, yy, yz, zz)] of a chunk."""
    for p in range(CHUNK):
        weight, x, y, z = w[0, p], v[0, p], v[1, p], v[2, p]
        columns[0, p] = weight
        columns[1, p] = weight * x
        columns[2, p] = weight * y
        columns[3, p] = weight * z
        columns[4, p] = weight * x * x
        columns[5, p] = weight * x * y
        columns[6, p] = weight * x * z
        columns[7, p] = weight * y * y
        columns[8, p] = weight * y * z
        columns[9, p] = weight * z * z


@lru_cache(maxsize=None)
def deposit_moments(d: int, order: int):
    """The kernel for a dimension and a shape: the ten moments of planes [first, last) -> ``out`` (10, size) flat (+=)."""
    m = order + 1
    nodes = m**d
    all_rows = 10 * nodes

    @kernel
    def deposit_moments_slab(first, last, lattice, node, start, s, v, weight, weights, visit, scale, out):
        t, u, w = stack_array(3, CHUNK), stack_array(3, CHUNK), stack_array(1, CHUNK)
        columns, phi, sums = stack_array(10, CHUNK), stack_array(nodes, CHUNK), stack_array(all_rows, SLOTS)
        for plane in range(first, last):
            for row in range(lattice.rows):
                for i in range(0, lattice.length, SLOTS):
                    cell = (plane * lattice.rows + row) * lattice.length + i
                    base = lattice.first + plane * lattice.plane_stride + row * lattice.row_stride + i
                    count = min(SLOTS, lattice.length - i)
                    sums[:, :] = 0.0
                    for slot in range(count):
                        begin, end = start[cell + slot], start[cell + slot + 1]
                        for at in range(begin, end, CHUNK):
                            n = min(CHUNK, end - at)
                            load_coordinates(d, s, t, at, n, visit)
                            for k in range(3):
                                load(v[k], u, k, at, n, visit, 1.0)
                            load_weights(weight, weights, w, 0, at, n, visit, scale)
                            moment_columns(u, w, columns)
                            monomials(d, m, t, phi)
                            for c in range(10):
                                for r in range(nodes):
                                    add_product(phi, r, columns, c, n, sums, c * nodes + r, slot)
                    for c in range(10):
                        expand_nodes(d, order, sums, c * nodes)
                        for a in range(nodes):
                            add_row(sums, c * nodes + a, out, c * lattice.size + base + node[a], count)

    return deposit_moments_slab


@inline
def centre_weight(order, which, s):
    """CIC weight of the centre ``which`` (0, 1, 2) of a support cell along one dimension.

    The cell's first support node is i for CIC and i − 1 for TSC; centre ``which`` lies half a cell (TSC) or minus half a
    cell (CIC) beyond that, plus ``which`` cells.
    """
    if order == 1:
        if which == 1:
            return 1.0 - abs(s)
        return max(-s, 0.0) if which == 0 else max(s, 0.0)
    if which == 2:
        return 0.0
    return 0.5 - s if which == 0 else 0.5 + s


@lru_cache(maxsize=None)
def deposit_centre_charge(d: int, order: int):
    """The kernel for a dimension and a shape: charge of planes [first, last) at centres -> ``out`` (size,) flat (+=)."""
    reach = 3
    many_y, many_z = (reach if d > 1 else 1), (reach if d > 2 else 1)
    back = 1 if order == 1 else 0

    @kernel
    def deposit_centre_charge_slab(first, last, lattice, strides, start, s, weight, weights, visit, scale, out):
        corner = lattice.first - back * (strides[0] + strides[1] + strides[2])
        for plane in range(first, last):
            for row in range(lattice.rows):
                for i in range(lattice.length):
                    cell = (plane * lattice.rows + row) * lattice.length + i
                    base = corner + plane * lattice.plane_stride + row * lattice.row_stride + i
                    for j in range(start[cell], start[cell + 1]):
                        p = visit[j] if visit.size else j
                        charge = scale * (weights[p] if weights.size else weight)
                        for a in range(reach):
                            wx = charge * centre_weight(order, a, s[0][p])
                            for b in range(many_y):
                                wy = wx * centre_weight(order, b, s[1][p]) if d > 1 else wx
                                for c in range(many_z):
                                    wz = wy * centre_weight(order, c, s[2][p]) if d > 2 else wy
                                    if wz != 0.0:
                                        out[base + a * strides[0] + b * strides[1] + c * strides[2]] += wz

    return deposit_centre_charge_slab
