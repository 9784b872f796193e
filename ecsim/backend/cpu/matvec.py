"""Mass matrix times a field: y_g = Σ_o M[o, g] x_{g+o} + M[o, g−o] x_{g−o}, gathered, so that no two threads meet.

A row of nodes is worked on offset by offset, so that each component is read as one long run; the result of the row
waits on the stack meanwhile. Along the planes first, so that M[o, g−o] is still in the cache when it is used again.
"""

from __future__ import annotations

from ecsim.backend.cpu.compilation import inline, kernel
from ecsim.backend.cpu.lanes import WIDTH
from ecsim.backend.cpu.memory import borrow, get, get_item, put, put_item, stack_array

SEGMENT = 256
PLANES = 4


@inline
def add_tensor(stencil, at, x, there, size, count, y):
    """y[i] += M[3i + j, at …] x[j, there …] along ``count`` nodes; the last vector of y is the one that ends there."""
    for p in range(0, count, WIDTH):
        q = min(p, count - WIDTH)
        x0, x1, x2 = get(x, there + q), get(x, size + there + q), get(x, 2 * size + there + q)
        for i in range(3):
            m = at + 3 * i * size + q
            put(y, (i, p), get(y, (i, p)) + (get(stencil, m) * x0 + get(stencil, m + size) * x1
                                             + get(stencil, m + 2 * size) * x2))


@inline
def add_tensor_short(stencil, at, x, there, size, count, y):
    """As ``add_tensor`` for rows shorter than a vector."""
    for p in range(count):
        for i in range(3):
            for j in range(3):
                y[i, p] += get_item(stencil, at + (3 * i + j) * size + p) * get_item(x, j * size + there + p)


@inline
def put_row(y, row, out, to, count):
    """out[to : to + count] = y[row], vectors placed as ``add_tensor`` has them."""
    if count < WIDTH:
        for p in range(count):
            put_item(out, to + p, y[row, p])
    else:
        for p in range(0, count, WIDTH):
            put(out, to + min(p, count - WIDTH), get(y, (row, p)))


@kernel
def multiply_tensor(first, last, lattice, own, offsets, stencil, x, out):
    """3×3 tensorial, planes [first, last): stencil (offsets·9·size), x (3·size) and out (3·cells) flat."""
    stencil, x, out, offsets = borrow(stencil), borrow(x), borrow(out), borrow(offsets)
    y = stack_array(3, SEGMENT)
    size, cells = lattice.size, lattice.planes * lattice.rows * lattice.length
    for row in range(lattice.rows):
        for i in range(0, lattice.length, SEGMENT):
            count = min(SEGMENT, lattice.length - i)
            for plane in range(first, last):
                g = own + plane * lattice.plane_stride + row * lattice.row_stride + i
                y[:, :] = 0.0
                for k in range(1, 2 * offsets.size):
                    o, mirrored = k // 2, k % 2 == 0
                    step = get_item(offsets, o)
                    at, there = (g - step, g - step) if mirrored else (g, g + step)
                    if count < WIDTH:
                        add_tensor_short(stencil, 9 * o * size + at, x, there, size, count, y)
                    else:
                        add_tensor(stencil, 9 * o * size + at, x, there, size, count, y)
                to = (plane * lattice.rows + row) * lattice.length + i
                for k in range(3):
                    put_row(y, k, out, k * cells + to, count)


@kernel
def multiply_scalar(first, last, lattice, own, offsets, stencil, x, out):
    """Scalar, planes [first, last): stencil (offsets·size), x (k·size) and out (k·cells) flat."""
    stencil, x, out, offsets = borrow(stencil), borrow(x), borrow(out), borrow(offsets)
    y = stack_array(1, SEGMENT)
    size, cells = lattice.size, lattice.planes * lattice.rows * lattice.length
    for plane in range(first, last):
        for row in range(lattice.rows):
            for i in range(0, lattice.length, SEGMENT):
                count = min(SEGMENT, lattice.length - i)
                g = own + plane * lattice.plane_stride + row * lattice.row_stride + i
                to = (plane * lattice.rows + row) * lattice.length + i
                for f in range(x.size // size):
                    y[:, :] = 0.0
                    for k in range(1, 2 * offsets.size):
                        o, mirrored = k // 2, k % 2 == 0
                        step = get_item(offsets, o)
                        at, there = (g - step, g - step) if mirrored else (g, g + step)
                        for p in range(count):
                            y[0, p] += get_item(stencil, o * size + at + p) * get_item(x, f * size + there + p)
                    for p in range(count):
                        put_item(out, f * cells + to + p, y[0, p])
