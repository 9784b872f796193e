"""Random particles on a block, and what the CPU kernels must make of them, written out with no regard to speed."""

from __future__ import annotations

from itertools import product

import numpy as np

from ecsim.backend.cpu import CpuBackend
from ecsim.grid import Block, Grid

SHAPES = {1: "cic", 2: "tsc"}
CELLS = [(1,), (7,), (21,), (5, 3), (1, 9), (19, 1), (3, 4, 9), (1, 1, 1), (2, 10, 1), (5, 1, 2)]
CASES = [(cells, order) for cells in CELLS for order in (1, 2)]


def case_name(case) -> str:
    return f"{'x'.join(map(str, case[0]))}-{SHAPES[case[1]]}"


def make_block(cells, order) -> Block:
    return Block(Grid(cells, tuple(n * width for n, width in zip(cells, (0.7, 1.1, 1.6), strict=False)), order))


def pair_offsets(block) -> list:
    return list(product(range(block.order + 1), repeat=block.d))


def draw(block, n: int, rng, edges: bool = True) -> dict:
    """Particles anywhere, some of them exactly on the rims and in the middle of their cells."""
    s = rng.uniform(-0.5, 0.5, (block.d, n))
    if edges and n:
        rims = [-0.5, 0.0, np.nextafter(0.5, 0.0), 0.25]
        for k in range(block.d):
            s[k, rng.integers(0, n, len(rims))] = rims
    return {"cell": rng.integers(0, block.n_cells, n).astype(np.int32), "s": s, "v": rng.normal(0.0, 0.8, (3, n)),
            "weight": rng.normal(1.0, 0.5, n), "id": np.arange(n, dtype=np.uint64)}


def fill(backend: CpuBackend, block, given: dict, *, uniform: float | None = None, **options):
    """A sorted store that holds the given particles."""
    store = backend.new_store(block, weight=uniform, ids=True, **options)
    store.append(given["cell"], given["s"], given["v"], None if uniform is not None else given["weight"], given["id"])
    store.sort()
    return store


def shape_function(order: int, x: np.ndarray) -> np.ndarray:
    """φ at a distance of x cells."""
    x = np.abs(x)
    if order == 1:
        return np.maximum(0.0, 1.0 - x)
    return np.where(x < 0.5, 0.75 - x**2, np.where(x < 1.5, 0.5 * (1.5 - x) ** 2, 0.0))


def padded_weights(block, cell: int, s: np.ndarray, order: int | None = None, offset: float = 0.0) -> np.ndarray:
    """W of one particle on all padded nodes (or, with ``offset`` ½, centres); order 1 or 2, by default the block's."""
    index = np.unravel_index(cell, block.cells)
    W = np.ones(())
    for k in range(block.d):
        x = index[k] + 0.5 * (2 - block.order) + s[k]
        points = np.arange(block.padded[k]) - block.ghosts + offset
        W = np.multiply.outer(W, shape_function(order or block.order, x - points))
    return W


def rotation(b: np.ndarray) -> np.ndarray:
    """α as the inverse of v -> v − v × b, which is what defines v̄."""
    return np.linalg.inv(np.array([[1.0, -b[2], b[1]], [b[2], 1.0, -b[0]], [-b[1], b[0], 1.0]]))


def particles_of(store):
    """(cell, s, v, w) of each particle of a store."""
    h = store.to_host()
    w = np.broadcast_to(np.asarray(h["weight"], dtype=float), h["cell"].shape)
    return zip(h["cell"], h["s"].astype(float).T, h["v"].T, w, strict=True)


def add_pairs(block, values: np.ndarray, W: np.ndarray, coefficients) -> None:
    """values[o, c, a] += coefficient_c W_a W_{a+o}, o ≥ 0 along each dimension."""
    nodes = list(zip(*np.nonzero(W), strict=True))
    number = {o: k for k, o in enumerate(pair_offsets(block))}
    for a, b in product(nodes, nodes):
        o = number.get(tuple(int(y - x) for x, y in zip(a, b, strict=True)))
        if o is not None:
            values[(o, slice(None), *a)] += np.multiply(coefficients, W[a] * W[b])


def expected_assembly(store, beta: float, B: np.ndarray):
    """Stencil and moments of a store."""
    block = store.block
    stencil = np.zeros((len(pair_offsets(block)), 9, *block.padded))
    moments = np.zeros((4, *block.padded))
    for cell, s, v, w in particles_of(store):
        W = padded_weights(block, cell, s)
        alpha = rotation(beta * np.einsum("kn,n->k", B.reshape(3, -1), W.ravel()))
        add_pairs(block, stencil, W, (beta * w / block.volume * alpha).ravel())
        moments += np.multiply.outer(np.array([1.0, *(alpha @ v)]) * w / block.volume, W)
    return stencil, moments


def assert_near(ours, expected, tolerance: float = 1e-13) -> None:
    assert np.shape(ours) == np.shape(expected)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=tolerance * max(np.abs(expected).max(initial=0.0), 1e-300))


def same_bits(a: dict, b: dict) -> None:
    """Two host copies of stores hold the same particles, bit for bit, in the same order."""
    for name in ("cell", "s", "v", "id"):
        np.testing.assert_array_equal(a[name], b[name])
    np.testing.assert_array_equal(a["weight"], b["weight"])
