"""The particle store of the CUDA backend against its CPU twin, and against itself where nothing may depend on luck."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_devices import DEVICES, backend_on, fresh_random

from ecsim.backend.cpu import CpuBackend
from ecsim.backend.cuda import move as mover
from ecsim.backend.cuda import store as store_module
from ecsim.grid import Block, Grid

BETA, DT = 0.3, 0.1

# cells, order, dtype of positions, weight, speed in cells per step, particles
CASES = {
    "cic 3d": ((4, 3, 5), 1, "float64", None, 0.05, 1500),
    "cic 3d float32 fast": ((4, 3, 5), 1, "float32", None, 3.0, 800),
    "tsc 3d uniform weight": ((3, 4, 3), 2, "float32", -0.7, 0.3, 800),
    "tsc 2d": ((7, 6), 2, "float64", None, 0.4, 1500),
    "cic 2d one cell thin": ((1, 5), 1, "float64", 0.2, 0.5, 500),
    "tsc 1d one cell": ((1,), 2, "float64", None, 2.0, 300),
    "cic 1d": ((9,), 1, "float32", None, 0.3, 2000),
}


@pytest.fixture(params=DEVICES)
def backend(request):
    return backend_on(request.param)


@pytest.fixture
def rng():
    return fresh_random()


def block_of(cells, order=1) -> Block:
    return Block(Grid(cells, tuple(0.7 * n for n in cells), order))


def particles(rng, block, n, speed):
    """Random particles, of ``speed`` cells a step, as ``append`` takes them."""
    return {"cell": rng.integers(0, block.n_cells, n).astype(np.int32),
            "s": (rng.random((block.d, n)) - 0.5).astype(np.float32).astype(np.float64),
            "v": speed * 0.7 / DT * rng.standard_normal((3, n)), "weight": rng.random(n) - 0.3,
            "id": np.arange(n, dtype=np.uint64)}


def filled(backend, block, given, **options):
    """A store of these particles whose slack is poisoned, where it is a CUDA store."""
    store = backend.new_store(block, **options)
    if backend.name == "cuda":
        for array in (store.s, store.v, *([] if store.w is None else [store.w])):
            array[...] = np.nan
    store.append(**given)
    store.sort()
    return store


def fields(rng, block):
    return rng.standard_normal((3, *block.padded)), rng.standard_normal((3, *block.padded))


def by_id(host: dict) -> dict:
    order = np.argsort(host["id"], kind="stable")
    weight = host["weight"][order] if np.ndim(host["weight"]) else host["weight"]
    return {"cell": host["cell"][order], "s": host["s"][:, order], "v": host["v"][:, order], "weight": weight,
            "id": host["id"][order]}


def assert_same_bits(a: dict, b: dict) -> None:
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def assert_close(a: dict, b: dict, block) -> None:
    """Same particles in the same cells, or right at a face of them, with equal numbers to rounding."""
    a, b = by_id(a), by_id(b)
    np.testing.assert_array_equal(a["id"], b["id"])
    np.testing.assert_array_equal(a["weight"], b["weight"])
    np.testing.assert_allclose(a["v"], b["v"], rtol=1e-12, atol=1e-12 * np.abs(a["v"]).max())
    apart = np.stack(np.unravel_index(a["cell"], block.cells)) - np.stack(np.unravel_index(b["cell"], block.cells))
    cells = np.array(block.cells)[:, None]
    apart = apart + a["s"] - b["s"]
    apart -= cells * np.round(apart / cells)
    assert np.abs(apart).max() < (1e-6 if a["s"].dtype == np.float32 else 1e-12)
    assert np.abs(b["s"]).max() <= 0.5
    assert np.mean(a["cell"] != b["cell"]) < 0.01


@pytest.mark.parametrize("case", CASES)
def test_push_and_moves_like_the_cpu(backend, rng, case):
    cells, order, dtype, weight, speed, n = CASES[case]
    block = block_of(cells, order)
    given = particles(rng, block, n, speed)
    options = {"position_dtype": dtype, "weight": weight, "ids": True}
    cpu, cuda = filled(CpuBackend(1), block, given, **options), filled(backend, block, given, **options)
    assert_same_bits(cpu.to_host(), cuda.to_host())
    cpu.push(0.5 * DT)
    cuda.push(0.5 * DT)
    assert_close(cpu.to_host(), cuda.to_host(), block)
    for _ in range(2):
        E, B = fields(rng, block)
        expected = cpu.move(BETA, DT, E, B)
        found = backend.to_host(cuda.move(BETA, DT, backend.from_host(E), backend.from_host(B)))
        scale = np.abs(cpu.to_host()["v"]).max() ** np.array([2, 1, 1, 1, 0]) * n
        assert np.abs(found - expected).max() < np.inf and np.all(np.abs(found - expected) <= 1e-14 * scale)
        assert_close(cpu.to_host(), cuda.to_host(), block)
    np.testing.assert_allclose(backend.to_host(cuda.sums()), found, rtol=1e-12, atol=1e-13 * n)
    counts = backend.to_host(cuda.count)
    np.testing.assert_array_equal(counts, np.bincount(cuda.to_host()["cell"], minlength=block.n_cells))


@pytest.mark.parametrize("case", ["cic 3d", "tsc 2d", "cic 1d", "tsc 1d one cell"])
def test_deposits_like_the_cpu(backend, rng, case):
    cells, order, dtype, weight, speed, n = CASES[case]
    block = block_of(cells, order)
    given = particles(rng, block, n, speed)
    options = {"position_dtype": dtype, "weight": weight}
    cpu, cuda = filled(CpuBackend(1), block, given, **options), filled(backend, block, given, **options)
    expected = cpu.deposit_moments()
    found = backend.to_host(cuda.deposit_moments())
    assert np.abs(found - expected).max() <= 1e-13 * np.abs(expected).max()
    charge = rng.random(block.padded)
    expected, found = charge.copy(), backend.from_host(charge.copy())
    cpu.deposit_centre_charge(expected)
    cuda.deposit_centre_charge(found)
    assert np.abs(backend.to_host(found) - expected).max() <= 1e-13 * np.abs(expected).max()


def history(backend, block, given, E, B, moves=3, plainly=False, **options) -> list[dict]:
    """Host copies after each of several moves."""
    store = filled(backend, block, given, **options)
    E, B = backend.from_host(E), backend.from_host(B)
    step = store.move_plainly if plainly else store.move
    states = []
    for _ in range(moves):
        sums = backend.to_host(step(BETA, DT, E, B))
        states.append({**store.to_host(), "sums": sums})
    return states


def test_a_full_outbox_loses_and_reorders_nothing(backend, rng, monkeypatch):
    block = block_of((3, 2, 4))
    given = particles(rng, block, 3000, 0.6)
    E, B = fields(rng, block)
    ample = history(backend, block, given, E, B, ids=True)
    monkeypatch.setattr(mover, "FRACTION", 0.0)
    monkeypatch.setattr(mover, "LEAST_RECORDS", 5 * mover.POOL)  # some warps find room and others do not
    monkeypatch.setattr(mover, "POOL", 0)
    grown = []
    plain_grow = mover.Outbox.grow
    monkeypatch.setattr(mover.Outbox, "grow", lambda *a: (grown.append(1), plain_grow(*a)))
    short = type(backend)()
    for a, b in zip(ample, history(short, block, given, E, B, ids=True), strict=True):
        assert_same_bits(a, b)
    assert grown


def test_a_full_cell_grows_and_reorders_nothing(backend, rng, monkeypatch):
    block = block_of((3, 2, 4))
    given = particles(rng, block, 2000, 0.4)
    E, B = fields(rng, block)
    ample = history(backend, block, given, E, B, ids=True)
    monkeypatch.setattr(store_module, "SLACK", 0.0)
    monkeypatch.setattr(store_module, "LEAST_SLACK", 0.0)
    layouts = []
    make_room = store_module.CudaParticleStore.make_room
    monkeypatch.setattr(store_module.CudaParticleStore, "make_room",
                        lambda self, need: (layouts.append(1), make_room(self, need)))
    for a, b in zip(ample, history(backend, block, given, E, B, ids=True), strict=True):
        assert_same_bits(a, b)
    assert len(layouts) > 2


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


@pytest.mark.parametrize("case", ["cic 3d", "tsc 2d"])
def test_fused_and_plain_sort_agree(backend, rng, case):
    cells, order, dtype, weight, speed, n = CASES[case]
    block = block_of(cells, order)
    given = particles(rng, block, n, speed)
    E, B = fields(rng, block)
    options = {"position_dtype": dtype, "weight": weight, "ids": True}
    for a, b in zip(history(backend, block, given, E, B, **options),
                    history(backend, block, given, E, B, plainly=True, **options), strict=True):
        np.testing.assert_allclose(a.pop("sums"), b.pop("sums"), rtol=1e-12, atol=1e-12 * n)
        assert_close(a, b, block)


def test_the_same_bits_again(backend, rng):
    block = block_of((4, 3, 5), 2)
    given = particles(rng, block, 4000, 0.5)
    E, B = fields(rng, block)
    for a, b in zip(history(backend, block, given, E, B), history(backend, block, given, E, B), strict=True):
        a.pop("id"), b.pop("id")
        assert_same_bits(a, b)


def test_1e5_particles_in_one_cell(backend, rng):
    block = block_of((3, 3))
    given = particles(rng, block, 100_000, 0.3)
    given["cell"][:] = 4
    cpu, cuda = filled(CpuBackend(1), block, given, ids=True), filled(backend, block, given, ids=True)
    E, B = fields(rng, block)
    cpu.move(BETA, DT, E, B)
    cuda.move(BETA, DT, backend.from_host(E), backend.from_host(B))
    assert_close(cpu.to_host(), cuda.to_host(), block)


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


@pytest.mark.parametrize("n", [0, 1])
def test_no_particle_and_one(backend, rng, n):
    block = block_of((3, 2, 2))
    given = particles(rng, block, n, 1.0)
    cpu, cuda = filled(CpuBackend(1), block, given, ids=True), filled(backend, block, given, ids=True)
    E, B = fields(rng, block)
    expected = cpu.move(BETA, DT, E, B)
    found = backend.to_host(cuda.move(BETA, DT, backend.from_host(E), backend.from_host(B)))
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert cuda.n == n and len(cuda.to_host()["cell"]) == n
    assert backend.to_host(cuda.deposit_moments()).shape == (10, *block.padded)
    if n:
        assert_close(cpu.to_host(), cuda.to_host(), block)


@pytest.mark.parametrize("axis", range(3))
def test_through_every_face_edge_and_corner(backend, axis):
    """One particle a direction, from cell (0, 0, 0) of a box of 1×2×3 cells: where it must arrive is known."""
    cells = tuple(np.roll((1, 2, 3), axis))
    block = block_of(cells)
    steps = np.array(list(np.ndindex(3, 3, 3))).T - 1
    n = steps.shape[1]
    given = {"cell": np.zeros(n, np.int32), "s": 0.25 * np.ones((3, n)), "v": steps * 0.7 / DT, "weight": np.ones(n),
             "id": np.arange(n, dtype=np.uint64)}
    store = filled(backend, block, given, ids=True)
    store.push(DT)
    found = by_id(store.to_host())
    np.testing.assert_array_equal(found["cell"], np.ravel_multi_index(tuple(steps % np.array(cells)[:, None]), cells))
    np.testing.assert_allclose(found["s"], 0.25, atol=1e-14)


def test_what_is_not_finite_is_reported_and_kept(backend, rng):
    block = block_of((3, 2, 2))
    given = particles(rng, block, 200, 0.3)
    given["v"][1, 17] = np.nan
    store = filled(backend, block, given, ids=True)
    E, B = fields(rng, block)
    sums = backend.to_host(store.move(BETA, DT, backend.from_host(E), backend.from_host(B)))
    assert np.isnan(sums[0])
    np.testing.assert_array_equal(by_id(store.to_host())["id"], given["id"])


@pytest.mark.parametrize("at_once", [1, 75, store_module.AT_ONCE])
def test_chunks_are_one_store_whatever_was_reserved(backend, rng, monkeypatch, at_once):
    block = block_of((4, 5))
    given = particles(rng, block, 700, 0.1)
    given["cell"] = np.minimum(given["cell"], 3)
    whole = filled(backend, block, given, ids=True)
    monkeypatch.setattr(store_module, "UPLOAD", 150)
    monkeypatch.setattr(store_module, "AT_ONCE", at_once)
    for capacity in (0, 700, 5000):
        chunked = backend.new_store(block, ids=True, capacity=capacity)
        for part in np.split(np.arange(700), [70, 140, 230, 300, 390, 391, 500, 640]):
            chunked.append(**{name: a[..., part] for name, a in given.items()})
        assert chunked.n == 700
        chunked.sort()
        assert_same_bits(whole.to_host(), chunked.to_host())
        first, count = backend.to_host(chunked.first), backend.to_host(chunked.count)
        assert (np.diff(first) >= count).all() and first[-1] <= chunked.slots


def test_wrong_arrays_are_refused(backend, rng):
    block = block_of((4, 5))
    given = particles(rng, block, 10, 0.1)
    store = backend.new_store(block, ids=True)
    with pytest.raises(ValueError, match=r"v has shape \(2, 10\); \(3, 10\) is allowed"):
        store.append(**{**given, "v": given["v"][:2]})
    with pytest.raises(ValueError, match="weight has shape"):
        store.append(**{**given, "weight": None})
    with pytest.raises(ValueError, match="cell runs from"):
        store.append(**{**given, "cell": given["cell"] + 20})
    with pytest.raises(ValueError, match="position_dtype = 'float16'"):
        backend.new_store(block, position_dtype="float16")


def test_b_in_float32_does_no_work(backend, rng):
    block = block_of((3, 2, 3))
    given = particles(rng, block, 500, 0.2)
    store = filled(backend, block, given, weight=1.0, position_dtype="float32", gather_dtype="float32")
    zero, (_, B) = backend.from_host(np.zeros((3, *block.padded))), fields(rng, block)
    before = backend.to_host(store.sums())
    after = backend.to_host(store.move(BETA, DT, zero, backend.from_host(B)))
    assert abs(after[0] - before[0]) <= 1e-14 * before[0]
    assert np.abs(after[1:4] - before[1:4]).max() > 1e-3


class Mailbox:
    """Stands for the exchange between two blocks: keeps what goes to the other one and hands over what came from it."""

    def __init__(self, block, axis, xp) -> None:
        self.block, self.axis, self.xp, self.arrived, self.other = block, axis, xp, None, None
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
