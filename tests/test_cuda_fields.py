"""Stencil product, field operator, Krylov vectors and ghost layers of the CUDA backend against their CPU twins."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_devices import DEVICES, backend_on, fresh_random

from ecsim.backend.cpu import CpuBackend
from ecsim.fields.operators import FieldOperators
from ecsim.grid import Block, Grid
from ecsim.massmatrix.stencil import half_offsets
from ecsim.parallel.halo import Halo

BLOCKS = [((5, 4, 6), 1), ((4, 3, 5), 2), ((1, 3, 1), 1), ((2, 1, 4), 2), ((6, 5), 1), ((3, 4), 2), ((1, 4), 2),
          ((7,), 1), ((1,), 2)]


@pytest.fixture(params=DEVICES)
def backend(request):
    return backend_on(request.param)


@pytest.fixture
def rng():
    return fresh_random()


@pytest.fixture(params=BLOCKS, ids=[f"{'x'.join(map(str, c))}-order{o}" for c, o in BLOCKS])
def block(request):
    cells, order = request.param
    return Block(Grid(cells, tuple((0.3 + 0.2 * k) * n for k, n in enumerate(cells)), order))


def stencil_of(rng, block, components):
    """A random stencil and its ghosts."""
    values = rng.standard_normal((len(half_offsets(block.d, block.order)), components, *block.padded))
    Halo(block).fill(values)
    return values


def padded_of(rng, block, components):
    x = rng.standard_normal((components, *block.padded))
    Halo(block).fill(x)
    return x


def assert_rounding(found, expected):
    assert np.abs(found - expected).max() <= 3e-14 * np.abs(expected).max()


@pytest.mark.parametrize(("components", "vectors"), [(9, 3), (1, 1), (1, 4)])
def test_product_like_the_cpu(backend, rng, block, components, vectors):
    stencil, x = stencil_of(rng, block, components), padded_of(rng, block, vectors)
    expected, found = np.empty((vectors, *block.cells)), backend.xp.empty((vectors, *block.cells))
    CpuBackend(1).matvec(stencil, x, expected)
    backend.matvec(backend.from_host(stencil), backend.from_host(x), found)
    assert_rounding(backend.to_host(found), expected)


def test_field_operator_is_the_sum_of_its_maps(backend, rng, block):
    stencil, x, theta_dt = stencil_of(rng, block, 9), padded_of(rng, block, 3), 0.31
    response, found = np.empty((3, *block.cells)), backend.xp.empty((3, *block.cells))
    CpuBackend(1).matvec(stencil, x, response)
    expected = x[block.interior] + theta_dt**2 * FieldOperators(block).curl_curl(x) + theta_dt * response
    backend.field_operator(backend.from_host(stencil), backend.from_host(x), found, block.spacing, theta_dt)
    assert_rounding(backend.to_host(found), expected)


def test_curls_and_mean_like_the_array_operators(backend, rng, block):
    a, plain, kernels = padded_of(rng, block, 3), FieldOperators(block), backend.staggered(block)
    for verb in ("curl_to_centres", "curl_to_nodes", "to_nodes"):
        assert_rounding(backend.to_host(getattr(kernels, verb)(backend.from_host(a))), getattr(plain, verb)(a))


@pytest.mark.parametrize("components", [1, 5])
def test_ghosts_like_the_plain_halo(backend, rng, block, components):
    a = rng.standard_normal((components, *block.padded))
    ghosts, plain = backend.periodic_ghosts(block), Halo(block)
    added, filled = backend.from_host(a.copy()), backend.from_host(a.copy())
    ghosts.add(added)
    ghosts.fill(filled)
    expected = a.copy()
    plain.fill(expected)
    np.testing.assert_array_equal(backend.to_host(filled), expected)
    expected = a.copy()
    plain.add(expected)
    found = backend.to_host(added)
    np.testing.assert_allclose(found[block.interior], expected[block.interior], rtol=1e-13, atol=1e-13)
    found[block.interior] = a[block.interior]
    np.testing.assert_array_equal(found, a)


@pytest.mark.parametrize(("k", "n"), [(1, 1), (7, 3000), (16, 1024), (30, 5001), (32, 700), (45, 2100)])
def test_krylov_like_numpy(backend, rng, k, n):
    basis, w, h = rng.standard_normal((k, n)), rng.standard_normal(n), rng.standard_normal(k)
    on_device = [backend.from_host(a.copy()) for a in (basis, h, w)]
    scale = 1e-15 * n * np.abs(h).sum()
    dots = backend.krylov.dots(on_device[0], on_device[2])
    assert np.abs(backend.to_host(dots) - basis @ w).max() <= scale
    products = backend.to_host(backend.krylov.project_out(*on_device))
    w -= h @ basis
    assert np.abs(backend.to_host(on_device[2]) - w).max() <= scale
    np.testing.assert_allclose(products, [*(basis @ w), w @ w], rtol=1e-12, atol=10 * scale * np.abs(w).max())
