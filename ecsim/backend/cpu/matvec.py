"""The stored mass matrix times a field, y_g = Σ_s M[|s|, min(g, g+s)] x_{g+s}, and the field operator.

Gathered, so that no two threads meet. A run of nodes is worked on neighbour by neighbour, so that each component is
read as one long piece of memory, as large as several rows with the ghosts between them; its result waits on the stack
meanwhile. Along the planes first, so that a number is still in the cache when other nodes need it. Time goes with the
memory that the stencil takes; ∇×∇× has constant coefficients on the same neighbours and comes along for nothing.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np

from ecsim.backend.cpu.compilation import inline, kernel
from ecsim.backend.cpu.lanes import WIDTH
from ecsim.backend.cpu.lattice import lattice, padded_strides
from ecsim.backend.cpu.memory import borrow, get, get_item, put, put_item, stack_array
from ecsim.grid import pair_offsets

SEGMENT = 512        # most nodes of a run
PLANES = 4
FEWEST_NODES = 4096


@cache
def neighbours(d: int, order: int) -> tuple[tuple[int, ...], ...]:
    """Steps s from a node to all that share a particle with it, those of the same |s| together; the last is highest."""
    return tuple(s for offset in pair_offsets(d, order) for s in product(*(sorted({-o, o}) for o in offset)))


@cache
def boxes(cells: tuple[int, ...], padded: tuple[int, ...], part=None) -> list[tuple]:
    """For each box of a `Part` of the owned nodes (None: all) the kernels' arguments ``lattice`` … ``steps``.

    A row of nodes in 1D is one plane.
    """
    d, order = len(cells), (padded[0] - cells[0]) // 2
    strides, targets = padded_strides(padded), padded_strides(cells)
    number = {offset: o for o, offset in enumerate(pair_offsets(d, order))}
    steps = np.array([(number[tuple(map(abs, s))], np.dot(np.minimum(s, 0), strides), np.dot(s, strides))
                      for s in neighbours(d, order)], dtype=np.int64).ravel()
    found = []
    for low, high in part.boxes(cells) if part else [((0,) * d, cells)]:
        counts = tuple(b - a for a, b in zip(low, high, strict=True))
        grid = lattice(counts, padded)
        grid = grid._replace(planes=1, length=grid.planes) if d == 1 else grid
        own = sum((order + a) * n for a, n in zip(low, strides, strict=True))
        found.append((grid, own, lattice(cells, cells), sum(a * n for a, n in zip(low, targets, strict=True)), steps))
    return found


@cache
def no_constant(d: int, order: int) -> np.ndarray:
    """Zeros in the place of ``operator_constant`` for a product with the mass matrix alone."""
    return np.zeros(9 * len(neighbours(d, order)))


@cache
def operator_constant(d: int, order: int, spacing: tuple[float, ...], theta_dt: float) -> np.ndarray:
    """Coefficients of I + (θΔt)² ∇×∇× between a node and each of its neighbours, (neighbours·9,), row major 3×3.

    (∇×∇×)_ij = ∂_i ∂_j and (∇×∇×)_ii = −Σ_{j≠i} ∂_j²; from nodes to centres and back a derivative makes (1, −2, 1)/Δ²
    twice along its own dimension, (−1, 0, 1)/2Δ once, and (1, 2, 1)/4 along any other.
    """
    matrices = []
    for step in neighbours(d, order):
        average = [{0: 0.5, 1: 0.25}.get(abs(o), 0.0) for o in step]
        once = [(o if abs(o) == 1 else 0) / (2.0 * h) for o, h in zip(step, spacing, strict=True)]
        twice = [{0: -2.0, 1: 1.0}.get(abs(o), 0.0) / h**2 for o, h in zip(step, spacing, strict=True)]
        matrix = np.eye(3) * (not any(step))
        for i in range(3):
            for j in range(d):
                if i != j:
                    rest = np.prod([average[k] for k in range(d) if k not in (i, j)])
                    matrix[i, i] -= theta_dt**2 * twice[j] * rest * (average[i] if i < d else 1.0)
                    if i < d:
                        matrix[i, j] += theta_dt**2 * once[i] * once[j] * rest
        matrices.append(matrix.ravel())
    return np.concatenate(matrices)


@inline
def add_tensor(stencil, scale, constant, s, at, x, there, size, count, y):
    """y[i] += (scale·M[3i + j, at …] + constant[9s + 3i + j]) x[j, there …] along ``count`` nodes, whole vectors."""
    for p in range(0, count, WIDTH):
        x0, x1, x2 = get(x, there + p), get(x, size + there + p), get(x, 2 * size + there + p)
        for i in range(3):
            m, k = at + 3 * i * size + p, 9 * s + 3 * i
            put(y, (i, p), get(y, (i, p)) + ((scale * get(stencil, m) + get_item(constant, k)) * x0
                                             + (scale * get(stencil, m + size) + get_item(constant, k + 1)) * x1
                                             + (scale * get(stencil, m + 2 * size) + get_item(constant, k + 2)) * x2))


@inline
def add_tensor_short(stencil, scale, constant, s, at, x, there, size, count, y):
    """As ``add_tensor`` for any number of nodes, to the same bits."""
    for p in range(count):
        x0, x1, x2 = get_item(x, there + p), get_item(x, size + there + p), get_item(x, 2 * size + there + p)
        for i in range(3):
            m, k = at + 3 * i * size + p, 9 * s + 3 * i
            y[i, p] = y[i, p] + ((scale * get_item(stencil, m) + get_item(constant, k)) * x0
                                 + (scale * get_item(stencil, m + size) + get_item(constant, k + 1)) * x1
                                 + (scale * get_item(stencil, m + 2 * size) + get_item(constant, k + 2)) * x2)


@inline
def put_row(y, row, at, out, to, count):
    """out[to : to + count] = y[row, at : at + count]."""
    if count < WIDTH:
        for p in range(count):
            put_item(out, to + p, y[row, at + p])
    else:
        for p in range(0, count, WIDTH):
            q = min(p, count - WIDTH)
            put(out, to + q, get(y, (row, at + q)))


@inline
def run(stencil, scale, constant, steps, x, size, g, count, y):
    """y = the product at ``count`` nodes from g on, ghosts among them; returns where in y it begins.

    Whole vectors: a few nodes more, behind or before, where arrays reach so far.
    """
    y[:, :] = 0.0
    reach, whole = get_item(steps, steps.size - 1), (count + WIDTH - 1) // WIDTH * WIDTH
    before = 0 if g + reach + whole <= size else whole - count
    vectors = g - reach >= before
    begin = g - before if vectors else g
    for s in range(steps.size // 3):
        at = 9 * get_item(steps, 3 * s) * size + begin + get_item(steps, 3 * s + 1)
        there = begin + get_item(steps, 3 * s + 2)
        if vectors:
            add_tensor(stencil, scale, constant, s, at, x, there, size, whole, y)
        else:
            add_tensor_short(stencil, scale, constant, s, at, x, there, size, count, y)
    return g - begin


@kernel
def multiply_tensor(first, last, lattice, own, owned, to, steps, stencil, scale, constant, x, out):
    """3×3 tensorial, planes [first, last) of a box: stencil (offsets·9·size), constant (steps·9), x (3·size), out.

    lattice : counts of the box, strides of padded arrays.  owned : strides and size of a component of ``out``.
    own, to : flat places of the first node of the box in padded arrays and in ``out``.  steps : to each neighbour the
    number of the offset and how far from the node the entry and the neighbour lie, (3·steps,).
    """
    stencil, constant, x, out, steps = borrow(stencil), borrow(constant), borrow(x), borrow(out), borrow(steps)
    y = stack_array(3, SEGMENT)
    together = max(1, (SEGMENT - lattice.length) // max(lattice.row_stride, 1) + 1)
    for top in range(0, lattice.rows, together):
        rows = min(together, lattice.rows - top)
        for i in range(0, lattice.length, SEGMENT):
            length = min(SEGMENT, lattice.length - i)
            for plane in range(first, last):
                g = own + plane * lattice.plane_stride + top * lattice.row_stride + i
                count = (rows - 1) * lattice.row_stride + length
                at = run(stencil, scale, constant, steps, x, lattice.size, g, count, y)
                target = to + plane * owned.plane_stride + top * owned.row_stride + i
                for row in range(rows):
                    for k in range(3):
                        put_row(y, k, at + row * lattice.row_stride, out,
                                k * owned.size + target + row * owned.row_stride, length)


@kernel
def multiply_scalar(first, last, lattice, own, owned, to, steps, stencil, x, out):
    """As ``multiply_tensor`` with a scalar stencil (offsets·size); x (k·size), out (k·owned.size)."""
    stencil, x, out, steps = borrow(stencil), borrow(x), borrow(out), borrow(steps)
    y = stack_array(1, SEGMENT)
    size = lattice.size
    for plane in range(first, last):
        for row in range(lattice.rows):
            for i in range(0, lattice.length, SEGMENT):
                count = min(SEGMENT, lattice.length - i)
                g = own + plane * lattice.plane_stride + row * lattice.row_stride + i
                target = to + plane * owned.plane_stride + row * owned.row_stride + i
                for f in range(x.size // size):
                    y[:, :] = 0.0
                    for s in range(steps.size // 3):
                        at = get_item(steps, 3 * s) * size + g + get_item(steps, 3 * s + 1)
                        there = f * size + g + get_item(steps, 3 * s + 2)
                        for p in range(count):
                            y[0, p] += get_item(stencil, at + p) * get_item(x, there + p)
                    for p in range(count):
                        put_item(out, f * owned.size + target + p, y[0, p])
