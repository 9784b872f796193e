"""Several species on their way at once, and particles that go further than to a neighbouring cell or out of a block."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
from cuda_devices import DEVICES, HostCudaBackend, backend_on, fresh_random
from cuda_stores import BETA, DT, assert_close, assert_same_bits, block_of, by_id, fields, filled, particles

from ecsim.backend.cpu import CpuBackend
from ecsim.backend.cuda import move as mover
from ecsim.backend.cuda import store as store_module
from ecsim.grid import Block


@pytest.fixture(params=DEVICES)
def backend(request):
    return backend_on(request.param)


@pytest.fixture
def rng():
    return fresh_random()


def test_an_outbox_keeps_its_heads_when_it_grows():
    """A species with short records has been there before, with more of them in the same room."""
    backend, old, gone = HostCudaBackend(), [], []
    backend.release_memory = lambda: gone.append(old[-1]() is None)
    outbox = mover.Outbox(backend)
    outbox.reserve(1000, 200_000, [5, 4])
    old.append(weakref.ref(outbox.words))
    heads = len(outbox.heads)
    assert heads >= 1000 + outbox.capacity(4) // mover.LEAST_IN_FULL_RUN
    outbox.heads[...] = 7
    outbox.status = outbox.reserve(1000, 200_000, [5])[0]
    status = outbox.status.copy()
    status[mover.RECORDS], status[mover.UNBINNED] = 10**6, 3
    before = outbox.capacity(5)
    outbox.grow(1000, status, 10, 5)
    assert len(outbox.heads) >= heads and (outbox.heads[:heads] == 7).all()
    assert outbox.capacity(5) >= before + 3 and outbox.status[mover.RECORDS] == before
    old.append(weakref.ref(outbox.words))
    outbox.reserve(1000, 10**6, [5])
    assert gone == [True, True] and outbox.capacity(5) >= 10**6


@pytest.mark.parametrize("cramped", [False, True])
def test_all_species_at_once_are_each_alone(backend, rng, monkeypatch, cramped):
    """Also when the outbox and cells run full in between."""
    if cramped:
        monkeypatch.setattr(mover, "FRACTION", 0.0)
        monkeypatch.setattr(mover, "LEAST_RECORDS", 5 * mover.POOL)
        monkeypatch.setattr(mover, "POOL", 0)
        monkeypatch.setattr(store_module, "SLACK", 0.0)
        monkeypatch.setattr(store_module, "LEAST_SLACK", 0.0)
    block, betas = block_of((3, 4, 2)), [BETA, -0.7, 0.1]
    E, B = (backend.from_host(a) for a in fields(rng, block))
    kinds = [({"ids": True}, 1500, 0.6), ({"weight": 0.3, "position_dtype": "float32"}, 0, 0.1),
             ({"weight": -0.2, "ids": True}, 900, 2.5)]
    given = [particles(rng, block, n, speed) for _, n, speed in kinds]
    other = type(backend)()
    alone, together = ([filled(maker, block, some, **options)
                        for some, (options, *_) in zip(given, kinds, strict=True)] for maker in (backend, other))
    for _ in range(3):
        expected = [store.move(beta, DT, E, B) for store, beta in zip(alone, betas, strict=True)]
        found = other.move(together, betas, DT, E, B)
        for one, two, a, b in zip(alone, together, expected, found, strict=True):
            two.finish_move()
            np.testing.assert_array_equal(backend.to_host(a), backend.to_host(b))
            np.testing.assert_equal(two.to_host(), one.to_host())


@pytest.mark.parametrize(("dtype", "weight"), [("float64", -0.4), ("float32", None)])
def test_a_crowd_that_comes_from_afar_is_sorted_in(backend, rng, dtype, weight):
    """More than CROWD of kernels/migrate.cu jump to one cell, some to others, into cells that are full."""
    block = block_of((6, 2, 3))
    given = particles(rng, block, 3000, 0.0)
    given["cell"][:] = np.where(rng.random(3000) < 0.5, 3, 10)
    given["v"][0] = np.where(given["cell"] == 3, 2, -3) * 0.7 / DT
    given["v"][0, :100] = 1.9 * 0.7 / DT
    options = {"position_dtype": dtype, "weight": weight, "ids": True}
    cpu, cuda = filled(CpuBackend(1), block, given, **options), filled(backend, block, given, **options)
    cpu.push(DT)
    cuda.push(DT)
    assert cuda.n == 3000
    assert_close(cpu.to_host(), cuda.to_host(), block)


class Mailbox:
    """Stands for the exchange between two blocks: keeps what goes to the other one and hands over what came from it."""

    def __init__(self, block, axis, xp) -> None:
        self.block, self.axis, self.split, self.xp, self.arrived, self.other = block, axis, (axis,), xp, None, None
        here = np.arange(block.grid.cells[axis]) - block.origin[axis]
        away = 1 if block.origin[axis] else 2
        self.sides = np.where((here >= 0) & (here < block.cells[axis]), 0, away).astype(np.int8)

    def exchange(self, travellers, numbers, meanwhile):
        assert not meanwhile
        home = self.owns(travellers[:, 0])
        assert numbers[0] == home.sum() and home[: numbers[0]].all()
        assert sum(numbers) == len(travellers) and max(numbers[1:]) == sum(numbers[1:])
        assert self.other.owns(travellers[~home, 0]).all()
        self.other.arrived, arrived = travellers[~home], self.arrived
        mine = travellers[home]
        return mine if arrived is None else self.xp.concatenate([mine, arrived])

    def index(self, cells):
        whole = self.block.grid.cells
        return [cells.astype(np.int64) // int(np.prod(whole[k + 1:])) % whole[k] - self.block.origin[k]
                for k in range(self.block.d)]

    def owns(self, cells):
        return sum((i < 0) | (i >= n) for i, n in zip(self.index(cells), self.block.cells, strict=True)) == 0

    def local(self, cells):
        flat = 0
        for i, n in zip(self.index(cells), self.block.cells, strict=True):
            flat = flat * n + i
        return flat


@pytest.mark.parametrize(("dtype", "axis"), [("float64", 0), ("float32", 1)])
def test_two_blocks_are_one_box(backend, rng, dtype, axis):
    """Particles that leave a block where it is cut, near or far, go through the migration to the other."""
    cells = (4, 3) if axis == 0 else (3, 4)
    whole = block_of(cells)
    given = particles(rng, whole, 900, 0.8)
    options = {"position_dtype": dtype, "ids": True}
    expected = filled(backend, whole, given, **options)
    half = tuple(2 if k == axis else n for k, n in enumerate(cells))
    blocks = [Block(whole.grid, tuple(start if k == axis else 0 for k in range(2)), half) for start in (0, 2)]
    boxes = [Mailbox(block, axis, backend.xp) for block in blocks]
    boxes[0].other, boxes[1].other = boxes[1], boxes[0]
    stores = []
    for block, box in zip(blocks, boxes, strict=True):
        mine = box.owns(given["cell"])
        part = {name: a[..., mine] for name, a in given.items()}
        part["cell"] = box.local(part["cell"]).astype(np.int32)
        stores.append(filled(backend, block, part, migration=box, **options))
    expected.push(DT)
    for store in stores:
        store.push(DT)
    stores[0].push(0.0)  # takes what the second has sent meanwhile
    found = {name: [] for name in ("cell", "s", "v", "weight", "id")}
    for store, block in zip(stores, blocks, strict=True):
        host = store.to_host()
        index = np.unravel_index(host["cell"], block.cells)
        host["cell"] = np.ravel_multi_index([i + o for i, o in zip(index, block.origin, strict=True)], cells)
        assert store.n == len(host["cell"])
        for name in found:
            found[name].append(host[name])
    found = {name: np.concatenate(parts, axis=-1) for name, parts in found.items()}
    assert_same_bits(by_id(expected.to_host()), by_id(found))
