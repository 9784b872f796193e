"""A rank that sends to itself: on one GPU through NCCL the same path as on many, kernels and graphs included."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from cuda_devices import backend_on, fresh_random

from ecsim.cycle import advance
from ecsim.grid import Grid
from ecsim.massmatrix import MassMatrix, pair_offsets
from ecsim.parallel.domain import Domain, connect
from ecsim.parallel.launch import World
from ecsim.parallel.transport import HostTransport
from ecsim.particles.species import Species
from ecsim.plasma import Plasma
from ecsim.solver.operator import FieldOperator

CASES = [((12, 5, 6), 1, (0,)), ((9, 12, 7), 1, (0, 1)), ((12, 6, 10), 2, (0, 2)), ((24, 9), 1, (0, 1)),
         ((30,), 2, (0,))]
ON_A_GPU = [pytest.param(place, *case, marks=pytest.mark.cuda)
            for place in ("cuda-nccl", "cuda-host") for case in CASES]


def backend_and_transport(place: str) -> tuple:
    """A backend and a transport to the same rank; kernels compiled for the host exchange through MPI."""
    self = pytest.importorskip("mpi4py.MPI", reason="mpi4py is not installed").COMM_SELF
    device, kind = place.split("-")
    backend = backend_on(device)
    return backend, HostTransport(self) if kind == "mpi" else connect(World(comm=self), backend, kind)


@pytest.mark.parametrize(("place", "cells", "order", "loops"), [*(("host-mpi", *case) for case in CASES), *ON_A_GPU])
def test_both_verbs_and_the_product_like_the_periodic_halo(place, cells, order, loops):
    (backend, transport), rng = backend_and_transport(place), fresh_random()
    grid = Grid(cells, tuple(0.3 * n for n in cells), order)
    domain, whole = Domain.looped(grid, transport, backend, loops), Domain.whole(grid)
    values = rng.standard_normal((len(pair_offsets(grid.d, order)), 9, *whole.block.padded))
    x = rng.standard_normal((3, *cells))
    expected, found = values.copy(), backend.from_host(values)
    for halo, a in ((whole.halo, expected), (domain.halo, found)):
        halo.add(a)
        halo.fill(a)
    np.testing.assert_allclose(backend.to_host(found), expected, atol=1e-13)
    products = []
    for halo in (domain.halo, Domain(whole.topology, backend=backend).halo):
        matrix = MassMatrix(whole.block, halo, backend)
        matrix.values[...] = found
        products.append(backend.to_host(FieldOperator(matrix, halo, 0.3)(backend.from_host(x))))
    np.testing.assert_array_equal(*products)


def plasma_of(seed: int, backend, domain, graphs: bool) -> Plasma:
    """A warm plasma, the same for the same seed."""
    rng, block, species = np.random.default_rng(seed), domain.block, []
    for name, ratio, v_th in (("electrons", -64.0, 0.2), ("ions", 1.0, 0.02)):
        n = 40 * block.n_cells
        weight = block.volume * np.sign(ratio) / 40
        store = backend.new_store(block, weight=weight, ids=True, capacity=n, migration=domain.migration)
        store.append(rng.integers(0, block.n_cells, n).astype(np.int32), rng.random((block.d, n)),
                     v_th * rng.standard_normal((3, n)), None, np.arange(n, dtype=np.uint64))
        store.sort()
        species.append(Species(name, ratio, store))
    E, B = 0.01 * rng.standard_normal((3, *block.cells)), 0.1 * rng.standard_normal((3, *block.cells))
    return Plasma(domain, backend, species, E, B, dt=0.3, tolerance=1e-14, graphs=graphs)


@pytest.mark.parametrize(("place", "cells", "order", "loops"),
                         [("host-mpi", (24, 9), 1, (0, 1)), ("host-mpi", (30,), 2, (0,)), *ON_A_GPU])
def test_cycles_with_and_without_graphs_and_neighbours(place, cells, order, loops):
    """Ten cycles: bit for bit the same with graphs; to rounding the same without an exchange; energy kept."""
    cycles = 4 if place == "host-mpi" else 10
    (backend, transport), grid = backend_and_transport(place), Grid(cells, tuple(0.3 * n for n in cells), order)
    seed = int(fresh_random().integers(2**31))
    runs, sent = {}, {}
    for name, domain, graphs in (("graphs", Domain.looped(grid, transport, backend, loops), True),
                                 ("launches", Domain.looped(grid, transport, backend, loops), False),
                                 ("alone", Domain(Domain.whole(grid).topology, backend=backend), True)):
        before, p = dict(transport.traffic), plasma_of(seed, backend, domain, graphs)
        first = p.energies()["total"]
        for _ in range(cycles):
            advance(p)
        assert [s.store.n for s in p.species] == [40 * p.block.n_cells] * 2
        assert abs(p.energies()["total"] / first - 1) <= 2e-14, name
        runs[name], sent[name] = p, {kind: n - before[kind] for kind, n in transport.traffic.items()}
    E = {name: backend.to_host(p.E) for name, p in runs.items()}
    np.testing.assert_array_equal(E["graphs"], E["launches"])
    assert np.abs(E["graphs"] - E["alone"]).max() <= 1e-11 * np.abs(E["alone"]).max()
    assert sent["graphs"] == sent["launches"] and sent["graphs"]["messages"] > 10 * cycles
    assert not any(sent["alone"].values())


@pytest.mark.cuda
def test_graphs_end_before_the_communicator_that_they_use():
    """It would wait for them for ever; all of them are garbage at the same time."""
    backend, transport = backend_and_transport("cuda-nccl")
    p, here = plasma_of(1, backend, Domain.looped(Grid((24, 9), (7.2, 2.7)), transport, backend), True), [None, None]
    for _ in range(4):
        advance(p)
    here[:] = weakref.ref(p), weakref.ref(transport)
    del p, transport
    gc.collect()
    assert here[0]() is None and here[1]() is None
