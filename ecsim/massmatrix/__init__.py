"""Mass matrices of particles on a grid, also for other methods than ECSIM (material point, FEM-PIC).

    >>> from ecsim.massmatrix import assemble
    >>> M = assemble(x, m, cells=(32, 32), size=(1.0, 1.0), shape="tsc")     # scalar: one coefficient a particle
    >>> M.matvec(u), M.to_scipy(), M.diagonal()
"""

from __future__ import annotations

import numpy as np

from ecsim.grid import SHAPE_ORDERS, Block, Grid, pair_offsets
from ecsim.massmatrix.stencil import MassMatrix

__all__ = ["MassMatrix", "assemble", "pair_offsets"]


def assemble(positions, coefficients, *, cells, size, shape: str = "cic", method: str = "pair",
             device: str = "cpu", threads: int = 0) -> MassMatrix:
    """The mass matrix ``M_gg' = Σ_p c_p W_pg W_pg'`` of particles on a periodic grid.

    Parameters
    ----------
    positions : (P, d) in the units of ``size``; wrapped into the box.
    coefficients : (P,) for the scalar matrix, (P, 3, 3) for the tensorial one; any numbers (a mass, β q α/V …).
    cells, size : cells and length along each of the d = 1 … 3 dimensions.
    shape : "cic" or "tsc".  method : "pair" or "direct".  device : "cpu", "cuda" or "auto".

    Raises ValueError listing every fault of the arguments.  Source: Pennati & Markidis 2026, arXiv 2604.19286.
    """
    from ecsim.backend import select
    from ecsim.parallel.halo import Halo
    from ecsim.particles.species import locate

    faults = [] if shape in SHAPE_ORDERS else [f"shape = {shape!r}; {' or '.join(SHAPE_ORDERS)} is allowed"]
    grid = Grid(tuple(np.atleast_1d(cells)), tuple(np.atleast_1d(size)), SHAPE_ORDERS.get(shape, 1))
    try:
        x, c = np.asarray(positions, dtype=np.float64), np.asarray(coefficients, dtype=np.float64)
    except TypeError as error:
        raise ValueError("; ".join([*faults, f"positions and coefficients must be numbers ({error})"])) from None
    if x.ndim != 2 or x.shape[1] != grid.d:
        faults.append(f"positions has shape {x.shape}; (P, {grid.d}) is allowed")
    elif c.shape not in ((len(x),), (len(x), 3, 3)):
        faults.append(f"coefficients has shape {c.shape}; ({len(x)},) or ({len(x)}, 3, 3) is allowed")
    faults += [f"{name} holds values that are not finite" for name, a in (("positions", x), ("coefficients", c))
               if not np.isfinite(a).all()]
    if faults:
        raise ValueError("; ".join(faults))
    backend, block = select(device, threads=threads), Block(grid)
    components = 1 if c.ndim == 1 else 9
    matrix = MassMatrix(block, Halo(block), backend, components=components)
    cell, s = locate(block, x)
    columns = np.ascontiguousarray(c.reshape(len(x), components).T) * block.volume  # the backend divides by V
    backend.assemble_columns(block, cell, s, columns, matrix.values, method)
    matrix.complete()
    return matrix
