"""Random particles in device layout, and their mass matrix summed directly in extended precision."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from ecsim.grid import pair_offsets


@dataclass
class Case:
    """Particles in slots (C order, unused slots NaN) and the padded nodal B of a block.

    ``s`` (d, slots), ``v`` (3, slots) or given columns (1 or 9, slots), ``w`` (slots,), ``first`` (n_cells + 1,),
    ``count`` (n_cells,), ``cell`` (slots,) with −1 where a slot is unused.
    """

    cells: tuple
    order: int
    s: np.ndarray
    v: np.ndarray
    w: np.ndarray
    first: np.ndarray
    count: np.ndarray
    cell: np.ndarray
    B: np.ndarray
    beta: float

    @property
    def padded(self) -> tuple:
        return tuple(n + 2 * self.order for n in self.cells)


def random_case(cells, order, counts, *, position="float64", columns=0, seed=None) -> Case:
    """``counts``: particles of every cell; positions include both ends of a cell."""
    rng = np.random.default_rng(seed)
    d, n_cells = len(cells), int(np.prod(cells))
    count = np.asarray(counts, dtype=np.int32)
    first = np.concatenate([[0], np.cumsum(count + rng.integers(0, 6, n_cells))]).astype(np.int64)
    slots = int(first[-1] + 31) // 32 * 32 + 32
    cell = np.full(slots, -1, dtype=np.int32)
    for c in range(n_cells):
        cell[first[c]:first[c] + count[c]] = c
    used = cell >= 0
    rows = columns or 3
    s, v, w = np.full((d, slots), np.nan), np.full((rows, slots), np.nan), np.full(slots, np.nan)
    s[:, used] = rng.uniform(-0.5, 0.5, (d, used.sum()))
    s[:, used] = np.where(rng.random((d, used.sum())) < 0.02, -0.5, s[:, used])
    v[:, used], w[used] = rng.normal(size=(rows, used.sum())), rng.uniform(0.5, 1.5, used.sum())
    padded = tuple(n + 2 * order for n in cells)
    return Case(tuple(cells), order, s.astype(position), v, w, first, count, cell, rng.normal(size=(3, *padded)), 0.7)


def mixed_counts(n_cells, most=40, seed=None) -> np.ndarray:
    """Counts with an empty cell, one particle, the edges of a chunk and random others."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, most, n_cells)
    counts[:min(7, n_cells)] = (33, 0, 1, 31, 32, 0, 65)[:n_cells]
    return counts


def shape(order, s):
    """φ at the support nodes, (order + 1, P)."""
    half = np.longdouble(0.5)
    return np.stack([half - s, half + s] if order == 1 else
                    [half * (half - s)**2, np.longdouble(0.75) - s * s, half * (half + s)**2])


def rotation(b):
    """α of b (3, P), shape (3, 3, P)."""
    levi = np.zeros((3, 3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        levi[i, j, k], levi[i, k, j] = 1, -1
    return (np.eye(3)[:, :, None] + np.einsum("ijk,kp->ijp", levi, b) + b[:, None] * b[None]) / (1 + (b * b).sum(0))


def direct(case: Case, mass: float, moment: float, columns: int = 0):
    """Extended precision: stencil (offsets, 9 or 1, *padded) times ``mass``, moments (4, *padded) times ``moment``."""
    d, order, used = len(case.cells), case.order, case.cell >= 0
    s, cell = case.s[:, used].astype(np.longdouble), case.cell[used]
    index = np.stack(np.unravel_index(cell, case.cells)) + 1
    phi = [shape(order, s[k]) for k in range(d)]
    support = list(product(range(order + 1), repeat=d))
    nodes = [np.ravel_multi_index(tuple(index[k] + a[k] for k in range(d)), case.padded) for a in support]
    W = [np.prod([phi[k][a[k]] for k in range(d)], axis=0) for a in support]
    if columns:
        S, moments = case.v[:, used].astype(np.longdouble), None
    else:
        B = case.B.reshape(3, -1).astype(np.longdouble)
        alpha = rotation(case.beta * sum(B[:, n] * w for n, w in zip(nodes, W, strict=True)))
        S = (case.w[used] * alpha).reshape(9, -1)
        m = np.concatenate([case.w[used][None], np.einsum("ijp,jp->ip", alpha, case.v[:, used]) * case.w[used]])
        moments = np.zeros((4, int(np.prod(case.padded))), np.longdouble)
        for n, w in zip(nodes, W, strict=True):
            for k in range(4):
                np.add.at(moments[k], n, moment * w * m[k])
        moments = moments.reshape(4, *case.padded)
    offsets = {o: k for k, o in enumerate(pair_offsets(d, order))}
    values = np.zeros((len(offsets), len(S), int(np.prod(case.padded))), np.longdouble)
    for a, (na, wa) in zip(support, zip(nodes, W, strict=True), strict=True):
        for b, wb in zip(support, W, strict=True):
            o = offsets.get(tuple(np.subtract(b, a).tolist()))
            if o is not None:
                for c in range(len(S)):
                    np.add.at(values[o, c], na, mass * wa * wb * S[c])
    return values.reshape(len(offsets), len(S), *case.padded), moments


def error(got, exact) -> float:
    """Largest deviation relative to the largest exact value; infinite where anything is not finite."""
    got = np.asarray(got)
    return float(np.abs(got - exact).max() / np.abs(exact).max()) if np.isfinite(got).all() else np.inf
