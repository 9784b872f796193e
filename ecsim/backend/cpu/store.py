"""Particles of one species on the CPU: structure of arrays, kept in the order of their support cells."""

from __future__ import annotations

import numpy as np

from ecsim.backend.cpu import moments as moment_kernels
from ecsim.backend.cpu import mover, sort
from ecsim.backend.cpu.lanes import WIDTH
from ecsim.backend.cpu.lattice import box, lattice, padded_strides, tables
from ecsim.backend.cpu.migrate import migrate
from ecsim.backend.cpu.threads import Threads, cut
from ecsim.backend.cpu.waiting import Waiting
from ecsim.timing import Timer

NO_VISIT = np.empty(0, dtype=np.int32)
NO_WEIGHTS = np.empty(0)
SPARE = 16
LARGE = 2**23  # bytes of an array that no cache holds together with the others


def _copy(target: np.ndarray, at: int, source: np.ndarray, a: int, b: int, below_half: bool) -> None:
    """target[at + a … at + b] = source[a … b]; a coordinate that would round to ½ becomes the number below."""
    part = target[at + a:at + b]
    part[:] = source[a:b]
    if below_half:
        np.minimum(part, np.nextafter(target.dtype.type(0.5), target.dtype.type(0)), out=part)


class Scratch:
    """Work arrays that all stores of a backend share."""

    def __init__(self) -> None:
        self._buffers: dict[tuple, np.ndarray] = {}
        self._spare: dict[tuple, np.ndarray] = {}

    def take(self, purpose: str, dtype, n: int) -> np.ndarray:
        """An array of n items with whatever is in it; the next ``take`` for this purpose gets the same memory."""
        key = (purpose, np.dtype(dtype))
        if key not in self._buffers or len(self._buffers[key]) < n:
            self._buffers[key] = np.empty(n, dtype)
        return self._buffers[key][:n]

    def spare(self, dtype, n: int) -> np.ndarray:
        """An array of exactly n items to ``swap`` with."""
        key = (np.dtype(dtype), n)
        if key not in self._spare:
            self._spare[key] = np.empty(n, dtype)
        return self._spare[key]

    def forget(self, n: int) -> None:
        """Give up spare arrays of n items."""
        self._spare = {key: array for key, array in self._spare.items() if key[1] != n}

    def swap(self, array: np.ndarray) -> None:
        """Leave ``array`` in place of the spare one of its type and length."""
        self._spare[array.dtype, len(array)] = array

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(a.nbytes for held in (self._buffers, self._spare) for a in held.values())


class ParticleStore:
    """Coordinates s in the cell, velocities, weights (macro-charges) and ids of particles, sorted by support cell.

    Parameters
    ----------
    block : Block.  threads : Threads.  scratch : Scratch.  timer : charged with phase "sort".
    position_dtype, velocity_dtype : "float64" or "float32", of s and v; sums are float64 in any case.
    weight : one macro-charge for all, or None for one a particle.  ids : keep a uint64 per particle.
    sort_every : particles change places only in every so manieth sort and are visited through an index in between;
    results do not depend on it.  migration : takes particles to other blocks, needed where the block does not span the
    box; every sort then changes places.  capacity : particles that will be loaded, if known.

    ``n`` particles; ``start`` (n_cells + 1,) where each cell's particles begin in visiting order.
    """

    def __init__(self, block, threads: Threads, scratch: Scratch, timer: Timer, *, position_dtype="float64",
                 velocity_dtype="float64", weight=None, ids=False, sort_every: int = 1, migration=None,
                 capacity: int = 0) -> None:
        if sort_every < 1:
            raise ValueError(f"sort_every = {sort_every}; at least 1 is allowed")
        self.block, self.weight, self.migration = block, weight, migration
        self.sort_every = int(sort_every) if migration is None else 1
        self._threads, self._scratch, self._timer = threads, scratch, timer
        self.lattice, self._box = lattice(block.cells, block.padded), box(block)
        self.tables = tables(block.d, block.order, block.padded)
        self.cells_per_plane = self.lattice.rows * self.lattice.length
        self.slabs = cut(self.lattice.planes, self.cells_per_plane, block.order)
        self._names = [*(f"s{k}" for k in range(block.d)), "v0", "v1", "v2"]
        self._arrays = [np.empty(capacity, {"s": position_dtype, "v": velocity_dtype}[n[0]]) for n in self._names]
        for name, dtype, kept in (("weight", np.float64, weight is None), ("id", np.uint64, ids)):
            if kept:
                self._names.append(name)
                self._arrays.append(np.empty(capacity, dtype))
        self.start = np.zeros(block.n_cells + 1, np.int64)
        self.visit = NO_VISIT
        self._placed = self._sorts = 0
        self._waiting = Waiting()

    @property
    def n(self) -> int:
        """Number of particles, those that wait for the next ``sort`` included."""
        return self._placed + len(self._waiting)

    @property
    def n_cells(self) -> int:
        """Number of support cells."""
        return self.block.n_cells

    @property
    def nbytes(self) -> dict[str, int]:
        """Bytes of each array that lives from cycle to cycle."""
        sizes = {"s": 0, "v": 0, "weight": 0, "id": 0, "start": self.start.nbytes, "visit": self.visit.nbytes}
        for name, array in zip(self._names, self._arrays, strict=True):
            sizes[name if name in sizes else name[0]] += array.nbytes
        return sizes

    # -- arguments of the kernels ------------------------------------------------------------------------------

    def attributes(self) -> list[np.ndarray]:
        """The arrays themselves, in place order: s, v, weight, id as far as kept; they may be longer than ``n``."""
        return self._arrays

    @property
    def s(self) -> tuple:
        """Coordinates as the kernels take them: always three, the last repeated for missing dimensions."""
        return tuple(self._arrays[min(k, self.block.d - 1)] for k in range(3))

    @property
    def v(self) -> tuple:
        """The three velocity arrays."""
        return tuple(self._arrays[self.block.d:self.block.d + 3])

    @property
    def charges(self) -> tuple:
        """(weight, weights) as the kernels take them: the number counts where the array is empty."""
        if self.weight is None:
            return 0.0, self._arrays[self._names.index("weight")]
        return float(self.weight), NO_WEIGHTS

    def _cells(self) -> np.ndarray:
        """Support cell (n,) int32 of each particle in visiting order."""
        return np.repeat(np.arange(self.n_cells, dtype=np.int32), np.diff(self.start))

    def _ranges(self) -> list[tuple[int, int]]:
        """Particles of each slab, in visiting order."""
        return [(int(self.start[a * self.cells_per_plane]), int(self.start[b * self.cells_per_plane]))
                for a, b in self.slabs]

    # -- loading -----------------------------------------------------------------------------------------------

    def append(self, cell, s, v, weight=None, id=None) -> None:
        """Take particles from host arrays: cell (P,) int, s (d, P), v (3, P), weight (P,) and id (P,) where kept.

        They count from the next ``sort`` on. Raises ValueError if a wanted array is missing or a shape does not fit.
        """
        cell = np.asarray(cell, dtype=np.int32)
        if len(cell) and not 0 <= cell.min() <= cell.max() < self.n_cells:
            raise ValueError(f"cell runs from {cell.min()} to {cell.max()}; 0 to {self.n_cells - 1} is allowed")
        if np.shape(s) != (self.block.d, len(cell)) or np.shape(v) != (3, len(cell)):
            raise ValueError(f"s has shape {np.shape(s)} and v {np.shape(v)}; {(self.block.d, len(cell))} and "
                             f"{(3, len(cell))} are allowed")
        given = dict(zip(self._names, (*s, *v), strict=False)) | {"weight": weight, "id": id}
        for name in self._names:
            if np.shape(given[name]) != cell.shape:
                raise ValueError(f"{name} has shape {np.shape(given[name])}; {cell.shape} is allowed")
        self._rearrange()
        self._make_room(self.n + len(cell), self.n)
        self._threads.run(_copy, [(array, self.n, np.asarray(given[name]), a, b, name[0] == "s")
                                  for name, array in zip(self._names, self._arrays, strict=True)
                                  for a, b in self._threads.ranges(len(cell))])
        self._waiting.add(cell)

    def sort(self) -> None:
        """Put all particles, appended ones last within their cell, in the order of their cells."""
        self._rearrange()
        n, counts, last = self.n, np.diff(self.start), int(np.searchsorted(self.start, self._placed)) - 1
        if self._waiting.after(last, counts):
            np.cumsum(counts, out=self.start[1:])
        else:
            cells = self._scratch.take("destination", np.int32, n)
            cells[:self._placed] = self._cells()
            self._waiting.write(cells[self._placed:])
            edges = [n * a * self.cells_per_plane // self.n_cells for a, _ in self.slabs] + [n]
            self._sort_by(cells, [(a * self.cells_per_plane, b * self.cells_per_plane, *edges[k:k + 2])
                                  for k, (a, b) in enumerate(self.slabs)])
            self._rearrange()
        self._waiting, self._placed, self._sorts = Waiting(), n, 0

    def reserve(self, n: int, destination: np.ndarray) -> np.ndarray:
        """Make room for n particles, with some to spare; returns ``destination`` in an array as long as the others."""
        self._make_room(n, self._placed)
        room = self._scratch.take("destination", np.int32, len(self._arrays[0]))
        room[:len(destination)] = destination
        return room

    def _make_room(self, n: int, kept: int) -> None:
        """Arrays for n particles, with some to spare unless they are the first; the first ``kept`` stay."""
        old = len(self._arrays[0])
        if n > old:
            self._scratch.forget(old)
            length = n + n // SPARE + 64 if old else n
            for k, array in enumerate(self._arrays):
                self._arrays[k] = np.empty(length, array.dtype)
                self._arrays[k][:kept] = array[:kept]

    # -- sorting -----------------------------------------------------------------------------------------------

    def _sort_by(self, destination: np.ndarray, sources: list[tuple]) -> None:
        """New ``start`` and ``visit`` from the cells ``destination`` (n,) in present visiting order.

        sources : (own first cell, own last cell, begin, end) of the range that belongs to each slab.
        """
        n, ranks = len(destination), len(self.slabs)
        per_slab = (self.slabs[0][1] - self.slabs[0][0]) * self.cells_per_plane
        index = np.int32 if n < 2**31 else np.int64
        order, upper = self._scratch.take("order", index, n), self._scratch.take("upper", np.int64, self.n_cells)
        away = np.zeros((ranks, ranks + 2), np.int64)
        self._threads.run(sort.count_range, [
            (begin, end, first, last, destination, per_slab, self.start, upper, counts, order)
            for (first, last, begin, end), counts in zip(sources, away, strict=True)])
        bounds = np.concatenate([[0], np.cumsum(away[:, :ranks].T.ravel())])
        cursor, leavers = bounds[:-1].reshape(ranks, ranks).T.copy(), np.empty(int(bounds[-1]), index)
        self._threads.run(sort.list_leavers, [
            (begin, end, int(counts[-2]), int(counts[-1]), order, destination, per_slab, c, leavers)
            for (_, _, begin, end), counts, c in zip(sources, away, cursor, strict=True)])
        calls, base = [], 0
        for k, (first, last, begin, end) in enumerate(sources):
            low, middle, high = (int(bounds[k * ranks + j]) for j in (0, k, ranks))
            calls.append((first, last, base, begin, end, low, middle, high, destination, leavers, self.start, upper,
                          order))
            base += high - low + end - begin - int(away[k, :ranks].sum())
        self._threads.run(sort.place_slab, calls)
        self.start[-1] = n
        if self.visit.size:
            self.visit = self._gather(self.visit, order, np.empty_like(self.visit))
        else:
            self.visit = order.copy() if self.sort_every > 1 else order
        self._sorts += 1

    def _gather(self, source: np.ndarray, order: np.ndarray, target: np.ndarray) -> np.ndarray:
        """target[i] = source[order[i]], by ranges on the threads; returns ``target``."""
        ranges = self._threads.ranges(len(order))
        if target.dtype.kind == "f" and target.nbytes >= LARGE:
            aligned = -target.ctypes.data // target.itemsize % WIDTH
            self._threads.run(sort.gather_nontemporal, [(*r, source, order, target, aligned) for r in ranges])
        else:
            self._threads.run(sort.gather, [(*r, source, order, target) for r in ranges])
        return target

    def _rearrange(self) -> None:
        """Bring every array into visiting order, one at a time through a buffer that changes places with it."""
        if not self.visit.size:
            return
        for k, old in enumerate(self._arrays):
            words = old.view(np.float64) if old.dtype == np.uint64 else old
            new = self._gather(words, self.visit, self._scratch.spare(words.dtype, len(words)))
            self._arrays[k] = new.view(old.dtype)
            self._scratch.swap(words)
        self.visit = NO_VISIT

    # -- moving ------------------------------------------------------------------------------------------------

    def push(self, dt: float) -> None:
        """Positions ``dt`` on at present velocities, wrapped, sorted."""
        nothing = np.zeros((3, *self.block.padded))
        self.move(0.0, dt, nothing, nothing)

    def move(self, beta: float, dt: float, E_nodes, B_nodes) -> np.ndarray:
        """Kick by E^{n+θ} and B^n, push by ``dt``, wrap, sort; collective where there is a ``migration``.

        beta : q Δt / 2m.  E_nodes, B_nodes : (3, *padded) with valid ghosts.
        Returns ``sums`` of the new velocities, of the particles that were here before; the first entry is NaN if one of
        them is no longer finite.
        """
        destination = self._scratch.take("destination", np.int32, self._placed)
        sums = np.zeros((len(self.slabs), 6))
        steps = tuple(dt / self.block.spacing[min(k, self.block.d - 1)] for k in range(3))
        self._threads.run(mover.move(self.block.d, self.block.order), [
            (a, b, self.lattice, self._box, self.tables.node, self.start, self.s, self.v, *self.charges, self.visit,
             float(beta), steps, E_nodes.reshape(-1), B_nodes.reshape(-1), destination, part)
            for (a, b), part in zip(self.slabs, sums, strict=True)])
        total = sums.sum(axis=0)
        total[0] = np.nan if total[5] else total[0]
        with self._timer.phase("sort"):
            ranges = self._ranges()
            if self.migration is not None:
                destination, ranges = migrate(self, destination, ranges)
                self._placed = len(destination)
            own = [(a * self.cells_per_plane, b * self.cells_per_plane) for a, b in self.slabs]
            self._sort_by(destination, [(*o, *r) for o, r in zip(own, ranges, strict=True)])
            if self._sorts % self.sort_every == 0:
                self._rearrange()
        return total[:5]

    def finish_move(self) -> None:
        """Nothing is left to be done after a move."""

    # -- looking -----------------------------------------------------------------------------------------------

    def sums(self) -> np.ndarray:
        """[Σ w v²/2, Σ w v (3), Σ w], shape (5,), over all particles at their present velocities."""
        parts = np.zeros((len(self.slabs), 5))
        self._threads.run(mover.sum_range, [(*r, self.v, *self.charges, self.visit, part)
                                            for r, part in zip(self._ranges(), parts, strict=True)])
        return parts.sum(axis=0)

    def deposit_moments(self) -> np.ndarray:
        """[Σ w W, Σ w v W (3), Σ w v_i v_j W (xx, xy, xz, yy, yz, zz)] / V at present x and v, (10, *padded).

        What reaches ghost nodes is there, to be added to its owners.
        """
        out = np.zeros((moment_kernels.MOMENTS, *self.block.padded))
        self._threads.run_scattering(moment_kernels.deposit_moments(self.block.d, self.block.order), [
            (a, b, self.lattice, self.tables.node, self.start, self.s, self.v, *self.charges, self.visit,
             1.0 / self.block.volume, out.reshape(-1)) for a, b in self.slabs])
        return out

    def deposit_centre_charge(self, out) -> None:
        """out (*padded) += Σ w W_cic(x − x_centre) / V, ghost centres included."""
        strides = padded_strides(self.block.padded)
        strides = (*strides, *(0,) * (3 - len(strides)))
        self._threads.run_scattering(moment_kernels.deposit_centre_charge(self.block.d, self.block.order), [
            (a, b, self.lattice, strides, self.start, self.s, *self.charges, self.visit, 1.0 / self.block.volume,
             out.reshape(-1)) for a, b in self.slabs])

    def columns(self):
        """Yield host arrays one by one, in visiting order: "count" (n_cells,), "s0" …, "v0" …, "weight", "id" (n,)."""
        yield "count", np.diff(self.start)
        order = self.visit if self.visit.size else slice(self._placed)
        for name, array in zip(self._names, self._arrays, strict=True):
            yield name, array[order]

    def to_host(self) -> dict:
        """Copies in visiting order: cell (P,) int32, s (d, P), v (3, P), weight (P,) or float, id (P,) or None."""
        order = self.visit if self.visit.size else slice(self._placed)
        d, arrays = self.block.d, [array[order] for array in self._arrays]
        extra = {name: array.copy() for name, array in zip(self._names[d + 3:], arrays[d + 3:], strict=True)}
        return {"cell": self._cells(), "s": np.stack(arrays[:d]), "v": np.stack(arrays[d:d + 3]),
                "weight": extra.get("weight", self.weight), "id": extra.get("id")}
