"""The stand-alone mass matrix against dense sums over particles."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from slow_reference import shape_matrix

from ecsim.massmatrix import assemble, pair_offsets


def make(cells, tensor, seed=0, count=50):
    rng = np.random.default_rng(seed)
    size = tuple(1.0 + 0.5 * k for k in range(len(cells)))
    x = rng.uniform(-1, 2, (count, len(cells))) * size
    return size, x, rng.standard_normal((count, 3, 3) if tensor else count)


@pytest.mark.parametrize("method", ["pair", "direct"])
@pytest.mark.parametrize("tensor", [False, True])
@pytest.mark.parametrize("shape", ["cic", "tsc"])
@pytest.mark.parametrize("cells", [(6,), (1,), (4, 3), (1, 2), (3, 4, 5), (2, 1, 3)])
def test_matches_dense_sums(cells, shape, tensor, method):
    size, x, c = make(cells, tensor)
    matrix = assemble(x, c, cells=cells, size=size, shape=shape, method=method)
    w = shape_matrix(np.mod(x, size), cells, [s / n for s, n in zip(size, cells, strict=True)], shape)
    parts = c.reshape(len(x), -1)
    blocks = [w.T @ (parts[:, k, None] * w) for k in range(parts.shape[1])]
    side = 3 if tensor else 1
    dense = np.block([[blocks[side * i + j] for j in range(side)] for i in range(side)])
    scale = np.abs(dense).max()
    np.testing.assert_allclose(matrix.to_scipy().toarray(), dense, atol=1e-13 * scale)
    y = np.random.default_rng(1).standard_normal((side, *cells))
    np.testing.assert_allclose(np.ravel(matrix.matvec(y)), dense @ y.ravel(), atol=1e-12 * scale)
    np.testing.assert_allclose(np.ravel(matrix.diagonal()), np.diag(dense), atol=1e-13 * scale)


def test_scalar_matrix_multiplies_one_field_or_several():
    size, x, c = make((4, 5), False)
    matrix = assemble(x, c, cells=(4, 5), size=size)
    fields = np.random.default_rng(2).standard_normal((7, 4, 5))
    both = matrix.matvec(fields)
    assert both.shape == (7, 4, 5) and matrix.matvec(fields[2]).shape == (4, 5)
    np.testing.assert_array_equal(both[2], matrix.matvec(fields[2]))
    with pytest.raises(ValueError, match=r"x has shape \(4, 4\)"):
        matrix.matvec(np.zeros((4, 4)))


@pytest.mark.parametrize(("d", "order", "count"), [(1, 1, 2), (2, 1, 4), (3, 1, 8), (1, 2, 3), (2, 2, 9), (3, 2, 27)])
def test_one_offset_for_all_pairs_across_the_same_box(d, order, count):
    offsets = pair_offsets(d, order)
    assert len(offsets) == count == len(set(offsets)) and offsets[0] == (0,) * d
    assert {tuple(map(abs, s)) for s in product(range(-order, order + 1), repeat=d)} == set(offsets)


def test_total_is_the_sum_of_the_coefficients():
    size, x, c = make((3, 3, 3), False, count=20)
    assert assemble(x, c, cells=(3, 3, 3), size=size, shape="tsc").to_scipy().sum() == pytest.approx(c.sum(), abs=1e-12)


@pytest.mark.parametrize("coefficients", [np.zeros(0), np.zeros((0, 3, 3))])
def test_no_particles_have_the_matrix_zero(coefficients):
    matrix = assemble(np.zeros((0, 2)), coefficients, cells=(4, 3), size=(1, 1))
    assert not matrix.to_scipy().toarray().any()


def test_faults():
    with pytest.raises(ValueError, match=r"coefficients has shape \(3,\); \(2,\) or \(2, 3, 3\)"):
        assemble(np.zeros((2, 2)), np.zeros(3), cells=(4, 4), size=(1, 1))
    with pytest.raises(ValueError, match="not finite"):
        assemble([[np.nan]], [1.0], cells=(4,), size=(1,))
    with pytest.raises(ValueError, match="'cubic'"):
        assemble([[0.5]], [1.0], cells=(4,), size=(1,), shape="cubic")
    with pytest.raises(ValueError, match="size has 1 entries but cells has 2"):
        assemble([[0.5, 0.5]], [1.0], cells=(4, 4), size=(1,))
    with pytest.raises(ValueError, match="must be numbers"):
        assemble([[0.5]], [1j], cells=(4,), size=(1,))
    for cells in ((4.5,), ("4",), (np.nan,)):
        with pytest.raises(ValueError, match="whole numbers"):
            assemble([[0.5]], [1.0], cells=cells, size=(1,))
    with pytest.raises(ValueError, match="threads = 1000000000"):
        assemble([[0.5]], [1.0], cells=(4,), size=(1,), threads=10**9)
    with pytest.raises(ValueError, match="method"):
        assemble([[0.5]], [1.0], cells=(4,), size=(1,), method="magic")
