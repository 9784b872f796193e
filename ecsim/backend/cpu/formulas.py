"""Scalar physics apart from the loops: shapes, pair products, rotation. The twin of formulas.cuh.

``t = 2s`` in [−1, 1) is the coordinate in the support cell. ``order`` is 1 (CIC) or 2 (TSC); a polynomial in t is
stored with the coefficient of the highest dimension's power running fastest.
"""

from __future__ import annotations

import numpy as np

from ecsim.backend.cpu.compilation import formula


@formula
def shape(order, node, s):
    """φ at support node ``node`` (0 … order) for the in-cell coordinate s in [−½, ½)."""
    if order == 1:
        return 0.5 - s if node == 0 else 0.5 + s
    if node == 0:
        return 0.5 * (0.5 - s) ** 2
    if node == 1:
        return 0.75 - s * s
    return 0.5 * (0.5 + s) ** 2


@formula
def nodes_to_powers(order, f0, f1, f2):
    """Coefficients in t of Σ_a f_a φ_a(t); for CIC the last argument and the last result are idle."""
    if order == 1:
        return 0.5 * (f0 + f1), 0.5 * (f1 - f0), f2
    even = 0.125 * (f0 + f2)
    return even + 0.75 * f1, 0.25 * (f2 - f0), even - 0.25 * f1


@formula
def powers_to_nodes(order, m0, m1, m2):
    """Σ_p φ_a from the power sums m_k = Σ_p t^k; for CIC the last argument and the last result are idle."""
    if order == 1:
        return 0.5 * (m0 - m1), 0.5 * (m0 + m1), m2
    even = 0.125 * (m0 + m2)
    return even - 0.25 * m1, 0.75 * m0 - 0.25 * m2, even + 0.25 * m1


@formula
def pair_products_cic(m0, m1, m2):
    """Σ_p φ_a φ_b for the node pairs 00, 01, 11 from the power sums m_k = Σ_p t^k."""
    even = 0.25 * (m0 + m2)
    return even - 0.5 * m1, 0.25 * (m0 - m2), even + 0.5 * m1


@formula
def pair_products_tsc(m0, m1, m2, m3, m4):
    """Σ_p φ_a φ_b for the node pairs 00, 01, 02, 11, 12, 22 from the power sums m_k = Σ_p t^k."""
    outer_even, outer_odd = (m0 + 6.0 * m2 + m4) * (1.0 / 64.0), (m1 + m3) * (1.0 / 16.0)
    inner_even, inner_odd = (3.0 * m0 + 2.0 * m2 - m4) * (1.0 / 32.0), (3.0 * m1 - m3) * (1.0 / 16.0)
    return (outer_even - outer_odd, inner_even - inner_odd, (m0 - 2.0 * m2 + m4) * (1.0 / 64.0),
            (9.0 * m0 - 6.0 * m2 + m4) * (1.0 / 16.0), inner_even + inner_odd, outer_even + outer_odd)


@formula
def pair_products(order, m0, m1, m2, m3, m4):
    """``pair_products_tsc``; for order 1 ``pair_products_cic``, the last two arguments and three results idle."""
    if order == 1:
        q0, q1, q2 = pair_products_cic(m0, m1, m2)
        return q0, q1, q2, q0, q0, q0
    return pair_products_tsc(m0, m1, m2, m3, m4)


@formula
def polynomial(order, a0, a1, a_last, x):
    """a0 + a1 x (order 1) or a0 + a1 x + a_last x² (order 2)."""
    if order == 1:
        return a0 + x * a1
    return a0 + x * (a1 + x * a_last)


@formula
def evaluate_line(order, c, k, slot, z):
    """Polynomial in one coordinate whose coefficients are c[k …, slot]."""
    return polynomial(order, c[k, slot], c[k + 1, slot], c[k + order, slot], z)


@formula
def evaluate_plane(order, c, k, slot, y, z):
    """Polynomial in two coordinates whose coefficients are c[k …, slot]."""
    m = order + 1
    return polynomial(order, evaluate_line(order, c, k, slot, z), evaluate_line(order, c, k + m, slot, z),
                      evaluate_line(order, c, k + order * m, slot, z), y)


@formula
def evaluate(d, order, c, k, slot, x, y, z):
    """Polynomial in d coordinates (the first d of x, y, z) whose (order+1)^d coefficients are c[k …, slot]."""
    if d == 1:
        return evaluate_line(order, c, k, slot, x)
    if d == 2:
        return evaluate_plane(order, c, k, slot, x, y)
    mm = (order + 1) * (order + 1)
    return polynomial(order, evaluate_plane(order, c, k, slot, y, z), evaluate_plane(order, c, k + mm, slot, y, z),
                      evaluate_plane(order, c, k + order * mm, slot, y, z), x)


@formula
def rotation(bx, by, bz):
    """α of b = β B, row by row: α v = [v + v×b + (v·b) b] / (1 + b²)  (Lapenta 2017, eq. 15)."""
    r = 1.0 / (1.0 + bx * bx + by * by + bz * bz)
    x, y, z = r * bx, r * by, r * bz
    xy, xz, yz = x * by, x * bz, y * bz
    return (r + x * bx, xy + z, xz - y,
            xy - z, r + y * by, yz + x,
            xz + y, yz - x, r + z * bz)


@formula
def wrap(i, n):
    """Cell coordinate ``i`` (a whole float, any distance outside) brought into [0, n) periodically."""
    return i - n * np.floor(i / n)
