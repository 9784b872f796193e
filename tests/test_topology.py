"""Cutting the grid, and finding out how a process was started; no MPI is needed."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from ecsim.grid import Grid, roomy
from ecsim.parallel.domain import Domain
from ecsim.parallel.launch import LaunchError, World, announced, check_peers
from ecsim.parallel.topology import Topology, TopologyError, arrangements, cost, fits


def grid(*cells, order=1):
    return Grid(cells, (1.0,) * len(cells), order)


@pytest.mark.parametrize(("cells", "ranks"), [((255,), (4,)), ((97, 25), (3, 2)), ((24, 16, 8), (2, 2, 2)),
                                              ((7,), (7,))])
def test_blocks_tile_the_grid_and_owners_agree(cells, ranks):
    topology = Topology(grid(*cells), ranks)
    owner = np.full(cells, -1)
    for rank in range(topology.size):
        block = topology.block(rank)
        place = tuple(slice(o, o + n) for o, n in zip(block.origin, block.cells, strict=True))
        assert (owner[place] == -1).all()
        owner[place] = rank
        assert topology.rank_at(topology.coordinates(rank)) == rank
        assert all(n <= m for n, m in zip(block.cells, topology.largest_block().cells, strict=True))
    coordinates = [topology.owner(k, np.arange(n)) for k, n in enumerate(cells)]
    assert np.array_equal(owner, np.ravel_multi_index(np.ix_(*coordinates), ranks))


def test_neighbours_are_mutual_and_only_along_cuts():
    topology = Topology(grid(12, 5, 9), (3, 1, 2))
    for rank in range(topology.size):
        sides = topology.neighbours(rank)
        assert [k for k, pair in enumerate(sides) if pair] == list(topology.split) == [0, 2]
        for k in topology.split:
            low, high = sides[k]
            assert topology.neighbours(low)[k][1] == rank == topology.neighbours(high)[k][0]


@pytest.mark.parametrize(("cells", "size", "expected"), [
    ((160, 80, 80), 2, (2, 1, 1)), ((64, 64, 64), 8, (4, 2, 1)), ((64, 64, 64), 64, (4, 4, 4)),
    ((6, 80, 81), 2, (1, 2, 1)), ((97, 25), 6, (6, 1)), ((1, 64), 4, (1, 4)), ((255,), 4, (4,)), ((5, 5), 1, (1, 1)),
])
def test_the_cheapest_cut_is_chosen(cells, size, expected):
    assert Topology.choose(grid(*cells), size).ranks == expected


def test_no_arrangement_costs_less_than_the_chosen_one():
    g = grid(60, 35, 22, order=2)
    for size in range(1, 49):
        possible = [shape for shape in arrangements(size, 3) if fits(g, shape)]
        assert len(set(possible)) == len(possible) and all(math.prod(s) == size for s in possible)
        if possible:
            assert cost(g, Topology.choose(g, size).ranks) == min(cost(g, shape) for shape in possible)


@pytest.mark.parametrize(("cells", "order", "size", "ranks", "text"), [
    ((7,), 1, 8, None, "7 cells cannot be cut for 8 ranks into blocks at least 1 thick; start 7 ranks"),
    ((7,), 2, 4, None, "start 3 ranks"),
    ((7, 7), 1, 11, None, "start 10 ranks"),
    ((8, 8), 1, 4, (4, 2), "mpi.ranks = [4, 2] makes 8 ranks, but 4 were started"),
    ((8, 8), 1, 1, (2, 1), "but 1 was started"),
    ((8, 8), 1, 4, (4,), "a number for each of 2 dimensions"),
    ((8, 3), 2, 4, (2, 2), "3 cells along dimension 1 cannot be shared by 2 ranks"),
])
def test_what_cannot_be_cut_is_refused_with_advice(cells, order, size, ranks, text):
    with pytest.raises(TopologyError) as error:
        Topology.choose(grid(*cells, order=order), size, ranks)
    assert text in str(error.value)


def test_a_block_may_be_as_thin_as_its_ghosts():
    assert Topology.choose(grid(8, order=2), 4).block(3).cells == (2,)


@pytest.mark.parametrize(("variables", "count"), [
    ({}, None), ({"PMI_RANK": "0", "PMI_SIZE": "4"}, 4), ({"OMPI_COMM_WORLD_SIZE": "3", "PMIX_RANK": "1"}, 3),
    ({"PMIX_RANK": "5"}, 6), ({"PMIX_RANK": "0"}, 0), ({"MPI_LOCALNRANKS": "2"}, 2), ({"PMI_SIZE": "1"}, 1),
    ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, None), ({"SLURM_STEP_NUM_TASKS": "8"}, 8),
    ({"PMI_SIZE": "many"}, None),
])
def test_what_a_launcher_announces(variables, count):
    assert announced(variables) == count


@pytest.mark.parametrize(("count", "size", "fine"), [(None, 1, True), (1, 1, True), (4, 4, True), (2, 4, True),
                                                     (0, 1, True), (4, 1, False)])
def test_peers_that_mpi_does_not_see(count, size, fine):
    if fine:
        check_peers(count, size, "MPICH Version: 5")
        return
    with pytest.raises(LaunchError, match="started 4 processes.*MPICH 5.*sees one"):
        check_peers(count, size, "MPICH Version:\t5\nmore")


def test_one_process_is_a_world_of_its_own():
    alone = World()
    assert alone.is_root and alone.threads == 0 and alone.on_root(lambda: 7) == 7
    with pytest.raises(OSError, match="disk"):
        alone.on_root(lambda: (_ for _ in ()).throw(OSError("disk")))


@pytest.mark.parametrize(("processors", "text"), [(0, ""), (1, "tied to 1 processor, "),
                                                    (2, "tied to 2 processors, "), (3, "")])
def test_a_rank_with_a_gpu_says_that_it_is_tied_down(processors, text):
    domain = Domain(Topology(Grid((8,), (1.0,), 1), (2,)), World(rank=1, size=2, processors=processors),
                    SimpleNamespace(rank=1, name="nccl", xp=None, pieces=()))
    assert "2 ranks" in domain.describe()
    assert ("tied" in domain.describe()) == bool(text) and text in domain.describe()
    domain.transport.xp = np
    assert "tied" not in domain.describe()


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 1000, 123_457, 2**40 + 1])
def test_arrays_of_much_the_same_length_have_one_size(n):
    assert n <= roomy(n) <= n * 1.125
    least = max(n, 16)
    assert len({roomy(least + k * least // 6400) for k in range(100)}) <= 2
    assert roomy(roomy(n)) == roomy(n)
