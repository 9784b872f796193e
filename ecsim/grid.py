"""The grid: cells and nodes of the whole box, and the block of it that one rank owns."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import product
from typing import NamedTuple

SHAPE_ORDERS = {"cic": 1, "tsc": 2}


@dataclass(frozen=True)
class Grid:
    """A uniform Cartesian grid of ``d = len(cells)`` active dimensions.

    Parameters
    ----------
    cells : number of cells along each active dimension (1 to 3 of them, each at least 1).
    size : box length along each active dimension, in c/ω_pi.
    order : order of the particle shape, 1 for CIC and 2 for TSC.

    E, J, ρ and the mass matrix live on nodes ``x = iΔ``, B at cell centres ``x = (i+½)Δ``.

    Raises
    ------
    ValueError : if the lengths disagree, or a number of cells, a size or the order is out of range.
    """

    cells: tuple[int, ...]
    size: tuple[float, ...]
    order: int = 1

    def __post_init__(self) -> None:
        if not all(isinstance(n, numbers.Real) and math.isfinite(n) and n == int(n) for n in self.cells):
            raise ValueError(f"cells = {', '.join(map(str, self.cells))}; whole numbers are allowed")
        object.__setattr__(self, "cells", tuple(int(n) for n in self.cells))
        object.__setattr__(self, "size", tuple(float(s) for s in self.size))
        faults = []
        if not 1 <= len(self.cells) <= 3:
            faults.append(f"cells has {len(self.cells)} entries; 1, 2 or 3 are allowed")
        if len(self.size) != len(self.cells):
            faults.append(f"size has {len(self.size)} entries but cells has {len(self.cells)}")
        if any(n < 1 for n in self.cells):
            faults.append(f"cells = {list(self.cells)}; each must be at least 1")
        if any(not (s > 0 and math.isfinite(s)) for s in self.size):
            faults.append(f"size = {list(self.size)}; each must be positive and finite")
        if self.order not in (1, 2):
            faults.append(f"order = {self.order}; 1 (CIC) or 2 (TSC) is allowed")
        if faults:
            raise ValueError("; ".join(faults))

    @property
    def d(self) -> int:
        """Number of active dimensions."""
        return len(self.cells)

    @cached_property
    def spacing(self) -> tuple[float, ...]:
        """Cell widths Δ along each active dimension, in c/ω_pi."""
        return tuple(s / n for s, n in zip(self.size, self.cells, strict=True))

    @cached_property
    def volume(self) -> float:
        """Cell volume V = ΠΔ over the active dimensions."""
        return math.prod(self.spacing)

    @cached_property
    def n_nodes(self) -> int:
        """Number of distinct nodes (equal to the number of cells: the box is periodic)."""
        return math.prod(self.cells)


@dataclass(frozen=True)
class Block:
    """The cells ``origin … origin + cells − 1`` of a grid that one rank owns, with its ghost layers.

    Node ``i`` and centre ``i`` (local numbering) are stored at index ``i + ghosts`` of a padded array of
    shape ``(..., *padded)``. The number of ghost layers equals the order of the shape: what a particle of an
    owned support cell reaches, and what the stencil of the mass matrix couples to.
    """

    grid: Grid
    origin: tuple[int, ...] = field(default=())
    cells: tuple[int, ...] = field(default=())

    def __post_init__(self) -> None:
        if not self.cells:
            object.__setattr__(self, "cells", self.grid.cells)
        if not self.origin:
            object.__setattr__(self, "origin", (0,) * self.grid.d)

    @property
    def d(self) -> int:
        """Number of active dimensions."""
        return self.grid.d

    @property
    def order(self) -> int:
        """Order of the particle shape (1 CIC, 2 TSC)."""
        return self.grid.order

    @property
    def ghosts(self) -> int:
        """Width of the ghost layers on every side."""
        return self.grid.order

    @property
    def spacing(self) -> tuple[float, ...]:
        """Cell widths Δ along each active dimension."""
        return self.grid.spacing

    @property
    def volume(self) -> float:
        """Cell volume V."""
        return self.grid.volume

    @cached_property
    def padded(self) -> tuple[int, ...]:
        """Shape of an array with ghost layers."""
        return tuple(n + 2 * self.ghosts for n in self.cells)

    @cached_property
    def n_cells(self) -> int:
        """Number of owned cells (and of owned nodes)."""
        return math.prod(self.cells)

    @cached_property
    def interior(self) -> tuple:
        """Index that selects the owned part of a padded array, whatever leading axes it has."""
        g = self.ghosts
        return (..., *(slice(g, g + n) for n in self.cells))


class Part(NamedTuple):
    """Some of the owned nodes of a block: those with low ≤ index < high or, with ``outside``, all the others."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    outside: bool = False

    def boxes(self, cells: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The same nodes of a block of ``cells`` as boxes (low, high) without common nodes; none of them is empty."""
        if not self.outside:
            found = [(self.low, self.high)]
        else:
            found = []
            for k, n in enumerate(cells):
                for begin, end in ((0, self.low[k]), (self.high[k], n)):
                    found.append(((*self.low[:k], begin, *(0 for _ in cells[k + 1:])),
                                  (*self.high[:k], end, *cells[k + 1:])))
        return [box for box in found if all(a < b for a, b in zip(*box, strict=True))]


@cache
def pair_offsets(d: int, order: int) -> tuple[tuple[int, ...], ...]:
    """Offsets of the node pairs that share a particle, 0 … ``order`` along each dimension, in C order.

    Two nodes are meant by the lowest corner of the box that they span, and by its extents: W_a W_b is the same for all
    opposite corners of a box.
    """
    return tuple(product(range(order + 1), repeat=d))


def roomy(n: int) -> int:
    """The next number from n on with four leading bits: an array whose length varies a little keeps its size.

    A memory pool can then give it the memory that it had before.
    """
    step = 1 << max(0, n.bit_length() - 4)
    return -(-n // step) * step
