"""Initial particles: who they are, where they sit and how fast they move, on any number of ranks the same.

A `Recipe` says what a species consists of. Every geometric cell ``floor(x/Δ)`` gets the same number of
macro-particles; their weights follow the local density, and each belongs to one population with the
probability of that population at its place. All draws come from the counter-based generator, keyed by
(seed, species, global cell, index in cell), so a rank makes exactly the particles of its own support cells
and every particle exists once.

Two starts:

``random``  positions uniform in the cell, velocities independent normal draws.
``quiet``   the same lattice of positions and the same velocities in every cell (see `quiet`): no noise at all in
            charge and current, until the beams of equal velocities recur after 2π/(k δv).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ecsim.grid import Block, Grid
from ecsim.particles import draws, quiet
from ecsim.particles.recipe import Population, Recipe, count_per_cell, lattice

__all__ = ["Chunk", "Population", "Recipe", "load"]

STARTS = ("random", "quiet")


@dataclass(frozen=True)
class Chunk:
    """Some particles of one block, as `ParticleStore.append` takes them (host arrays).

    ``cell`` (P,) int32 local flat support cell, ``s`` (d, P) coordinate in [−½, ½) from the support cell's
    centre in cell widths, ``v`` (3, P) in c, ``weight`` (P,) macro-charge or None if uniform, ``id`` (P,)
    uint64 or None.
    """

    cell: np.ndarray
    s: np.ndarray
    v: np.ndarray
    weight: np.ndarray | None
    id: np.ndarray | None


def load(
    recipe: Recipe,
    block: Block,
    *,
    species: int,
    particles_per_cell: int | Sequence[int],
    start: str = "random",
    seed: int = 0,
    ids: bool = False,
    threads: int = 1,
    chunk_particles: int = 1 << 17,
) -> Iterator[Chunk]:
    """The particles of species number ``species`` whose support cells ``block`` owns, chunk by chunk.

    The order is that of the geometric cells (C order), whatever ``threads``. An id is the global geometric
    cell times the particles per cell plus the index in the cell.

    Raises
    ------
    ValueError : if ``start`` is unknown, or a quiet start has no lattice or too few particles to be warm.
    """
    if start not in STARTS:
        raise ValueError(f"start = {start!r}; one of {', '.join(STARTS)} is allowed")
    make = _Loader(recipe, block, species, particles_per_cell, start, seed, ids)
    step = max(1, chunk_particles // make.per_cell)
    ranges = ((first, min(first + step, make.n_cells)) for first in range(0, make.n_cells, step))
    if threads == 1:
        yield from (make(*r) for r in ranges)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting = deque(pool.submit(make, *r) for r in islice(ranges, 2 * threads))
        while waiting:
            chunk = waiting.popleft().result()
            waiting.extend(pool.submit(make, *r) for r in islice(ranges, 1))
            yield chunk


class _Loader:
    """Makes the particles of a range of the geometric cells that reach into a block."""

    def __init__(self, recipe, block, species, particles_per_cell, start, seed, ids):
        self.recipe, self.block, self.species, self.ids = recipe, block, species, ids
        self.seed = np.uint64(seed)
        self.per_cell = count_per_cell(particles_per_cell)
        self.sites = np.zeros((block.d, 0))
        if start == "quiet":
            self.sites = quiet.positions(lattice(particles_per_cell, block.d))
            self.deviates = quiet.deviates(draws.shift_of(self.seed, species), self.per_cell, recipe.is_warm)
            self.points = quiet.choices(self.per_cell)
        self.first, self.extent = _geometric_cells(block)
        self.n_cells = math.prod(self.extent)
        self.weight_scale = recipe.charge * block.volume / self.per_cell
        self.uniform = recipe.uniform_weight(block.volume, self.per_cell) is not None

    def __call__(self, begin: int, end: int) -> Chunk:
        block, grid = self.block, self.block.grid
        where, flat = self._cells(grid, begin, end)
        fraction, choice, z = self._draws(flat)
        x = self._positions(where, fraction) if self._needs_positions() else None
        v, density = _velocities(self.recipe.populations, x, choice, z)
        origin, cells, full = (np.array(a) for a in (block.origin, block.cells, grid.cells))
        cell, s = draws.support(block.order, where, fraction, origin, cells, full)
        weight = None if self.uniform else self.weight_scale * density
        return _owned(Chunk(cell, s, v, weight, self._id(flat) if self.ids else None))

    def _cells(self, grid: Grid, begin: int, end: int):
        """Global coordinates (d, n) and global flat numbers (n,) of the geometric cells of a range."""
        local = np.unravel_index(np.arange(begin, end), self.extent)
        where = np.stack([(i + o) % n for i, o, n in zip(local, self.first, grid.cells, strict=True)])
        return where, np.ravel_multi_index(tuple(where), grid.cells)

    def _draws(self, flat):
        """In-cell fractions (d, P), population choices (P,) and normal deviates (3, P)."""
        n = flat.size * self.per_cell
        fraction, choice, z = np.empty((self.block.d, n)), np.empty(n), np.empty((3, n))
        if self.sites.size:
            fraction[:], z[:] = np.tile(self.sites, flat.size), np.tile(self.deviates, flat.size)
            draws.quiet_choices(self.seed, self.species, flat, self.points, choice)
        else:
            like = self.species if self.recipe.positions_of is None else self.recipe.positions_of
            draws.uniform_positions(self.seed, like, flat, self.per_cell, fraction)
            draws.random(self.seed, self.species, flat, self.per_cell, choice, z)
        return fraction, choice, z

    def _needs_positions(self) -> bool:
        return any(callable(p.density) or callable(p.drift) for p in self.recipe.populations)

    def _positions(self, where, fraction):
        spacing = np.array(self.block.spacing)[:, None]
        return (np.repeat(where, self.per_cell, axis=1) + fraction) * spacing

    def _id(self, flat):
        index = np.arange(self.per_cell, dtype=np.uint64)
        return (flat.astype(np.uint64)[:, None] * np.uint64(self.per_cell) + index).ravel()


def _geometric_cells(block: Block):
    """First cell and extent per dimension of the geometric cells whose particles may belong to the block.

    A CIC block needs its own cells. A TSC block owns nodes, so half a cell more on its low side, and only
    half of the last cell; where it spans the whole periodic dimension the two halves are one cell.
    """
    if block.order == 1:
        return block.origin, block.cells
    split = [n < full for n, full in zip(block.cells, block.grid.cells, strict=True)]
    return (
        tuple(o - cut for o, cut in zip(block.origin, split, strict=True)),
        tuple(n + cut for n, cut in zip(block.cells, split, strict=True)),
    )


def _velocities(populations, x, choice, z):
    """Velocities (3, P), made of the deviates ``z`` in place, and total density (number or (P,))."""
    drifts = [p.drift for p in populations]
    spreads = np.array([p.thermal_velocity for p in populations], dtype=float)
    if len(populations) == 1:
        (drift,), density = drifts, populations[0].density
        z *= spreads.T
        for component, u in zip(z, drift(x) if callable(drift) else drift, strict=True):
            component += u
        return z, density(x) if callable(density) else density
    densities = np.empty((len(populations), choice.size))
    for row, population in zip(densities, populations, strict=True):
        row[:] = population.density(x) if callable(population.density) else population.density
    total = draws.mix(densities, choice, np.array(drifts, dtype=float), spreads, z)
    return z, total


def _owned(chunk: Chunk) -> Chunk:
    """The particles whose support cell the block owns (`draws.support` marks the others by −1)."""
    keep = chunk.cell >= 0
    if keep.all():
        return chunk
    return Chunk(
        chunk.cell[keep],
        np.ascontiguousarray(chunk.s[:, keep]),
        np.ascontiguousarray(chunk.v[:, keep]),
        None if chunk.weight is None else chunk.weight[keep],
        None if chunk.id is None else chunk.id[keep],
    )
