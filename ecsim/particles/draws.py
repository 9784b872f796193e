"""The loops of loading: every particle of a range of cells, written where it will be read.

Particles are numbered cell by cell. The work goes in blocks of a few hundred of them, each step in a loop of its own
that the compiler makes vector instructions of, over arrays that stay in the nearest cache. All kernels release the
interpreter lock, allocate nothing that grows with the number of particles, and compute the same bits however the cells
are cut into ranges.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numba import njit

from ecsim.compilation import kept
from ecsim.particles.random import (
    NEAR,
    POSITION_DRAW,
    SHIFT_DRAW,
    VELOCITY_DRAW,
    central_quantiles,
    far_tail,
    is_central,
    near_tail,
    normal_quantile,
    tail_radius,
    unit32,
    unit42,
    words_of,
)
from ecsim.particles.scalar import formula, sech_squared

BLOCK = 256
NUMBER, SHEET, GIVEN = 0, 1, 2
"""Kinds of density: uniform, a `recipe.Sheet`, evaluated beforehand."""

ELSEWHERE = -(1 << 40)
_TEN, _TWENTY = np.uint64(10), np.uint64(20)

kernel = partial(kept, error_model="numpy")
part = njit(error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True, forceinline=True)


class Cells(NamedTuple):
    """The geometric cells whose particles may belong to a block: ``extent`` of them from ``first`` on, in C order.

    The block owns ``owned`` support cells from ``origin`` on, of ``grid`` periodic ones, all int64 (d,); ``spacing``
    float64 (d,). ``per_cell`` particles each.
    """

    order: int
    per_cell: int
    first: np.ndarray
    extent: np.ndarray
    origin: np.ndarray
    owned: np.ndarray
    grid: np.ndarray
    spacing: np.ndarray


class Draws(NamedTuple):
    """Keys of the draws, ``positions_of`` the species whose places are taken; for a quiet start the lattice ``sites``
    (d, per_cell), ``deviates`` (3, per_cell) and ``points`` (per_cell,), with no columns for a random one.
    """

    seed: np.uint64
    species: int
    positions_of: int
    sites: np.ndarray
    deviates: np.ndarray
    points: np.ndarray


class Mixture(NamedTuple):
    """Populations: ``kinds`` (n,) of density with ``numbers`` (n, 3) (uniform: the density; sheet: axis, place, half
    thickness), ``drifts`` (n, 3), ``spreads`` (n, 3); ``scale`` turns the total density into a weight.
    """

    kinds: np.ndarray
    numbers: np.ndarray
    drifts: np.ndarray
    spreads: np.ndarray
    scale: float


class Batch(NamedTuple):
    """Particles as `ParticleStore.append` takes them: ``cell`` (P,) int32, ``s`` (d, P), ``v`` (3, P), ``weight``
    (P,) and ``id`` (P,) uint64, the last two without items where they are not wanted.
    """

    cell: np.ndarray
    s: np.ndarray
    v: np.ndarray
    weight: np.ndarray
    id: np.ndarray


@part
def find(cells, number, where):
    """Global coordinates, into ``where`` (d,), and global flat number of a geometric cell of the range."""
    flat, stride = 0, 1
    for k in range(where.size - 1, -1, -1):
        above = number // cells.extent[k]
        where[k] = wrapped(number - above * cells.extent[k] + cells.first[k], cells.grid[k])
        flat += where[k] * stride
        stride *= cells.grid[k]
        number = above
    return flat


@formula
def wrapped(i, n):
    """i modulo n for −n ≤ i < 2n."""
    return i + n if i < 0 else (i - n if i >= n else i)


@part
def place(draws, flat, first, n, fraction):
    """Places in a cell, ``fraction`` (3, ≥ n) inside (0, 1), of n of its particles from number ``first`` on."""
    x, y, z = fraction[0], fraction[1], fraction[2]
    if draws.sites.size:
        for k in range(draws.sites.shape[0]):
            for i in range(n):
                fraction[k, i] = draws.sites[k, first + i]
        return
    for i in range(n):
        a, b, c, _ = words_of(draws.seed, draws.positions_of, flat, first + i, POSITION_DRAW)
        x[i], y[i], z[i] = unit32(a), unit32(b), unit32(c)


@part
def draw(draws, flat, first, fraction, choice, x, y, z):
    """Random numbers of n particles of a cell from number ``first`` on: places ``fraction`` (3, ≥ n), ``choice`` (n,)
    of a population, and ``x``, ``y``, ``z`` (n,), which are to become normal deviates.

    The fourth word of the second draw is the choice; its lowest bits also extend the other three beyond their 32 bits,
    which only the far tails of the normal distribution can feel.
    """
    p, q, r = fraction[0], fraction[1], fraction[2]
    for i in range(choice.size):
        a, b, c, _ = words_of(draws.seed, draws.positions_of, flat, first + i, POSITION_DRAW)
        p[i], q[i], r[i] = unit32(a), unit32(b), unit32(c)
        a, b, c, low = words_of(draws.seed, draws.species, flat, first + i, VELOCITY_DRAW)
        x[i], y[i], z[i] = unit42(a, low), unit42(b, low >> _TEN), unit42(c, low >> _TWENTY)
        choice[i] = unit32(low)


@part
def arrange(draws, flat, first, fraction, choice, x, y, z):
    """As ``draw``, for a quiet start: ``points`` shifted, modulo 1, at random in a cell; deviates that are normal."""
    place(draws, flat, first, choice.size, fraction)
    shift = unit32(words_of(draws.seed, draws.species, flat, 0, SHIFT_DRAW)[3])
    for i in range(choice.size):
        shifted = draws.points[first + i] + shift
        choice[i] = shifted - 1.0 if shifted >= 1.0 else shifted
        x[i], y[i], z[i] = draws.deviates[0, first + i], draws.deviates[1, first + i], draws.deviates[2, first + i]


@part
def support(cells, where, fraction, cell, s, at):
    """Local flat support cells (n,), −1 where the block does not own them, and coordinates s (d, at … at + n) of n
    places in the geometric cell ``where``; returns how many are not owned.

    CIC: the support cell is the geometric one, s = fraction − ½; TSC: the nearest node, s = fraction or fraction − 1.
    """
    n, low, stride, x_step, y_step, z_step = cell.size, 0, 1, 0, 0, 0
    below = 0.5 - 2.0**-25 if s.itemsize == 4 else 0.5
    for k in range(where.size - 1, -1, -1):
        number = wrapped(where[k] - cells.origin[k], cells.grid[k])
        above = wrapped(number + 1, cells.grid[k])
        here = number * stride if number < cells.owned[k] else ELSEWHERE
        step = (above * stride if above < cells.owned[k] else ELSEWHERE) - here
        low, stride = low + here, stride * cells.owned[k]
        x_step, y_step, z_step = step if k == 0 else x_step, step if k == 1 else y_step, step if k == 2 else z_step
    for k in range(where.size):
        f, coordinate = fraction[k], s[k, at:at + n]
        if cells.order == 1:
            for i in range(n):
                coordinate[i] = min(f[i] - 0.5, below)
        else:
            for i in range(n):
                coordinate[i] = min(f[i] - 1.0 if f[i] >= 0.5 else f[i], below)
    if cells.order == 1:
        for i in range(n):
            cell[i] = low
        return 0
    lost, x, y, z = 0, fraction[0], fraction[1], fraction[2]
    for i in range(n):
        total = low + (x_step if x[i] >= 0.5 else 0) + (y_step if y[i] >= 0.5 else 0) + (z_step if z[i] >= 0.5 else 0)
        lost += total < 0
        cell[i] = max(total, -1)
    return lost


@part
def normals(u, z, n, tail, radius, near):
    """Normal deviates ``z`` (3, ≥ n) of the uniform numbers ``u`` (3, ≥ n); ``tail``, ``radius`` and ``near`` (≥ n,)
    are work arrays.

    All take the central formula, and those that it does not fit, which are listed, another one after it.
    """
    a, b, c, x, y, w = u[0], u[1], u[2], z[0], z[1], z[2]
    for i in range(n):
        x[i], y[i], w[i] = central_quantiles((a[i], b[i], c[i]))
    for k in range(3):
        given, out, many = u[k], z[k], 0
        for i in range(n):
            tail[many] = i
            many += not is_central(given[i])
        for j in range(many):
            near[j] = given[tail[j]]
        for j in range(many):
            radius[j] = tail_radius(near[j])
            near[j] = near_tail(radius[j])
        for j in range(many):
            out[tail[j]] = near[j] if abs(radius[j]) <= NEAR else far_tail(radius[j])


@part
def density(mixture, number, given, begin, x, out):
    """Density ``out`` (n,) of a population at positions ``x`` (3, ≥ n), those from place ``begin`` on of ``given``."""
    kind, numbers = mixture.kinds[number], mixture.numbers[number]
    a, b, c = numbers[0], numbers[1], numbers[2]
    if kind == SHEET:
        y, inverse = x[int(a)], 1.0 / c
        for i in range(out.size):
            out[i] = sech_squared((y[i] - b) * inverse)
    elif kind == GIVEN:
        for i in range(out.size):
            out[i] = given[number, begin + i]
    else:
        for i in range(out.size):
            out[i] = a


@part
def mix(mixture, given, begin, x, choice, stacked, number):
    """The densities of the populations, each on top of those before it, ``stacked`` (populations, ≥ n), and the
    ``number`` (n,) of the population of each particle: where ``choice`` × the highest falls.
    """
    n, last = number.size, mixture.kinds.size - 1
    for k in range(last + 1):
        row, below = stacked[k], stacked[max(k - 1, 0)]
        density(mixture, k, given, begin, x, row[:n])
        if k:
            for i in range(n):
                row[i] += below[i]
    for i in range(n):
        number[i] = 0
    for k in range(last):
        row, highest = stacked[k], stacked[last]
        for i in range(n):
            number[i] += choice[i] * highest[i] >= row[i]


@part
def velocities(mixture, flow, begin, number, u, v, at):
    """Velocities v (3, at … at + n) = drift + spread × deviate ``u`` (3, ≥ n); the drift is the populations' or, where
    there is one, that of ``flow`` (3, …) from place ``begin`` on.
    """
    n = number.size
    for k in range(3):
        z, out = u[k], v[k, at:at + n]
        spread = mixture.spreads[0, k]
        if flow.shape[1]:
            for i in range(n):
                out[i] = spread * z[i] + flow[k, begin + i]
        else:
            for i in range(n):
                out[i] = spread * z[i] + mixture.drifts[0, k]
        for j in range(1, mixture.kinds.size):
            drift, spread = mixture.drifts[j, k], mixture.spreads[j, k]
            if drift != mixture.drifts[0, k] or spread != mixture.spreads[0, k]:
                for i in range(n):
                    out[i] = spread * z[i] + drift if number[i] == j else out[i]


@part
def positions_of(cells, where, fraction, n, x, at):
    """Positions x (≥ d, at … at + n) of n places in the geometric cell ``where``."""
    for k in range(where.size):
        f, out = fraction[k], x[k, at:at + n]
        for i in range(n):
            out[i] = (where[k] + f[i]) * cells.spacing[k]


@kernel
def positions(cells, draws, begin, end, x):
    """Positions ``x`` (d, P) of the particles of geometric cells [begin, end) of the range."""
    where, fraction = np.empty(cells.first.size, np.int64), np.empty((3, BLOCK))
    for c in range(begin, end):
        flat = find(cells, c, where)
        for first in range(0, cells.per_cell, BLOCK):
            n = min(BLOCK, cells.per_cell - first)
            place(draws, flat, first, n, fraction)
            positions_of(cells, where, fraction, n, x, (c - begin) * cells.per_cell + first)


@kernel
def particles(cells, draws, mixture, given, flow, begin, end, batch, at):
    """The particles of geometric cells [begin, end) of the range, into ``batch`` from place ``at`` on; returns how many
    of them the block does not own.

    ``given`` (n, P) and ``flow`` (3, P) : densities and drifts evaluated beforehand, with no columns if there are none.
    """
    per_cell, populations, quiet = cells.per_cell, mixture.kinds.size, draws.sites.size > 0
    where, fraction, x = np.empty(cells.first.size, np.int64), np.empty((3, BLOCK)), np.empty((3, BLOCK))
    u, z, choice, stacked = np.empty((3, BLOCK)), np.empty((3, BLOCK)), np.empty(BLOCK), np.empty((populations, BLOCK))
    radius, near = np.empty(BLOCK), np.empty(BLOCK)
    tail, number = np.empty(BLOCK, np.int64), np.zeros(BLOCK, np.int64)
    lost, count, mixed = 0, (end - begin) * per_cell, populations > 1 or batch.weight.size > 0
    for first in range(0, count, BLOCK):
        n, a = min(BLOCK, count - first), 0
        while a < n:
            i, to = (first + a) % per_cell, at + first + a
            b = min(a + per_cell - i, n)
            flat = find(cells, begin + (first + a) // per_cell, where)
            if quiet:
                arrange(draws, flat, i, fraction, choice[a:b], z[0, a:b], z[1, a:b], z[2, a:b])
            else:
                draw(draws, flat, i, fraction, choice[a:b], u[0, a:b], u[1, a:b], u[2, a:b])
            lost += support(cells, where, fraction, batch.cell[to:to + b - a], batch.s, to)
            if mixed:
                positions_of(cells, where, fraction, b - a, x, a)
            for j in range(min(b - a, batch.id.size)):
                batch.id[to + j] = np.uint64(flat) * np.uint64(per_cell) + np.uint64(i + j)
            a = b
        if not quiet:
            normals(u, z, n, tail, radius, near)
        if mixed:
            mix(mixture, given, first, x, choice, stacked, number[:n])
            for j in range(min(n, batch.weight.size)):
                batch.weight[at + first + j] = mixture.scale * stacked[populations - 1, j]
        velocities(mixture, flow, first, number[:n], z, batch.v, at + first)
    return lost


@kernel
def quantiles(u):
    """Normal quantiles of the numbers ``u`` (n,) inside (0, 1)."""
    z = np.empty(u.size)
    for i in range(u.size):
        z[i] = normal_quantile(u[i])
    return z


@kernel
def shift_of(seed, species):
    """The random shift (3,) in (0, 1) of a species' quiet velocities."""
    a, b, c, _ = words_of(seed, species, 0, 0, SHIFT_DRAW)
    return np.array([unit32(a), unit32(b), unit32(c)])
