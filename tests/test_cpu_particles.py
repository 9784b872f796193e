"""Mover, sort, sums and deposits of the CPU stores against loops over particles."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_cases import (
    CASES,
    assert_near,
    case_name,
    draw,
    fill,
    make_block,
    padded_weights,
    pair_offsets,
    particles_of,
    rotation,
    same_bits,
)

from ecsim.backend.cpu import CpuBackend
from ecsim.backend.cpu import store as store_module

BETA, DT = 0.41, 0.3
FEW = [((5, 3), 1), ((3, 4, 9), 1), ((3, 4, 9), 2), ((7,), 2)]


@pytest.fixture(scope="module")
def backend():
    return CpuBackend(1)


def fields(block, rng):
    return rng.normal(size=(3, *block.padded)), rng.normal(size=(3, *block.padded))


def expected_move(store, E, B, dt=DT):
    """{id: (cell, s, v)} after one move, and the sums; coordinates in the storage type's precision."""
    block, dtype = store.block, store.s[0].dtype.type
    moved, sums, ids = {}, np.zeros(5), store.to_host()["id"]
    for number, (cell, s, v, w) in zip(ids, particles_of(store), strict=True):
        W = padded_weights(block, cell, s).ravel()
        alpha = rotation(BETA * (B.reshape(3, -1) @ W))
        v = 2.0 * alpha @ (v + BETA * (E.reshape(3, -1) @ W)) - v
        index, to = np.array(np.unravel_index(cell, block.cells)), np.empty(block.d)
        for k in range(block.d):
            x = float(dtype(s[k] + dt * v[k] / block.spacing[k]))
            steps = np.floor(x + 0.5)
            to[k], index[k] = x - steps, (index[k] + int(steps)) % block.cells[k]
        moved[number] = np.ravel_multi_index(tuple(index), block.cells), to, v
        sums += np.array([0.5 * v @ v, *v, 1.0]) * w
    return moved, sums


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_move(backend, case):
    block, rng = make_block(*case), np.random.default_rng(1)
    E, B = fields(block, rng)
    light = {"position_dtype": "float32", "velocity_dtype": "float32"}
    for options in ({}, {"uniform": -0.2, "position_dtype": "float32"}, {"uniform": 0.4, **light}):
        store = fill(backend, block, draw(block, 60, rng), **options)
        expected, expected_sums = expected_move(store, E, B)
        sums, h = store.move(BETA, DT, E, B), store.to_host()
        tolerance = 1e-13 if h["s"].dtype == np.float64 else 1e-6
        cell, s, v = (np.array(a) for a in zip(*(expected[number] for number in h["id"]), strict=True))
        np.testing.assert_array_equal(h["cell"], cell)
        assert_near(h["s"], s.T, tolerance)
        fine = 1e-13 if h["v"].dtype == np.float64 else 1e-6
        assert_near(h["v"], v.T, fine)
        np.testing.assert_allclose(sums, expected_sums, rtol=fine, atol=fine * np.abs(expected_sums).max())
        np.testing.assert_allclose(sums, store.sums(), rtol=1e-13, atol=1e-13 * np.abs(expected_sums).max())
        assert (h["s"] >= -0.5).all() and (h["s"] < 0.5).all()


@pytest.fixture(params=["kept in caches", "past the caches"])
def caches(request, monkeypatch):
    """Arrays that are written back through the caches, and such as large ones are."""
    if request.param == "past the caches":
        monkeypatch.setattr(store_module, "LARGE", 0)


@pytest.mark.parametrize("case", FEW, ids=case_name)
def test_sort_is_stable_whatever_the_step(backend, case, caches):
    """Slow, fast (several times round the box) and resting particles: order as of a stable sort of the new cells."""
    block, rng = make_block(*case), np.random.default_rng(2)
    nothing = np.zeros((3, *block.padded))
    for dt in (0.0, 0.05, 1.0, 300.0):
        store = fill(backend, block, draw(block, 800, rng))
        before = store.to_host()
        expected, _ = expected_move(store, nothing, nothing, dt)
        store.push(dt)
        h = store.to_host()
        cell = np.array([expected[number][0] for number in before["id"]])
        np.testing.assert_array_equal(h["id"], before["id"][np.argsort(cell, kind="stable")])
        np.testing.assert_array_equal(h["cell"], np.sort(cell))
        np.testing.assert_array_equal(h["v"], before["v"][:, np.argsort(cell, kind="stable")])


def test_push_at_rest_changes_no_bit(backend):
    block = make_block((3, 4, 9), 2)
    store = fill(backend, block, draw(block, 300, np.random.default_rng(3), edges=False))
    before = store.to_host()
    store.push(0.0)
    same_bits(before, store.to_host())


@pytest.mark.parametrize("case", [((6, 5), 1), ((3, 4, 9), 2), ((9,), 1)], ids=case_name)
@pytest.mark.parametrize("options", [{}, {"position_dtype": "float32", "uniform": 0.7}])
def test_sort_every_changes_no_bit(backend, case, options, caches):
    block, rng = make_block(*case), np.random.default_rng(4)
    given, (E, B) = draw(block, 700, rng), fields(block, rng)
    stores = [fill(backend, block, given, sort_every=every, **options) for every in (1, 2, 3)]
    for _ in range(5):
        results = [store.move(BETA, 0.1, E, B) for store in stores]
        for store, sums in zip(stores[1:], results[1:], strict=True):
            np.testing.assert_array_equal(sums, results[0])
            same_bits(stores[0].to_host(), store.to_host())
            np.testing.assert_array_equal(store.sums(), stores[0].sums())
            np.testing.assert_array_equal(store.deposit_moments(), stores[0].deposit_moments())
            for method in ("pair", "direct"):
                assert_same_assembly(backend, [stores[0], store], B, method)
            for (_, ours), (_, plain) in zip(store.columns(), stores[0].columns(), strict=True):
                np.testing.assert_array_equal(ours, plain)
    assert stores[2].visit.size and not stores[0].visit.size


def assert_same_assembly(backend, stores, B, method):
    results = []
    for store in stores:
        offsets = len(pair_offsets(store.block))
        stencil, moments = np.zeros((offsets, 9, *store.block.padded)), np.zeros((4, *store.block.padded))
        backend.assemble([store], [BETA], method=method, B_nodes=B, stencil=stencil, moments=moments)
        results.append((stencil, moments))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("case", FEW, ids=case_name)
def test_a_particle_that_is_not_finite_is_reported_and_harms_no_other(backend, case, bad):
    block, rng = make_block(*case), np.random.default_rng(5)
    given, nothing = draw(block, 200, rng), np.zeros((3, *block.padded))
    sound = fill(backend, block, given)
    given["v"][0, 17] = bad
    store = fill(backend, block, given)
    assert np.isfinite(sound.move(0.0, DT, nothing, nothing)).all()
    assert np.isnan(store.move(0.0, DT, nothing, nothing)[0])
    ours, plain = store.to_host(), sound.to_host()
    assert sorted(ours["id"]) == list(range(200))
    for name in ("cell", "s", "v"):
        keep = [plain[name][..., plain["id"] != 17], ours[name][..., ours["id"] != 17]]
        np.testing.assert_array_equal(*keep)
    np.testing.assert_array_equal(ours["s"][:, ours["id"] == 17][0], given["s"][0, 17])


def test_fields_that_are_not_finite_are_reported(backend):
    block = make_block((4, 3), 1)
    store = fill(backend, block, draw(block, 50, np.random.default_rng(6)))
    assert np.isnan(store.move(BETA, DT, np.full((3, *block.padded), np.nan), np.zeros((3, *block.padded)))[0])
    assert sorted(store.to_host()["id"]) == list(range(50))


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_deposits(backend, case):
    block, rng = make_block(*case), np.random.default_rng(7)
    for options in ({}, {"uniform": 0.6, "position_dtype": "float32"}):
        store = fill(backend, block, draw(block, 90, rng), **options)
        moments, charge = np.zeros((10, *block.padded)), np.zeros(block.padded)
        for cell, s, v, w in particles_of(store):
            vv = np.outer(v, v)[np.triu_indices(3)]
            moments += np.multiply.outer(np.array([1.0, *v, *vv]) * w / block.volume, padded_weights(block, cell, s))
            charge += w / block.volume * padded_weights(block, cell, s, order=1, offset=0.5)
        assert_near(store.deposit_moments(), moments)
        ours = np.full(block.padded, 2.0)
        store.deposit_centre_charge(ours)
        assert_near(ours, charge + 2.0)


def test_appended_in_pieces_or_at_once(backend):
    block, given = make_block((5, 3), 1), draw(make_block((5, 3), 1), 500, np.random.default_rng(8))
    pieces = backend.new_store(block, ids=True)
    for part in (slice(0, 123), slice(123, 123), slice(123, 400), slice(400, 500)):
        pieces.append(given["cell"][part], given["s"][:, part], given["v"][:, part], given["weight"][part],
                      given["id"][part])
    assert pieces.n == 500
    pieces.sort()
    same_bits(pieces.to_host(), fill(backend, block, given).to_host())
    later = backend.new_store(block, ids=True)
    for part in (slice(0, 250), slice(250, 500)):
        later.append(given["cell"][part], given["s"][:, part], given["v"][:, part], given["weight"][part],
                     given["id"][part])
        later.sort()
    same_bits(pieces.to_host(), later.to_host())


@pytest.mark.parametrize("sort_every", [1, 3])
def test_appended_in_the_order_of_cells_or_not(backend, sort_every):
    """Batches in order, out of order, before cells that are filled, empty; also behind particles that have moved."""
    block, nothing = make_block((5, 3), 1), np.zeros((3, *make_block((5, 3), 1).padded))
    given = draw(block, 500, np.random.default_rng(11))
    given["cell"][:200] = np.sort(given["cell"][:200])
    given["cell"][350:400] = 14
    names, parts = ("cell", "s", "v", "weight", "id"), [slice(0, 90), slice(90, 200), slice(200, 200), slice(200, 350)]
    one, many = (backend.new_store(block, ids=True, sort_every=sort_every, capacity=capacity) for capacity in (0, 350))
    for store, pieces in ((one, [slice(0, 350)]), (many, parts)):
        for piece in pieces:
            store.append(**{name: given[name][..., piece] for name in names})
        store.sort()
        store.move(BETA, 0.2, nothing, nothing)
        for piece in (slice(350, 400), slice(400, 500)):
            store.append(**{name: given[name][..., piece] for name in names})
            if store is many:
                store.sort()
        store.sort()
        assert store.n == 500 and sorted(store.to_host()["id"]) == list(range(500))
        for _ in range(2):
            store.move(BETA, 0.2, nothing, nothing)
    same_bits(one.to_host(), many.to_host())


def test_no_particles(backend):
    block = make_block((3, 2, 9), 2)
    rng = np.random.default_rng(9)
    store, (E, B) = fill(backend, block, draw(block, 0, rng)), fields(block, rng)
    assert not store.move(BETA, DT, E, B).any() and not store.sums().any() and not store.deposit_moments().any()
    assert store.n == 0 and store.to_host()["s"].shape == (3, 0)


def test_48_bytes_a_particle_in_the_default_setting(backend):
    block = make_block((4, 4, 4), 1)
    given = draw(block, 10_000, np.random.default_rng(10))
    store = backend.new_store(block, weight=0.1)
    store.append(given["cell"], given["s"], given["v"])
    store.sort()
    store.push(0.01)
    sizes = store.nbytes
    assert sizes["s"] + sizes["v"] == 48 * 10_000 and sizes["start"] == 8 * 65
    assert sizes["weight"] == sizes["id"] == sizes["visit"] == 0


def test_a_coordinate_that_rounds_up_to_the_next_cell_stays_in_its_own(backend):
    block = make_block((4,), 1)
    store = backend.new_store(block, position_dtype="float32", weight=1.0)
    store.append([2], np.array([[0.5 - 2.0**-32]]), np.zeros((3, 1)))
    store.sort()
    h = store.to_host()
    assert h["cell"] == [2] and h["s"].dtype == np.float32 and h["s"] < 0.5


def test_what_a_store_refuses(backend):
    block = make_block((4, 3), 1)
    store, two = backend.new_store(block), np.zeros((2, 2))
    with pytest.raises(ValueError, match="cell runs from 0 to 12; 0 to 11"):
        store.append([0, 12], two, np.zeros((3, 2)), np.ones(2))
    with pytest.raises(ValueError, match=r"s has shape \(2, 2\) and v \(2, 2\); \(2, 2\) and \(3, 2\)"):
        store.append([0, 1], two, two, np.ones(2))
    with pytest.raises(ValueError, match=r"weight has shape \(\); \(2,\)"):
        store.append([0, 1], two, np.zeros((3, 2)))
    with pytest.raises(ValueError, match="sort_every = 0"):
        backend.new_store(block, sort_every=0)
    assert store.n == 0
