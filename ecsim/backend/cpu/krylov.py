"""The vector work of a Krylov step in as few passes over the basis as it needs.

Sums run over fixed pieces, which stay in the cache between the two things that are done with them, and are then added
in order, so that they are the same bits for any number of threads (a threaded BLAS does not promise that, and stumbles
where cores are shared). Four basis vectors at a time: w is read from and written to memory a quarter as often.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ecsim.backend.cpu.compilation import inline, kernel
from ecsim.backend.cpu.lanes import WIDTH, spread, total
from ecsim.backend.cpu.memory import borrow, get, get_item, put, put_item

PIECE = 2048
TOGETHER = 4
FEWEST_ITEMS = 2**18
TINY = float(np.finfo(np.float64).tiny)


@inline
def four_rows(i, rows, n):
    """Where basis vectors i … i + 3 begin; beyond the last one, where that begins."""
    last = rows - 1
    return min(i, last) * n, min(i + 1, last) * n, min(i + 2, last) * n, min(i + 3, last) * n


@inline
def dot_four(basis, rows, i, w, begin, end, partial, to):
    """partial[to + j] = Σ basis[i + j] w over [begin, end), j = 0 … 3."""
    a, b, c, d = four_rows(i, rows, w.size)
    s0 = s1 = s2 = s3 = spread(0.0)
    whole = begin + (end - begin) // WIDTH * WIDTH
    for p in range(begin, whole, WIDTH):
        x = get(w, p)
        s0 += x * get(basis, a + p)
        s1 += x * get(basis, b + p)
        s2 += x * get(basis, c + p)
        s3 += x * get(basis, d + p)
    t0, t1, t2, t3 = total(s0), total(s1), total(s2), total(s3)
    for p in range(whole, end):
        x = get_item(w, p)
        t0 += x * get_item(basis, a + p)
        t1 += x * get_item(basis, b + p)
        t2 += x * get_item(basis, c + p)
        t3 += x * get_item(basis, d + p)
    put_item(partial, to, t0)
    put_item(partial, to + 1, t1)
    put_item(partial, to + 2, t2)
    put_item(partial, to + 3, t3)


@inline
def subtract_four(basis, rows, i, h, w, begin, end):
    """w −= Σ h[i + j] basis[i + j] over [begin, end), j = 0 … 3."""
    a, b, c, d = four_rows(i, rows, w.size)
    h0, h1, h2, h3 = get_item(h, i), get_item(h, i + 1), get_item(h, i + 2), get_item(h, i + 3)
    whole = begin + (end - begin) // WIDTH * WIDTH
    for p in range(begin, whole, WIDTH):
        put(w, p, get(w, p) - (h0 * get(basis, a + p) + h1 * get(basis, b + p) + h2 * get(basis, c + p)
                               + h3 * get(basis, d + p)))
    for p in range(whole, end):
        put_item(w, p, get_item(w, p) - (h0 * get_item(basis, a + p) + h1 * get_item(basis, b + p)
                                         + h2 * get_item(basis, c + p) + h3 * get_item(basis, d + p)))


@inline
def square(w, begin, end):
    """Σ w² over [begin, end)."""
    s = spread(0.0)
    whole = begin + (end - begin) // WIDTH * WIDTH
    for p in range(begin, whole, WIDTH):
        s += get(w, p) * get(w, p)
    result = total(s)
    for p in range(whole, end):
        result += get_item(w, p) * get_item(w, p)
    return result


@kernel
def dots(first, last, basis, rows, w, partial, width):
    """partial[piece·width + i] = Σ basis[i] w over the pieces [first, last); basis (rows·n,) flat."""
    basis, w, partial = borrow(basis), borrow(w), borrow(partial)
    for piece in range(first, last):
        begin, end = piece * PIECE, min((piece + 1) * PIECE, w.size)
        for i in range(0, rows, TOGETHER):
            dot_four(basis, rows, i, w, begin, end, partial, piece * width + i)


@kernel
def project_out(first, last, basis, rows, h, w, partial, width):
    """w −= h · basis, then partial[piece·width + i] = Σ basis[i] w for all i < rows and Σ w² for i = width − 1."""
    basis, h, w, partial = borrow(basis), borrow(h), borrow(w), borrow(partial)
    for piece in range(first, last):
        begin, end = piece * PIECE, min((piece + 1) * PIECE, w.size)
        for i in range(0, rows, TOGETHER):
            subtract_four(basis, rows, i, h, w, begin, end)
        for i in range(0, rows, TOGETHER):
            dot_four(basis, rows, i, w, begin, end, partial, piece * width + i)
        put_item(partial, piece * width + width - 1, square(w, begin, end))


@kernel
def subtract(first, last, basis, rows, h, w, scale, out):
    """w −= h · basis, then out = scale · w, over the pieces [first, last); ``out`` may be w."""
    basis, h, w, out = borrow(basis), borrow(h), borrow(w), borrow(out)
    for piece in range(first, last):
        begin, end = piece * PIECE, min((piece + 1) * PIECE, w.size)
        for i in range(0, rows, TOGETHER):
            subtract_four(basis, rows, i, h, w, begin, end)
        for p in range(begin, end):
            put_item(out, p, scale * get_item(w, p))


class Krylov:
    """Products with a basis (k, n) of Krylov vectors, on the threads of the backend; see ecsim.solver.gmres."""

    ahead = False

    def __init__(self, threads) -> None:
        self.threads = threads

    @staticmethod
    def column(most: int) -> np.ndarray:
        """Room for the coefficients of one of so many steps, (most + 1,)."""
        return np.zeros(most + 1)

    @staticmethod
    def mark() -> Callable[[], None]:
        """A function that waits for the work up to here: all of it is done."""
        return lambda: None

    @staticmethod
    def bring(values, to) -> None:
        """``to`` = a few numbers."""
        to[:] = values

    def _ranges(self, rows: int, n: int) -> list[tuple[int, int]]:
        """The pieces of a vector of n, in ranges that are worth a call each."""
        pieces = -(-n // PIECE)
        step = max(pieces // (4 * self.threads.count), FEWEST_ITEMS // (PIECE * rows), 1)
        return [(a, min(a + step, pieces)) for a in range(0, pieces, step)]

    def _sums(self, function, width: int, basis, w, *arguments) -> np.ndarray:
        partial = np.empty((-(-w.size // PIECE), width))
        self.threads.run(function, [
            (*ends, basis.reshape(-1), len(basis), *arguments, w, partial.reshape(-1), width)
            for ends in self._ranges(len(basis), w.size)])
        return partial.sum(axis=0)

    def _subtract(self, basis, h, w, scale: float, out) -> None:
        self.threads.run(subtract, [(*ends, basis.reshape(-1), len(basis), _filled_up(h), w, scale, out)
                                    for ends in self._ranges(len(basis), w.size)])

    def dots(self, basis, w) -> np.ndarray:
        """(k,) products of the basis with ``w`` (n,)."""
        return self._sums(dots, _rounded_up(len(basis)), basis, w)[:len(basis)]

    def residual(self, b, w, x, r) -> np.ndarray:
        """``r`` = b − w; returns b · b, r · r and x · x, (3,)."""
        np.subtract(b, w, out=r)
        return np.concatenate([self.dots(v[None], v) for v in (b, r, x)])

    @staticmethod
    def normalise(r, squares) -> None:
        """``r`` /= its norm, with the squares of `residual`, summed over all ranks."""
        with np.errstate(invalid="ignore"):
            r /= max(math.sqrt(squares[1]), TINY)

    def project_out(self, basis, h, w) -> np.ndarray:
        """``w −= h · basis`` in place; returns (k + 1,): products of the basis with the new w, and its square."""
        many = _filled_up(h)
        sums = self._sums(project_out, len(many) + 1, basis, w, many)
        return np.append(sums[:len(basis)], sums[-1])

    def close(self, basis, first, ends, w, out, column) -> None:
        """The end of an orthogonalisation: ``out`` = (w − ends[:k] · basis) / norm, ``w`` is used up.

        first, ends : what ``dots`` and ``project_out`` gave.  column (k + 1,) = first + ends[:k], norm.
        """
        second = ends[:-1]
        norm = math.sqrt(max(ends[-1] - (second * second).sum(), 0.0))
        self._subtract(basis, second, w, 1.0 / max(norm, TINY), out)
        column[:-1], column[-1] = first + second, norm

    def add(self, basis, y, x) -> None:
        """``x += y · basis`` in place."""
        self._subtract(basis, -y, x, 1.0, x)


def _rounded_up(rows: int) -> int:
    return -(-rows // TOGETHER) * TOGETHER


def _filled_up(h) -> np.ndarray:
    many = np.zeros(_rounded_up(len(h)))
    many[:len(h)] = h
    return many
