"""Matrix products, Krylov vectors and ghost layers on the GPU: few launches, nothing for the host to wait for."""

from __future__ import annotations

import math
from functools import cache
from itertools import product

import numpy as np

CURL_CURL = np.dtype([("same", "f8", (3, 8)), ("mixed", "f8", (3, 2))])  # struct CurlCurl of kernels/matvec.cu
NO_CURLS = np.zeros(1, CURL_CURL)
TENSOR, SCALAR, FIELD_EQUATION = 1, 0, 2
MOST_VECTORS = 32
ELEMENTS_PER_BLOCK = 1024


def right_aligned(cells, missing: int = 1) -> tuple[int, ...]:
    """Numbers along three axes; missing dimensions come first."""
    return (missing,) * (3 - len(cells)) + tuple(cells)


@cache
def curl_curl_blocks(spacing: tuple[float, ...], factor: float) -> np.ndarray:
    """The blocks of factor·∇×∇× between neighbouring nodes, by value for kernels/matvec.cu.

    Along each dimension the operators are [¼ ½ ¼] (mean), [1 −2 1]/Δ² and [−½ 0 ½]/Δ; missing ones are [0 1 0] and 0.
    Source: ∇×∇× = ∇∇· − ∇² on the staggered grid, Lapenta 2017, eqs. 20 to 24.
    """
    d = len(spacing)
    average = [(0.5, 0.25) if k < d else (1.0, 0.0) for k in range(3)]
    second = [(-2.0 / spacing[k] ** 2, 1.0 / spacing[k] ** 2) if k < d else (0.0, 0.0) for k in range(3)]
    first = [0.5 / spacing[k] if k < d else 0.0 for k in range(3)]
    blocks = np.zeros(1, CURL_CURL)
    for i in range(3):
        for corner, at in enumerate(product((0, 1), repeat=3)):
            laplacian = 0.0
            for mu in range(3):
                if mu != i:
                    laplacian += np.prod([(second if k == mu else average)[k][at[k]] for k in range(3)])
            blocks["same"][0, i, corner] = -factor * laplacian
        for j in range(i + 1, 3):
            for at in (0, 1):
                blocks["mixed"][0, i + j - 1, at] = factor * first[i] * first[j] * average[3 - i - j][at]
    return blocks


@cache
def _span(cells: tuple[int, ...], padded: tuple[int, ...]) -> int:
    """Nodes of the padded array from the first owned one to the last."""
    strides = [math.prod(padded[k + 1:]) for k in range(len(padded))]
    return sum((n - 1) * stride for n, stride in zip(cells, strides, strict=True)) + 1


def multiply(backend, stencil, x, out, form: int, mu: float = 0.0, curls=NO_CURLS) -> None:
    """Launch the product with the half stencil on padded ``x``; ``out`` owned (see kernels/matvec.cu)."""
    cells, padded = out.shape[1:], x.shape[1:]
    order = (padded[-1] - cells[-1]) // 2
    backend.launch("matvec.cu", "matvec", (-(-_span(cells, padded) // 128), len(x) if form == SCALAR else 1), 128,
                   (stencil, x, out, *right_aligned(cells), float(mu), curls),
                   DIM=len(cells), ORDER=order, FORM=form)


class Staggered:
    """Curls and the mean of a block's fields, one launch each; the twin of `ecsim.fields.operators.FieldOperators`."""

    def __init__(self, backend, block) -> None:
        self.backend, self.block = backend, block
        d = block.d
        self._scales = tuple(0.5 ** (d - 1) / width for width in block.spacing) + (0.0,) * (3 - d)

    def curl_to_centres(self, nodes):
        """∇× of a nodal vector (3, *padded), at the owned centres (3, *cells)."""
        return self._run("curl", nodes, 0, 1, *self._scales)

    def curl_to_nodes(self, centres):
        """∇× of a centred vector (3, *padded), at the owned nodes (3, *cells)."""
        return self._run("curl", centres, 1, 1, *self._scales)

    def to_nodes(self, centres):
        """Mean of the 2^d centres around each owned node; ``centres`` is (components, *padded)."""
        return self._run("mean", centres, 1, len(centres))

    def _run(self, name: str, a, to_nodes: int, rows: int, *scales):
        out = self.backend.xp.empty((len(a), *self.block.cells))
        self.backend.launch("fields_curl.cu", name, (-(-self.block.n_cells // 128), rows), 128,
                            (a, out, *right_aligned(self.block.cells), *scales),
                            DIM=self.block.d, ORDER=self.block.order, TO_NODES=to_nodes)
        return out


class Krylov:
    """Products with a basis (k, n) of Krylov vectors; results stay on the device. Twin of ecsim.backend.cpu.krylov."""

    def __init__(self, backend) -> None:
        self.backend = backend

    def dots(self, basis, w):
        """basis (k, n), w (n,) -> basis @ w (k,)."""
        out = self.backend.xp.empty(len(basis) + 1)
        for first in range(0, len(basis), MOST_VECTORS):
            self._project(basis[first:first + MOST_VECTORS], None, w, out[first:])
        return out[:-1]

    def project_out(self, basis, h, w):
        """w −= h @ basis in place; returns (k + 1,): basis @ w of the new w, then w · w."""
        out = self.backend.xp.empty(len(basis) + 1)
        starts = range(0, len(basis), MOST_VECTORS)
        for first in starts:
            self._project(basis[first:first + MOST_VECTORS], h[first:first + MOST_VECTORS], w, out[first:])
        for first in starts if len(starts) > 1 else ():
            self._project(basis[first:first + MOST_VECTORS], None, w, out[first:])
        return out

    def _project(self, basis, h, w, out) -> None:
        k, n = basis.shape
        blocks = -(-n // ELEMENTS_PER_BLOCK)
        partial = self.backend.xp.empty((k + 1, blocks))
        macros = {"VECTORS": next(v for v in (8, 16, MOST_VECTORS) if k <= v), "SUBTRACT": int(h is not None)}
        self.backend.launch("fields_krylov.cu", "project", (blocks, 1), 128, (basis, h, w, k, n, partial), **macros)
        self.backend.launch("fields_krylov.cu", "finish_sums", (k + 1, 1), 128, (partial, blocks, out), **macros)


class PeriodicGhosts:
    """The two verbs of the halo for a block that owns the whole periodic box, in one launch each."""

    def __init__(self, backend, block) -> None:
        self.backend, self.block = backend, block

    def fill(self, a) -> None:
        """Copy owned values into the ghosts of ``a``, shape (..., *padded), in place."""
        self._run("fill_periodic", a)

    def add(self, a) -> None:
        """Add what was deposited on ghosts of ``a`` to its owners, in place; the ghosts are left as they were."""
        self._run("add_periodic", a)

    def _run(self, name: str, a) -> None:
        nodes, cells = int(np.prod(self.block.padded)), np.array(self.block.cells)
        inner = np.maximum(cells - 2 * self.block.ghosts, 0)
        shell = nodes - cells.prod() if name == "fill_periodic" else cells.prod() - inner.prod()
        components = a.size // nodes
        self.backend.launch("fields_halo.cu", name, (int(-(-components * shell // 256)), 1), 256,
                            (a, components, int(shell), *right_aligned(self.block.cells)),
                            DIM=self.block.d, ORDER=self.block.order)


class Faces:
    """The twin of `ecsim.parallel.halo.Faces`: faces of arrays (..., *padded) to and from contiguous buffers."""

    def __init__(self, backend, block) -> None:
        self.backend, self.block = backend, block

    def pack(self, arrays, k: int, first: tuple[int, int]) -> tuple:
        """The layers of all arrays that begin at ``first`` (low, high) along dimension k, in two buffers."""
        sizes = [self._shape(a, k) for a in arrays]
        low, high = (self.backend.xp.empty(sum(c * size for c, *_, size in sizes)) for _ in range(2))
        begin = 0
        for a, (c, *rest, size) in zip(arrays, sizes, strict=True):
            end = begin + c * size
            self._run("pack_faces", c * size, a, low[begin:end], high[begin:end], c, *rest, size, *first)
            begin = end
        return low, high

    def unpack(self, arrays, k: int, first: tuple[int, int], buffers: tuple, add: bool) -> None:
        """The inverse: set these layers or, from the high side on, add to them."""
        begin, (low, high) = 0, buffers
        for a in arrays:
            c, *rest, size = self._shape(a, k)
            end = begin + c * size
            if add:
                self._run("add_face", c * size, a, high[begin:end], c, *rest, size, first[1])
                self._run("add_face", c * size, a, low[begin:end], c, *rest, size, first[0])
            else:
                self._run("unpack_faces", c * size, a, low[begin:end], high[begin:end], c, *rest, size, *first)
            begin = end

    def _shape(self, a, k: int) -> tuple[int, int, int, int, int]:
        """Components, their nodes, nodes along dimension k and after it, and nodes of a face."""
        padded = self.block.padded
        nodes = int(np.prod(padded))
        return (a.size // nodes, nodes, padded[k], int(np.prod(padded[k + 1:])), nodes // padded[k] * self.block.ghosts)

    def _run(self, name: str, items: int, *arguments) -> None:
        self.backend.launch("fields_halo.cu", name, (-(-items // 256), 1), 256, arguments, DIM=self.block.d,
                            ORDER=self.block.order)
