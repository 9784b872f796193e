"""Ghost layers: two verbs, ``fill`` (owner → ghost) and ``add`` (ghost → owner).

Dimension by dimension, so that edges and corners come out right, and in a fixed order, so that sums are
deterministic. A dimension that one rank owns whole is its own neighbour on both sides; blocks thinner than the
ghost layers (a dimension of one cell) work because ghost indices are taken modulo the number of cells.
"""

from __future__ import annotations

from ecsim.grid import Block


def _along(axis_from_end: int, index) -> tuple:
    """Index that selects ``index`` along the axis counted from the end (1 = last)."""
    return (..., index, *(slice(None),) * (axis_from_end - 1))


class PeriodicHalo:
    """Ghost exchange of a block that owns the whole periodic box."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._layers = []
        g = block.ghosts
        for k, n in enumerate(block.cells):
            axis = block.d - k
            if n >= g:
                pairs = [(slice(0, g), slice(n, n + g)), (slice(n + g, n + 2 * g), slice(g, 2 * g))]
            else:
                ghosts = [*range(g), *range(n + g, n + 2 * g)]
                pairs = [(slice(j, j + 1), slice(g + (j - g) % n, g + (j - g) % n + 1)) for j in ghosts]
            self._layers.append([(_along(axis, ghost), _along(axis, owner)) for ghost, owner in pairs])

    def fill(self, a) -> None:
        """Copy owned values into the ghosts of ``a``, shape (..., *padded), in place."""
        for layers in self._layers:
            for ghost, owner in layers:
                a[ghost] = a[owner]

    def add(self, a) -> None:
        """Add what was deposited on ghosts of ``a`` to its owners, in place; the ghosts are left as they were."""
        for layers in reversed(self._layers):
            for ghost, owner in layers:
                a[owner] += a[ghost]

    def sum(self, a):
        """Sum of ``a`` (a scalar or a small array) over all ranks."""
        return a
