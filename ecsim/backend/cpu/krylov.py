"""The vector work of a Krylov step in as few passes over the basis as it needs.

Sums run over fixed pieces and are then added in order, so that they are the same bits for any number of threads (a
threaded BLAS does not promise that, and stumbles where cores are shared).
"""

from __future__ import annotations

import numpy as np

from ecsim.backend.cpu.compilation import kernel

PIECE = 4096


@kernel
def dots(first, last, basis, w, partial):
    """partial[piece, i] = Σ basis[i] w over the pieces [first, last)."""
    for piece in range(first, last):
        a, b = piece * PIECE, min((piece + 1) * PIECE, w.size)
        for i in range(basis.shape[0]):
            total = 0.0
            for p in range(a, b):
                total += basis[i, p] * w[p]
            partial[piece, i] = total


@kernel
def project_out(first, last, basis, h, w, partial):
    """w −= h · basis, then partial[piece] = Σ basis[i] w for all i and Σ w² last."""
    k = basis.shape[0]
    for piece in range(first, last):
        a, b = piece * PIECE, min((piece + 1) * PIECE, w.size)
        for i in range(k):
            factor = h[i]
            for p in range(a, b):
                w[p] -= factor * basis[i, p]
        for i in range(k):
            total = 0.0
            for p in range(a, b):
                total += basis[i, p] * w[p]
            partial[piece, i] = total
        total = 0.0
        for p in range(a, b):
            total += w[p] * w[p]
        partial[piece, k] = total


class Krylov:
    """Products with a basis (k, n) of Krylov vectors, on the threads of the backend."""

    def __init__(self, threads) -> None:
        self.threads = threads

    def _run(self, function, length: int, n: int, *arguments) -> np.ndarray:
        pieces = -(-n // PIECE)
        partial = np.empty((pieces, length))
        step = max(1, pieces // (4 * self.threads.count))
        self.threads.run(function, [(a, min(a + step, pieces), *arguments, partial)
                                    for a in range(0, pieces, step)])
        return partial.sum(axis=0)

    def dots(self, basis, w) -> np.ndarray:
        """(k,) products of the basis with ``w`` (n,)."""
        return self._run(dots, len(basis), w.size, basis, w)

    def project_out(self, basis, h, w) -> np.ndarray:
        """``w −= h · basis`` in place; returns (k + 1,): products of the basis with the new w, and its square."""
        return self._run(project_out, len(basis) + 1, w.size, basis, h, w)
