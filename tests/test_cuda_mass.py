"""Every way to assemble on CUDA against sums in extended precision: on a GPU, and its kernels run on the host."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cuda_devices import DEVICES, HostCudaBackend, backend_on
from mass_cases import direct, error, mixed_counts, random_case

from ecsim.backend.cuda import assembly
from ecsim.grid import Block, Grid

GRIDS = {"3d": (3, 5, 4), "2d": (5, 4), "1d": (9,), "one cell": (1, 1, 1), "thin": (1, 6)}
FP64, TF32 = 5e-15, 2e-3  # allowed error relative to the largest entry
METHODS = {"pair": "fp64", "pair few": "fp64", "pair tf32": "tf32", "conventional": "fp64", "mma": None, "flat": "fp64"}


@pytest.fixture(params=DEVICES)
def backend(request):
    return backend_on(request.param)


def particles_of(backend, case, columns=0, weight=None, gather="float64"):
    on = backend.from_host
    block = Block(Grid(case.cells, tuple(0.5 * n for n in case.cells), case.order))
    w = on(case.w) if weight is None and not columns else None
    return assembly.Particles(block, on(case.s), on(case.v), w, 1.0 if weight is None else weight, on(case.first),
                              on(case.count), int(case.count.sum()), columns, gather)


def assembled(backend, case, method, *, columns=0, several=1, **options):
    """Stencil and moments, added to arrays that hold 1 beforehand; less that 1."""
    name, *how = method.split()
    block = Block(Grid(case.cells, tuple(0.5 * n for n in case.cells), case.order))
    precision = "tf32" if "tf32" in how or (name, case.order) == ("mma", 2) else "fp64"
    xp = backend.xp
    shape = (len(direct_offsets(case)), 1 if columns == 1 else 9, *case.padded)
    stencil, moments = xp.ones(shape), None if columns else xp.ones((4, *case.padded))
    particles = particles_of(backend, case, columns, **options)
    B = backend.from_host(case.B)
    assembly.add_particles(backend, [particles] * several, [case.beta] * several, method=name, precision=precision,
                           B_nodes=B, scale=1.0 / block.volume, stencil=stencil, moments=moments)
    return backend.to_host(stencil) - 1.0, None if columns else backend.to_host(moments) - 1.0


def direct_offsets(case):
    from ecsim.grid import pair_offsets

    return pair_offsets(len(case.cells), case.order)


def exact(case, columns=0, several=1):
    per_volume = several / np.prod([0.5] * len(case.cells))
    return direct(case, per_volume if columns else per_volume * case.beta, per_volume, columns)


def allowed(method, case):
    return TF32 if "tf32" in method or (method, case.order) == ("mma", 2) else FP64


@pytest.fixture
def few(request, monkeypatch):
    """Forces one or several cells a warp where the method says which."""
    method = request.getfixturevalue("method")
    if method.startswith("pair"):
        monkeypatch.setattr(assembly, "FEW", dict.fromkeys((1, 2), 10**9 if "few" in method else 0))


@pytest.mark.parametrize("order", [1, 2], ids=["cic", "tsc"])
@pytest.mark.parametrize("cells", GRIDS.values(), ids=GRIDS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.usefixtures("few")
def test_plasma(backend, method, cells, order):
    case = random_case(cells, order, mixed_counts(int(np.prod(cells))))
    stencil, moments = assembled(backend, case, method)
    M, m = exact(case)
    assert error(stencil, M) < allowed(method, case)
    assert error(moments, m) < (TF32 if "tf32" in method else FP64)


@pytest.mark.parametrize("order", [1, 2], ids=["cic", "tsc"])
@pytest.mark.parametrize("cells", GRIDS.values(), ids=GRIDS)
@pytest.mark.parametrize("method", ["pair", "flat"])
def test_a_fresh_matrix_is_set_whatever_was_there(backend, method, cells, order):
    case = random_case(cells, order, mixed_counts(int(np.prod(cells))))
    block, (M, m) = Block(Grid(cells, tuple(0.5 * n for n in cells), order)), exact(case)
    stencil, moments = backend.xp.full(M.shape, np.nan), backend.xp.zeros(m.shape)
    assembly.add_particles(backend, [particles_of(backend, case)], [case.beta], method=method, precision="fp64",
                           B_nodes=backend.from_host(case.B), scale=1.0 / block.volume, stencil=stencil,
                           moments=moments, fresh=True)
    assert error(backend.to_host(stencil), M) < FP64
    assert error(backend.to_host(moments), m) < FP64


@pytest.mark.parametrize("columns", [1, 9])
@pytest.mark.parametrize("order", [1, 2], ids=["cic", "tsc"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.usefixtures("few")
def test_given_columns(backend, method, order, columns):
    case = random_case((3, 4, 5), order, mixed_counts(60), columns=columns)
    stencil, _ = assembled(backend, case, method, columns=columns)
    assert error(stencil, exact(case, columns)[0]) < allowed(method, case)


@pytest.mark.parametrize("order", [1, 2], ids=["cic", "tsc"])
def test_unsorted_columns_through_the_public_call(backend, order):
    case = random_case((4, 3, 5), order, mixed_counts(60), columns=1)
    used = np.random.default_rng().permutation(np.flatnonzero(case.cell >= 0))
    stencil = backend.xp.zeros((len(direct_offsets(case)), 1, *case.padded))
    block = Block(Grid(case.cells, tuple(0.5 * n for n in case.cells), order))
    assembly.assemble_columns(backend, block, case.cell[used], case.s[:, used], case.v[:, used], stencil)
    assert error(backend.to_host(stencil), exact(case, 1)[0]) < FP64


@pytest.mark.parametrize("method", ["pair", "conventional", "mma", "flat"])
@pytest.mark.parametrize("order", [1, 2], ids=["cic", "tsc"])
def test_stored_precisions_and_one_weight_for_all(backend, method, order):
    case = random_case((3, 4, 4), order, mixed_counts(48), position="float32")
    case.w[case.cell >= 0] = 0.75
    stencil, moments = assembled(backend, case, method, weight=0.75, gather="float32")
    M, m = exact(case)
    assert 1e-9 < error(moments, m) < 1e-6  # B in single precision: seen, and small
    assert error(stencil, M) < max(1e-6, allowed(method, case))


@pytest.mark.parametrize("order", [1, 2], ids=["cic", "tsc"])
def test_several_species_share_one_expansion(backend, order):
    case = random_case((3, 4, 3), order, mixed_counts(36))
    stencil, moments = assembled(backend, case, "pair", several=3)
    M, m = exact(case, several=3)
    assert error(stencil, M) < FP64
    assert error(moments, m) < FP64


@pytest.mark.parametrize("order", [1, 2], ids=["cic", "tsc"])
@pytest.mark.parametrize("method", ["pair", "conventional", "mma", "flat"])
def test_no_particles_at_all(backend, method, order):
    case = random_case((3, 4, 3), order, np.zeros(36, dtype=int))
    stencil, moments = assembled(backend, case, method)
    assert not stencil.any() and not moments.any()


@pytest.mark.parametrize("order", [1, 2], ids=["cic", "tsc"])
@pytest.mark.parametrize("method", ["pair", "pair few", "conventional", "mma", "flat"])
@pytest.mark.usefixtures("few")
def test_a_hundred_thousand_particles_in_one_cell(backend, method, order):
    """For TSC on the host, which is slow at it, five thousand."""
    counts = np.zeros(12, dtype=int)
    counts[5], counts[7] = 5_000 if order == 2 and isinstance(backend, HostCudaBackend) else 100_000, 1
    case = random_case((2, 3, 2), order, counts)
    stencil, moments = assembled(backend, case, method)
    M, m = exact(case)
    assert error(stencil, M) < max(allowed(method, case), 1e-13)
    assert error(moments, m) < 1e-13


def test_support_groups_of_the_published_form(backend):
    """TSC particles sorted by cell: several groups, each with its own batch, belong to one support cell."""
    case = random_case((3, 3, 4), 2, mixed_counts(36))
    half = case.count // 2
    first = np.stack([case.first[:-1], case.first[:-1] + half], axis=1).reshape(-1)
    count = np.stack([half, case.count - half], axis=1).reshape(-1).astype(np.int32)
    cell = np.repeat(np.arange(36, dtype=np.int32), 2)
    M, m = exact(case)
    stencil, moments = backend.xp.zeros(M.shape), backend.xp.zeros(m.shape)
    per_volume = 1.0 / 0.5**3
    assembly.add_with_atomics(
        backend, particles_of(backend, case), method="mma", beta=case.beta, B_nodes=backend.from_host(case.B),
        mass=per_volume * case.beta, moment=per_volume, stencil=stencil, moments=moments,
        groups=tuple(backend.from_host(a) for a in (first, count, cell)))
    assert error(backend.to_host(stencil), M) < TF32
    assert error(backend.to_host(moments), m) < FP64


@pytest.mark.parametrize("order", [1, 2], ids=["cic", "tsc"])
def test_pair_is_the_same_to_the_last_bit_every_time(backend, order):
    case = random_case((4, 4, 6), order, mixed_counts(96))
    runs = [assembled(backend, case, "pair") for _ in range(3)]
    for stencil, moments in runs[1:]:
        np.testing.assert_array_equal(stencil, runs[0][0])
        np.testing.assert_array_equal(moments, runs[0][1])


def test_auto_takes_what_was_measured_to_be_fastest(backend):
    def taken(cells, per_cell, order=1, columns=0, precision="fp64"):
        n = int(np.prod(cells))
        case = random_case((2, 2, 2), order, np.ones(8, dtype=int), columns=columns)
        block = Block(Grid(cells, tuple(float(c) for c in cells), order))
        particles = replace(particles_of(backend, case, columns), block=block, number=per_cell * n)
        return assembly.choose([particles], precision)

    assert taken((64, 64, 64), 8) == taken((32, 32, 32), 128) == taken((16, 16, 16), 512) == "pair"
    assert taken((16, 16, 16), 64) == taken((64, 64, 64), 128, columns=1) == "mma"
    assert taken((16, 16, 16), 64, order=2) == taken((16, 16, 16), 64, precision="tf32") == "pair"


@pytest.mark.parametrize("cells", [(3, 4, 5), (16, 30, 30)], ids=["mma", "pair"])
def test_auto_assembles(backend, cells):
    counts = np.zeros(np.prod(cells), dtype=int)
    counts[:40] = mixed_counts(40)
    case = random_case(cells, 1, counts)
    stencil, moments = assembled(backend, case, "auto")
    M, m = exact(case)
    assert error(stencil, M) < FP64
    assert error(moments, m) < FP64


@pytest.mark.parametrize(("order", "method", "precision", "allowed_ones"), [
    (1, "direct", "fp64", "pair, mma, conventional, flat, auto"), (1, "pair", "fp32", "fp64 or tf32"),
    (1, "mma", "tf32", "fp64"), (2, "mma", "fp64", "tf32"), (2, "flat", "tf32", "fp64")])
def test_what_does_not_exist_is_refused_by_name(order, method, precision, allowed_ones):
    with pytest.raises(ValueError, match=allowed_ones):
        assembly.check(Block(Grid((4, 4), (1.0, 1.0), order)), method, precision)
