"""Restarted GMRES, matrix-free, on numpy or cupy arrays, with an injected reduction for many ranks.

Classical Gram–Schmidt done twice ("twice is enough"), Givens rotations for the running residual, the true residual
``b − A x`` at every restart and at the end: the result that is reported is the true one. Vectors are owned values only.
A device that works on its own is given the next product before the host looks whether the last step was enough. What a
step does depends on its number only and happens in arrays that stay, so that a device may record and replay it.

Sources: Saad & Schultz 1986, SIAM J. Sci. Stat. Comput. 7, 856; Giraud, Langou & Rozložník 2005, Comput. Math.
Appl. 50, 1069 (orthogonality of the iterated classical Gram–Schmidt process).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)


class SolverError(RuntimeError):
    """A field solve that did not reach its tolerance; the message holds residual and advice."""


@dataclass(frozen=True)
class Solution:
    """What a solve gives back.

    x : the solution, shape of b, until the next solve.  iterations : applications of the operator inside Krylov steps.
    residual : true ‖b − A x‖/‖b‖.  at_rounding : the tolerance lies below what float64 can reach and the residual has
    come to that floor; counted as converged.
    """

    x: Any
    iterations: int
    residual: float
    at_rounding: bool = False


class PlainKrylov:
    """The vector work of GMRES on a basis (k, n), by NumPy's own operators.

    ahead : whether `Gmres` should hand over the next product before it looks at the residual at the start or at the
    coefficients of a step.
    """

    ahead = False

    @staticmethod
    def column(most: int) -> np.ndarray:
        """Room on the host for the coefficients of one of so many steps, (most + 1,)."""
        return np.zeros(most + 1)

    @staticmethod
    def mark() -> Callable[[], None]:
        """A function that waits for the work up to here, and for the coefficients that it brings."""
        return lambda: None

    @staticmethod
    def bring(values, to):
        """``to`` = a few numbers, on the host by the time that a `mark` made afterwards has been waited for."""
        to[:] = values

    @staticmethod
    def dots(basis, w):
        """(k,) products of the basis with ``w`` (n,)."""
        return basis @ w

    @staticmethod
    def residual(b, w, x, r):
        """``r`` = b − w; returns b · b, r · r and x · x, (3,)."""
        np.subtract(b, w, out=r)
        return np.array([b @ b, r @ r, x @ x])

    @staticmethod
    def normalise(r, squares):
        """``r`` /= its norm, with the squares of `residual`, summed over all ranks."""
        with np.errstate(invalid="ignore"):
            r /= max(math.sqrt(squares[1]), TINY)

    @staticmethod
    def project_out(basis, h, w):
        """``w −= h · basis`` in place; returns (k + 1,): products of the basis with the new w, and its square."""
        w -= h @ basis
        return np.append(basis @ w, w @ w)

    @staticmethod
    def close(basis, first, ends, w, out, column):
        """The end of an orthogonalisation: ``out`` = (w − ends[:k] · basis) / norm; ``w`` is used up.

        first, ends : sums over all ranks of what ``dots`` and ``project_out`` gave.  column : receives the coefficients
        (k + 1,), first + ends[:k] and the norm. By Pythagoras, since what is taken off here is small, the norm needs no
        further sum.
        """
        second = ends[:-1]
        norm = math.sqrt(max(ends[-1] - second @ second, 0.0))
        out[...] = (w - second @ basis) / max(norm, TINY)
        column[:-1], column[-1] = first + second, norm

    @staticmethod
    def add(basis, y, x):
        """``x += y · basis`` in place, y on the host."""
        x += y @ basis


class Gmres:
    """Solver with its work space: ``restart + 1`` Krylov vectors of ``size`` float64 on the array module ``xp``.

    Parameters
    ----------
    xp : numpy or cupy.  size : length of one vector (owned values of this rank).
    restart : Krylov vectors before a restart.  max_iterations : limit over all restarts.
    krylov : the backend's twin of `PlainKrylov`.
    reduce : sums a small device array over ranks, the identity on one rank.
    record : makes of a function of whole numbers, which returns nothing and whose work is the device's alone, one that
    does the same with less to do for the host.

    ``x`` (size,) : the solution that is being worked on, always the same array.
    """

    def __init__(self, xp, size: int, restart: int = 30, max_iterations: int = 500, krylov: Any = None,
                 reduce: Callable[[Any], Any] = lambda a: a, record: Callable[[Any], Any] = lambda function: function
                 ) -> None:
        self.xp, self.restart, self.max_iterations = xp, restart, max_iterations
        self.reduce, self.record = reduce, record
        self.krylov = krylov or PlainKrylov
        self._basis = xp.empty((restart + 1, size))
        self._w, self._b, self.x = xp.empty(size), xp.empty(size), xp.empty(size)
        self._column, self._squares = self.krylov.column(restart), self.krylov.column(2)
        self._orthogonalised = record(self._orthogonalise)
        self._operator: Any = None
        self._shape: tuple[int, ...] = ()
        self._multiplied: Callable[[int], None] = self._multiply
        self._measured: Callable[[], None] = self._measure

    def _apply(self, v):
        """The operator on a flat vector; what is returned lasts until the next call."""
        self._operator(v.reshape(self._shape), self._w.reshape(self._shape))
        return self._w

    def solve(self, operator: Callable[[Any, Any], Any], b, x0=None, tolerance: float = 1e-12,
              deliver: Callable[[], None] = lambda: None) -> Solution:
        """Solve ``A x = b`` to ‖b − A x‖ ≤ tolerance·‖b‖.

        operator : ``operator(x, out)`` sets out = A x, both of b's shape.  b : array of any shape.  x0 : start, zero if
        not given.  deliver : called when ``self.x`` may be the solution, before that is known; its last call has seen
        the one that is returned. There may be calls before a SolverError.

        Raises SolverError if the iterations run out or a number is not finite, ValueError if x0 has another shape.
        """
        shape = b.shape
        if x0 is not None and x0.shape != shape:
            raise ValueError(f"x0 has shape {x0.shape}; {shape} is allowed")
        if operator is not self._operator or shape != self._shape:
            self._operator, self._shape = operator, shape
            self._multiplied, self._measured = self.record(self._multiply), self.record(self._measure)
        x = self.x.reshape(shape)
        self._b.reshape(shape)[...] = b
        x[...] = 0.0 if x0 is None else x0
        iterations, operator_norm, last, raw = 0, 1.0, math.inf, None
        while True:
            self._measured()
            arrived = self.krylov.mark()
            begun = self.krylov.ahead and raw is None
            if begun:
                self._multiplied(1)
            elif raw is not None:
                deliver()
                operator_norm = max(operator_norm, float(np.linalg.norm(raw, 2)))
            arrived()
            b_norm, residual, x_norm = np.sqrt(self._squares).tolist()
            if not math.isfinite(b_norm):
                raise SolverError("the right-hand side of the field solve is not finite (NaN or overflow)")
            if b_norm == 0.0:
                x[...] = 0.0
                residual, b_norm = 0.0, 1.0
            if not math.isfinite(residual):
                raise SolverError(f"the residual is not finite after {iterations} iterations")
            floor = 4.0 * EPS * (b_norm + operator_norm * x_norm)
            at_rounding = residual > tolerance * b_norm and floor >= residual > 0.5 * last
            if residual <= tolerance * b_norm or at_rounding:
                if raw is None:
                    deliver()
                return Solution(x, iterations, residual / b_norm, at_rounding)
            if iterations >= self.max_iterations:
                raise SolverError(
                    f"GMRES stopped after {iterations} iterations at a relative residual of {residual / b_norm:.2e}; "
                    f"the tolerance is {tolerance:.1e}. Raise solver.max_iterations or solver.restart, or lower dt")
            target = max(tolerance * b_norm, 0.25 * floor)
            raw = self._cycle(residual, target, self.max_iterations - iterations, begun)
            iterations, last = iterations + raw.shape[1], residual

    def _measure(self) -> None:
        """The true residual, normalised, as the first basis vector; ``_squares`` = the squares of b, of it and of x.

        One reduction.
        """
        squares = self.reduce(self.krylov.residual(self._b, self._apply(self.x), self.x, self._basis[0]))
        self.krylov.normalise(self._basis[0], squares)
        self.krylov.bring(squares, self._squares)

    def _cycle(self, r_norm: float, target: float, most: int, begun: bool) -> np.ndarray:
        """One Krylov space from the residual, of norm ``r_norm``; updates x.

        begun : whether the product with the first basis vector has been made.
        Returns A in the basis of the k steps taken, (k + 1, k).
        """
        basis, krylov = self._basis, self.krylov
        m = min(self.restart, most)
        h = np.zeros((m + 1, m))
        rotations: list[tuple[float, float]] = []
        g = np.zeros(m + 1)
        g[0] = r_norm
        raw = np.zeros((m + 1, m))
        k = 0
        for k in range(1, m + 1):
            if not begun:
                self._multiplied(k)
            self._orthogonalised(k)
            arrived = krylov.mark()
            begun = krylov.ahead and k < m and _far(g, k, target)
            if begun:
                self._multiplied(k + 1)
            arrived()
            column = self._column[: k + 1].copy()
            raw[: k + 1, k - 1] = column
            size = math.sqrt(column @ column)
            if not math.isfinite(size):
                raise SolverError(f"the Krylov vector {k} is not finite")
            self._rotate(column, rotations, g, k)
            h[: k + 1, k - 1] = column
            if abs(g[k]) <= target or raw[k, k - 1] <= EPS * size:
                break
        try:
            krylov.add(basis[:k], np.linalg.solve(h[:k, :k], g[:k]), self.x)
        except np.linalg.LinAlgError:
            raise SolverError(f"GMRES broke down after {k} steps: the operator is singular") from None
        return raw[: k + 1, :k]

    def _multiply(self, k: int) -> None:
        """The product with the last of the first k basis vectors."""
        self._apply(self._basis[k - 1])

    def _orthogonalise(self, k: int) -> None:
        """Make the product orthogonal to the first k basis vectors and store it as number k.

        Two reductions. All sums stay on the device; the coefficients, (k + 1,), which the convergence test needs, go to
        ``_column``.
        """
        v, krylov, w = self._basis[:k], self.krylov, self._w
        first = self.reduce(krylov.dots(v, w))
        ends = self.reduce(krylov.project_out(v, first, w))
        krylov.close(v, first, ends, w, self._basis[k], self._column[: k + 1])

    @staticmethod
    def _rotate(column: np.ndarray, rotations: list[tuple[float, float]], g: np.ndarray, k: int) -> None:
        """Apply the earlier Givens rotations to a new Hessenberg column, add the one that clears its last entry."""
        for i, (c, s) in enumerate(rotations):
            column[i], column[i + 1] = c * column[i] + s * column[i + 1], c * column[i + 1] - s * column[i]
        length = math.hypot(column[k - 1], column[k])
        c, s = (column[k - 1] / length, column[k] / length) if length else (1.0, 0.0)
        rotations.append((c, s))
        column[k - 1], column[k] = length, 0.0
        g[k - 1], g[k] = c * g[k - 1], -s * g[k - 1]


def _far(g: np.ndarray, k: int, target: float) -> bool:
    """Whether step k will probably not be the last: with the residual after it falling as it has in the step before."""
    last = abs(g[k - 1])
    return last * (last / abs(g[k - 2]) if k > 1 else 1.0) > target
