"""Index arithmetic of a block, and the tables of nodes and node pairs of a support cell.

Any dimension is walked as planes × rows × cells of a row: (n0, n1, n2) in 3D, (n0, 1, n1) in 2D, (n0, 1, 1) in 1D.
Support nodes are numbered in C order, 0 … (order+1)^d − 1; the first one of cell i is stored at index i + 1 of a padded
array along every dimension, for both shapes.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np

from ecsim.grid import pair_offsets


class Lattice(NamedTuple):
    """Cells of a block as planes × rows × cells, and flat strides of its padded arrays of ``size`` values."""

    planes: int
    rows: int
    length: int
    plane_stride: int
    row_stride: int
    first: int
    size: int


def padded_strides(padded: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a C-ordered array of shape ``padded``."""
    return tuple(int(np.prod(padded[k + 1:], dtype=np.int64)) for k in range(len(padded)))


def lattice(cells: tuple[int, ...], padded: tuple[int, ...]) -> Lattice:
    """The Lattice of ``cells`` whose arrays have the padded shape ``padded``."""
    strides = padded_strides(padded)
    planes, rows, length = cells[0], cells[1] if len(cells) == 3 else 1, cells[-1] if len(cells) > 1 else 1
    return Lattice(planes, rows, length, strides[0], strides[1] if len(cells) == 3 else 0, sum(strides),
                   int(np.prod(padded)))


class Box(NamedTuple):
    """Where the cells of a block lie in the whole periodic grid, per dimension (1 cell for those beyond d).

    origin : first owned cell.  owned, cells : number of cells of the block and of the grid.  whole : they are the same.
    """

    origin: tuple[float, float, float]
    owned: tuple[float, float, float]
    cells: tuple[float, float, float]
    whole: bool


def box(block) -> Box:
    """The Box of a Block."""
    def three(numbers, missing: float) -> tuple:
        """Three floats; ``missing`` stands for dimensions that are not active."""
        return tuple(float(n) for n in (*numbers, missing, missing))[:3]

    return Box(three(block.origin, 0.0), three(block.cells, 1.0), three(block.grid.cells, 1.0),
               block.cells == block.grid.cells)


class Tables(NamedTuple):
    """Where the numbers of a support cell go, all int64.

    node : (nodes,) flat offset of each support node from the first one.
    low_row : (nodes,) which power row t^u has the exponents of node number u (each at most ``order``).
    pair_a, pair_b, pair_offset : (pairs,) lowest and highest corner of each stored pair, and number of its offset.
    row_offset, row_node, row_products : the pairs once more, those that differ only along the last dimension together:
    (rows,) stencil offset, (rows,) flat offset of the row's first node, and (rows · (order + 1),) number of the product
    φ_a φ_b at each node of the row (products of dimensions in C order; one past the last product where there is none).
    """

    node: np.ndarray
    low_row: np.ndarray
    pair_a: np.ndarray
    pair_b: np.ndarray
    pair_offset: np.ndarray
    row_offset: np.ndarray
    row_node: np.ndarray
    row_products: np.ndarray


def pair_row_count(d: int, order: int) -> int:
    """Number of rows of node pairs, the length of ``Tables.row_offset``."""
    return len(tables(d, order, (1 + 2 * order,) * d).row_offset)


@cache
def tables(d: int, order: int, padded: tuple[int, ...]) -> Tables:
    """The Tables for a dimension, a shape and a padded shape."""
    m, powers, strides = order + 1, 2 * order + 1, padded_strides(padded)
    nodes = list(product(range(m), repeat=d))
    which = {pair: k for k, pair in enumerate((a, b) for a in range(m) for b in range(a, m))}
    number = {offset: k for k, offset in enumerate(pair_offsets(d, order))}

    def flat(digits, base: int) -> int:
        """The number whose ``base``-ary digits these are."""
        return int(np.ravel_multi_index(tuple(digits), (base,) * d))

    steps = {(a, b): tuple(np.subtract(nodes[b], nodes[a]).tolist()) for a in range(m**d) for b in range(a, m**d)}
    pairs = [pair for pair, step in steps.items() if min(step) >= 0]
    offsets = [number[steps[pair]] for pair in pairs]
    flat_node = [sum(i * s for i, s in zip(node, strides, strict=True)) for node in nodes]
    rows: dict[tuple[int, int], list[int]] = {}
    for (a, b), offset in zip(pairs, offsets, strict=True):
        row = rows.setdefault((offset, flat_node[a] - nodes[a][-1]), [len(which) ** d] * m)
        row[nodes[a][-1]] = flat([which[pair] for pair in zip(nodes[a], nodes[b], strict=True)], len(which))
    columns = (flat_node, [flat(node, powers) for node in nodes], [a for a, _ in pairs], [b for _, b in pairs], offsets,
               [offset for offset, _ in rows], [node for _, node in rows], list(rows.values()))
    return Tables(*(np.array(c, dtype=np.int64).reshape(-1) for c in columns))
