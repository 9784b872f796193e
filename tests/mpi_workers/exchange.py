"""Ghosts, reductions and gathering on the ranks there are, in whole numbers: every comparison is exact."""

from __future__ import annotations

import shutil
from itertools import product
from unittest import mock

import numpy as np
from cuda_devices import HostCudaBackend
from fake_cupy import FakeCupy

from ecsim.backend.cpu import CpuBackend
from ecsim.grid import Block, Grid, Part
from ecsim.massmatrix import MassMatrix, pair_offsets
from ecsim.parallel.domain import Domain
from ecsim.parallel.halo import BOTH, HIGH, LOW, Halo
from ecsim.parallel.launch import world
from ecsim.parallel.topology import Topology, arrangements, fits
from ecsim.parallel.transport import HostTransport
from ecsim.parallel.transport_cuda import CudaAwareTransport, NcclTransport, StagedTransport
from ecsim.solver import operator


def deposits(block, seed):
    """Whole numbers on all padded nodes of a block, known to every rank."""
    return np.random.default_rng([seed, *block.origin]).integers(0, 1000, (2, *block.padded)).astype(np.float64)


def whole_of(topology, seed):
    """What `add` must bring together: the deposits of all blocks on the periodic grid."""
    total = np.zeros((2, *topology.grid.cells))
    for rank in range(topology.size):
        block = topology.block(rank)
        where = [(np.arange(n) + o - block.ghosts) % full for n, o, full in
                 zip(block.padded, block.origin, topology.grid.cells, strict=True)]
        np.add.at(total, (slice(None), *np.ix_(*where)), deposits(block, seed))
    return total


def check_halo(topology, transport, backend=None):
    domain = Domain(topology, world(), transport, backend)
    block, xp = domain.block, transport.xp
    first, second = xp.asarray(deposits(block, 1)), xp.asarray(deposits(block, 2)[:1])
    untouched = np.array(first)
    domain.halo.add(first, second)
    inner = block.interior
    owned = tuple(slice(o, o + n) for o, n in zip(block.origin, block.cells, strict=True))
    wholes = [whole_of(topology, 1), whole_of(topology, 2)[:1]]
    for a, whole in zip((first, second), wholes, strict=True):
        assert np.array_equal(np.array(a)[inner], whole[(slice(None), *owned)])
    ghosts = np.ones(block.padded, bool)
    ghosts[inner] = False
    assert all(np.array_equal(np.array(first)[k][corner], untouched[k][corner])
               for k, corner in product(range(2), corners(block)))
    domain.halo.fill(first, second)
    where = np.ix_(*((np.arange(n) + o - block.ghosts) % full for n, o, full in
                     zip(block.padded, block.origin, topology.grid.cells, strict=True)))
    for a, whole in zip((first, second), wholes, strict=True):
        assert np.array_equal(np.array(a), whole[(slice(None), *where)])
        a[(slice(None), *np.nonzero(ghosts))] = -1.0
        domain.halo.fill(a)
        assert np.array_equal(np.array(a), whole[(slice(None), *where)])
    check_pad(domain, wholes[0], where)
    check_sides(domain, wholes[0], where)
    spread = domain.spread(wholes[0][(slice(None), *owned)])
    assert np.array_equal(spread.whole(), wholes[0])
    pieces = list(spread.pieces())
    assert len(pieces) == (world().size if world().is_root else 0)
    for index, values in pieces:
        assert np.array_equal(values, wholes[0][index])


def check_pad(domain, whole, where):
    """Owned values with ghosts around them, and what work beside the exchange finds there."""
    halo, block, xp = domain.halo, domain.block, domain.transport.xp
    expected = whole[(slice(None), *where)]
    x, padded, done = xp.asarray(expected[block.interior].copy()), xp.zeros((2, *block.padded)), []
    here = [slice(block.ghosts, -block.ghosts) if peers else slice(None) for peers in halo.neighbours]

    def work():
        assert np.array_equal(np.array(padded)[(..., *here)], expected[(..., *here)])
        done.append(len(done))

    for pieces in range(5):
        padded[...] = -1.0
        done.clear()
        halo.pad(x, padded, [work] * pieces)
        assert len(done) == pieces and np.array_equal(np.array(padded), expected)


def check_sides(domain, whole, where):
    """Ghosts along the first dimension that hold nothing, or that nobody needs, do not travel."""
    halo, block, xp, transport = domain.halo, domain.block, domain.transport.xp, domain.transport
    layers = {LOW: (slice(None), slice(0, block.ghosts)), HIGH: (slice(None), slice(-block.ghosts, None))}
    for sides in ((), (LOW,), (HIGH,), BOTH):
        absent = [layers[side] for side in BOTH if side not in sides]
        given, plain = deposits(block, 3), deposits(block, 4)
        for there in absent:
            given[there] = 0.0
        expected = [xp.asarray(given.copy()), xp.asarray(plain.copy())]
        found = [xp.asarray(given.copy()), xp.asarray(plain.copy())]
        halo.add(*expected)
        before = dict(transport.traffic)
        halo.add(*found, first=[sides, BOTH])
        assert transport.traffic["messages"] - before["messages"] == 2 * len(domain.topology.split)
        for a, b in zip(found, expected, strict=True):
            assert np.array_equal(np.array(a)[block.interior], np.array(b)[block.interior])
        padded, wanted = xp.zeros((2, *block.padded)), whole[(slice(None), *where)].copy()
        padded[...] = -1.0
        padded[block.interior] = wanted[block.interior]
        for there in absent if halo.cuts(0) else ():
            wanted[there] = -1.0
        before = dict(transport.traffic)
        halo.fill(padded, first=[sides])
        assert np.array_equal(np.array(padded), wanted)
        sent = transport.traffic["messages"] - before["messages"]
        assert sent == 2 * len(domain.topology.split) - (2 - len(sides)) * halo.cuts(0)
        padded[...] = -1.0
        padded[block.interior] = wanted[block.interior]
        before = dict(transport.traffic)
        halo.fill(padded, others=sides)
        assert transport.traffic["messages"] - before["messages"] == len(sides) * len(domain.topology.split)
        here = [slice(0 if LOW in sides or not halo.cuts(k) else block.ghosts,
                      None if HIGH in sides or not halo.cuts(k) else -block.ghosts) for k in range(block.d)]
        needed = (slice(None), *here)
        assert np.array_equal(np.array(padded)[needed], np.array(whole[(slice(None), *where)])[needed])


def check_field_operator(topology, transport, backend):
    """Bit for bit what one rank has, with the product of the inner nodes beside the exchange and without."""
    grid, order = topology.grid, topology.grid.order
    domain, whole = Domain(topology, world(), transport, backend), Block(grid)
    block, rng = domain.block, np.random.default_rng(5)
    where = np.ix_(*((np.arange(n) + o - block.ghosts) % full for n, o, full in
                     zip(block.padded, block.origin, grid.cells, strict=True)))
    owned = tuple(slice(o, o + n) for o, n in zip(block.origin, block.cells, strict=True))
    values = rng.standard_normal((len(pair_offsets(grid.d, order)), 9, *grid.cells))
    x, padded = rng.standard_normal((3, *grid.cells)), np.empty((3, *whole.padded))
    alone, expected = np.empty((*values.shape[:2], *whole.padded)), np.empty((3, *grid.cells))
    Halo(whole).pad(values.reshape(-1, *grid.cells), alone.reshape(-1, *whole.padded))
    Halo(whole).pad(x, padded)
    backend.field_operator(alone, padded, expected, grid.spacing, 0.3)
    matrix = MassMatrix(block, domain.halo, backend)
    matrix.values[...] = values[(slice(None), slice(None), *where)]
    for fewest, inner in product((1, 10**9), (domain.halo.inner, anything_inside(block, topology.split), None)):
        operator.FEWEST_NODES = fewest
        with_inner = mock.patch.object(Halo, "inner", inner)
        with with_inner:
            found = operator.FieldOperator(matrix, domain.halo, 0.3)(np.ascontiguousarray(x[(slice(None), *owned)]))
        assert np.array_equal(found, expected[(slice(None), *owned)])


def anything_inside(block, split):
    """The inner nodes even where they are few; None where there are none."""
    low = tuple(block.ghosts * (k in split) for k in range(block.d))
    inner = Part(low, tuple(n - layers for n, layers in zip(block.cells, low, strict=True)))
    return inner if inner.boxes(block.cells) else None


def corners(block):
    """The two extreme padded nodes: ghosts in every direction."""
    return [(0,) * block.d, tuple(n - 1 for n in block.padded)]


def check_sums(transport):
    rank, size = world().rank, world().size
    given = transport.xp.asarray(np.array([1.0, rank, rank**2]))
    wanted = [size, size * (size - 1) // 2, sum(r**2 for r in range(size))]
    assert np.array(transport.sum(given)).tolist() == wanted
    assert transport.max(float(rank)) == size - 1


def check_kernels(transport, size):
    """The CUDA kernels for ghosts and faces, compiled for the host."""
    for cells, order in (((17,), 1), ((9, 8), 2), ((9, 8, 10), 1)):
        grid = Grid(cells, (1.0,) * len(cells), order)
        for shape in arrangements(size, grid.d):
            if fits(grid, shape):
                check_halo(Topology(grid, shape), transport, HostCudaBackend())
                check_field_operator(Topology(grid, shape), transport, HostCudaBackend())


def main():
    comm, size = world().comm, world().size
    fake = FakeCupy(comm)
    for transport in (HostTransport(comm), StagedTransport(comm, None, fake), CudaAwareTransport(comm, None, fake),
                      NcclTransport(comm, None, fake)):
        check_sums(transport)
        for cells, order in (((17,), 1), ((18,), 2), ((16, 1), 2), ((9, 11), 1), ((9, 8, 10), 1), ((8, 9, 16), 2)):
            grid = Grid(cells, (1.0,) * len(cells), order)
            for shape in arrangements(size, grid.d):
                if fits(grid, shape):
                    check_halo(Topology(grid, shape), transport)
                    if transport.xp is np:
                        check_field_operator(Topology(grid, shape), transport, CpuBackend(2))
    if size <= 3 and shutil.which("g++"):
        check_kernels(HostTransport(comm), size)


if __name__ == "__main__":
    main()
