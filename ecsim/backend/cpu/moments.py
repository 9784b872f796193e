"""Moments that only an output asks for: density, flux and pressure at nodes, and charge at cell centres."""

from __future__ import annotations

from functools import cache

from ecsim.backend.cpu.access import borrow_three, load_position, load_velocity, load_weight
from ecsim.backend.cpu.compilation import inline, kernel
from ecsim.backend.cpu.lanes import WIDTH, spread
from ecsim.backend.cpu.mass_direct import add_item
from ecsim.backend.cpu.memory import borrow, get_item, put, stack_array, transpose
from ecsim.backend.cpu.products import CHUNK, add_2x4, put_monomials
from ecsim.backend.cpu.scatter import scatter_nodes

MOMENTS = 10


@inline
def put_moments(d, order, scale, s, v, weight, weights, visit, at, n, columns, phi):
    """Columns w·[1, v (3), v_i v_j (xx, xy, xz, yy, yz, zz), 0, 0] and monomials of the n particles from ``at`` on."""
    for p in range(0, n, WIDTH):
        x, y, z = load_position(d, s, visit, at + p, n - p)
        put_monomials(d, order + 1, 2.0 * x, 2.0 * y, 2.0 * z, phi, p)
        vx, vy, vz = load_velocity(v, visit, at + p, n - p)
        w = scale * load_weight(weight, weights, visit, at + p, n - p)
        px, py, pz, zero = w * vx, w * vy, w * vz, spread(0.0)
        moments = (w, px, py, pz, px * vx, px * vy, px * vz, py * vy, py * vz, pz * vz, zero, zero)
        for c in range(12):
            put(columns, (c, p), moments[c])


@cache
def deposit_moments(d: int, order: int):
    """The kernel for a dimension and a shape: ten moments of planes [first, last) -> ``out`` (10·size,) flat (+=)."""
    nodes = (order + 1) ** d
    even = nodes + nodes % 2
    width = -(-12 * even // WIDTH) * WIDTH
    carried = MOMENTS * nodes

    @kernel
    def deposit_moments_slab(first, last, lattice, node, start, s, v, weight, weights, visit, scale, out):
        """out (10, nodes) flat += w [1, v, v v] W, cell sums first, eight cells at a time."""
        s, v, visit, weights, out = borrow_three(s), borrow_three(v), borrow(visit), borrow(weights), borrow(out)
        columns, phi, carry = stack_array(12, CHUNK), stack_array(nodes, CHUNK), stack_array(carried, WIDTH)
        cell_sums, sums = stack_array(WIDTH, width), stack_array(width, WIDTH)
        carry[:, :] = 0.0
        for plane in range(first, last):
            for row in range(lattice.rows):
                for i in range(0, lattice.length, WIDTH):
                    count, ends = min(WIDTH, lattice.length - i), i + WIDTH >= lattice.length
                    cell = (plane * lattice.rows + row) * lattice.length + i
                    base = lattice.first + plane * lattice.plane_stride + row * lattice.row_stride + i
                    cell_sums[:, :] = 0.0
                    for slot in range(count):
                        end = get_item(start, cell + slot + 1)
                        for at in range(get_item(start, cell + slot), end, CHUNK):
                            n = min(CHUNK, end - at)
                            put_moments(d, order, scale, s, v, weight, weights, visit, at, n, columns, phi)
                            for c in range(3):
                                for r in range(0, nodes, 2):
                                    add_2x4(phi, r, min(r + 1, nodes - 1), columns, 4 * c, n, cell_sums, slot,
                                            4 * (c * even + r))
                    for r in range(0, width, WIDTH):
                        transpose(cell_sums, r, sums, r)
                    for c in range(MOMENTS):
                        scatter_nodes(d, order, sums, c // 4 * 4 * even + c % 4, 4, node, out, c * lattice.size + base,
                                      carry, c * nodes, count, ends)

    return deposit_moments_slab


@inline
def centre_weight(order, which, s):
    """CIC weight of a centre along one dimension, ``which`` = 0, 1, 2 from the lowest one in reach.

    That is i − 1 for both shapes: x = (i + ½ + s) Δ reaches centres i − 1 … i + 1 (CIC), x = (i + s) Δ two (TSC).
    """
    if order == 1:
        if which == 1:
            return 1.0 - abs(s)
        return max(-s, 0.0) if which == 0 else max(s, 0.0)
    if which == 2:
        return 0.0
    return 0.5 - s if which == 0 else 0.5 + s


@cache
def deposit_centre_charge(d: int, order: int):
    """The kernel for a dimension and a shape: charge of planes [first, last) at centres -> ``out`` (size,) (+=)."""
    many_y, many_z = (3 if d > 1 else 1), (3 if d > 2 else 1)
    back = 1 if order == 1 else 0

    @kernel
    def deposit_centre_charge_slab(first, last, lattice, strides, start, s, weight, weights, visit, scale, out):
        """out (centres,) += w times the CIC weight of each centre in reach, particle by particle."""
        s, out = borrow_three(s), borrow(out)
        corner = lattice.first - back * (strides[0] + strides[1] + strides[2])
        for plane in range(first, last):
            for row in range(lattice.rows):
                for i in range(lattice.length):
                    cell = (plane * lattice.rows + row) * lattice.length + i
                    base = corner + plane * lattice.plane_stride + row * lattice.row_stride + i
                    for j in range(get_item(start, cell), get_item(start, cell + 1)):
                        place = visit[j] if visit.size else j
                        charge = scale * (weights[place] if weights.size else weight)
                        x, y, z = get_item(s[0], place), get_item(s[1], place), get_item(s[2], place)
                        for a in range(3):
                            wx = charge * centre_weight(order, a, x)
                            for b in range(many_y):
                                wy = wx * centre_weight(order, b, y) if d > 1 else wx
                                for c in range(many_z):
                                    wz = wy * centre_weight(order, c, z) if d > 2 else wy
                                    if wz != 0.0:
                                        add_item(out, base + a * strides[0] + b * strides[1] + c * strides[2], wz)

    return deposit_centre_charge_slab
