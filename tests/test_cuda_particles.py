"""The particle store of the CUDA backend against its CPU twin, and against itself where nothing may depend on luck."""

from __future__ import annotations

import tracemalloc
import weakref

import numpy as np
import pytest
from cuda_devices import DEVICES, HostCudaBackend, backend_on, fresh_random
from cuda_stores import BETA, DT, assert_close, assert_same_bits, block_of, by_id, fields, filled, particles

from ecsim.backend.cpu import CpuBackend
from ecsim.backend.cuda import move as mover
from ecsim.backend.cuda import store as store_module

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


@pytest.mark.parametrize("ahead", [1, 2])
def test_a_full_outbox_loses_and_reorders_nothing(backend, rng, monkeypatch, ahead):
    monkeypatch.setattr(mover, "MANY_LEAVERS", {1: 10**9, 2: -1}[ahead])
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


@pytest.mark.parametrize("n", [0, 1])
def test_no_particle_and_one(backend, rng, n):
    block = block_of((3, 2, 2))
    given = particles(rng, block, n, 1.0)
    cpu, cuda = filled(CpuBackend(1), block, given, ids=True), filled(backend, block, given, ids=True)
    E, B = fields(rng, block)
    expected = cpu.move(BETA, DT, E, B)
    found = backend.to_host(cuda.move(BETA, DT, backend.from_host(E), backend.from_host(B)))
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13 * np.abs(expected).max())  # v is a difference
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


@pytest.mark.parametrize("mean", [3, 40, 800])
def test_as_many_particles_fit_in_a_new_layout(backend, rng, mean):
    """The store, reserved for a uniform plasma, does not grow when its cells have become uneven by chance."""
    block = block_of((20, 30))
    store = backend.new_store(block, weight=1.0, capacity=mean * block.n_cells)
    before = store.slots
    for _ in range(3):
        need = rng.poisson(mean, block.n_cells).astype(np.int32)
        store.make_room(backend.from_host(need))
        first = backend.to_host(store.first)
        assert store.slots == before and (np.diff(first) > need).all() and first[-1] <= before and not (first % 8).any()
    need += np.int32(mean)
    store.make_room(backend.from_host(need))
    assert (np.diff(backend.to_host(store.first)) > need).all()
    assert before < store.slots <= 1.05 * store_module.slots_for(need, np).sum()


def test_a_store_that_grows_gives_each_array_back_before_the_next_is_made(rng):
    backend, held = HostCudaBackend(), []
    store = filled(backend, block_of((4, 3, 5)), particles(rng, block_of((4, 3, 5)), 800, 0.1), ids=True)
    assert store.rows
    old = {name: weakref.ref(getattr(store, name)) for name in store_module.NAMES}
    backend.release_memory = lambda: held.append([name for name, array in old.items() if array() is not None])
    store.make_room(np.full(store.n_cells, 500, np.int32))
    assert held == [["v", "w", "id"], ["w", "id"], ["id"], []]


def test_a_new_layout_takes_one_buffer_for_all_components(rng):
    """The memory plan counts one component of 8 bytes; the store's own arrays stay where they are."""
    store = filled(HostCudaBackend(), block_of((20, 30)), particles(rng, block_of((20, 30)), 30_000, 0.1), ids=True)
    store.make_room(store.count)
    before, arrays = by_id(store.to_host()), [getattr(store, name) for name in store_module.NAMES]
    need = store.count.copy()
    need[7] = np.diff(store.first)[7] + 1
    tracemalloc.start()
    store.make_room(need)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.diff(store.first)[7] >= need[7] and 8 * store.slots <= peak < 1.3 * 8 * store.slots
    assert all(array is getattr(store, name) for name, array in zip(store_module.NAMES, arrays, strict=True))
    after = by_id(store.to_host())
    assert all((after[name] == before[name]).all() for name in before)


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
