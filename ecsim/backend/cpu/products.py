"""The small matrix product of a chunk of particles: out[…] += Σ_p phi[u, p] column[c, p], in register blocks.

``phi`` (rows, CHUNK) holds monomials and ``column`` (columns, CHUNK) coefficients of particles of one cell; lanes are
particles. ``out`` (WIDTH, sums) has one row a cell; a block writes its sums side by side.
"""

from __future__ import annotations

from ecsim.backend.cpu.compilation import inline
from ecsim.backend.cpu.lanes import WIDTH, spread, total, totals
from ecsim.backend.cpu.memory import get, put

CHUNK = 64


@inline
def put_monomials(d, powers, x, y, z, phi, p):
    """phi[u, p : p + WIDTH] = x^i y^j z^k (the first d of them), u counting exponents below ``powers`` in C order."""
    put(phi, (0, p), spread(1.0))
    step = 1
    for k in range(d):
        t = x if k == d - 1 else (y if k == d - 2 else z)
        for u in range(step, step * powers):
            put(phi, (u, p), get(phi, (u - step, p)) * t)
        step *= powers


@inline
def add_to_row(out, slot, to, x):
    """out[slot, to : to + WIDTH] += x."""
    put(out, (slot, to), get(out, (slot, to)) + x)


@inline
def add_3x3(phi, u, column, c, count, out, slot, to):
    """out[slot, to + 3i + j] += Σ_p phi[u + i, p] column[c + j, p], i and j = 0, 1, 2."""
    s00 = s01 = s02 = s10 = s11 = s12 = s20 = s21 = s22 = spread(0.0)
    for p in range(0, count, WIDTH):
        a0, a1, a2 = get(phi, (u, p)), get(phi, (u + 1, p)), get(phi, (u + 2, p))
        b0, b1, b2 = get(column, (c, p)), get(column, (c + 1, p)), get(column, (c + 2, p))
        s00 += a0 * b0
        s01 += a0 * b1
        s02 += a0 * b2
        s10 += a1 * b0
        s11 += a1 * b1
        s12 += a1 * b2
        s20 += a2 * b0
        s21 += a2 * b1
        s22 += a2 * b2
    add_to_row(out, slot, to, totals(s00, s01, s02, s10, s11, s12, s20, s21))
    out[slot, to + 8] += total(s22)


@inline
def add_5x3(phi, u, column, c, count, out, slot, to):
    """As ``add_3x3`` for i = 0 … 4; out[slot, to + 15] is idle."""
    s00 = s01 = s02 = s10 = s11 = s12 = s20 = s21 = s22 = s30 = s31 = s32 = s40 = s41 = s42 = spread(0.0)
    for p in range(0, count, WIDTH):
        b0, b1, b2 = get(column, (c, p)), get(column, (c + 1, p)), get(column, (c + 2, p))
        a = get(phi, (u, p))
        s00 += a * b0
        s01 += a * b1
        s02 += a * b2
        a = get(phi, (u + 1, p))
        s10 += a * b0
        s11 += a * b1
        s12 += a * b2
        a = get(phi, (u + 2, p))
        s20 += a * b0
        s21 += a * b1
        s22 += a * b2
        a = get(phi, (u + 3, p))
        s30 += a * b0
        s31 += a * b1
        s32 += a * b2
        a = get(phi, (u + 4, p))
        s40 += a * b0
        s41 += a * b1
        s42 += a * b2
    add_to_row(out, slot, to, totals(s00, s01, s02, s10, s11, s12, s20, s21))
    add_to_row(out, slot, to + 8, totals(s22, s30, s31, s32, s40, s41, s42, s42))


@inline
def add_2x4(phi, u0, u1, column, c, count, out, slot, to):
    """out[slot, to + j] += Σ_p phi[u0, p] column[c + j, p], j = 0 … 3, and out[slot, to + 4 + j] likewise of u1."""
    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = spread(0.0)
    for p in range(0, count, WIDTH):
        a0, a1 = get(phi, (u0, p)), get(phi, (u1, p))
        b0, b1, b2, b3 = get(column, (c, p)), get(column, (c + 1, p)), get(column, (c + 2, p)), get(column, (c + 3, p))
        s00 += a0 * b0
        s01 += a0 * b1
        s02 += a0 * b2
        s03 += a0 * b3
        s10 += a1 * b0
        s11 += a1 * b1
        s12 += a1 * b2
        s13 += a1 * b3
    add_to_row(out, slot, to, totals(s00, s01, s02, s03, s10, s11, s12, s13))


@inline
def add_8x1(phi, u, column, c, count, out, slot, to):
    """out[slot, to + i] += Σ_p phi[u + i, p] column[c, p], i = 0 … 7."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = spread(0.0)
    for p in range(0, count, WIDTH):
        b = get(column, (c, p))
        s0 += b * get(phi, (u, p))
        s1 += b * get(phi, (u + 1, p))
        s2 += b * get(phi, (u + 2, p))
        s3 += b * get(phi, (u + 3, p))
        s4 += b * get(phi, (u + 4, p))
        s5 += b * get(phi, (u + 5, p))
        s6 += b * get(phi, (u + 6, p))
        s7 += b * get(phi, (u + 7, p))
    add_to_row(out, slot, to, totals(s0, s1, s2, s3, s4, s5, s6, s7))


@inline
def add_nine_columns(d, order, phi, column, count, out, slot):
    """All power rows times columns 0 … 8.

    The sum for column c and powers (r, k), k the last dimension's, is at nine_at(order, c) + r·nine_step(order) + 3k.
    """
    for r in range((2 * order + 1) ** (d - 1)):
        for c in range(3):
            if order == 1:
                add_3x3(phi, 3 * r, column, 3 * c, count, out, slot, 9 * (3 * r + c))
            else:
                add_5x3(phi, 5 * r, column, 3 * c, count, out, slot, 16 * (3 * r + c))


def nine_step(order: int) -> int:
    """How far apart ``add_nine_columns`` puts the sums of successive powers of all dimensions but the last."""
    return 27 if order == 1 else 48


@inline
def nine_at(order, component):
    """Where ``add_nine_columns`` begins with the sums of one column."""
    return component // 3 * (9 if order == 1 else 16) + component % 3
