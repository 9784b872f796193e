"""Restarted GMRES, matrix-free, on numpy or cupy arrays, with an injected reduction for many ranks.

Classical Gram–Schmidt done twice ("twice is enough"), Givens rotations for the running residual, the true residual
``b − A x`` at every restart and at the end: the result that is reported is the true one. Vectors are owned values only.

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


class SolverError(RuntimeError):
    """A field solve that did not reach its tolerance; the message holds residual and advice."""


@dataclass(frozen=True)
class Solution:
    """What a solve gives back.

    x : the solution, shape of b.  iterations : applications of the operator inside Krylov steps.
    residual : true ‖b − A x‖/‖b‖.  at_rounding : the tolerance lies below what float64 can reach and the residual has
    come to that floor; counted as converged.
    """

    x: Any
    iterations: int
    residual: float
    at_rounding: bool = False


class PlainKrylov:
    """The products with a basis (k, n) that GMRES needs, by the array module's own operators."""

    @staticmethod
    def dots(basis, w):
        """(k,) products of the basis with ``w`` (n,)."""
        return basis @ w

    @staticmethod
    def project_out(basis, h, w):
        """``w −= h · basis`` in place; returns (k + 1,): products of the basis with the new w, and its square."""
        w -= h @ basis
        ends = np.empty_like(h, shape=len(h) + 1)
        ends[:-1], ends[-1] = basis @ w, w @ w
        return ends


class Gmres:
    """Solver with its work space: ``restart + 1`` Krylov vectors of ``size`` float64 on the array module ``xp``.

    Parameters
    ----------
    xp : numpy or cupy.  size : length of one vector (owned values of this rank).
    restart : Krylov vectors before a restart.  max_iterations : limit over all restarts.
    krylov : ``dots(basis, w)`` and ``project_out(basis, h, w)`` of the backend.
    reduce : sums a small device array over ranks, the identity on one rank.
    """

    def __init__(self, xp, size: int, restart: int = 30, max_iterations: int = 500,
                 krylov: Any = None, reduce: Callable[[Any], Any] = lambda a: a) -> None:
        self.xp, self.restart, self.max_iterations, self.reduce = xp, restart, max_iterations, reduce
        self.krylov = krylov or PlainKrylov
        self._basis = xp.empty((restart + 1, size))

    @property
    def nbytes(self) -> int:
        """Bytes of the Krylov vectors."""
        return self._basis.nbytes

    def norm(self, a) -> float:
        """Global 2-norm of a vector."""
        return math.sqrt(float(self.reduce(self.krylov.dots(a[None], a))[0]))

    def solve(self, operator: Callable[[Any], Any], b, x0=None, tolerance: float = 1e-12) -> Solution:
        """Solve ``A x = b`` to ‖b − A x‖ ≤ tolerance·‖b‖.

        operator : maps an array of b's shape to a new one.  b : array of any shape.  x0 : start, zero if not given.

        Raises SolverError if the iterations run out or a number is not finite.
        """
        xp = self.xp
        shape, b = b.shape, b.reshape(-1)

        def apply(v):
            """The operator on flat vectors."""
            return operator(v.reshape(shape)).reshape(-1)

        b_norm = self.norm(b)
        if not math.isfinite(b_norm):
            raise SolverError("the right-hand side of the field solve is not finite (NaN or overflow)")
        if b_norm == 0.0:
            return Solution(xp.zeros(shape), 0, 0.0)
        x = xp.zeros_like(b) if x0 is None else x0.reshape(-1).copy()
        iterations, operator_norm, last = 0, 1.0, math.inf
        while True:
            residual_vector = b - apply(x)
            residual = self.norm(residual_vector)
            if not math.isfinite(residual):
                raise SolverError(f"the residual is not finite after {iterations} iterations")
            floor = 4.0 * EPS * (b_norm + operator_norm * self.norm(x))
            if residual <= tolerance * b_norm:
                return Solution(x.reshape(shape), iterations, residual / b_norm)
            if residual <= floor and residual > 0.5 * last:
                return Solution(x.reshape(shape), iterations, residual / b_norm, at_rounding=True)
            if iterations >= self.max_iterations:
                raise SolverError(
                    f"GMRES stopped after {iterations} iterations at a relative residual of {residual / b_norm:.2e}; "
                    f"the tolerance is {tolerance:.1e}. Raise solver.max_iterations or solver.restart, or lower dt")
            target = max(tolerance * b_norm, 0.25 * floor)
            steps, size = self._cycle(apply, residual_vector, residual, x, target,
                                      self.max_iterations - iterations)
            iterations, last = iterations + steps, residual
            operator_norm = max(operator_norm, size)

    def _cycle(self, apply, r, r_norm: float, x, target: float, most: int) -> tuple[int, float]:
        """One Krylov space from residual ``r``; updates ``x`` in place; returns steps taken and a norm of A."""
        xp, basis = self.xp, self._basis
        m = min(self.restart, most)
        h = np.zeros((m + 1, m))
        rotations: list[tuple[float, float]] = []
        g = np.zeros(m + 1)
        g[0] = r_norm
        basis[0] = r / r_norm
        raw = np.zeros((m + 1, m))
        k = 0
        for k in range(1, m + 1):
            column = self._orthogonalise(apply(basis[k - 1]), k)
            raw[: k + 1, k - 1] = column
            if not np.isfinite(column).all():
                raise SolverError(f"the Krylov vector {k} is not finite")
            self._rotate(column, rotations, g, k)
            h[: k + 1, k - 1] = column
            breakdown = raw[k, k - 1] <= EPS * np.linalg.norm(raw[: k + 1, k - 1])
            if abs(g[k]) <= target or breakdown:
                break
        y = np.linalg.solve(h[:k, :k], g[:k])
        self.krylov.project_out(basis[:k], xp.asarray(-y), x)  # x += y · basis, without waking a threaded BLAS
        return k, float(np.linalg.norm(raw[: k + 1, :k], 2))

    def _orthogonalise(self, w, k: int) -> np.ndarray:
        """Make ``w`` orthogonal to the first k basis vectors and store it as number k; returns (k + 1,) coefficients.

        Two reductions: what the second pass takes off is so small that Pythagoras gives the norm after it. All sums
        stay on the device; one small copy to the host a step, which the convergence test needs.
        """
        xp, v, krylov = self.xp, self._basis[:k], self.krylov
        first = self.reduce(krylov.dots(v, w))
        ends = self.reduce(krylov.project_out(v, first, w))
        second = ends[:k]
        krylov.project_out(v, second, w)
        norm = xp.sqrt(xp.maximum(ends[k:] - (second * second).sum(), 0.0))
        xp.divide(w, xp.maximum(norm, np.finfo(np.float64).tiny), out=self._basis[k])
        column = xp.concatenate([first + second, norm])
        return column.get() if hasattr(column, "get") else column

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
