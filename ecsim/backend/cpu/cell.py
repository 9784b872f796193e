"""What every particle kernel does in a cell: load a chunk of particles, get the fields' polynomials, multiply, scatter.

Cells are taken ``SLOTS`` at a time along a row, and all numbers of a cell stand in arrays (…, SLOTS), so that what is
done once a cell runs along the row in vector registers. Particles of a cell are taken in chunks of ``CHUNK``.
"""

from __future__ import annotations

from ecsim.backend.cpu.compilation import inline
from ecsim.backend.cpu.formulas import (
    nodes_to_powers,
    pair_products_cic,
    pair_products_tsc,
    powers_to_nodes,
)

CHUNK = 64
SLOTS = 8


@inline
def load(source, target, row, first, count, visit, scale):
    """target[row, :count] = scale · source of ``count`` particles from ``first`` on, the rest of the row 0.

    ``visit`` maps visiting order to place; empty where they agree.
    """
    if visit.size:
        for p in range(count):
            target[row, p] = scale * source[visit[first + p]]
    else:
        for p in range(count):
            target[row, p] = scale * source[first + p]
    for p in range(count, CHUNK):
        target[row, p] = 0.0


@inline
def load_weights(weight, weights, target, row, first, count, visit, scale):
    """As ``load`` for the macro-charges: one number ``weight``, or the array ``weights`` where it is not empty."""
    if weights.size:
        load(weights, target, row, first, count, visit, scale)
    else:
        for p in range(count):
            target[row, p] = scale * weight
        for p in range(count, CHUNK):
            target[row, p] = 0.0


@inline
def load_coordinates(d, s, target, first, count, visit):
    """Rows 0 … d−1 of ``target`` become t = 2s of the chunk, the rest 0."""
    load(s[0], target, 0, first, count, visit, 2.0)
    if d > 1:
        load(s[1], target, 1, first, count, visit, 2.0)
    if d > 2:
        load(s[2], target, 2, first, count, visit, 2.0)
    for k in range(d, 3):
        for p in range(CHUNK):
            target[k, p] = 0.0


@inline
def field_powers(d, order, field, base, count, node, c):
    """c[k·nodes + u, slot]: coefficients in t of component k of a nodal field in ``count`` cells from flat node ``base``."""
    m = order + 1
    nodes = m**d
    for k in range(3):
        for a in range(nodes):
            for slot in range(count):
                c[k * nodes + a, slot] = field[k, base + node[a] + slot]
            for slot in range(count, SLOTS):
                c[k * nodes + a, slot] = 0.0
    step = 1
    for _ in range(d):
        for a in range(3 * nodes):
            if (a // step) % m == 0:
                for slot in range(SLOTS):
                    p0, p1, p2 = nodes_to_powers(order, c[a, slot], c[a + step, slot], c[a + order * step, slot])
                    c[a, slot] = p0
                    if order == 2:
                        c[a + step, slot] = p1
                        c[a + order * step, slot] = p2
                    else:
                        c[a + step, slot] = p1
        step *= m


@inline
def monomials(d, powers, t, phi):
    """phi[u, p] = t_0^i t_1^j t_2^k, u counting the exponents below ``powers`` in C order."""
    for p in range(CHUNK):
        phi[0, p] = 1.0
    step = 1
    for k in range(d):
        axis = d - 1 - k
        for u in range(step, step * powers):
            for p in range(CHUNK):
                phi[u, p] = phi[u - step, p] * t[axis, p]
        step *= powers


@inline
def add_products(phi, u, column, c, count, out, row, stride, slot):
    """out[row + i + j·stride, slot] += Σ_p phi[u+i, p] column[c+j, p], i and j = 0, 1, 2."""
    s00 = s01 = s02 = s10 = s11 = s12 = s20 = s21 = s22 = 0.0
    for p in range(count):
        a0, a1, a2 = phi[u, p], phi[u + 1, p], phi[u + 2, p]
        b0, b1, b2 = column[c, p], column[c + 1, p], column[c + 2, p]
        s00 += a0 * b0
        s01 += a0 * b1
        s02 += a0 * b2
        s10 += a1 * b0
        s11 += a1 * b1
        s12 += a1 * b2
        s20 += a2 * b0
        s21 += a2 * b1
        s22 += a2 * b2
    out[row, slot] += s00
    out[row + 1, slot] += s10
    out[row + 2, slot] += s20
    out[row + stride, slot] += s01
    out[row + stride + 1, slot] += s11
    out[row + stride + 2, slot] += s21
    out[row + 2 * stride, slot] += s02
    out[row + 2 * stride + 1, slot] += s12
    out[row + 2 * stride + 2, slot] += s22


@inline
def add_product(phi, u, column, c, count, out, row, slot):
    """out[row, slot] += Σ_p phi[u, p] column[c, p]."""
    total = 0.0
    for p in range(count):
        total += phi[u, p] * column[c, p]
    out[row, slot] += total


@inline
def expand_along(order, source, row, target, outer, inner):
    """Power sums to pair products along one dimension: ``outer`` slower and ``inner`` faster indices stay."""
    if order == 1:
        for o in range(outer):
            for i in range(inner):
                at = row + 3 * o * inner + i
                to = 3 * o * inner + i
                for slot in range(SLOTS):
                    q0, q1, q2 = pair_products_cic(source[at, slot], source[at + inner, slot],
                                                   source[at + 2 * inner, slot])
                    target[to, slot] = q0
                    target[to + inner, slot] = q1
                    target[to + 2 * inner, slot] = q2
    else:
        for o in range(outer):
            for i in range(inner):
                at = row + 5 * o * inner + i
                to = 6 * o * inner + i
                for slot in range(SLOTS):
                    q0, q1, q2, q3, q4, q5 = pair_products_tsc(
                        source[at, slot], source[at + inner, slot], source[at + 2 * inner, slot],
                        source[at + 3 * inner, slot], source[at + 4 * inner, slot])
                    target[to, slot] = q0
                    target[to + inner, slot] = q1
                    target[to + 2 * inner, slot] = q2
                    target[to + 3 * inner, slot] = q3
                    target[to + 4 * inner, slot] = q4
                    target[to + 5 * inner, slot] = q5


@inline
def expand_pairs(d, order, sums, row, work, out):
    """out[q, slot]: all products of node pairs of one component, from its power sums sums[row …, slot]."""
    powers, q = 2 * order + 1, 3 * order
    if d == 1:
        expand_along(order, sums, row, out, 1, 1)
    elif d == 2:
        expand_along(order, sums, row, work, powers, 1)
        expand_along(order, work, 0, out, 1, q)
    else:
        expand_along(order, sums, row, out, powers * powers, 1)
        expand_along(order, out, 0, work, powers, q)
        expand_along(order, work, 0, out, 1, q * q)


@inline
def expand_nodes(d, order, sums, row):
    """In place: power sums sums[row …, slot] of exponents ≤ order become the sums of W over the support nodes."""
    m = order + 1
    step = 1
    for _ in range(d):
        for a in range(m**d):
            if (a // step) % m == 0:
                at = row + a
                for slot in range(SLOTS):
                    n0, n1, n2 = powers_to_nodes(order, sums[at, slot], sums[at + step, slot],
                                                 sums[at + order * step, slot])
                    sums[at, slot] = n0
                    sums[at + step, slot] = n1
                    if order == 2:
                        sums[at + order * step, slot] = n2
        step *= m


@inline
def add_row(source, row, target, at, count):
    """target[at : at + count] += source[row, :count]."""
    if count == SLOTS:
        for slot in range(SLOTS):
            target[at + slot] += source[row, slot]
    else:
        for slot in range(count):
            target[at + slot] += source[row, slot]
