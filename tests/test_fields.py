"""The staggered operators: adjoint curls, ∇·∇× = 0, accuracy, thin dimensions, ghost exchange."""

from __future__ import annotations

import numpy as np
import pytest

from ecsim.fields.operators import FieldOperators
from ecsim.grid import Block, Grid
from ecsim.parallel.halo import Halo

SHAPES = [(7,), (1,), (6, 5), (1, 4), (4, 5, 3), (1, 6, 1), (2, 1, 3)]


def padded(block, a):
    out = np.full((*a.shape[: a.ndim - block.d], *block.padded), np.nan)
    out[block.interior] = a
    Halo(block).fill(out)
    return out


def make(cells, order=1):
    return Block(Grid(cells, tuple(0.3 * n + 0.1 * k for k, n in enumerate(cells)), order))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("cells", SHAPES)
def test_curls_are_adjoint_and_divergence_free(cells, order):
    block = make(cells, order)
    ops, rng = FieldOperators(block), np.random.default_rng(1)
    e, b = rng.standard_normal((2, 3, *cells))
    to_centres, to_nodes = ops.curl_to_centres(padded(block, e)), ops.curl_to_nodes(padded(block, b))
    assert np.vdot(to_centres, b) == pytest.approx(np.vdot(e, to_nodes), abs=1e-12 * np.abs(to_nodes).max())
    scale = max(np.abs(to_centres).max(), 1e-300)
    assert np.abs(ops.divergence_of_centres(padded(block, to_centres))).max() <= 1e-13 * scale / min(block.spacing)
    twice = ops.curl_to_nodes(padded(block, to_centres))
    np.testing.assert_allclose(ops.curl_curl(padded(block, e)), twice, atol=1e-13 * max(np.abs(twice).max(), 1e-300))


@pytest.mark.parametrize("cells", [(7,), (6, 5), (4, 5, 3), (1, 6, 1)])
def test_operators_match_dense_matrices(cells):
    from slow_reference import curl_matrix

    block = make(cells)
    e = np.random.default_rng(2).standard_normal((3, *cells))
    ops = FieldOperators(block)
    for forward, verb in ((True, ops.curl_to_centres), (False, ops.curl_to_nodes)):
        dense = curl_matrix(cells, block.spacing, forward) @ e.reshape(-1)
        np.testing.assert_allclose(verb(padded(block, e)).reshape(-1), dense, atol=1e-13 * np.abs(dense).max())


def test_curl_converges_at_second_order():
    errors = []
    for n in (32, 64):
        block = Block(Grid((n, n), (2 * np.pi, 2 * np.pi)))
        x = np.arange(n) * block.spacing[0]
        X, Y = np.meshgrid(x, x, indexing="ij")
        e = np.stack([np.zeros_like(X), np.zeros_like(X), np.sin(X) * np.cos(2 * Y)])
        h = 0.5 * block.spacing[0]
        curl = FieldOperators(block).curl_to_centres(padded(block, e))
        exact = -2 * np.sin(X + h) * np.sin(2 * (Y + h))
        errors.append(np.abs(curl[0] - exact).max())
    assert 3.8 < errors[0] / errors[1] < 4.2


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("cells", SHAPES)
def test_halo_fill_and_add(cells, order):
    block = make(cells, order)
    halo, g = Halo(block), order
    a = np.random.default_rng(3).standard_normal((2, *block.padded))
    index = np.meshgrid(*[(np.arange(n + 2 * g) - g) % n for n in cells], indexing="ij")
    total = np.zeros((2, *cells))
    for c in range(2):
        np.add.at(total[c], tuple(index), a[c])
    added = a.copy()
    halo.add(added)
    np.testing.assert_allclose(added[block.interior], total, atol=1e-13)
    halo.fill(added)
    np.testing.assert_array_equal(added, added[block.interior][(slice(None), *index)])


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("cells", [(7,), (1, 4), (4, 5, 3)])
def test_field_operator_is_the_sum_of_its_terms(cells, order):
    from ecsim.backend import select
    from ecsim.massmatrix.stencil import MassMatrix
    from ecsim.solver.operator import FieldOperator

    block, rng = make(cells, order), np.random.default_rng(4)
    halo = Halo(block)
    matrix = MassMatrix(block, halo, select("cpu", 1))
    matrix.values[...] = rng.standard_normal(matrix.values.shape)
    halo.fill(matrix.values)
    x = rng.standard_normal((3, *cells))
    expected = x + 0.3**2 * FieldOperators(block).curl_curl(padded(block, x)) + 0.3 * matrix.matvec(x)
    np.testing.assert_allclose(FieldOperator(matrix, halo, 0.3)(x), expected, atol=1e-13 * np.abs(expected).max())
