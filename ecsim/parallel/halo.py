"""Ghost layers: two verbs, ``fill`` (owner → ghost) and ``add`` (ghost → owner), on any number of ranks.

Dimension by dimension, so that edges and corners come out right, and in a fixed order, so that sums are
deterministic. A dimension that this rank owns whole is its own neighbour on both sides; there ghost indices are taken
modulo the number of cells, so that a dimension of one cell works. Along a dimension that is cut, what goes to a
neighbour travels in one message, whatever the number of arrays and components. ``pad`` is ``fill`` of one array, with
other work while the messages travel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ecsim.grid import Block, Grid, Part
from ecsim.parallel.transport import Alone

LOW, HIGH = 0, 1
BOTH = (LOW, HIGH)


def _along(axis_from_end: int, index) -> tuple:
    """Index that selects ``index`` along the axis counted from the end (1 = last)."""
    return (..., index, *(slice(None),) * (axis_from_end - 1))


class Faces:
    """Faces of NumPy-like arrays (..., *padded) to and from contiguous buffers, by slices.

    ``some`` : pairs of an array and the sides, LOW and HIGH, of which there is a face.
    """

    def __init__(self, block: Block, xp) -> None:
        self.block, self.xp, self.nodes = block, xp, math.prod(block.padded)
        self.face = [self.nodes // n * block.ghosts for n in block.padded]  # nodes of a face along each dimension

    def room(self, some, k: int) -> tuple:
        """A buffer for each side, (values,)."""
        low, high = (sum(a.size // self.nodes for a, sides in some if side in sides) * self.face[k] for side in BOTH)
        both = self.xp.empty(low + high)
        return both[:low], both[low:]

    def pack(self, some, k: int, first: tuple[int, int]) -> tuple:
        """The layers that begin at ``first`` (low, high) along dimension k, in a buffer for each side."""
        buffers = self.room(some, k)
        for a, parts in self.parts(some, k, buffers):
            for begin, part in zip(first, parts, strict=True):
                if part is not None:
                    layer = a[self._layers(k, begin)]
                    part.reshape(layer.shape)[...] = layer
        return buffers

    def unpack(self, some, k: int, first: tuple[int, int], buffers, add: bool) -> None:
        """The inverse: set these layers or, from the high side on, add to them."""
        for a, parts in self.parts(some, k, buffers):
            for side in (HIGH, LOW):
                if parts[side] is not None:
                    layer = a[self._layers(k, first[side])]
                    came = parts[side].reshape(layer.shape)
                    layer[...] = layer + came if add else came

    def parts(self, some, k: int, buffers):
        """Each array with its part of either buffer, None where it has no face on that side."""
        ends = [0, 0]
        for a, sides in some:
            found = [None, None]
            for side in sides:
                begin = ends[side]
                ends[side] += a.size // self.nodes * self.face[k]
                found[side] = buffers[side][begin : ends[side]]
            yield a, found

    def _layers(self, k: int, begin: int) -> tuple:
        return _along(self.block.d - k, slice(begin, begin + self.block.ghosts))


def mirror(n: int, g: int) -> list[tuple[slice, slice]]:
    """Ghost layers of a dimension of n cells that is its own neighbour, and the owned ones that they repeat."""
    if n >= g:
        return [(slice(0, g), slice(n, n + g)), (slice(n + g, n + 2 * g), slice(g, 2 * g))]
    ghosts = [*range(g), *range(n + g, n + 2 * g)]
    return [(slice(j, j + 1), slice(g + (j - g) % n, g + (j - g) % n + 1)) for j in ghosts]


def _kernels(backend, verb: str, *arguments):
    """What the backend has for a job that slices do as well; None where it has nothing."""
    make = getattr(backend, verb, None)
    return make(*arguments) if make else None


def _opposite(some) -> list:
    """The same arrays with the other sides: what lies on my high ghosts belongs to the low side of my neighbour."""
    return [(a, tuple(1 - side for side in sides)) for a, sides in some]


def _copy(ghost: tuple, owner: tuple, a) -> None:
    a[ghost] = a[owner]


def _add(ghost: tuple, owner: tuple, a) -> None:
    a[owner] += a[ghost]


class Halo:
    """Ghost exchange of one block of a periodic box.

    neighbours : for each dimension the ranks (low, high) beside the block, or None where it spans the box; by default
    it does everywhere.  transport : how arrays get there.  backend : whose kernels are used where it has some for this,
    ``periodic_ghosts(block)`` for the last dimensions that are whole, ``padding(block, cut)`` and ``faces(block)``; or
    its ``in_parts(function, a)``, which works on the components of an array by threads. Its ``part_of_rows`` says that
    a few nodes of every row along the last dimension take it much less time than all do.
    """

    def __init__(self, block: Block, neighbours=None, transport=None, backend=None) -> None:
        self.block, self.transport = block, transport or Alone()
        self.neighbours = list(neighbours or [None] * block.d)
        self._cut = [k for k, peers in enumerate(self.neighbours) if peers]
        rest = slice(max(self._cut, default=-1) + 1, block.d)
        self._last = block.padded[rest]
        last = Grid(block.cells[rest], block.grid.size[rest], block.order) if self._last else None
        self._periodic = last and _kernels(backend, "periodic_ghosts", Block(last))
        self._padding = _kernels(backend, "padding", block, self._cut)
        self._faces = _kernels(backend, "faces", block) or Faces(block, self.transport.xp)
        self._by_slices = range(rest.start if self._periodic else block.d)
        self._mirrors = {k: [tuple(_along(block.d - k, i) for i in pair) for pair in mirror(n, block.ghosts)]
                         for k, n in enumerate(block.cells) if k in self._by_slices and k not in self._cut}
        self._part_of_rows = getattr(backend, "part_of_rows", False)
        self.in_parts = getattr(backend, "in_parts", None) or (lambda function, a: function(a))

    @property
    def inner(self) -> Part | None:
        """Owned nodes around which all nodes within the ghosts' reach are here before anything arrives.

        None where nothing is cut, where these are less than half of the nodes, or where a part of each row would be
        among them and the backend is slow at that.
        """
        if not self._cut or (self.block.d > 1 and self.block.d - 1 in self._cut and not self._part_of_rows):
            return None
        low = tuple(self.block.ghosts * (k in self._cut) for k in range(self.block.d))
        high = tuple(n - layers for n, layers in zip(self.block.cells, low, strict=True))
        nodes = math.prod(max(0, b - a) for a, b in zip(low, high, strict=True))
        return Part(low, high) if 2 * nodes >= self.block.n_cells else None

    def cuts(self, k: int) -> bool:
        """Whether dimension k is cut."""
        return k in self._cut

    def fill(self, *arrays, first: Sequence[tuple] | None = None, others: tuple = BOTH) -> None:
        """Copy owned values into the ghosts of C-ordered arrays (..., *padded), in place.

        first : for each array the sides on which its ghosts along the first dimension are needed, if not ``others``,
        which holds for the other dimensions and all arrays. What is not needed is left as it is where a dimension is
        cut.
        """
        self._fill_whole(arrays)
        for _ in self._passing(arrays, first, others):
            pass

    def pad(self, x, padded, meanwhile: Sequence[Callable[[], None]] = (), after=None) -> None:
        """``padded`` (k, *padded) = x (k, *cells) with its ghosts.

        meanwhile : some functions, called while arrays travel. They find everything in place that needs no other rank,
        so that what they need around the nodes of ``inner`` is there.  after : a function that is called when all
        ghosts are there; on a device, ``meanwhile`` may still be at work then.
        """
        if self._padding:
            self._padding(x, padded)
        else:
            padded[self.block.interior] = x
            self._fill_whole((padded,))
        self.transport.beside(self._passing((padded,), after=after), meanwhile)

    def _fill_whole(self, arrays) -> None:
        """Ghosts of the dimensions that are not cut."""
        for pairs in self._mirrors.values():
            self._apply(_copy, pairs, arrays)
        if self._periodic:
            for a in arrays:
                self._periodic.fill(a.reshape(-1, *self._last))

    def _passing(self, arrays, first=None, others: tuple = BOTH, after=None) -> Iterator[None]:
        """Ghosts of the dimensions that are cut, one after the other, then ``after``.

        Yields whenever an exchange is under way.
        """
        g = self.block.ghosts
        for k in self._cut:
            n = self.block.cells[k]
            sides = [others] * len(arrays) if first is None or k > 0 else first
            needed = list(zip(arrays, sides, strict=True))
            sent = self._faces.pack(_opposite(needed), k, (g, n))
            came = self._faces.room(needed, k)
            pending = self.transport.start(self.neighbours[k], *sent, *came)
            yield
            self.transport.finish(pending)
            self._faces.unpack(needed, k, (0, n + g), came, add=False)
        if after is not None:
            after()

    def add(self, *arrays, first: Sequence[tuple] | None = None, others: tuple = BOTH) -> None:
        """Add what lies on ghosts of C-ordered arrays (..., *padded) to its owners; ghosts then mean nothing.

        first : for each array the sides on which anything lies on ghosts along the first dimension, if not ``others``,
        which holds for the other dimensions and all arrays. Both matter where a dimension is cut.
        """
        g = self.block.ghosts
        if self._periodic:
            for a in arrays:
                self._periodic.add(a.reshape(-1, *self._last))
        for k in reversed(self._by_slices):
            n = self.block.cells[k]
            if k in self._cut:
                sides = [others] * len(arrays) if first is None or k > 0 else first
                held = list(zip(arrays, sides, strict=True))
                came = self._faces.room(_opposite(held), k)
                self.transport.exchange(self.neighbours[k], *self._faces.pack(held, k, (0, n + g)), *came)
                self._faces.unpack(_opposite(held), k, (g, n), came, add=True)
            else:
                self._apply(_add, self._mirrors[k], arrays)

    def _apply(self, function, pairs, arrays) -> None:
        """``function(ghost, owner, a)`` for the layers along a dimension that is whole."""
        for a in arrays:
            components = a.reshape(-1, *self.block.padded)
            for ghost, owner in pairs:
                self.in_parts(partial(function, ghost, owner), components)

    def sum(self, a):
        """Sum of an array over all ranks, the same bits on each."""
        return self.transport.sum(a)

    def max(self, value: float) -> float:
        """Largest of a number over all ranks."""
        return self.transport.max(value)
