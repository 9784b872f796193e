"""How the grid is cut into blocks, one for each rank: whole numbers only, the same on every rank."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ecsim.grid import Block, Grid


class TopologyError(ValueError):
    """The grid cannot be cut for so many ranks; the message says what would do."""


@dataclass(frozen=True)
class Topology:
    """A Cartesian arrangement of ranks over a periodic grid.

    grid : the whole box.  ranks : how many along each dimension. Rank numbers run in C order; rank coordinate k owns
    the cells k·n//p … (k+1)·n//p − 1 of n cells on p ranks.  loops : dimensions that count as cut though a rank spans
    them, and sends to itself: an exchange on one rank, to test it and to time it.

    Raises TopologyError if a block would be thinner than the ghost layers.
    """

    grid: Grid
    ranks: tuple[int, ...]
    loops: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.ranks) != self.grid.d:
            raise TopologyError(f"ranks = {list(self.ranks)}; a number for each of {self.grid.d} dimensions is allowed")
        for k, (n, p) in enumerate(zip(self.grid.cells, self.ranks, strict=True)):
            if p < 1 or (p > 1 and n // p < self.grid.order):
                raise TopologyError(
                    f"{n} cells along dimension {k} cannot be shared by {p} ranks: every block must be at least "
                    f"{self.grid.order} thick; at most {max(1, n // self.grid.order)} ranks fit there")

    @classmethod
    def choose(cls, grid: Grid, size: int, ranks: tuple[int, ...] | None = None) -> Topology:
        """The arrangement of ``size`` ranks, as given by ``ranks`` or the one that costs the busiest rank least.

        Raises TopologyError if ``ranks`` does not fit, or if no arrangement does.
        """
        if ranks is not None:
            if math.prod(ranks) != size:
                raise TopologyError(f"mpi.ranks = {list(ranks)} makes {math.prod(ranks)} ranks, but {size} "
                                    f"{'was' if size == 1 else 'were'} started; start as many, or leave mpi.ranks out")
            return cls(grid, tuple(ranks))
        fitting = [shape for shape in arrangements(size, grid.d) if fits(grid, shape)]
        if not fitting:
            most = next(m for m in range(size - 1, 0, -1) if any(fits(grid, s) for s in arrangements(m, grid.d)))
            raise TopologyError(
                f"{' × '.join(map(str, grid.cells))} cells cannot be cut for {size} ranks into blocks at least "
                f"{grid.order} thick; start {most} ranks, or take more cells")
        return cls(grid, min(fitting, key=lambda shape: (cost(grid, shape), shape[::-1])))

    @property
    def size(self) -> int:
        """Number of ranks."""
        return math.prod(self.ranks)

    @property
    def split(self) -> tuple[int, ...]:
        """The dimensions that are cut."""
        return tuple(k for k, p in enumerate(self.ranks) if p > 1 or k in self.loops)

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """Where a rank sits."""
        place = []
        for p in reversed(self.ranks):
            rank, k = divmod(rank, p)
            place.append(k)
        return tuple(reversed(place))

    def rank_at(self, coordinates) -> int:
        """The rank that sits there, counted periodically."""
        rank = 0
        for k, p in zip(coordinates, self.ranks, strict=True):
            rank = rank * p + k % p
        return rank

    def neighbours(self, rank: int) -> list[tuple[int, int] | None]:
        """Ranks on the low and high side along each dimension; None along those that are not cut."""
        at, found = self.coordinates(rank), []
        for k in range(self.grid.d):
            low, high = (self.rank_at((*at[:k], at[k] + step, *at[k + 1:])) for step in (-1, 1))
            found.append((low, high) if k in self.split else None)
        return found

    def block(self, rank: int) -> Block:
        """The block of a rank."""
        at = tuple(zip(self.coordinates(rank), self.ranks, self.grid.cells, strict=True))
        origin = tuple(k * n // p for k, p, n in at)
        cells = tuple((k + 1) * n // p - k * n // p for k, p, n in at)
        return Block(self.grid, origin, cells)

    def largest_block(self) -> Block:
        """A block as large as any (it need not be one of them): for the planning of memory."""
        return Block(self.grid, cells=tuple(-(-n // p) for n, p in zip(self.grid.cells, self.ranks, strict=True)))

    def owner(self, axis: int, index):
        """Rank coordinate that owns global cell ``index`` (a number or an array of int64) along a dimension."""
        n, p = self.grid.cells[axis], self.ranks[axis]
        return ((index + 1) * p - 1) // n

    def describe(self) -> str:
        """The arrangement in one line."""
        blocks = [self.block(rank).cells for rank in range(self.size)]
        least, most = min(blocks, key=math.prod), max(blocks, key=math.prod)
        shapes = " × ".join(map(str, most)) + (f" down to {' × '.join(map(str, least))}" if least != most else "")
        return f"{' × '.join(map(str, self.ranks))} ranks, blocks of {shapes} cells"


def arrangements(size: int, d: int) -> Iterator[tuple[int, ...]]:
    """All ways to write ``size`` as an ordered product of ``d`` numbers."""
    if d == 1:
        yield (size,)
        return
    for p in range(1, size + 1):
        if size % p == 0:
            for rest in arrangements(size // p, d - 1):
                yield (p, *rest)


def fits(grid: Grid, ranks: tuple[int, ...]) -> bool:
    """Whether every block is at least as thick as the ghost layers along the dimensions that are cut."""
    return all(p == 1 or n // p >= grid.order for n, p in zip(grid.cells, ranks, strict=True))


def cost(grid: Grid, ranks: tuple[int, ...]) -> int:
    """Cells of the largest block plus ghost nodes that it exchanges: balance and surface in one number."""
    cells = [-(-n // p) for n, p in zip(grid.cells, ranks, strict=True)]
    volume = math.prod(cells)
    return volume + sum(2 * grid.order * volume // n for n, p in zip(cells, ranks, strict=True) if p > 1)
