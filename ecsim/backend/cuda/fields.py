"""Matrix products, Krylov vectors and ghost layers on the GPU: few launches, nothing for the host to wait for."""

from __future__ import annotations

import math
from functools import cache
from itertools import product

import numpy as np

from ecsim.parallel import halo

CURL_CURL = np.dtype([("same", "f8", (3, 8)), ("mixed", "f8", (3, 2))])  # struct CurlCurl of kernels/matvec.cu
BOX = np.dtype([("low", "i4", 3), ("high", "i4", 3), ("first", "i8")])        # struct Box of kernels/matvec.cu
NO_CURLS = np.zeros(1, CURL_CURL)
TENSOR, SCALAR, FIELD_EQUATION = 1, 0, 2
LARGE_BLOCK = {1: 448, 2: 512}  # threads of a block of kernels/matvec.cu in three dimensions, by order
MOST_VECTORS = 32
ELEMENTS_PER_BLOCK = 1024
MOST_PARTS = 2**14  # of all sums together that the last block of a product adds up


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
def _launch_of(cells: tuple[int, ...], padded: tuple[int, ...], part) -> tuple[int, int, np.ndarray]:
    """Threads that a product on a `Part` of the owned nodes (None: all) takes, the macro SHELL, and its Box by value.

    A box is walked through as it lies in a padded array, from its first node to its last.
    Raises ValueError for the nodes outside a box that is not in the middle of the block.
    """
    low, high, outside = part or ((0,) * len(cells), cells, False)
    strides = [math.prod(padded[k + 1:]) for k in range(len(padded))]
    ghosts = (padded[0] - cells[0]) // 2
    box = np.zeros(1, BOX)
    box["low"], box["high"] = right_aligned(low, 0), right_aligned(high)
    box["first"] = sum((ghosts + a) * stride for a, stride in zip(low, strides, strict=True))
    if not outside:
        return sum((b - a - 1) * stride for a, b, stride in zip(low, high, strides, strict=True)) + 1, 0, box
    if any(a + b != n for a, b, n in zip(low, high, cells, strict=True)):
        raise ValueError(f"a box from {low} to {high} is not in the middle of {cells} nodes")
    return math.prod(cells) - math.prod(b - a for a, b in zip(low, high, strict=True)), 1, box


def multiply(backend, stencil, x, out, form: int, mu: float = 0.0, curls=NO_CURLS, part=None) -> None:
    """Launch the product with the stored stencil on padded ``x``; ``out`` owned (see kernels/matvec.cu)."""
    cells, padded = out.shape[1:], x.shape[1:]
    items, shell, box = _launch_of(cells, padded, part)
    order = (padded[-1] - cells[-1]) // 2
    threads = 128 if len(cells) < 3 else LARGE_BLOCK[order]
    backend.launch("matvec.cu", "matvec", (-(-items // threads), len(x) if form == SCALAR else 1), threads,
                   (stencil, x, out, *right_aligned(cells), float(mu), curls, box),
                   DIM=len(cells), ORDER=order, FORM=form, SHELL=shell)


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
    """Vector work on a basis (k, n), one launch for each verb up to 32 vectors; twin of ecsim.backend.cpu.krylov."""

    ahead = True

    def __init__(self, backend) -> None:
        self.backend, self.mark = backend, backend.mark
        self._partial = backend.xp.empty(2 * MOST_PARTS)
        self._arrived = backend.xp.zeros(1, np.uint32)
        self._y = self._y_host = backend.xp.empty(0)
        self.bring = backend.copy_to_host

    def column(self, most: int) -> np.ndarray:
        """Room on the host for the coefficients of one of so many steps, (most + 1,)."""
        return self.backend.page_locked(most + 1)

    def dots(self, basis, w):
        """basis (k, n), w (n,) -> basis @ w (k,), on the device."""
        return self._products(basis, w)[:-1]

    def residual(self, b, w, x, r):
        """``r`` = b − w; returns b · b, r · r and x · x, (3,) on the device."""
        out, blocks = self.backend.xp.empty(3), min(-(-len(b) // ELEMENTS_PER_BLOCK), MOST_PARTS // 4)
        self.backend.launch("fields_krylov.cu", "residual", (blocks, 1), 128,
                            (b, w, x, len(b), r, self._partial, out, self._arrived), VECTORS=8, SUBTRACT=0)
        return out

    def normalise(self, r, squares) -> None:
        """``r`` /= its norm, with the squares of `residual`, summed over all ranks, on the device."""
        self.backend.launch("fields_krylov.cu", "normalise", (-(-len(r) // ELEMENTS_PER_BLOCK), 1), 128,
                            (r, squares, len(r)), VECTORS=8, SUBTRACT=0)

    def project_out(self, basis, h, w):
        """w −= h @ basis in place; returns (k + 1,) on the device: basis @ w of the new w, then w · w."""
        if len(basis) > MOST_VECTORS:
            self._add(basis, -1.0, h, w)
            return self._products(basis, w)
        out = self.backend.xp.empty(len(basis) + 1)
        self._project(basis, h, w, out)
        return out

    def close(self, basis, first, ends, w, out, column) -> None:
        """The end of an orthogonalisation: ``out`` = (w − ends[:k] · basis) / norm.

        first, ends : what ``dots`` and ``project_out`` gave.  column (k + 1,) on the host = first + ends[:k], norm.
        """
        k, n = basis.shape
        found = self.backend.xp.empty(k + 1)
        self._vectors("close_step", basis, first, ends, w, k, n, out, found)
        self.backend.copy_to_host(found, column)

    def add(self, basis, y, x) -> None:
        """``x += y · basis`` in place; y on the host. What is done until a `mark` must be over before the next call."""
        if len(y) > len(self._y):
            self._y, self._y_host = self.backend.xp.empty(len(y)), self.column(len(y) - 1)
        host, device = self._y_host[:len(y)], self._y[:len(y)]
        host[:] = y
        self.backend.copy_from_host(host, device)
        self._add(basis, 1.0, device, x)

    def _add(self, basis, sign: float, y, x) -> None:
        self._vectors("add_up", basis, sign, y, x, *basis.shape)

    def _products(self, basis, w):
        """basis @ w, then w · w, (k + 1,)."""
        out = self.backend.xp.empty(len(basis) + 1)
        for first in range(0, len(basis), MOST_VECTORS):
            self._project(basis[first:first + MOST_VECTORS], None, w, out[first:])
        return out

    def _vectors(self, name: str, basis, *arguments) -> None:
        self.backend.launch("fields_krylov.cu", name, (-(-basis.shape[1] // ELEMENTS_PER_BLOCK), 1), 128,
                            (basis, *arguments), VECTORS=8, SUBTRACT=0)

    def _project(self, basis, h, w, out) -> None:
        k, n = basis.shape
        vectors = next(v for v in (8, 16, MOST_VECTORS) if k <= v)
        blocks = min(-(-n // ELEMENTS_PER_BLOCK), MOST_PARTS // vectors)
        self.backend.launch("fields_krylov.cu", "project", (blocks, 1), 128,
                            (basis, h, w, k, n, self._partial, out, self._arrived),
                            VECTORS=vectors, SUBTRACT=int(h is not None))


class PeriodicGhosts:
    """The two verbs of the halo for a block that owns the whole periodic box, in one launch each."""

    def __init__(self, backend, block) -> None:
        self.backend, self._nodes = backend, math.prod(block.padded)
        inner = math.prod(max(n - 2 * block.ghosts, 0) for n in block.cells)
        self._shells = {"fill_periodic": self._nodes - block.n_cells, "add_periodic": block.n_cells - inner}
        self._cells, self._macros = right_aligned(block.cells), {"DIM": block.d, "ORDER": block.order}

    def fill(self, a) -> None:
        """Copy owned values into the ghosts of ``a``, shape (..., *padded), in place."""
        self._run("fill_periodic", a)

    def add(self, a) -> None:
        """Add what was deposited on ghosts of ``a`` to its owners, in place; the ghosts are left as they were."""
        self._run("add_periodic", a)

    def _run(self, name: str, a) -> None:
        shell, components = self._shells[name], a.size // self._nodes
        self.backend.launch("fields_halo.cu", name, (-(-components * shell // 256), 1), 256,
                            (a, components, shell, *self._cells), **self._macros)


class Padding:
    """Owned values with ghosts around them, in one launch; ghosts along the dimensions ``cut`` are left as they are."""

    def __init__(self, backend, block, cut=()) -> None:
        self.backend, self._blocks = backend, -(-math.prod(block.padded) // 128)
        flags = right_aligned([int(k in cut) for k in range(block.d)], 0)
        self._sizes = *right_aligned(block.cells), *flags
        self._macros = {"DIM": block.d, "ORDER": block.order}

    def __call__(self, x, a) -> None:
        """a (components, *padded) from x (components, *cells), C-ordered."""
        self.backend.launch("fields_halo.cu", "pad", (self._blocks, 1), 128, (x, a, len(x), *self._sizes),
                            **self._macros)


class Faces(halo.Faces):
    """Faces of arrays (..., *padded) to and from contiguous buffers, one launch an array."""

    def __init__(self, backend, block) -> None:
        super().__init__(block, backend.xp)
        self.backend, self._macros = backend, {"DIM": block.d, "ORDER": block.order}
        self._shapes = [(self.nodes, n, math.prod(block.padded[k + 1:]), self.face[k])
                        for k, n in enumerate(block.padded)]  # nodes of a component, along k, after it, of a face

    def pack(self, some, k: int, first: tuple[int, int]) -> tuple:
        """The layers that begin at ``first`` (low, high) along dimension k, in a buffer for each side."""
        buffers = self.room(some, k)
        for a, parts in self.parts(some, k, buffers):
            self._run("pack_faces", a, k, *parts, first)
        return buffers

    def unpack(self, some, k: int, first: tuple[int, int], buffers, add: bool) -> None:
        """The inverse: set these layers or, from the high side on, add to them."""
        for a, (low, high) in self.parts(some, k, buffers):
            if add:  # one after the other: in a thin block a layer belongs to both
                self._run("add_faces", a, k, None, high, first)
                self._run("add_faces", a, k, low, None, first)
            else:
                self._run("unpack_faces", a, k, low, high, first)

    def _run(self, name: str, a, k: int, low, high, first: tuple[int, int]) -> None:
        components = a.size // self.nodes
        blocks = 0 if low is None and high is None else -(-components * self.face[k] // 256)
        self.backend.launch("fields_halo.cu", name, (blocks, 1), 256,
                            (a, low, high, components, *self._shapes[k], *first), **self._macros)
