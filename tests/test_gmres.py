"""GMRES against scipy on the same operator, and its ends: breakdown, rounding floor, failure."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.sparse.linalg as sla
from cuda_devices import fresh_random

from ecsim.solver.gmres import Gmres, PlainKrylov, SolverError


def problem(n=120, seed=0, spread=0.4):
    rng = np.random.default_rng(seed)
    return np.eye(n) + spread * rng.standard_normal((n, n)) / np.sqrt(n), rng.standard_normal(n)


@pytest.mark.parametrize("restart", [4, 15, 200])
@pytest.mark.parametrize("tolerance", [1e-4, 1e-9, 1e-13])
def test_reaches_the_tolerance_like_scipy(restart, tolerance):
    a, b = problem()
    solution = Gmres(np, len(b), restart, 1000).solve(partial(np.matmul, a), b, tolerance=tolerance)
    assert np.linalg.norm(b - a @ solution.x) <= tolerance * np.linalg.norm(b)
    assert solution.residual <= tolerance
    count = []
    _, info = sla.gmres(a, b, rtol=tolerance, atol=0, restart=restart, maxiter=1000, callback=count.append,
                        callback_type="pr_norm")
    assert info == 0
    assert solution.iterations <= len(count) + 2
    np.testing.assert_allclose(solution.x, np.linalg.solve(a, b), atol=10 * tolerance * np.linalg.norm(b))


def test_every_krylov_vector_counts():
    """n steps on an n × n system are exact: a solver that drops its last vector is not."""
    a, b = problem(n=6, spread=3.0)
    solution = Gmres(np, 6, 6, 6).solve(partial(np.matmul, a), b, tolerance=1e-11)
    assert solution.iterations == 6


def test_happy_breakdown():
    b = np.arange(1.0, 9.0)
    solution = Gmres(np, 8, 8, 50).solve(partial(np.multiply, 3.0), b, tolerance=1e-14)
    assert solution.iterations == 1
    np.testing.assert_allclose(solution.x, b / 3.0, rtol=1e-15)


def test_start_and_zero_right_hand_side():
    a, b = problem()
    solver = Gmres(np, len(b), 30)
    exact = np.linalg.solve(a, b)
    assert solver.solve(partial(np.matmul, a), b, x0=exact, tolerance=1e-10).iterations == 0
    zero = solver.solve(partial(np.matmul, a), np.zeros_like(b), x0=exact)
    assert zero.iterations == 0 and not zero.x.any()


def test_rounding_floor_is_reported_not_iterated():
    a, b = problem()
    solution = Gmres(np, len(b), 30, 1000).solve(partial(np.matmul, a), b, tolerance=1e-18)
    assert solution.at_rounding and solution.residual < 4e-16 * 4 and solution.iterations < 100


@pytest.mark.parametrize("threads", [1, 2])
def test_backend_products_agree_with_plain_ones(threads):
    from ecsim.backend import select

    krylov, rng = select("cpu", threads).krylov, np.random.default_rng(5)
    basis, w, h = rng.standard_normal((7, 30011)), rng.standard_normal(30011), rng.standard_normal(7)
    np.testing.assert_allclose(krylov.dots(basis, w), basis @ w, rtol=1e-11)
    mine, plain = w.copy(), w.copy()
    ends = krylov.project_out(basis, h, mine), PlainKrylov.project_out(basis, h, plain)
    np.testing.assert_allclose(mine, plain, atol=1e-13)
    np.testing.assert_allclose(*ends, rtol=1e-11)
    one = select("cpu", 1).krylov.dots(basis, w)
    np.testing.assert_array_equal(krylov.dots(basis, w), one)


def test_failures_raise():
    a, b = problem(spread=3.0)
    with pytest.raises(SolverError, match="after 7 iterations at a relative residual of .*max_iterations"):
        Gmres(np, len(b), 5, 7).solve(partial(np.matmul, a), b)
    with pytest.raises(SolverError, match="not finite"):
        Gmres(np, len(b)).solve(partial(np.multiply, np.nan), b)
    with pytest.raises(SolverError, match="not finite"):
        Gmres(np, len(b)).solve(partial(np.multiply, 1.0), b * np.inf)


@pytest.mark.parametrize("matrix", [np.zeros((2, 2)), np.array([[0.0, 1.0], [0.0, 0.0]])])
def test_a_singular_operator_is_told(matrix):
    with pytest.raises(ValueError, match=r"x0 has shape \(1,\); \(2,\) is allowed"):
        Gmres(np, 2).solve(partial(np.multiply, 2.0), np.ones(2), np.ones(1))
    with pytest.raises(SolverError, match="the operator is singular"):
        Gmres(np, 2).solve(partial(np.matmul, matrix), np.array([1.0, 0.0]))


def test_shapes_and_reduction_are_respected():
    a, b = problem(n=60)
    calls = []

    def reduce(value):
        calls.append(np.shape(value))
        return value

    solver = Gmres(np, 60, 30, 500, reduce=reduce)
    solution = solver.solve(lambda v, out: np.matmul(a, v.reshape(-1), out=out.reshape(-1)), b.reshape(3, 20))
    assert solution.x.shape == (3, 20)
    assert calls and all(len(shape) <= 1 for shape in calls)


@pytest.mark.parametrize("case", ["solved", "restarted", "known", "zero"])
def test_what_is_delivered_last_is_the_solution(case):
    """Also where nothing is left to do: the start solves it, or the right-hand side is zero."""
    rng = fresh_random()
    a, b = np.eye(30) + 0.1 * rng.standard_normal((30, 30)), rng.standard_normal(30) * (case != "zero")
    solver, delivered = Gmres(np, 30, 4 if case == "restarted" else 30, 500), []
    x0 = np.linalg.solve(a, b) if case == "known" else rng.standard_normal(30)
    solution = solver.solve(partial(np.matmul, a), b, x0, 1e-11, lambda: delivered.append(solver.x.copy()))
    np.testing.assert_array_equal(delivered[-1], solution.x)
    assert (solution.iterations == 0) == (case in ("known", "zero"))
    np.testing.assert_allclose(a @ solution.x, b, atol=1e-9)
