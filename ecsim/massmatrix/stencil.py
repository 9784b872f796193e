"""The mass matrix as a stored stencil: one number for all pairs of nodes that are opposite corners of the same box.

W_a W_b = Π_k φ_{a_k} φ_{b_k} does not change when a_k and b_k change places along one dimension. So
``values[o, c, g]``, with c = 3i + j (or the only component of a scalar matrix) on padded nodes, is M^{ij}_{ab} for any
two nodes a and b of which the lowest corner, min(a_k, b_k) along each dimension, is g and which are o apart.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import scipy.sparse

from ecsim.grid import Block, pair_offsets
from ecsim.parallel.halo import HIGH, LOW


class MassMatrix:
    """A mass matrix on the nodes of one block.

    Attributes
    ----------
    values : (n_offsets, n_components, *padded) array of the backend, n_components 1 (scalar) or 9 (3×3, row major).
    block, halo, backend : where it lives, how ghosts are exchanged, who multiplies.

    Source: Lapenta 2017, J. Comput. Phys. 334, eq. 30.
    """

    def __init__(self, block: Block, halo, backend, components: int = 9) -> None:
        if components not in (1, 9):
            raise ValueError(f"components = {components}; 1 (scalar) or 9 (3×3 tensor) is allowed")
        self.block, self.halo, self.backend = block, halo, backend
        self.offsets = pair_offsets(block.d, block.order)
        self.values = backend.xp.zeros((len(self.offsets), components, *block.padded))

    @property
    def components(self) -> int:
        """1 for the scalar matrix, 9 for the 3×3 tensorial one."""
        return self.values.shape[1]

    def complete(self, *moments) -> None:
        """After an assembly: bring ghost contributions, of ``moments`` too, to their owners; refresh own ghosts.

        What need not travel does not. Particles of owned cells reach low ghosts with TSC only. An entry lies at the
        lowest corner of its nodes, so a product meets only entries on low ghosts. Along the first dimension, an entry
        can lie on a high ghost only where both nodes do, and a product needs only those of which the nodes differ.
        """
        reached: tuple[int, ...] = (LOW, HIGH) if self.block.order > 1 else (HIGH,)
        if not self.halo.cuts(0):
            self.halo.add(self.values, *moments, others=reached)
            self.halo.fill(self.values, others=(LOW,))
            return
        level = sum(offset[0] == 0 for offset in self.offsets)
        along, across = self.values[:level], self.values[level:]
        lowest = tuple(side for side in reached if side == LOW)
        self.halo.add(along, across, *moments, first=[reached, lowest, *(reached for _ in moments)], others=reached)
        self.halo.fill(along, across, first=[(), (LOW,)], others=(LOW,))

    def multiply_padded(self, x, out) -> None:
        """``out = M x``: x padded with valid ghosts, out owned (3, *cells) or, for a scalar matrix, (k, *cells)."""
        self.backend.matvec(self.values, x, out)

    def matvec(self, x):
        """M x of owned nodal values: (3, *cells), or for a scalar matrix (*cells) or (k, *cells).

        Raises ValueError if the shape of ``x`` does not fit.
        """
        xp, cells = self.backend.xp, self.block.cells
        x = xp.asarray(x, dtype=xp.float64)
        single = self.components == 1 and x.shape == cells
        batch = x[None] if single else x
        fits = batch.shape[1:] == cells and (self.components == 1 or batch.shape[0] == 3)
        if not fits:
            wanted = "(3, *cells)" if self.components == 9 else "(*cells) or (k, *cells)"
            raise ValueError(f"x has shape {x.shape}; {wanted} with cells = {cells} is allowed")
        padded = xp.zeros((batch.shape[0], *self.block.padded))
        self.halo.pad(xp.ascontiguousarray(batch), padded)
        out = xp.empty(batch.shape)
        self.multiply_padded(padded, out)
        return out[0] if single else out

    def diagonal(self):
        """The diagonal entries M^{ii}_{gg}, shape (3, *cells), or (*cells) for a scalar matrix.

        Where a dimension is so thin that several offsets lead back to the same node, all of them count.
        """
        cells = self.block.grid.cells
        rows = [0] if self.components == 1 else [0, 4, 8]
        owned = self.values[self.block.interior]
        total = owned[0, rows].copy()
        for o, offset in enumerate(self.offsets[1:], start=1):
            if all(step % n == 0 for step, n in zip(offset, cells, strict=True)):
                total += 2.0 ** sum(step > 0 for step in offset) * owned[o, rows]
        return total[0] if self.components == 1 else total

    def to_scipy(self) -> scipy.sparse.csr_array:
        """The whole matrix as float64 CSR on the host, row = component·N + flat node.

        Raises ValueError on several ranks, each of which has some rows only.
        """
        cells, n = self.block.cells, self.block.n_cells
        if cells != self.block.grid.cells:
            raise ValueError("to_scipy() needs the whole matrix on one rank")
        values = self.backend.to_host(self.values)[self.block.interior].reshape(*self.values.shape[:2], n)
        node = np.arange(n)
        index = np.stack(np.unravel_index(node, cells))
        side = 3 if self.components == 9 else 1
        rows, cols, vals = [], [], []
        for o, offset in enumerate(self.offsets):
            for corner in product(*(sorted({0, step}) for step in offset)):
                row, col = (np.ravel_multi_index(tuple((i + s) % m for i, s, m in zip(index, at, cells, strict=True)),
                                                 cells) for at in (corner, np.subtract(offset, corner)))
                for c in range(self.components):
                    i, j = divmod(c, side)
                    rows.append(i * n + row)
                    cols.append(j * n + col)
                    vals.append(values[o, c])
        size = side * n
        coo = scipy.sparse.coo_array(
            (np.concatenate(vals), (np.concatenate(rows), np.concatenate(cols))), shape=(size, size))
        return coo.tocsr()
