"""The loops of loading: draws for every particle of some cells, and the support cells they fall into.

Particles are numbered cell by cell: particle ``c·per_cell + i`` is the ``i``-th of the ``c``-th cell of
``flat``, the global flat numbers of geometric cells. All functions release the interpreter lock.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ecsim.particles.random import (
    POSITION_DRAW,
    SHIFT_DRAW,
    VELOCITY_DRAW,
    normal_quantile,
    unit32,
    unit42,
    words_of,
)

_TEN, _TWENTY = np.uint32(10), np.uint32(20)


@njit(cache=True, nogil=True)
def uniform_positions(seed, species, flat, per_cell, fraction):
    """Random positions in the cell: ``fraction`` (d, P) inside (0, 1)."""
    d = fraction.shape[0]
    for c in range(flat.size):
        for i in range(per_cell):
            p = c * per_cell + i
            a, b, e, _ = words_of(seed, species, flat[c], i, POSITION_DRAW)
            fraction[0, p] = unit32(a)
            if d > 1:
                fraction[1, p] = unit32(b)
            if d > 2:
                fraction[2, p] = unit32(e)


@njit(cache=True, nogil=True)
def random(seed, species, flat, per_cell, choice, z):
    """Independent normal deviates ``z`` (3, P) and uniform ``choice`` (P,).

    The fourth word is the choice; its lowest bits also extend the other three beyond their 32 bits, which
    only the far tails of the normal distribution can feel.
    """
    for c in range(flat.size):
        for i in range(per_cell):
            p = c * per_cell + i
            a, b, e, low = words_of(seed, species, flat[c], i, VELOCITY_DRAW)
            z[0, p] = normal_quantile(unit42(a, low))
            z[1, p] = normal_quantile(unit42(b, low >> _TEN))
            z[2, p] = normal_quantile(unit42(e, low >> _TWENTY))
            choice[p] = unit32(low)


@njit(cache=True, nogil=True)
def quiet_choices(seed, species, flat, points, choice):
    """Uniform ``choice`` (P,) of low discrepancy: ``points`` (per_cell,) shifted, modulo 1, at random in a cell."""
    per_cell = points.size
    for c in range(flat.size):
        shift = unit32(words_of(seed, species, flat[c], 0, SHIFT_DRAW)[3])
        for i in range(per_cell):
            choice[c * per_cell + i] = (points[i] + shift) % 1.0


@njit(cache=True, nogil=True)
def quantiles(u):
    """Normal quantiles of the numbers ``u`` (n,) inside (0, 1)."""
    z = np.empty(u.size)
    for i in range(u.size):
        z[i] = normal_quantile(u[i])
    return z


@njit(cache=True)
def shift_of(seed, species):
    """The random shift (3,) in (0, 1) of a species' quiet velocities."""
    a, b, c, _ = words_of(seed, species, 0, 0, SHIFT_DRAW)
    return np.array([unit32(a), unit32(b), unit32(c)])


@njit(cache=True, nogil=True)
def mix(densities, choice, drifts, spreads, z):
    """Velocities of a mixture, in ``z`` (3, P), and total density (P,).

    Particle p belongs to the population in which ``choice[p]`` × total falls when the ``densities`` (n, P)
    are stacked; its velocity is that population's drift (n, 3) + spread (n, 3) × deviate.
    """
    n, count = densities.shape
    total = np.zeros(count)
    for number in range(n):
        for p in range(count):
            total[p] += densities[number, p]
    for p in range(count):
        target, number, stacked = choice[p] * total[p], 0, densities[0, p]
        while number < n - 1 and target >= stacked:
            number += 1
            stacked += densities[number, p]
        for k in range(3):
            z[k, p] = drifts[number, k] + spreads[number, k] * z[k, p]
    return total


@njit(cache=True, nogil=True)
def support(order, where, fraction, origin, cells, full):
    """Local flat support cells (P,) int32, −1 where the block does not own them, and coordinates s (d, P).

    ``where`` (d, n) are global geometric cells, ``fraction`` (d, n·per_cell) the places in them; the block
    owns ``cells`` support cells from ``origin`` on, of ``full`` periodic ones. CIC: the support cell is the
    geometric one and s = fraction − ½; TSC: the nearest node, s = fraction or fraction − 1.
    """
    d, n = where.shape
    per_cell = fraction.shape[1] // n
    cell = np.zeros(fraction.shape[1], np.int32)
    s = np.empty(fraction.shape)
    for k in range(d):
        for c in range(n):
            for p in range(c * per_cell, (c + 1) * per_cell):
                f = fraction[k, p]
                up = 1 if order == 2 and f >= 0.5 else 0
                s[k, p] = f - 0.5 if order == 1 else f - up
                local = (where[k, c] + up - origin[k]) % full[k]
                owned = cell[p] >= 0 and local < cells[k]
                cell[p] = cell[p] * cells[k] + local if owned else -1
    return cell, s
