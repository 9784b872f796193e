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
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle

import numpy as np

from ecsim.grid import Block
from ecsim.particles import draws, quiet
from ecsim.particles.recipe import Population, Recipe, Sheet, count_per_cell, lattice

__all__ = ["Population", "Recipe", "load"]

STARTS = ("random", "quiet")
PIECE = 1 << 16
"""Particles that a thread makes at a time, about, in a millisecond. A batch is one piece, or two for each of several
threads, which make the next one while a batch is handed over."""


def load(
    append: Callable,
    recipe: Recipe,
    block: Block,
    *,
    species: int,
    particles_per_cell: int | Sequence[int],
    start: str = "random",
    seed: int = 0,
    ids: bool = False,
    position_dtype="float64",
    velocity_dtype="float64",
    threads: int = 1,
    piece: int = PIECE,
) -> None:
    """Hand the particles of species number ``species`` whose support cells ``block`` owns to ``append``, in batches.

    append : called with (cell, s, v, weight, id) as a store's is, whose arrays are written again after it has returned:
    ``cell`` (P,) int32 local flat support cell, ``s`` (d, P) coordinate in [−½, ½) from the support cell's centre in
    cell widths, ``v`` (3, P) in c, ``weight`` (P,) macro-charge or None if uniform, ``id`` (P,) uint64 or None. The
    order is that of the geometric cells (C order), whatever ``threads``. An id is the global geometric cell times the
    particles per cell plus the index in the cell.

    Raises
    ------
    ValueError : if ``start`` is unknown, or a quiet start has no lattice or too few particles to be warm.
    """
    if start not in STARTS:
        raise ValueError(f"start = {start!r}; one of {', '.join(STARTS)} is allowed")
    make = _Maker(recipe, block, species, particles_per_cell, start, seed)
    step = max(1, piece // make.per_cell)
    batch = min(make.n_cells, step * (2 * threads if threads > 1 else 1))
    kept = dict(weight=make.weighted, id=ids)
    buffers = cycle([_buffer(block.d, batch * make.per_cell, position_dtype, velocity_dtype, **kept)
                     for _ in range(min(threads, 2))])
    with ThreadPoolExecutor(threads) as pool:

        def begin(first: int) -> tuple:
            """Start to make a batch: its arrays, and what waits for its pieces."""
            last, buffer = min(first + batch, make.n_cells), next(buffers)
            calls = [partial(make, k, min(k + step, last), buffer, (k - first) * make.per_cell)
                     for k in range(first, last, step)]
            waits = [pool.submit(call).result for call in calls] if threads > 1 else calls
            return buffer, (last - first) * make.per_cell, waits

        ahead = begin(0)
        for first in range(batch, make.n_cells, batch):
            ready, ahead = ahead, begin(first)
            append(*_finished(*ready))
        append(*_finished(*ahead))


def _buffer(d: int, n: int, position_dtype, velocity_dtype, weight: bool, id: bool) -> draws.Batch:
    """Arrays for n particles."""
    return draws.Batch(np.empty(n, np.int32), np.empty((d, n), position_dtype), np.empty((3, n), velocity_dtype),
                       *(np.empty(n, dtype) if kept else np.empty(0, dtype)
                         for kept, dtype in ((weight, np.float64), (id, np.uint64))))


def _finished(buffer: draws.Batch, n: int, waits) -> tuple:
    """The first n particles of a batch when they are made, without those that another block owns."""
    lost = sum(wait() for wait in waits)
    arrays = [array[..., :n] for array in buffer]
    if lost:
        keep = arrays[0] >= 0
        arrays = [array if array.size == 0 else array[..., keep] for array in arrays]
    *always, weight, id = arrays
    return *always, weight if buffer.weight.size else None, id if buffer.id.size else None


class _Maker:
    """Makes the particles of a range of the geometric cells that reach into a block."""

    def __init__(self, recipe, block, species, particles_per_cell, start, seed):
        self.per_cell = count_per_cell(particles_per_cell)
        self.weighted = recipe.uniform_weight(block.volume, self.per_cell) is None
        first, extent = _geometric_cells(block)
        self.n_cells = math.prod(extent)
        vectors = (np.array(a, dtype=np.int64) for a in (first, extent, block.origin, block.cells, block.grid.cells))
        self.cells = draws.Cells(block.order, self.per_cell, *vectors, np.array(block.spacing))
        sites, deviates, points = np.empty((block.d, 0)), np.empty((3, 0)), np.empty(0)
        if start == "quiet":
            sites = quiet.positions(lattice(particles_per_cell, block.d))
            deviates = quiet.deviates(draws.shift_of(np.uint64(seed), species), self.per_cell, recipe.is_warm)
            points = quiet.choices(self.per_cell)
        like = species if recipe.positions_of is None else recipe.positions_of
        self.draws = draws.Draws(np.uint64(seed), species, like, sites, deviates, points)
        self.populations = recipe.populations
        self.mixture = _mixture(recipe.populations, recipe.charge * block.volume / self.per_cell)
        self.nothing = np.empty((len(recipe.populations), 0)), np.empty((3, 0))
        self.sampled = draws.GIVEN in self.mixture.kinds or callable(recipe.populations[0].drift)

    def __call__(self, begin: int, end: int, buffer: draws.Batch, at: int) -> int:
        """Write the particles of cells [begin, end) from place ``at`` on; returns how many the block does not own."""
        given, flow = self._profiles(begin, end)
        return draws.particles(self.cells, self.draws, self.mixture, given, flow, begin, end, buffer, at)

    def _profiles(self, begin: int, end: int):
        """Densities (n, P) and drift (3, P) of those populations that give them as functions, else without columns."""
        given, flow = self.nothing
        if self.sampled:
            x = np.empty((self.cells.first.size, (end - begin) * self.per_cell))
            draws.positions(self.cells, self.draws, begin, end, x)
            for k, population in enumerate(self.populations):
                if self.mixture.kinds[k] == draws.GIVEN:
                    given = given if given.size else np.empty((len(self.populations), x.shape[1]))
                    given[k] = population.density(x)
            if callable(self.populations[0].drift):
                flow = np.ascontiguousarray(self.populations[0].drift(x), dtype=float)
        return given, flow


def _mixture(populations, scale: float) -> draws.Mixture:
    """The populations as `draws.particles` takes them."""
    kinds, numbers = np.zeros(len(populations), np.int64), np.zeros((len(populations), 3))
    for k, population in enumerate(populations):
        density = population.density
        if isinstance(density, Sheet):
            kinds[k], numbers[k] = draws.SHEET, (density.axis, density.place, density.half_thickness)
        elif callable(density):
            kinds[k] = draws.GIVEN
        else:
            kinds[k], numbers[k, 0] = draws.NUMBER, density
    drifts = [(0.0, 0.0, 0.0) if callable(p.drift) else p.drift for p in populations]
    spreads = [p.thermal_velocity for p in populations]
    return draws.Mixture(kinds, numbers, np.array(drifts, dtype=float), np.array(spreads, dtype=float), scale)


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


