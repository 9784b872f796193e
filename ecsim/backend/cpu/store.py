"""Particles of one species on the CPU: structure of arrays, kept in the order of their support cells."""

from __future__ import annotations

import numpy as np

from ecsim.backend.cpu import moments as moment_kernels
from ecsim.backend.cpu import mover, sort
from ecsim.backend.cpu.lattice import lattice, padded_strides, region, tables
from ecsim.backend.cpu.migrate import migrate
from ecsim.backend.cpu.threads import Threads, cut

NO_VISIT = np.empty(0, dtype=np.int32)
NO_WEIGHTS = np.empty(0)
SPARE = 16


class Scratch:
    """Work arrays that all stores of a backend share; one per item type and length."""

    def __init__(self) -> None:
        self._buffers: dict[tuple, np.ndarray] = {}

    def take(self, purpose: str, dtype, n: int) -> np.ndarray:
        """An array of n items with whatever is in it."""
        key = (purpose, np.dtype(dtype), n)
        if key not in self._buffers:
            self._buffers[key] = np.empty(n, dtype)
        return self._buffers[key]

    def drop(self, n: int) -> None:
        """Forget the arrays of n items."""
        self._buffers = {key: buffer for key, buffer in self._buffers.items() if key[2] != n}

    def swap(self, purpose: str, array: np.ndarray) -> None:
        """Leave ``array`` in place of the buffer of its type and length."""
        self._buffers[purpose, array.dtype, len(array)] = array

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(b.nbytes for b in self._buffers.values())


class ParticleStore:
    """See the backend protocol: coordinates s in the cell, velocities, weights (macro-charges), ids; sorted by cell.

    Parameters
    ----------
    block : Block.  threads : Threads.  scratch : Scratch.
    position_dtype : "float64" or "float32", of s.  weight : one macro-charge for all, or None for one a particle.
    ids : keep a uint64 per particle.  sort_every : particles change places only in every so manieth sort and are
    visited through an index in between; results do not depend on it.  migration : takes particles to other blocks,
    needed where the block does not span the box; every sort then moves them.

    ``n`` particles; ``start`` (n_cells + 1,) where each cell's particles begin in visiting order.
    """

    def __init__(self, block, threads: Threads, scratch: Scratch, *, position_dtype="float64", weight=None, ids=False,
                 sort_every: int = 1, migration=None) -> None:
        if sort_every < 1:
            raise ValueError(f"sort_every = {sort_every}; at least 1 is allowed")
        self.block, self.weight, self.migration = block, weight, migration
        self.sort_every = int(sort_every) if migration is None else 1
        self._threads, self._scratch = threads, scratch
        self.lattice, self.region = lattice(block.cells, block.padded), region(block)
        self.tables = tables(block.d, block.order, block.padded)
        self.cells_per_plane = self.lattice.rows * self.lattice.length
        self.slabs = cut(self.lattice.planes, self.cells_per_plane, block.order)
        self._s = [np.empty(0, position_dtype) for _ in range(block.d)]
        self._v = [np.empty(0) for _ in range(3)]
        self._weights = None if weight is not None else np.empty(0)
        self._id = np.empty(0, np.uint64) if ids else None
        self.start = np.zeros(block.n_cells + 1, np.int64)
        self._visit = NO_VISIT
        self._sorts = 0
        self._waiting: list[tuple] = []

    @property
    def n(self) -> int:
        """Number of particles, those that wait for the next ``sort`` included."""
        return int(self.start[-1]) + sum(len(w[0]) for w in self._waiting)

    @property
    def capacity(self) -> int:
        """Places that the arrays have; more than particles only where these come and go between blocks."""
        return len(self._v[0])

    @property
    def n_cells(self) -> int:
        """Number of support cells."""
        return self.block.n_cells

    @property
    def nbytes(self) -> dict[str, int]:
        """Bytes of each array that lives from cycle to cycle."""
        arrays = {"s": self._s, "v": self._v, "weight": [self._weights], "id": [self._id], "start": [self.start],
                  "visit": [self._visit]}
        return {name: sum(a.nbytes for a in group if a is not None) for name, group in arrays.items()}

    # -- arguments of the kernels ------------------------------------------------------------------------------

    @property
    def s(self) -> tuple:
        """Coordinates as the kernels take them: always three, the last repeated for missing dimensions."""
        return tuple(self._s[min(k, self.block.d - 1)] for k in range(3))

    @property
    def charges(self) -> tuple:
        """(weight, weights) as the kernels take them: the number counts where the array is empty."""
        return (0.0, self._weights) if self.weight is None else (float(self.weight), NO_WEIGHTS)

    @property
    def visit(self) -> np.ndarray:
        """Visiting order to place; empty where they agree."""
        return self._visit

    def _ranges(self) -> list[tuple[int, int]]:
        """Particles of each slab, in visiting order."""
        return [(int(self.start[a * self.cells_per_plane]), int(self.start[b * self.cells_per_plane]))
                for a, b in self.slabs]

    # -- loading -----------------------------------------------------------------------------------------------

    def append(self, cell, s, v, weight=None, id=None) -> None:
        """Take particles from host arrays: cell (P,) int, s (d, P), v (3, P), weight (P,) and id (P,) where kept.

        They count from the next ``sort`` on. Raises ValueError if a wanted array is missing or a shape does not fit.
        """
        cell = np.array(cell, dtype=np.int32)
        wanted = {"s": (s, (self.block.d, len(cell))), "v": (v, (3, len(cell)))}
        if self._weights is not None:
            wanted["weight"] = (weight, cell.shape)
        if self._id is not None:
            wanted["id"] = (id, cell.shape)
        for name, (array, shape) in wanted.items():
            if np.shape(array) != shape:
                raise ValueError(f"{name} has shape {np.shape(array)}; {shape} is allowed")
        if len(cell) and not 0 <= cell.min() <= cell.max() < self.n_cells:
            raise ValueError(f"cell runs from {cell.min()} to {cell.max()}; 0 to {self.n_cells - 1} is allowed")
        arrays = [*s, *v]
        arrays += [weight] if self._weights is not None else []
        arrays += [id] if self._id is not None else []
        dtypes = [a.dtype for a in self.attributes()]
        self._waiting.append((cell, [np.array(a, dtype) for a, dtype in zip(arrays, dtypes, strict=True)]))

    def attributes(self) -> list[np.ndarray]:
        """The arrays of ``capacity`` items that belong to the particles: s, v, weights and ids where kept."""
        extra = [a for a in (self._weights, self._id) if a is not None]
        return [*self._s, *self._v, *extra]

    def _set_attribute(self, k: int, array: np.ndarray) -> None:
        d = self.block.d
        if k < d:
            self._s[k] = array
        elif k < d + 3:
            self._v[k - d] = array
        elif k == d + 3 and self._weights is not None:
            self._weights = array
        else:
            self._id = array

    def _cells(self) -> np.ndarray:
        """Support cell (n,) int32 of each particle in visiting order."""
        return np.repeat(np.arange(self.n_cells, dtype=np.int32), np.diff(self.start))

    def sort(self) -> None:
        """Put all particles, appended ones last within their cell, in the order of their cells."""
        n, cells = int(self.start[-1]), np.concatenate([self._cells(), *(w[0] for w in self._waiting)])
        self._rearrange()
        if self._waiting:
            for k, old in enumerate(self.attributes()):
                self._set_attribute(k, np.concatenate([old[:n], *(w[1][k] for w in self._waiting)]))
                for w in self._waiting:
                    w[1][k] = None
            self._waiting.clear()
        self._sort_by(cells, [(0, 0, 0, len(cells))])
        self._rearrange()

    # -- sorting -----------------------------------------------------------------------------------------------

    def _sort_by(self, destination: np.ndarray, sources: list[tuple]) -> None:
        """New ``start`` and ``visit`` from the cells ``destination`` in present visiting order.

        sources : (own first cell, own last cell, begin, end) of each range; those with an own slab stand in its order.
        """
        n, ranks = len(destination), len(self.slabs)
        index = np.int32 if n < 2**31 else np.int64
        per_slab = (self.slabs[0][1] - self.slabs[0][0]) * self.cells_per_plane
        counts = np.zeros((len(sources), ranks), np.int64)
        ranges = [(begin, end, low, high, destination, per_slab) for low, high, begin, end in sources]
        self._threads.run(sort.count_leavers, [(*r, c) for r, c in zip(ranges, counts, strict=True)])
        bounds = np.concatenate([[0], np.cumsum(counts.T.ravel())])
        cursor = bounds[:-1].reshape(ranks, len(sources)).T.copy()
        leavers = self._scratch.take("leavers", index, self.capacity)
        self._threads.run(sort.list_leavers, [(*r, c, leavers) for r, c in zip(ranges, cursor, strict=True)])
        order = self._scratch.take("order", index, self.capacity)[:n]
        calls, base, home = [], 0, len(sources) == ranks and sources[0][1] > 0
        for k, (a, b) in enumerate(self.slabs):
            begin, end = sources[k][2:] if home else (0, 0)
            at = k * len(sources)
            low, high = int(bounds[at]), int(bounds[at + len(sources)])
            middle = int(bounds[at + k]) if home else high
            calls.append((a * self.cells_per_plane, b * self.cells_per_plane, base, begin, end, low, middle, high,
                          destination, leavers, self.start, order))
            stay = end - begin - int(counts[k].sum()) if home else 0
            base += stay + high - low
        self._threads.run(sort.place_slab, calls)
        self.start[-1] = n
        if self._visit.size:
            self._visit = self._gather(self._visit, order, np.empty_like(self._visit))
        else:
            self._visit = order.copy() if self.sort_every > 1 else order
        self._sorts += 1

    def _gather(self, source: np.ndarray, order: np.ndarray, target: np.ndarray) -> np.ndarray:
        self._threads.run(sort.gather, [(a, b, source, order, target) for a, b in self._threads.ranges(len(order))])
        return target

    def _rearrange(self) -> None:
        """Bring every array into visiting order, one at a time through a buffer that changes places with it."""
        if not self._visit.size:
            return
        for k, old in enumerate(self.attributes()):
            kind = np.float64 if old.dtype == np.uint64 else old.dtype
            new = self._scratch.take("attribute", kind, len(old))
            self._gather(old.view(kind), self._visit, new)
            self._set_attribute(k, new.view(old.dtype))
            self._scratch.swap("attribute", old.view(kind))
        self._visit = NO_VISIT

    def reserve(self, n: int, destination: np.ndarray) -> np.ndarray:
        """Make room for n particles, with some to spare; returns ``destination`` in an array of the full capacity."""
        old = self.capacity
        if n > old:
            for k, array in enumerate(self.attributes()):
                larger = np.empty(n + n // SPARE + 64, array.dtype)
                larger[:old] = array
                self._set_attribute(k, larger)
            self._scratch.drop(old)
        room = self._scratch.take("destination", np.int32, self.capacity)
        room[: len(destination)] = destination
        return room

    # -- moving ------------------------------------------------------------------------------------------------

    def push(self, dt: float) -> None:
        """Positions ``dt`` on at present velocities, wrapped, sorted."""
        nothing = np.zeros((3, *self.block.padded))
        self.move(0.0, dt, nothing, nothing)

    def move(self, beta: float, dt: float, E_nodes, B_nodes) -> np.ndarray:
        """Kick by E^{n+θ} and B^n, push by ``dt``, wrap, sort.

        beta : q Δt / 2m.  E_nodes, B_nodes : (3, *padded) with valid ghosts.
        Returns ``sums`` of the new velocities; its first entry is NaN if a particle is no longer finite.
        """
        destination = self._scratch.take("destination", np.int32, self.capacity)[: self.start[-1]]
        sums = np.zeros((len(self.slabs), 6))
        steps = tuple(dt / self.block.spacing[min(k, self.block.d - 1)] for k in range(3))
        size = self.lattice.size
        self._threads.run(mover.move(self.block.d, self.block.order), [
            (a, b, self.lattice, self.region, self.tables.node, self.start, self.s, tuple(self._v), *self.charges,
             self._visit, float(beta), steps, E_nodes.reshape(3, size), B_nodes.reshape(3, size), destination, part)
            for (a, b), part in zip(self.slabs, sums, strict=True)])
        own, ranges = [(a * self.cells_per_plane, b * self.cells_per_plane) for a, b in self.slabs], self._ranges()
        if self.migration is not None:
            destination, ranges = migrate(self, destination, ranges)
        self._sort_by(destination, [(*o, *r) for o, r in zip(own, ranges, strict=True)])
        if self._sorts % self.sort_every == 0:
            self._rearrange()
        total = sums.sum(axis=0)
        if total[5]:
            total[0] = np.nan
        return total[:5]

    # -- looking -----------------------------------------------------------------------------------------------

    def sums(self) -> np.ndarray:
        """[Σ w v²/2, Σ w v (3), Σ w], shape (5,), over all particles at their present velocities."""
        parts = np.zeros((len(self.slabs), 5))
        self._threads.run(mover.sum_range, [(*r, tuple(self._v), *self.charges, self._visit, part)
                                            for r, part in zip(self._ranges(), parts, strict=True)])
        return parts.sum(axis=0)

    def deposit_moments(self) -> np.ndarray:
        """[Σ w W, Σ w v W (3), Σ w v_i v_j W (xx, xy, xz, yy, yz, zz)] / V at present x and v, (10, *padded).

        What reaches ghost nodes is there, to be added to its owners.
        """
        out = np.zeros((10, *self.block.padded))
        self._threads.run_scattering(moment_kernels.deposit_moments(self.block.d, self.block.order), [
            (a, b, self.lattice, self.tables.node, self.start, self.s, tuple(self._v), *self.charges, self._visit,
             1.0 / self.block.volume, out.reshape(-1)) for a, b in self.slabs])
        return out

    def deposit_centre_charge(self, out) -> None:
        """out (*padded) += Σ w W_cic(x − x_centre) / V, ghost centres included."""
        strides = padded_strides(self.block.padded)
        strides = (*strides, *(0,) * (3 - len(strides)))
        self._threads.run_scattering(moment_kernels.deposit_centre_charge(self.block.d, self.block.order), [
            (a, b, self.lattice, strides, self.start, self.s, *self.charges, self._visit, 1.0 / self.block.volume,
             out.reshape(-1)) for a, b in self.slabs])

    def columns(self):
        """Yield host arrays one at a time, in visiting order: "count" (n_cells,), "s0" …, "v0" …, "weight", "id" (n,)."""
        d, order = self.block.d, self._visit if self._visit.size else slice(self.start[-1])
        names = [*(f"s{k}" for k in range(d)), "v0", "v1", "v2"]
        names += ["weight"] * (self._weights is not None) + ["id"] * (self._id is not None)
        yield "count", np.diff(self.start)
        for name, array in zip(names, self.attributes(), strict=True):
            yield name, array[order]

    def to_host(self) -> dict:
        """Copies in visiting order: cell (P,) int32, s (d, P), v (3, P), weight (P,) or float, id (P,) or None."""
        order = self._visit if self._visit.size else slice(self.start[-1])
        weight = self.weight if self._weights is None else self._weights[order].copy()
        return {"cell": self._cells(), "s": np.stack([a[order] for a in self._s]),
                "v": np.stack([a[order] for a in self._v]), "weight": weight,
                "id": None if self._id is None else self._id[order].copy()}
