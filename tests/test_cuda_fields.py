"""Stencil product, field operator, Krylov vectors and ghost layers of the CUDA backend against their CPU twins."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import pytest
from cuda_devices import DEVICES, backend_on, fresh_random

from ecsim.backend.cpu import CpuBackend
from ecsim.backend.cuda import fields
from ecsim.fields.operators import FieldOperators
from ecsim.grid import Block, Grid, Part
from ecsim.massmatrix import MassMatrix, pair_offsets
from ecsim.parallel.halo import BOTH, HIGH, Faces, Halo
from ecsim.parallel.transport import Alone
from ecsim.solver.gmres import Gmres, PlainKrylov
from ecsim.solver.operator import FieldOperator

BLOCKS = [((5, 4, 6), 1), ((4, 3, 5), 2), ((5, 6, 7), 2), ((1, 3, 1), 1), ((2, 1, 4), 2), ((6, 5), 1), ((3, 4), 2),
          ((1, 4), 2), ((7,), 1), ((1,), 2)]


@pytest.fixture(params=DEVICES)
def backend(request):
    return backend_on(request.param)


@pytest.fixture
def rng():
    return fresh_random()


@pytest.fixture(params=BLOCKS, ids=[f"{'x'.join(map(str, c))}-order{o}" for c, o in BLOCKS])
def block(request):
    cells, order = request.param
    return Block(Grid(cells, tuple((0.3 + 0.2 * k) * n for k, n in enumerate(cells)), order))


def stencil_of(rng, block, components):
    """A random stencil and its ghosts."""
    values = rng.standard_normal((len(pair_offsets(block.d, block.order)), components, *block.padded))
    Halo(block).fill(values)
    return values


def padded_of(rng, block, components):
    x = rng.standard_normal((components, *block.padded))
    Halo(block).fill(x)
    return x


def assert_rounding(found, expected):
    assert np.abs(found - expected).max() <= 3e-14 * np.abs(expected).max()


@pytest.mark.parametrize(("components", "vectors"), [(9, 3), (1, 1), (1, 4)])
def test_product_like_the_cpu(backend, rng, block, components, vectors):
    stencil, x = stencil_of(rng, block, components), padded_of(rng, block, vectors)
    expected, found = np.empty((vectors, *block.cells)), backend.xp.empty((vectors, *block.cells))
    CpuBackend(1).matvec(stencil, x, expected)
    backend.matvec(backend.from_host(stencil), backend.from_host(x), found)
    assert_rounding(backend.to_host(found), expected)


def test_field_operator_is_the_sum_of_its_maps(backend, rng, block):
    stencil, x, theta_dt = stencil_of(rng, block, 9), padded_of(rng, block, 3), 0.31
    response, found = np.empty((3, *block.cells)), backend.xp.empty((3, *block.cells))
    CpuBackend(1).matvec(stencil, x, response)
    expected = x[block.interior] + theta_dt**2 * FieldOperators(block).curl_curl(x) + theta_dt * response
    backend.field_operator(backend.from_host(stencil), backend.from_host(x), found, block.spacing, theta_dt)
    assert_rounding(backend.to_host(found), expected)


def cuts(block):
    """Every choice of dimensions that may be cut so that some inner nodes remain, but for none."""
    for chosen in product((False, True), repeat=block.d):
        low = tuple(block.ghosts * cut for cut in chosen)
        part = Part(low, tuple(n - layers for n, layers in zip(block.cells, low, strict=True)))
        if any(chosen) and part.boxes(block.cells):
            yield [k for k in range(block.d) if chosen[k]], part


def test_field_operator_in_two_parts_has_the_same_bits(backend, rng, block):
    stencil, x = (backend.from_host(a) for a in (stencil_of(rng, block, 9), padded_of(rng, block, 3)))
    whole = backend.xp.empty((3, *block.cells))
    backend.field_operator(stencil, x, whole, block.spacing, 0.31)
    for _, inner in cuts(block):
        found = backend.from_host(np.full((3, *block.cells), np.nan))
        backend.field_operator(stencil, x, found, block.spacing, 0.31, inner)
        shell = np.isnan(backend.to_host(found))
        assert not shell[(..., *(slice(a, b) for a, b in zip(*inner[:2], strict=True)))].any()
        assert shell.sum() == found.size - 3 * np.prod(np.subtract(*inner[1::-1]))
        backend.field_operator(stencil, x, found, block.spacing, 0.31, inner._replace(outside=True))
        np.testing.assert_array_equal(backend.to_host(found), backend.to_host(whole))


def test_a_box_must_lie_in_the_middle(backend, rng):
    block = Block(Grid((6,), (1.0,)))
    arrays = [backend.from_host(a) for a in (stencil_of(rng, block, 9), padded_of(rng, block, 3), np.empty((3, 6)))]
    with pytest.raises(ValueError, match="not in the middle of"):
        backend.field_operator(*arrays, block.spacing, 0.1, Part((1,), (6,), outside=True))


def test_padding_leaves_the_ghosts_of_others(backend, rng, block):
    x, before = rng.standard_normal((3, *block.cells)), rng.standard_normal((3, *block.padded))
    for cut in ([], *(cut for cut, _ in cuts(block))):
        expected, found = before.copy(), backend.from_host(before.copy())
        expected[block.interior] = x
        Halo(block).fill(expected)
        for k in cut:
            n, g = block.cells[k], block.ghosts
            for ghosts in (slice(0, g), slice(n + g, n + 2 * g)):
                there = (slice(None),) * (k + 1) + (ghosts,)
                expected[there] = before[there]
        backend.padding(block, cut)(backend.from_host(x), found)
        np.testing.assert_array_equal(backend.to_host(found), expected)


def test_curls_and_mean_like_the_array_operators(backend, rng, block):
    a, plain, kernels = padded_of(rng, block, 3), FieldOperators(block), backend.staggered(block)
    for verb in ("curl_to_centres", "curl_to_nodes", "to_nodes"):
        assert_rounding(backend.to_host(getattr(kernels, verb)(backend.from_host(a))), getattr(plain, verb)(a))


@pytest.mark.parametrize("components", [1, 5])
def test_ghosts_like_the_plain_halo(backend, rng, block, components):
    a = rng.standard_normal((components, *block.padded))
    ghosts, plain = backend.periodic_ghosts(block), Halo(block)
    added, filled = backend.from_host(a.copy()), backend.from_host(a.copy())
    ghosts.add(added)
    ghosts.fill(filled)
    expected = a.copy()
    plain.fill(expected)
    np.testing.assert_array_equal(backend.to_host(filled), expected)
    expected = a.copy()
    plain.add(expected)
    found = backend.to_host(added)
    np.testing.assert_allclose(found[block.interior], expected[block.interior], rtol=1e-13, atol=1e-13)
    found[block.interior] = a[block.interior]
    np.testing.assert_array_equal(found, a)


@pytest.mark.parametrize("parts", [fields.MOST_PARTS, 64])
@pytest.mark.parametrize(("k", "n"), [(1, 1), (7, 3000), (16, 1024), (30, 5001), (32, 700), (45, 2100), (3, 21000)])
def test_krylov_like_numpy(backend, rng, k, n, parts, monkeypatch):
    monkeypatch.setattr(fields, "MOST_PARTS", parts)
    basis, w, h = rng.standard_normal((k, n)), rng.standard_normal(n), rng.standard_normal(k)
    on_device = [backend.from_host(a.copy()) for a in (basis, h, w)]
    scale = 1e-15 * n * (np.abs(h).sum() + np.abs(w).max())
    for _ in range(2):
        dots = backend.krylov.dots(on_device[0], on_device[2])
        assert np.abs(backend.to_host(dots) - basis @ w).max() <= scale
    r, expected = backend.xp.empty(n), np.empty(n)
    squares = backend.krylov.residual(on_device[2], on_device[0][0], on_device[0][-1], r)
    np.testing.assert_allclose(backend.to_host(squares), PlainKrylov.residual(w, basis[0], basis[-1], expected),
                               rtol=1e-13)
    np.testing.assert_array_equal(backend.to_host(r), expected)
    backend.krylov.normalise(r, squares)
    np.testing.assert_allclose(backend.to_host(r), expected / np.linalg.norm(expected), rtol=1e-15 * n + 1e-14)
    products = backend.to_host(backend.krylov.project_out(*on_device))
    w -= h @ basis
    assert np.abs(backend.to_host(on_device[2]) - w).max() <= scale
    np.testing.assert_allclose(products, [*(basis @ w), w @ w], rtol=1e-12, atol=10 * scale * np.abs(w).max())
    backend.krylov.add(on_device[0], h, on_device[2])
    w += h @ basis
    assert np.abs(backend.to_host(on_device[2]) - w).max() <= scale


@pytest.mark.parametrize(("k", "n"), [(1, 1), (7, 3000), (32, 2100), (45, 1024)])
def test_the_end_of_a_step_like_the_plain_one(backend, rng, k, n):
    basis, w, first = rng.standard_normal((k, n)), rng.standard_normal(n), rng.standard_normal(k)
    ends = np.append(1e-3 * rng.standard_normal(k), 7.0)
    expected, found = np.empty(n), backend.xp.empty(n)
    column, coefficients = backend.krylov.column(k), np.empty(k + 1)
    PlainKrylov.close(basis, first, ends, w, expected, coefficients)
    arrays = [backend.from_host(a.copy()) for a in (basis, first, ends, w)]
    backend.krylov.close(*arrays, found, column)
    backend.mark()()
    np.testing.assert_allclose(column, coefficients, rtol=1e-14)
    np.testing.assert_allclose(backend.to_host(found), expected, atol=1e-14)


@pytest.mark.parametrize("restart", [5, 40])
def test_gmres_like_numpy(backend, rng, restart):
    """Also where more vectors than one launch takes are kept, and where the next product is begun in vain."""
    n = 90
    matrix, b = np.eye(n) + 0.45 * rng.standard_normal((n, n)) / np.sqrt(n), rng.standard_normal(n)
    on_device, applied = backend.from_host(matrix), []

    def operator(v, out):
        applied.append(1)
        backend.xp.matmul(on_device, v, out=out)

    solution = Gmres(backend.xp, n, restart, 500, backend.krylov).solve(operator, backend.from_host(b), tolerance=1e-10)
    assert np.linalg.norm(b - matrix @ backend.to_host(solution.x)) <= 1e-10 * np.linalg.norm(b)
    plain = Gmres(np, n, restart, 500).solve(partial(np.matmul, matrix), b, tolerance=1e-10)
    assert abs(solution.iterations - plain.iterations) <= 1
    cycles = -(-solution.iterations // restart)
    assert 0 <= len(applied) - solution.iterations - cycles - 1 <= cycles


def test_five_launches_an_iteration(backend, rng, monkeypatch):
    """Ghosts, the product, two passes over the basis and the end of the step: what the host has to hand over."""
    block, launched, launch = Block(Grid((5, 4, 6), (1.0, 1.0, 1.0))), [], backend.launch

    def noted(file, name, *arguments, **named):
        launched.append(name)
        launch(file, name, *arguments, **named)

    monkeypatch.setattr(backend, "launch", noted)
    matrix = MassMatrix(block, Halo(block, backend=backend), backend)
    matrix.values[...] = backend.from_host(1e-3 * stencil_of(rng, block, 9))
    solver = Gmres(backend.xp, 3 * block.n_cells, krylov=backend.krylov)
    b = backend.from_host(rng.standard_normal((3, *block.cells)))
    monkeypatch.setattr(backend.krylov, "ahead", False)
    k = solver.solve(FieldOperator(matrix, matrix.halo, 0.1), b, tolerance=1e-9).iterations
    assert k > 3
    for name, in_a_step, beside in (("pad", 1, 2), ("matvec", 1, 2), ("project", 2, 0), ("close_step", 1, 0),
                                    ("residual", 0, 2), ("normalise", 0, 2), ("add_up", 0, 1)):
        assert launched.count(name) == in_a_step * k + beside, name
    assert len(launched) == 5 * k + 9


@pytest.mark.parametrize(("restart", "size"), [(4, 2e-2), (30, 2e-2), (60, 0.65)])
def test_a_recorded_iteration_has_the_same_bits(backend, rng, restart, size):
    """Solve after solve, with other matrices in the same place; what is run, recorded and replayed is counted once."""
    block = Block(Grid((5, 4, 6), (1.0, 1.0, 1.0)))
    halo = Halo(block, backend=backend)
    counters = halo.transport.traffic
    counters.update(products=0)
    matrix = MassMatrix(block, halo, backend)
    operator = FieldOperator(matrix, halo, 0.1)

    def counted(x, out):
        counters["products"] += 1
        operator(x, out)

    plain = Gmres(backend.xp, 3 * block.n_cells, restart, krylov=backend.krylov)
    recording = Gmres(backend.xp, 3 * block.n_cells, restart, krylov=backend.krylov,
                      record=backend.graph_recorder(halo.transport))
    for _ in range(4):
        matrix.values[...] = backend.from_host(size * stencil_of(rng, block, 9))
        b = backend.from_host(rng.standard_normal((3, *block.cells)))
        expected = plain.solve(operator, b, tolerance=1e-10)
        before = counters["products"]
        found = recording.solve(counted, b, tolerance=1e-10)
        assert found.iterations == expected.iterations and found.residual == expected.residual
        np.testing.assert_array_equal(backend.to_host(found.x), backend.to_host(expected.x))
        spare = counters["products"] - before - found.iterations - 1 - -(-found.iterations // restart)
        assert 0 <= spare <= -(-found.iterations // restart)
    assert restart <= fields.MOST_VECTORS or found.iterations > fields.MOST_VECTORS


def test_an_exact_timer_sees_every_launch(backend):
    """Graphs would hide the phases inside an iteration; run once, it is recorded at the next call, then replayed."""
    run = []
    recorded = backend.graph_recorder(Alone())(run.append)
    for exact, calls in ((False, 1), (True, 2), (True, 3), (False, 4), (False, 4), (True, 5), (False, 5)):
        backend.timer.exact = exact
        recorded(1)
        assert len(run) == calls


def test_a_recording_that_fails_says_why(backend):
    recorded, fail = backend.graph_recorder(Alone())(lambda k: fail[0]()), [lambda: None]
    recorded(0)
    fail[0] = lambda: 1 // 0
    with pytest.raises(ZeroDivisionError):
        recorded(0)
    fail[0] = lambda: None
    recorded(0)
    backend.synchronize()


def test_faces_like_slices(backend, rng, block):
    """What goes to other blocks and what comes from them: set or added, both sides or one, thin blocks too."""
    g, on_device, on_host = block.ghosts, backend.faces(block), Faces(block, np)
    arrays = [rng.standard_normal((components, *block.padded)) for components in (3, 1)]
    for k, n in enumerate(block.cells):
        some = list(zip(arrays, (BOTH, (HIGH,)), strict=True))
        given = [(backend.from_host(a.copy()), sides) for a, sides in some]
        sent = [backend.to_host(buffer) for buffer in on_device.pack(given, k, (g, n))]
        for found, expected in zip(sent, on_host.pack(some, k, (g, n)), strict=True):
            np.testing.assert_array_equal(found, expected)
        for first, add in (((0, n + g), False), ((g, n), True)):
            on_device.unpack(given, k, first, [backend.from_host(buffer) for buffer in sent], add)
            on_host.unpack(some, k, first, sent, add)
            for (found, _), expected in zip(given, arrays, strict=True):
                np.testing.assert_array_equal(backend.to_host(found), expected)
