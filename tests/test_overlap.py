"""Which nodes are multiplied while ghosts travel, and in which order things happen then; needs no MPI and no GPU."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from ecsim.grid import Block, Grid, Part
from ecsim.parallel.halo import Halo
from ecsim.parallel.transport_cuda import DeviceTransport, NcclTransport
from ecsim.solver import operator

pytest.importorskip("mpi4py", reason="mpi4py is not installed")


def block(*cells, order=1):
    return Block(Grid(cells, (1.0,) * len(cells), order))


@pytest.mark.parametrize(("cells", "low", "high"), [
    ((7,), (1,), (6,)), ((5, 6), (2, 0), (3, 6)), ((4, 5, 6), (1, 1, 1), (3, 4, 5)), ((4, 5, 3), (0, 2, 1), (4, 3, 2)),
    ((4, 1, 3), (0, 0, 0), (4, 1, 3)), ((2, 5), (1, 0), (1, 5))])
def test_a_box_and_the_rest_are_all_nodes_once(cells, low, high):
    times = np.zeros(cells, int)
    for outside, value in ((False, 1), (True, 10)):
        for begin, end in Part(low, high, outside).boxes(cells):
            assert all(a < b for a, b in zip(begin, end, strict=True))
            times[tuple(map(slice, begin, end))] += value
    expected = np.full(cells, 10)
    expected[tuple(map(slice, low, high))] = 1
    np.testing.assert_array_equal(times, expected)


@pytest.mark.parametrize(("cells", "order", "cut", "inner"), [
    ((8, 9, 10), 1, (), None),
    ((8, 9, 10), 1, (0,), Part((1, 0, 0), (7, 9, 10))),
    ((8, 9, 10), 2, (0,), Part((2, 0, 0), (6, 9, 10))),
    ((8, 9, 10), 1, (0, 2), Part((1, 0, 1), (7, 9, 9))),
    ((8, 9, 10), 2, (0, 2), None),
    ((8, 9), 1, (1,), Part((0, 1), (8, 8))),
    ((3, 9), 1, (0,), None),
    ((2, 9), 2, (0,), None),
    ((12,), 2, (0,), Part((2,), (10,))),
])
def test_inner_nodes_are_those_far_from_cuts_where_they_are_many(cells, order, cut, inner):
    peers = [(0, 0) if k in cut else None for k in range(len(cells))]
    here = block(*cells, order=order)
    assert Halo(here, peers, backend=SimpleNamespace(part_of_rows=True)).inner == inner
    whole_rows = len(cells) == 1 or len(cells) - 1 not in cut
    assert Halo(here, peers, backend=SimpleNamespace(part_of_rows=False)).inner == (inner if whole_rows else None)


def test_pieces_of_the_inner_nodes(monkeypatch):
    inner = Part((1, 0, 0), (7, 9, 10))
    assert operator._pieces(inner, 4) == [inner]
    monkeypatch.setattr(operator, "FEWEST_NODES", 100)
    for most, count in ((1, 1), (4, 4), (9, 5)):
        pieces = operator._pieces(inner, most)
        assert len(pieces) == count and pieces[0].low == inner.low and pieces[-1].high == inner.high
        assert all(a.high == (b.low[0], 9, 10) for a, b in zip(pieces, pieces[1:], strict=False))


class Streams:
    """What CuPy's streams are asked for, in the order in which the host asks."""

    def __init__(self):
        self.log, self.current = [], "main"
        self.cuda = SimpleNamespace(Stream=lambda **options: self.stream("aside"),
                                    get_current_stream=lambda: self.stream(self.current))

    def stream(self, name):
        stream = SimpleNamespace(ptr=0, record=lambda: self.note(name, "record"))
        stream.wait_event = lambda event: self.note(name, f"wait for {event}")
        return Entered(stream, self, name)

    def note(self, stream, what):
        self.log.append(f"{stream}: {what}")
        return stream


class Entered:
    """A stream that ``with`` makes the current one."""

    def __init__(self, stream, streams, name):
        self.streams, self.name = streams, name
        self.record, self.wait_event = stream.record, stream.wait_event

    def __enter__(self):
        self.streams.current = self.name

    def __exit__(self, *error):
        self.streams.current = "main"


@pytest.mark.parametrize("kind", [DeviceTransport, NcclTransport])
def test_a_device_works_while_faces_travel_in_another_stream(kind):
    streams, watched = Streams(), []

    @contextmanager
    def phase(name):
        streams.note(streams.current, f"begin {name}")
        yield

    transport = NcclTransport.__new__(kind)
    DeviceTransport.__init__(transport, SimpleNamespace(rank=0, size=2), SimpleNamespace(phase=phase), streams)

    def passing():
        for k in range(2):
            with transport.phase("a face"):
                watched.append(len(streams.log))
            streams.note(streams.current, f"face {k}")
            yield

    transport.beside(passing(), [lambda: streams.note(streams.current, "inner nodes")])
    seen = [line for line in streams.log if line != "aside: begin a face"]
    assert seen == ["main: record", "aside: wait for main", "main: inner nodes", "aside: face 0", "aside: face 1",
                    "aside: record", "main: begin exchange", "main: wait for aside"]
    assert len(watched) == 2 and len(streams.log) - len(seen) == (0 if kind.stream_ordered else 2)
