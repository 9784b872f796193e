"""Mass matrix and moments on the GPU: the kernels that a method is made of, and how they are launched.

The methods "pair" and "conventional" first sum D[u, c] of every cell, for one or several species, and then expand it
once to the stored stencil and the moments; "mma" and "flat" add to both with atomics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ecsim.grid import Block

METHODS = ("pair", "mma", "conventional", "flat", "auto")
ATOMIC = ("mma", "flat")  # methods that add to the stencil as they go, in any order; the others expand sums once
PRECISIONS = ("fp64", "tf32")
SMALL_GRID, SMALL_LOAD = 8192, 160  # cells, and particles a cell, up to which "mma" outruns "pair" with CIC
FEW = {1: 96, 2: 48}  # by order of the shape: particles per cell below which a warp takes several cells
NULL = np.uint64(0)
ENOUGH_BLOCKS = 2048  # to keep any GPU busy; more would only repeat work at their borders
C_TYPE = {"float32": "float", "float64": "double"}


@dataclass(frozen=True)
class Particles:
    """What the kernels read: particles in cell order, cell c in slots ``first[c] … first[c] + count[c] − 1``.

    ``s`` (d, slots) float32 or float64; ``values`` (3, slots) velocities, or (9 or 1, slots) given coefficients,
    float64; ``w`` (slots,) charges or None where all have ``weight``; ``columns`` 0 for velocities, 9 or 1 for
    coefficients; ``gather`` the precision in which B is evaluated at a particle; ``number`` of particles. Arrays of the
    device.
    """

    block: Block
    s: Any
    values: Any
    w: Any
    weight: float
    first: Any
    count: Any
    number: int
    columns: int = 0
    gather: str = "float64"

    @classmethod
    def of_store(cls, store) -> Particles:
        """The view of a particle store."""
        return cls(store.block, store.s, store.v, store.w, 1.0 if store.weight is None else store.weight, store.first,
                   store.count, store.n, gather=store.gather_dtype)

    @classmethod
    def of_columns(cls, backend, block: Block, cell, s, columns) -> Particles:
        """Particles in any order with coefficients (1 or 9, P), sorted by cell here; stably: sums are reproducible."""
        xp = backend.xp
        cell = xp.asarray(cell, dtype=xp.int32)
        order = xp.argsort(cell, kind="stable")
        count = xp.bincount(cell, minlength=block.n_cells).astype(xp.int32)
        first = xp.zeros(block.n_cells + 1, dtype=xp.int64)
        xp.cumsum(count, out=first[1:])
        s = xp.ascontiguousarray(xp.asarray(s, dtype=xp.float64)[:, order])
        columns = xp.ascontiguousarray(xp.asarray(columns, dtype=xp.float64)[:, order])
        return cls(block, s, columns, None, 1.0, first, count, cell.size, columns=columns.shape[0])

    @property
    def macros(self) -> dict:
        """Compile-time parameters of the kernels that read particles."""
        return {"DIM": self.block.d, "ORDER": self.block.order, "POS": C_TYPE[self.s.dtype.name],
                "GATHER": C_TYPE[self.gather], "COLUMNS": self.columns}

    def arguments(self) -> tuple:
        """First arguments of those kernels."""
        return self.s, self.values, self.w, np.int64(self.s.shape[1])

    def cell_of_slot(self, xp):
        """Support cell of every slot, −1 where it is empty, int32."""
        slot = xp.arange(self.s.shape[1])
        cell = xp.minimum(xp.searchsorted(self.first, slot, side="right") - 1, self.block.n_cells - 1)
        return xp.where(slot < self.first[cell] + self.count[cell], cell, -1).astype(xp.int32)


def extents(block: Block) -> tuple[int, int, int]:
    """Cells along x, y, z, the active dimensions last and the missing ones 1."""
    return (1,) * (3 - block.d) + tuple(block.cells)


def _grid_arguments(block: Block) -> tuple:
    return tuple(np.int32(n) for n in extents(block))


def precisions(block: Block, method: str) -> tuple[str, ...]:
    """The precisions that ``method`` has, the usual one first. Raises ValueError if there is no such method."""
    if method not in METHODS:
        raise ValueError(f"method = {method!r}; on CUDA {', '.join(METHODS)} are allowed")
    if method in ("pair", "auto"):
        return PRECISIONS
    return ("tf32",) if method == "mma" and block.order == 2 else ("fp64",)


def check(block: Block, method: str, precision: str) -> None:
    """Raise ValueError, naming what is allowed, if there is no such way to assemble."""
    allowed = precisions(block, method)
    if precision not in allowed:
        shape = "CIC" if block.order == 1 else "TSC"
        raise ValueError(
            f"precision = {precision!r} of method {method!r} with {shape}; {' or '.join(allowed)} is allowed")


def choose(several: list[Particles], precision: str) -> str:
    """The method that "auto" stands for, by what was measured on one NVIDIA H200, expansion included.

    "mma" has no expansion, which pays where that is most of the work: scalar matrices, few cells with few particles.
    """
    block, number = several[0].block, sum(particles.number for particles in several)
    small = block.n_cells <= SMALL_GRID and number <= SMALL_LOAD * block.n_cells
    fits = block.order == 1 and precision == "fp64"
    return "mma" if fits and (small or several[0].columns == 1) else "pair"


def cell_size(backend, block: Block, columns: int = 0) -> int:
    """Numbers of D a cell, for memory plans: D takes 8 · cell_size · cells bytes while assembling."""
    return backend.launch_sizes("mass_expand.cu", **_expansion(block, columns, columns == 0))[5]


def _expansion(block: Block, columns: int, fresh: bool) -> dict:
    """Macros of kernels/mass_expand.cu."""
    return {"DIM": block.d, "ORDER": block.order, "COLUMNS": columns, "FRESH": int(fresh)}


def sum_cells(backend, particles: Particles, D, *, method: str = "pair", precision: str = "fp64", beta: float,
              B_nodes=None, mass: float, moment: float, add: bool = False, few: bool | None = None) -> None:
    """D (n_cells, cell_size) of the cells' particles, written or, with ``add``, added to.

    ``method`` "pair" or "conventional"; ``mass`` and ``moment`` scale the columns; ``few``: several cells a warp, by
    default where it is faster.
    """
    n, macros = particles.block.n_cells, particles.macros
    file, name, sizes = "mass_conventional.cu", "mass_conventional", slice(3)
    if method == "pair":
        macros["REAL"] = "double" if precision == "fp64" else "float"
        few = particles.number < FEW[particles.block.order] * n if few is None else few
        file, name, sizes = "mass_pair.cu", "mass_pair_few" if few else "mass_pair", slice(3, 6) if few else slice(3)
    threads, cells, shared = backend.launch_sizes(file, **macros)[sizes]
    arguments = (*particles.arguments(), particles.first, particles.count, *_grid_arguments(particles.block), B_nodes,
                 np.float64(beta), np.float64(mass), np.float64(moment), D, np.int32(add))
    backend.launch(file, name, (-(-n // cells), 1), threads, arguments, shared=shared, **macros)


def expand(backend, block: Block, D, stencil, moments=None, fresh: bool = False) -> None:
    """Add D to the padded stencil, and to the padded moments unless there are none; deterministic.

    ``fresh``: nodes that particles reach hold nothing of value in the stencil of a plasma, and are set.
    """
    macros = _expansion(block, 0 if moments is not None else stencil.shape[1], fresh)
    threads, shared, tile_y, tile_z, chunk = backend.launch_sizes("mass_expand.cu", **macros)[:5]
    nodes = [n + (block.order if k >= 3 - block.d else 0) for k, n in enumerate(extents(block))]
    tiles, chunks = -(-nodes[1] // tile_y) * -(-nodes[2] // tile_z), -(-stencil.shape[1] // chunk)
    slabs = max(min(ENOUGH_BLOCKS // (tiles * chunks), nodes[0] // (2 * block.order)), 1)
    arguments = _grid_arguments(block)
    backend.launch("mass_expand.cu", "expand_stencil", (tiles * chunks, slabs), threads,
                   (D, stencil, *arguments, np.int32(-(-nodes[0] // slabs))), shared=shared, **macros)
    if moments is not None:
        macros = {"DIM": block.d, "ORDER": block.order}
        threads, shared, *tile = backend.launch_sizes("mass_moments.cu", **macros)[:5]
        tiles = math.prod(-(-n // t) for n, t in zip(nodes, tile, strict=True))
        backend.launch("mass_moments.cu", "expand_moments", (4 * tiles, 1), threads, (D, moments, *arguments),
                       shared=shared, **macros)


def add_with_atomics(backend, particles: Particles, *, method: str, beta: float, B_nodes=None, mass: float,
                     moment: float, stencil, moments=None, groups=None, cell=None) -> None:
    """Add mass matrix and moments by method "mma" or "flat".

    ``groups``: (first, count, cell) of the support groups of "mma" with TSC; by default one a support cell.
    ``cell``: support cell of every slot for "flat", −1 where there is no particle; by default from the cell order.
    """
    block, macros = particles.block, particles.macros
    tail = (*_grid_arguments(block), B_nodes, np.float64(beta), np.float64(mass), np.float64(moment), stencil, moments)
    if method == "flat":
        cell = particles.cell_of_slot(backend.xp) if cell is None else cell
        threads = backend.launch_sizes("mass_flat.cu", **macros)[0]
        backend.launch("mass_flat.cu", "mass_flat", (-(-cell.size // threads), 1), threads,
                       (*particles.arguments(), cell, np.int64(cell.size), *tail), **macros)
        return
    name = "mass_mma" if block.order == 1 else "mass_mma_tsc"
    first, count, of = groups or (particles.first, particles.count, None)
    threads, each, shared = backend.launch_sizes(f"{name}.cu", **macros)[:3]
    runs = (first, count) if block.order == 1 else (first, count, of)
    backend.launch(f"{name}.cu", name, (-(-count.size // each), 1), threads, (*particles.arguments(), *runs, *tail),
                   shared=shared, **macros)


def add_particles(backend, several: list[Particles], betas: list[float], *, method: str, precision: str, B_nodes=None,
                  scale: float, stencil, moments=None, fresh: bool = False) -> None:
    """Add the mass matrices (and moments) of all of ``several``; ``scale`` is 1/V.

    ``fresh``: whatever is in the stencil of a plasma does not count. Raises ValueError if the method or precision does
    not exist.
    """
    block = several[0].block
    check(block, method, precision)
    method = choose(several, precision) if method == "auto" else method
    if fresh and method in ATOMIC:
        stencil[...] = 0.0
    elif fresh:
        _clear_beyond_reach(block, stencil)
    D = None
    for particles, beta in zip(several, betas, strict=True):
        unit = scale * particles.weight
        factors = {"beta": beta, "B_nodes": B_nodes, "mass": unit if particles.columns else unit * beta, "moment": unit}
        if method in ATOMIC:
            add_with_atomics(backend, particles, method=method, stencil=stencil, moments=moments, **factors)
            continue
        add = D is not None
        if not add:
            D = backend.xp.empty((block.n_cells, cell_size(backend, block, particles.columns)))
        sum_cells(backend, particles, D, method=method, precision=precision, add=add, **factors)
    if D is not None:
        expand(backend, block, D, stencil, moments, fresh)


def _clear_beyond_reach(block: Block, stencil) -> None:
    """Zero at the ghosts that no particle of the block reaches: the lowest, with TSC also the highest."""
    for k in range(block.d):
        for end in (0, -1)[: block.order]:
            stencil[(..., end, *(slice(None),) * (block.d - 1 - k))] = 0.0


def assemble(backend, stores: list, betas: list[float], *, method: str, precision: str = "fp64", B_nodes, stencil,
             moments) -> None:
    """Set padded ``moments`` (4, …) and ``stencil`` (offsets, 9, …) to ρ, Ĵ and M of particle stores.

    ``betas`` q Δt/(2m) of each store; ``B_nodes`` (3, …) padded nodal B with valid ghosts. With "pair" the result does
    not depend on timing. Source: Lapenta 2017, eqs. 12 and 30; Pennati & Markidis 2026.
    """
    moments[...] = 0.0
    if not stores:
        stencil[...] = 0.0
        return
    add_particles(backend, [Particles.of_store(s) for s in stores], betas, method=method, precision=precision,
                  B_nodes=B_nodes, scale=1.0 / stores[0].block.volume, stencil=stencil, moments=moments, fresh=True)


def assemble_columns(backend, block: Block, cell, s, columns, stencil, method: str = "pair",
                     precision: str | None = None) -> None:
    """stencil[o, c, node] += Σ_p columns[c, p] W_a W_b / V of any coefficients (1 or 9, P); particles in any order.

    ``cell`` (P,) flat support cells, ``s`` (d, P) in-cell coordinates; host or device arrays. ``precision``: by default
    FP64 where the method has it.
    """
    precision = precision or precisions(block, method)[0]
    add_particles(backend, [Particles.of_columns(backend, block, cell, s, columns)], [0.0], method=method,
                  precision=precision, scale=1.0 / block.volume, stencil=stencil)
