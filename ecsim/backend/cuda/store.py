"""Particles of one species on the GPU: every cell owns a range of slots with some slack, sorted at all times."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ecsim.backend.cuda import move as mover
from ecsim.backend.cuda.migrate import append_late

SLACK = 0.25                # spare slots of a cell as a share of its particles …
LEAST_SLACK = 6.0           # … but at least so many times the square root of them, and a few more
HEADROOM = 0.04             # spare slots of a store, so that a new layout of as many particles will fit
MANY = 128                  # slots from which on a cell's are counted in thirty-twos, whole lines of the cache
MOST_SLOTS = 1 << 32        # kernels count slots in 32 bits
UPLOAD = 1 << 22            # particles that wait on the host before they are inserted together …
AT_ONCE = 1 << 16           # … unless so many come together
NAMES = ("s", "v", "w", "id")


def slots_for(count, xp):
    """Slots (int64) of cells with ``count`` particles: room for a few dozen cycles' fluctuations.

    In eights, whole sectors of memory; in thirty-twos, whole lines of the cache, where that makes no great difference.
    """
    count = count.astype(np.float64)
    room = count + xp.maximum(SLACK * count, LEAST_SLACK * xp.sqrt(count) + 4.0)
    unit = xp.where(room < MANY, 8.0, 32.0)
    return (unit * xp.ceil(room / unit)).astype(np.int64)


def slots_of_store(slots: int) -> int:
    """Slots that a store reserves where its cells are to have so many."""
    return -(-int((1.0 + HEADROOM) * slots) // 32) * 32


def components(array):
    """``array`` (rows, slots), or (slots,) as one row."""
    return array if array.ndim == 2 else array[None]


class CudaParticleStore:
    """See the backend protocol; the twin of ecsim.backend.cpu.store.

    Parameters
    ----------
    backend : CudaBackend.  block : Block.  position_dtype : "float64" or "float32", of s.
    weight : one macro-charge for all, or None for one a particle.  ids : keep a uint64 per particle.
    capacity : particles that will be loaded, if known: reserved at once, evenly over the cells.
    migration : takes particles to other blocks, needed where the block does not span the box.
    gather_dtype : "float64" or "float32", in which B is evaluated at a particle (by assembly and mover alike).

    Attributes (device arrays): ``first`` int64 (n_cells + 1,): cell c owns the slots first[c] … first[c+1] − 1;
    ``count`` int32 (n_cells,): the first so many of them hold its particles, the rest is undefined;
    ``s`` (d, slots), ``v`` (3, slots), ``w`` (slots,) or None, ``id`` uint64 (slots,) or None.
    """

    def __init__(self, backend, block, *, position_dtype="float64", weight=None, ids=False, capacity=0,
                 migration=None, gather_dtype="float64") -> None:
        for name, value in (("position_dtype", position_dtype), ("gather_dtype", gather_dtype)):
            if value not in ("float64", "float32"):
                raise ValueError(f"{name} = {value!r}; float64 or float32 is allowed")
        self.backend, self.block, self.weight, self.gather_dtype = backend, block, weight, gather_dtype
        self.migration = migration
        xp = backend.xp
        self.flight: mover.Flight | None = None
        self.late: tuple | None = None
        self.late_seen = backend.page_locked(1).view(np.int32)[:1]
        self.most_travellers = self.leavers = 0      # of a move so far, and of the last one
        self.plans: dict[bool, tuple] = {}
        self.sides = None if migration is None else xp.asarray(migration.sides)
        self.s, self.v = xp.empty((block.d, 0), position_dtype), xp.empty((3, 0))
        self.w = None if weight is not None else xp.empty(0)
        self.id = xp.empty(0, np.uint64) if ids else None
        self.first = xp.zeros(block.n_cells + 1, np.int64)
        self.count = xp.zeros(block.n_cells, np.int32)
        self._waiting: list[dict] = []
        self.n_inserted = 0
        self._rows = None
        self.make_room(xp.full(block.n_cells, -(-capacity // block.n_cells), np.int32))

    # -- arguments of the kernels ------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """Number of particles, those that wait for the next ``sort`` included."""
        return self.n_inserted + sum(len(w["cell"]) for w in self._waiting)

    @property
    def n_cells(self) -> int:
        """Number of support cells."""
        return self.block.n_cells

    @property
    def slots(self) -> int:
        """Particles that fit."""
        return self.v.shape[1]

    @cached_property
    def record_words(self) -> int:
        """8-byte words of a particle in the outbox (WORDS of kernels/particles.cuh)."""
        d = self.block.d
        position = d if self.s.dtype == np.float64 else (d + 1) // 2
        return position + 3 + (self.w is not None) + (self.id is not None)

    @property
    def rows(self) -> tuple:
        """STORE_PARAMETERS of kernels/particles.cuh: three arrays of s, three of v, w and id; None where not kept."""
        if self._rows is None:
            self._rows = mover.rows_of({name: getattr(self, name) for name in NAMES})
        return self._rows

    @cached_property
    def macros(self) -> dict:
        """Macros of every kernel that reads particles."""
        return {"POS": "double" if self.s.dtype == np.float64 else "float", "WEIGHTS": int(self.w is not None),
                "IDS": int(self.id is not None)}

    @cached_property
    def gather_type(self) -> str:
        """Macro GATHER."""
        return "double" if self.gather_dtype == "float64" else "float"

    @cached_property
    def geometry(self) -> tuple[int, int, int]:
        """Owned cells along three axes, right-aligned."""
        return (1,) * (3 - self.block.d) + tuple(self.block.cells)

    @cached_property
    def cut(self) -> int:
        """Bit k: the box is cut along axis k of three, right-aligned."""
        return sum(1 << k + 3 - self.block.d for k in (self.migration.split if self.migration else ()))

    @cached_property
    def uniform_weight(self) -> float:
        """The charge all particles share; not looked at where each has its own."""
        return 0.0 if self.weight is None else float(self.weight)

    def steps(self, dt: float) -> tuple[float, float, float]:
        """dt/Δ along the active dimensions."""
        return tuple(dt / width for width in self.block.spacing) + (0.0,) * (3 - self.block.d)

    @property
    def nbytes(self) -> dict[str, int]:
        """Bytes of each array that lives from cycle to cycle."""
        arrays = {"s": self.s, "v": self.v, "weight": self.w, "id": self.id, "first": self.first, "count": self.count}
        return {name: a.nbytes for name, a in arrays.items() if a is not None}

    # -- loading -----------------------------------------------------------------------------------------------

    def append(self, cell, s, v, weight=None, id=None) -> None:
        """Take particles from host arrays: cell (P,) int, s (d, P), v (3, P), weight (P,) and id (P,) where kept.

        They count from the next ``sort`` on. Raises ValueError if a wanted array is missing or a shape does not fit.
        """
        cell = np.asarray(cell, dtype=np.int32)
        given = {"s": s, "v": v, "w": weight, "id": id}
        shapes = {"s": (self.block.d, len(cell)), "v": (3, len(cell)), "w": cell.shape, "id": cell.shape}
        kept = [name for name in NAMES if getattr(self, name) is not None]
        for name in kept:
            if np.shape(given[name]) != shapes[name]:
                label = {"w": "weight"}.get(name, name)
                raise ValueError(f"{label} has shape {np.shape(given[name])}; {shapes[name]} is allowed")
        if len(cell) and not 0 <= cell.min() <= cell.max() < self.n_cells:
            raise ValueError(f"cell runs from {cell.min()} to {cell.max()}; 0 to {self.n_cells - 1} is allowed")
        if len(cell) >= AT_ONCE:
            self.sort()
            self._insert_from_host(cell, given)
            return
        copies = {name: np.array(given[name], getattr(self, name).dtype) for name in kept}
        self._waiting.append({"cell": cell.copy()} | copies)
        if sum(len(w["cell"]) for w in self._waiting) >= UPLOAD:
            self.sort()

    def sort(self) -> None:
        """Insert the particles that wait, behind those their cells already hold."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        whole = {name: np.concatenate([w[name] for w in waiting], axis=-1) for name in waiting[0]}
        waiting.clear()
        for begin in range(0, len(whole["cell"]), UPLOAD):
            piece = {name: a[..., begin:begin + UPLOAD] for name, a in whole.items()}
            self._insert_from_host(piece.pop("cell"), piece)

    def _insert_from_host(self, cell, given: dict) -> None:
        """Append a batch of host arrays to their cells, row by row without a further copy on the host."""
        xp, batch = self.backend.xp, self.empty_batch(len(cell))
        for name, target in batch.items():
            if target is not None:
                sources = components(np.asarray(given[name], target.dtype))
                for row, source in zip(components(target), sources, strict=True):
                    row[...] = xp.asarray(source)
        self.insert(xp.asarray(cell), batch)

    def empty_batch(self, n: int) -> dict:
        """Device arrays for n particles outside the store, by the names s, v, w, id (None where not kept)."""
        arrays = {name: getattr(self, name) for name in NAMES}
        return {name: None if a is None else self.backend.xp.empty((*a.shape[:-1], n), a.dtype)
                for name, a in arrays.items()}

    def insert(self, cell, batch: dict) -> None:
        """Append a batch of device arrays to their cells, in the order of the batch; the store grows if it must."""
        xp = self.backend.xp
        order = xp.argsort(cell, kind="stable")
        cell = cell[order]
        added = xp.bincount(cell, minlength=self.n_cells).astype(np.int32)
        need = self.count + added
        if int((need > xp.diff(self.first)).sum()):
            self.make_room(need)
        batch_first = xp.cumsum(added, dtype=np.int64) - added
        slot = (self.first[:-1] + self.count - batch_first)[cell] + xp.arange(len(cell))
        for name, values in batch.items():
            if values is not None:
                self._scatter(getattr(self, name), slot, values, order)
        self.count = need
        self.n_inserted += len(cell)

    @staticmethod
    def _scatter(target, slot, values, order) -> None:
        for row, source in zip(components(target), components(values), strict=True):
            row[slot] = source[order]

    # -- layout ------------------------------------------------------------------------------------------------

    def make_room(self, need) -> None:
        """A new layout in which cell c has room for need[c] particles and slack; components move through one buffer.

        The store as a whole grows only if its slots do not suffice, and then gives each old array back before the next
        is made. Spare slots are shared out, 32 at a time to all.
        """
        xp, before = self.backend.xp, self.slots
        slots = slots_for(need, xp)
        total = int(slots.sum())
        whole = slots_of_store(total) if total > before else before
        if whole >= MOST_SLOTS:
            raise MemoryError(f"{whole:,} slots for particles of one species; one GPU takes less than {MOST_SLOTS:,}")
        slots += (whole - total) // self.n_cells // 32 * 32
        self._rows = None
        old_first, self.first = self.first, xp.zeros(self.n_cells + 1, np.int64)
        self.first[1:] = xp.cumsum(slots)
        buffer = xp.empty(8 * whole if whole == before else 0, np.uint8)
        for name in NAMES:
            array = getattr(self, name)
            if array is not None and whole == before:
                self._rearrange(array, old_first, buffer[: array.itemsize * whole].view(array.dtype))
            elif array is not None:
                setattr(self, name, self._grown(array, old_first, whole))
                del array
                if before > 0:
                    self.backend.release_memory()

    def _rearrange(self, array, old_first, buffer) -> None:
        """Bring the particles of each cell to their new places in ``array`` (…, slots), through a buffer (slots,)."""
        for row in components(array):
            self._relocate(row, buffer, old_first, self.first)
            row[...] = buffer

    def _grown(self, array, old_first, slots: int):
        """A larger copy (…, slots) of ``array`` with the particles of each cell at their new places."""
        grown = self.backend.xp.empty((*array.shape[:-1], slots), array.dtype)
        for row, target in zip(components(array), components(grown), strict=True):
            self._relocate(row, target, old_first, self.first)
        return grown

    def _relocate(self, source, target, old_first, new_first) -> None:
        item = "float" if source.dtype.itemsize == 4 else "double"
        self.backend.launch("relocate.cu", "relocate", (-(-self.n_cells // 8), 1), 256,
                            (source, target, old_first, new_first, self.count, self.n_cells), ITEM=item)

    def _sort_by(self, to) -> None:
        """Full stable sort by ``to`` (slots,) int32, the cell of each slot's particle, n_cells where there is none."""
        xp = self.backend.xp
        order = xp.argsort(to, kind="stable")[: self.n_inserted]
        cell = to[order]
        batch = {name: None if a is None else a[..., order] for name, a in ((m, getattr(self, m)) for m in NAMES)}
        self.count, self.n_inserted = xp.zeros(self.n_cells, np.int32), 0
        self.insert(cell, batch)

    # -- moving ------------------------------------------------------------------------------------------------

    def push(self, dt: float) -> None:
        """Positions ``dt`` on at present velocities, wrapped, sorted."""
        mover.move([self], [0.0], dt)
        self.finish_move()

    def move(self, beta: float, dt: float, E_nodes, B_nodes):
        """Kick by E^{n+θ} and B^n, push by ``dt``, wrap, sort.

        beta : q Δt / 2m.  E_nodes, B_nodes : (3, *padded) with valid ghosts.
        Returns ``sums`` of the new velocities, on the device; the first is NaN if a particle is no longer finite.
        """
        sums = mover.move([self], [beta], dt, E_nodes, B_nodes)[0]
        self.finish_move()
        return sums

    def finish_move(self) -> None:
        """What the backend's ``move`` leaves to be done before anyone looks at the particles: the host waits for it."""
        with self.backend.timer.phase("mover"):
            flight, self.flight = self.flight, None
            if flight is not None:
                flight.depart()
                flight.settle()
            late, self.late = self.late, None
            if late is not None:
                append_late(self, *late)

    def move_plainly(self, beta: float, dt: float, E_nodes, B_nodes):
        """What `move` does, by a push in place and a full sort: the check, for blocks that span the box.

        It is slower and takes several times the memory.
        """
        to, sums = mover.push_in_place(self, beta, dt, E_nodes, B_nodes)
        self._sort_by(to)
        return sums

    # -- looking -----------------------------------------------------------------------------------------------

    def sums(self):
        """[Σ w v²/2, Σ w v (3), Σ w], shape (5,) on the device, over all particles at their present velocities."""
        rows = self.backend.xp.empty((self.n_cells, 5))
        self.backend.launch(
            "sums.cu", "sum_cells", (-(-self.n_cells // 8), 1), 256,
            (self.v, self.w, self.slots, self.first, self.count, self.n_cells, self.uniform_weight, rows),
            DIM=1, POS="float", WEIGHTS=self.macros["WEIGHTS"], IDS=0)
        return self.backend.sum_rows(rows)

    def deposit_moments(self):
        """[Σ w W, Σ w v W (3), Σ w v_i v_j W (xx, xy, xz, yy, yz, zz)] / V at present x and v, (10, *padded).

        What reaches ghost nodes is there, to be added to its owners.
        """
        out = self.backend.xp.zeros((10, *self.block.padded))
        self._deposit(out, centres=0, span=self.block.order + 1)
        return out

    def deposit_centre_charge(self, out) -> None:
        """out (*padded) += Σ w W_cic(x − x_centre) / V, ghost centres included."""
        self._deposit(out, centres=1, span=4 - self.block.order)

    def _deposit(self, out, centres: int, span: int) -> None:
        """Add to ``out`` colour by colour: cells of one colour do not reach the same points."""
        spans = tuple(min(span, n) for n in self.geometry)
        macros = {**self.macros, "IDS": 0}
        for colour in np.ndindex(spans):
            cells = [-(-(n - c) // span) for n, c in zip(self.geometry, colour, strict=True)]
            self.backend.launch(
                "deposit.cu", "deposit_colour", (-(-int(np.prod(cells)) // 2), 1), 64,
                (*self.rows, self.first, self.count, out, *self.geometry, self.uniform_weight, 1.0 / self.block.volume,
                 *colour),
                DIM=self.block.d, ORDER=self.block.order, CENTRES=centres, **macros)

    def columns(self):
        """Yield host arrays one at a time, in stored order: "count" (n_cells,), "s0" …, "v0" …, "weight", "id" (n,)."""
        xp = self.backend.xp
        packed_first = xp.zeros(self.n_cells + 1, np.int64)
        packed_first[1:] = xp.cumsum(self.count, dtype=np.int64)
        yield "count", self.backend.to_host(self.count)
        for name, array in (("s", self.s), ("v", self.v), ("weight", self.w), ("id", self.id)):
            for k, row in enumerate([] if array is None else array.reshape(-1, self.slots)):
                out = xp.empty(self.n_inserted, row.dtype)
                self._relocate(row, out, self.first, packed_first)
                yield f"{name}{k}" if name in ("s", "v") else name, self.backend.to_host(out)

    def to_host(self) -> dict:
        """Copies in stored order: cell (P,) int32, s (d, P), v (3, P), weight (P,) or float, id (P,) or None."""
        found = dict(self.columns())
        return {"cell": np.repeat(np.arange(self.n_cells, dtype=np.int32), found["count"]),
                "s": np.stack([found[f"s{k}"] for k in range(self.block.d)]),
                "v": np.stack([found[f"v{k}"] for k in range(3)]),
                "weight": found.get("weight", self.weight), "id": found.get("id")}
