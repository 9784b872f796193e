"""The CPU backend: Numba kernels on threads. The twin of ecsim.backend.cuda."""

from __future__ import annotations

import platform

import numba
import numpy as np

from ecsim.backend.cpu import matvec
from ecsim.backend.cpu.compilation import compiling_first_time, on_compile
from ecsim.backend.cpu.krylov import Krylov
from ecsim.backend.cpu.lattice import lattice, tables
from ecsim.backend.cpu.mass_columns import columns_direct, columns_pair
from ecsim.backend.cpu.mass_direct import assemble_direct
from ecsim.backend.cpu.mass_pair import assemble_pair
from ecsim.backend.cpu.store import NO_VISIT, ParticleStore, Scratch
from ecsim.backend.cpu.threads import Threads, cut
from ecsim.timing import Timer

__all__ = ["CpuBackend", "ParticleStore", "compiling_first_time", "on_compile"]

LARGE = 1 << 22  # bytes of an array that several threads are faster with
METHODS = {"pair": assemble_pair, "direct": assemble_direct, "auto": assemble_pair}
COLUMN_METHODS = {"pair": columns_pair, "direct": columns_direct, "auto": columns_pair}


def _to_zero(a) -> None:
    a[...] = 0.0


def _choose(methods: dict, method: str):
    """The method of this name. Raises ValueError if there is none."""
    if method not in methods:
        raise ValueError(f"method = {method!r}; {' or '.join(methods)} is allowed on the CPU")
    return methods[method]


class CpuBackend:
    """Particle kernels and the stencil product on CPU threads; arrays are numpy's.

    threads : how many, None for as many as this process may use.
    """

    name = "cpu"
    xp = np
    periodic_ghosts = faces = None    # the halo's own slices are as good as kernels here
    part_of_rows = False              # are not quickly worked on: every line of the cache would be read again

    def __init__(self, threads: int | None = None) -> None:
        self.threads = Threads(threads)
        self.scratch = Scratch()
        self.krylov = Krylov(self.threads)
        self.timer = Timer()
        self.reason = ""

    def describe(self) -> str:
        """The device in one line, and why it was taken where that was left open."""
        threads = f"{self.threads.count} thread{'s' * (self.threads.count > 1)}"
        line = f"CPU, {threads}, {platform.machine()}, Numba {numba.__version__}"
        return f"{line} ({self.reason})" if self.reason else line

    def new_store(self, block, *, position_dtype: str = "float64", velocity_dtype: str = "float64",
                  weight: float | None = None, ids: bool = False, capacity: int = 0, sort_every: int = 1,
                  migration=None) -> ParticleStore:
        """An empty ParticleStore; capacity : particles that will be loaded, if known.

        migration : takes particles to other blocks, needed where the block does not span the box.
        """
        return ParticleStore(block, self.threads, self.scratch, self.timer, position_dtype=position_dtype,
                             velocity_dtype=velocity_dtype, weight=weight, ids=ids, sort_every=sort_every,
                             migration=migration, capacity=capacity)

    def assemble(self, stores: list[ParticleStore], betas: list[float], *, method: str = "pair",
                 precision: str = "fp64", B_nodes, stencil, moments) -> None:
        """Set padded arrays, ghosts included, to M, ρ and Ĵ (each / V) of all stores.

        betas : q Δt / 2m of each store.  B_nodes : (3, *padded), valid ghosts.  stencil : (n_offsets, 9, *padded).
        moments : (4, *padded), ρ then Ĵ.  Raises ValueError for a method or precision there is not.
        """
        if precision != "fp64":
            raise ValueError(f"precision = {precision!r}; fp64 is allowed on the CPU")
        make = _choose(METHODS, method)
        for a in (stencil, moments):
            self.in_parts(_to_zero, a.reshape(-1, *B_nodes.shape[1:]))
        for store, beta in zip(stores, betas, strict=True):
            kernel = make(store.block.d, store.block.order)
            self.threads.run_scattering(kernel, [
                (a, b, store.lattice, store.tables, store.start, store.s, store.v, *store.charges, store.visit,
                 float(beta), 1.0 / store.block.volume, B_nodes.reshape(-1), stencil.reshape(-1), moments.reshape(-1))
                for a, b in store.slabs])

    def move(self, stores: list[ParticleStore], betas: list[float], dt: float, E_nodes, B_nodes) -> list:
        """Kick and push the particles of all stores, see ParticleStore.move; returns the sums of each."""
        return [store.move(beta, dt, E_nodes, B_nodes) for store, beta in zip(stores, betas, strict=True)]

    def assemble_columns(self, block, cell, s, columns, stencil, method: str = "pair") -> None:
        """stencil[o, c, node] += Σ_p columns[c, p] W_a W_b / V for particles in any order.

        cell : (P,) support cells.  s : (d, P) in [−½, ½).  columns : (1 or 9, P).
        stencil : (n_offsets, 1 or 9, *padded).  Raises ValueError for a method or a number of columns there is not.
        """
        components = len(columns)
        if components not in (1, 9) or stencil.shape[1] != components:
            raise ValueError(f"{components} columns for {stencil.shape[1]} components; 1 or 9 of both are allowed")
        kernel = _choose(COLUMN_METHODS, method)(block.d, block.order, components)
        grid, table = lattice(block.cells, block.padded), tables(block.d, block.order, block.padded)
        start = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=block.n_cells))])
        if len(start) != block.n_cells + 1:
            raise ValueError(f"cell reaches {len(start) - 2}; up to {block.n_cells - 1} is allowed")
        order = np.argsort(cell, kind="stable")
        three = tuple(np.asarray(s[min(k, block.d - 1)], dtype=np.float64)[order] for k in range(3))
        given = np.concatenate([np.asarray(column, dtype=np.float64)[order] for column in columns])
        self.threads.run_scattering(kernel, [
            (a, b, grid, table, start, three, given, NO_VISIT, 1.0 / block.volume, stencil.reshape(-1))
            for a, b in cut(grid.planes, grid.rows * grid.length, block.order)])

    def matvec(self, stencil, x, out) -> None:
        """out = M x: stencil (n_offsets, 9 or 1, *padded) and x padded, both with valid ghosts; out owned.

        x : (3, *padded) for 9 components, (k, *padded) for a scalar stencil; out likewise with *cells.
        """
        if stencil.shape[1] == 1:
            self._multiply(matvec.multiply_scalar, stencil, (), x, out)
        else:
            order = (x.shape[1] - out.shape[1]) // 2
            self._multiply(matvec.multiply_tensor, stencil, (1.0, matvec.no_constant(x.ndim - 1, order)), x, out)

    def field_operator(self, stencil, x, out, spacing, theta_dt: float, part=None) -> None:
        """out = x + (θΔt)² ∇×∇×x + θΔt M x; x (3, *padded) with valid ghosts, out owned (3, *cells), C-ordered.

        part : a `Part` of the owned nodes, whose values alone are set and whose neighbours alone must be valid.
        """
        order = (x.shape[1] - out.shape[1]) // 2
        constant = matvec.operator_constant(x.ndim - 1, order, tuple(spacing), theta_dt)
        self._multiply(matvec.multiply_tensor, stencil, (float(theta_dt), constant), x, out, part)

    def _multiply(self, kernel, stencil, coefficients: tuple, x, out, part=None) -> None:
        """Run a kernel of `matvec` over slabs of planes of each box of ``part``."""
        result = out if out.flags.c_contiguous else np.empty(out.shape)
        arrays = (stencil.reshape(-1), *coefficients, x.reshape(-1), result.reshape(-1))
        calls = []
        for grid, *places in matvec.boxes(out.shape[1:], x.shape[1:], part):
            thickness = max(matvec.PLANES, matvec.FEWEST_NODES // (grid.rows * grid.length))
            thickness = max(1, min(thickness, -(-grid.planes // self.threads.count)))
            calls += [(a, min(a + thickness, grid.planes), grid, *places, *arrays)
                      for a in range(0, grid.planes, thickness)]
        self.threads.run(kernel, calls)
        if result is not out:
            out[...] = result

    def in_parts(self, function, a) -> None:
        """``function(part)`` for parts of ``a`` along its first axis, on all threads where ``a`` is large enough."""
        if a.nbytes > LARGE and self.threads.count > 1:
            self.threads.run(function, [(part,) for part in np.array_split(a, min(self.threads.count, len(a)))])
        else:
            function(a)

    def to_host(self, a) -> np.ndarray:
        """``a`` as a numpy array (no copy)."""
        return np.asarray(a)

    def from_host(self, a) -> np.ndarray:
        """A numpy array as one of this backend (no copy)."""
        return np.asarray(a)

    def synchronize(self) -> None:
        """Nothing is left running when a verb returns."""
