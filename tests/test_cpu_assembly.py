"""Mass matrix and moments on the CPU: both methods, all shapes and dimensions, against loops over nodes and pairs."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_cases import (
    CASES,
    add_pairs,
    assert_near,
    case_name,
    draw,
    expected_assembly,
    fill,
    make_block,
    padded_weights,
    pair_offsets,
)

from ecsim.backend.cpu import CpuBackend

BETA = -0.37


@pytest.fixture(scope="module")
def backend():
    return CpuBackend(1)


def empty_results(block):
    return np.full((len(pair_offsets(block)), 9, *block.padded), np.nan), np.full((4, *block.padded), np.nan)


def assembled(backend, store, B, method="pair"):
    stencil, moments = empty_results(store.block)
    backend.assemble([store], [BETA], method=method, B_nodes=B, stencil=stencil, moments=moments)
    return stencil, moments


@pytest.mark.parametrize("method", ["pair", "direct"])
@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_assembly(backend, case, method):
    block, rng = make_block(*case), np.random.default_rng(1)
    B = rng.normal(size=(3, *block.padded))
    for options in ({}, {"uniform": 0.3}, {"position_dtype": "float32"}):
        store = fill(backend, block, draw(block, 25, rng), **options)
        ours, expected = assembled(backend, store, B, method), expected_assembly(store, BETA, B)
        for a, b in zip(ours, expected, strict=True):
            assert_near(a, b)


@pytest.mark.parametrize("case", [((3, 2, 4), 1), ((2, 3, 3), 2), ((6, 9), 1), ((5,), 2)], ids=case_name)
def test_crowded_and_empty_cells(backend, case):
    """More particles in a cell than a chunk takes, and cells with none: both methods agree."""
    block, rng = make_block(*case), np.random.default_rng(2)
    given = draw(block, 1111, rng)
    given["cell"][:] = rng.choice([0, block.n_cells // 2, block.n_cells - 1], 1111)
    store = fill(backend, block, given)
    B = rng.normal(size=(3, *block.padded))
    for a, b in zip(assembled(backend, store, B), assembled(backend, store, B, "direct"), strict=True):
        assert_near(a, b)


def test_a_hundred_thousand_particles_in_one_cell(backend):
    block, rng = make_block((3, 3, 3), 1), np.random.default_rng(3)
    given = draw(block, 100_000, rng)
    given["cell"][:] = 13
    store = fill(backend, block, given)
    _, moments = assembled(backend, store, rng.normal(size=(3, *block.padded)))
    assert moments[0].sum() * block.volume == pytest.approx(given["weight"].sum(), rel=1e-13)


@pytest.mark.parametrize("method", ["pair", "direct"])
def test_no_particles(backend, method):
    block = make_block((4, 3), 2)
    results = assembled(backend, fill(backend, block, draw(block, 0, np.random.default_rng(4))),
                        np.ones((3, *block.padded)), method)
    assert not any(a.any() for a in results)


@pytest.mark.parametrize("method", ["pair", "direct"])
def test_two_stores_are_twice_one_and_none_is_nothing(backend, method):
    block, rng = make_block((4, 9), 1), np.random.default_rng(5)
    store, B = fill(backend, block, draw(block, 200, rng)), rng.normal(size=(3, *block.padded))
    once, twice, none = assembled(backend, store, B, method), empty_results(block), empty_results(block)
    for stores, (stencil, moments) in (([store, store], twice), ([], none)):
        backend.assemble(stores, [BETA] * len(stores), method=method, B_nodes=B, stencil=stencil, moments=moments)
    for a, b, c in zip(once, twice, none, strict=True):
        assert_near(2.0 * a, b, 1e-15)
        assert not c.any()


@pytest.mark.parametrize("method", ["pair", "direct"])
@pytest.mark.parametrize("case", [((3, 2, 9), 1), ((1, 1, 1), 2), ((4, 11), 2), ((16,), 1)], ids=case_name)
def test_nothing_else_is_written(backend, case, method):
    """The results lie between guards that keep their value; the last row of the last array ends at one."""
    block, rng = make_block(*case), np.random.default_rng(6)
    store, B = fill(backend, block, draw(block, 500, rng)), rng.normal(size=(3, *block.padded))
    plain, guarded, buffers = assembled(backend, store, B, method), [], []
    for a in plain:
        buffer = np.full(a.size + 64, 77.0)
        guarded.append(buffer[32:-32].reshape(a.shape))
        buffers.append(buffer)
    backend.assemble([store], [BETA], method=method, B_nodes=B, stencil=guarded[0], moments=guarded[1])
    for a, b, buffer in zip(plain, guarded, buffers, strict=True):
        np.testing.assert_array_equal(a, b)
        assert (buffer[:32] == 77.0).all() and (buffer[-32:] == 77.0).all()


@pytest.mark.parametrize("method", ["pair", "direct"])
@pytest.mark.parametrize("components", [1, 9])
@pytest.mark.parametrize("case", [((5, 3), 1), ((3, 2, 9), 1), ((4, 1, 3), 2), ((7,), 2), ((11,), 1)], ids=case_name)
def test_columns_given_by_the_caller(backend, case, components, method):
    block, rng = make_block(*case), np.random.default_rng(7)
    given, columns = draw(block, 30, rng), rng.normal(size=(components, 30))
    stencil = np.zeros((len(pair_offsets(block)), components, *block.padded))
    expected = np.zeros_like(stencil)
    backend.assemble_columns(block, given["cell"], given["s"], columns, stencil, method)
    for p in range(30):
        W = padded_weights(block, given["cell"][p], given["s"][:, p])
        add_pairs(block, expected, W, columns[:, p] / block.volume)
    assert_near(stencil, expected)


def test_what_there_is_not(backend):
    block = make_block((4,), 1)
    store = fill(backend, block, draw(block, 3, np.random.default_rng(8)))
    stencil, moments = empty_results(block)
    arguments = dict(B_nodes=np.zeros((3, *block.padded)), stencil=stencil, moments=moments)
    with pytest.raises(ValueError, match="'mma'; pair or direct"):
        backend.assemble([store], [BETA], method="mma", **arguments)
    with pytest.raises(ValueError, match="'tf32'; fp64"):
        backend.assemble([store], [BETA], precision="tf32", **arguments)
    with pytest.raises(ValueError, match="2 columns for 9 components"):
        backend.assemble_columns(block, [0], np.zeros((1, 1)), np.zeros((2, 1)), stencil)
    with pytest.raises(ValueError, match="cell reaches 4; up to 3"):
        backend.assemble_columns(block, np.array([4]), np.zeros((1, 1)), np.zeros((9, 1)), stencil)
