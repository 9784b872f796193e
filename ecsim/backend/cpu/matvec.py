"""Mass matrix times a field: y_g = Σ_o M[o, g] x_{g+o} + M[o, g−o] x_{g−o}, gathered, so that no two threads meet."""

from __future__ import annotations

from functools import lru_cache

from ecsim.backend.cpu.compilation import inline, kernel
from ecsim.backend.cpu.scratch import stack_array

SEGMENT = 64


@inline
def add_tensor(stencil, o, at, x, there, count, y):
    """y[i] += M[o, 3i + j, at …] x[j, there …] along a segment."""
    for i in range(3):
        for p in range(count):
            y[i, p] += (stencil[o, 3 * i, at + p] * x[0, there + p] + stencil[o, 3 * i + 1, at + p] * x[1, there + p]
                        + stencil[o, 3 * i + 2, at + p] * x[2, there + p])


@kernel
def multiply_tensor(first, last, lattice, own, offsets, stencil, x, out):
    """3×3 tensorial: stencil (offsets, 9, size), x (3, size), out (3, cells), for planes [first, last)."""
    y = stack_array(3, SEGMENT)
    cells = lattice.planes * lattice.rows * lattice.length
    for row in range(lattice.rows):
        for i in range(0, lattice.length, SEGMENT):
            count = min(SEGMENT, lattice.length - i)
            for plane in range(first, last):
                g = own + plane * lattice.plane_stride + row * lattice.row_stride + i
                y[:, :] = 0.0
                add_tensor(stencil, 0, g, x, g, count, y)
                for o in range(1, offsets.size):
                    add_tensor(stencil, o, g, x, g + offsets[o], count, y)
                    add_tensor(stencil, o, g - offsets[o], x, g - offsets[o], count, y)
                to = (plane * lattice.rows + row) * lattice.length + i
                for k in range(3):
                    for p in range(count):
                        out[k * cells + to + p] = y[k, p]


@kernel
def multiply_scalar(first, last, lattice, own, offsets, stencil, x, out):
    """Scalar: stencil (offsets, 1, size), x (k, size), out (k, cells), for planes [first, last)."""
    y = stack_array(1, SEGMENT)
    cells = lattice.planes * lattice.rows * lattice.length
    for plane in range(first, last):
        for row in range(lattice.rows):
            for i in range(0, lattice.length, SEGMENT):
                count = min(SEGMENT, lattice.length - i)
                g = own + plane * lattice.plane_stride + row * lattice.row_stride + i
                to = (plane * lattice.rows + row) * lattice.length + i
                for k in range(x.shape[0]):
                    for p in range(count):
                        y[0, p] = stencil[0, 0, g + p] * x[k, g + p]
                    for o in range(1, offsets.size):
                        h = offsets[o]
                        for p in range(count):
                            y[0, p] += (stencil[o, 0, g + p] * x[k, g + h + p]
                                        + stencil[o, 0, g - h + p] * x[k, g - h + p])
                    for p in range(count):
                        out[k * cells + to + p] = y[0, p]
