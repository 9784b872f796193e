"""Particle stores of the CUDA backend as tests make them, compare them and look into them."""

from __future__ import annotations

import numpy as np

from ecsim.grid import Block, Grid

BETA, DT = 0.3, 0.1


def block_of(cells, order=1) -> Block:
    return Block(Grid(cells, tuple(0.7 * n for n in cells), order))


def particles(rng, block, n, speed):
    """Random particles, of ``speed`` cells a step, as ``append`` takes them."""
    return {"cell": rng.integers(0, block.n_cells, n).astype(np.int32),
            "s": (rng.random((block.d, n)) - 0.5).astype(np.float32).astype(np.float64),
            "v": speed * 0.7 / DT * rng.standard_normal((3, n)), "weight": rng.random(n) - 0.3,
            "id": np.arange(n, dtype=np.uint64)}


def filled(backend, block, given, **options):
    """A store of these particles whose slack is poisoned, where it is a CUDA store."""
    store = backend.new_store(block, **options)
    if backend.name == "cuda":
        for array in (store.s, store.v, *([] if store.w is None else [store.w])):
            array[...] = np.nan
    store.append(**given)
    store.sort()
    return store


def fields(rng, block):
    return rng.standard_normal((3, *block.padded)), rng.standard_normal((3, *block.padded))


def by_id(host: dict) -> dict:
    order = np.argsort(host["id"], kind="stable")
    weight = host["weight"][order] if np.ndim(host["weight"]) else host["weight"]
    return {"cell": host["cell"][order], "s": host["s"][:, order], "v": host["v"][:, order], "weight": weight,
            "id": host["id"][order]}


def assert_same_bits(a: dict, b: dict) -> None:
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def assert_close(a: dict, b: dict, block) -> None:
    """Same particles in the same cells, or right at a face of them, with equal numbers to rounding."""
    a, b = by_id(a), by_id(b)
    np.testing.assert_array_equal(a["id"], b["id"])
    np.testing.assert_array_equal(a["weight"], b["weight"])
    np.testing.assert_allclose(a["v"], b["v"], rtol=1e-12, atol=1e-12 * np.abs(a["v"]).max())
    apart = np.stack(np.unravel_index(a["cell"], block.cells)) - np.stack(np.unravel_index(b["cell"], block.cells))
    cells = np.array(block.cells)[:, None]
    apart = apart + a["s"] - b["s"]
    apart -= cells * np.round(apart / cells)
    assert np.abs(apart).max() < (1e-6 if a["s"].dtype == np.float32 else 1e-12)
    assert np.abs(b["s"]).max() <= 0.5
    assert np.mean(a["cell"] != b["cell"]) < 0.01
