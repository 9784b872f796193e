"""How arrays travel between ranks: one interface, `Transport`, whose other forms for GPUs are in `transport_cuda`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, Protocol

import numpy as np

SPIN_SECONDS = 5e-5
TO_LOW, TO_HIGH = 1, 2


class TransportError(RuntimeError):
    """The transport that was asked for is not to be had; the message says why."""


class Transport(Protocol):
    """What ranks can do with arrays of the module ``xp`` (numpy or cupy).

    pieces : into how many pieces work beside an exchange is best cut.
    stream_ordered : whether the host waits for nothing in an exchange or sum.
    traffic : messages and bytes that this rank has sent to neighbours, and reductions.
    """

    name: str
    rank: int
    size: int
    pieces: int
    stream_ordered: bool
    traffic: dict[str, int]
    xp: Any

    def exchange(self, neighbours: tuple[int, int], to_low, to_high, from_low, from_high) -> None:
        """Send two contiguous arrays to the ranks ``neighbours`` (low, high) and receive two in place.

        Both sides know the lengths; what is empty is not sent. The two neighbours may be the same rank.
        """

    def start(self, neighbours: tuple[int, int], to_low, to_high, from_low, from_high) -> Any:
        """Begin what ``exchange`` does; what is returned goes to ``finish`` before the next one begins."""

    def finish(self, pending) -> None:
        """Wait until what was begun is done, in the order of the device where there is one."""

    def beside(self, passing: Iterator[None], meanwhile: Sequence[Callable[[], None]]) -> None:
        """Run ``passing``, which yields whenever it has begun an exchange, to its end, and ``meanwhile`` beside it."""

    def exchange_counts(self, neighbours: tuple[int, int], to_low: int, to_high: int) -> tuple[int, int]:
        """Send a number to each neighbour and return theirs, (from low, from high)."""

    def sum(self, a):
        """Sum of an array over all ranks, the same bits on each; a new array of the same module."""

    def max(self, value: float) -> float:
        """Largest of a number over all ranks."""


class Alone:
    """The transport of one rank: there is nobody to talk to."""

    name = "none"
    rank, size, comm, pieces, stream_ordered = 0, 1, None, 1, True
    xp = np

    def __init__(self) -> None:
        self.traffic: dict[str, int] = {}

    def exchange(self, *arguments) -> Any:
        """Never called: no dimension is cut."""
        raise AssertionError("one rank has no neighbours")

    exchange_counts = start = finish = exchange

    def beside(self, passing, meanwhile) -> None:
        """Nothing has to be passed on."""
        for work in meanwhile:
            work()
        for _ in passing:
            pass

    def sum(self, a):
        """The array itself."""
        return a

    def max(self, value: float) -> float:
        """The number itself."""
        return value


class HostTransport:
    """MPI on numpy arrays.

    comm : mpi4py communicator.  timer : its phases "exchange" and "reduce" are charged with the waiting.
    """

    name = "host"
    pieces, stream_ordered = 4, False
    xp: Any = np

    def __init__(self, comm, timer=None) -> None:
        self.comm, self.timer = comm, timer
        self.rank, self.size = comm.rank, comm.size
        self.traffic = {"messages": 0, "bytes": 0, "reductions": 0}
        self._pending: list = []
        self._done, self._wait = _waiting()

    def phase(self, name: str):
        """The timer's phase, where there is a timer."""
        return self.timer.phase(name) if self.timer else nullcontext()

    def count(self, *sent) -> None:
        """Note what is sent; what is empty is not."""
        self.traffic["messages"] += sum(a.nbytes > 0 for a in sent)
        self.traffic["bytes"] += sum(a.nbytes for a in sent)

    def _post(self, neighbours, to_low, to_high, from_low, from_high) -> list:
        low, high = neighbours
        self.count(to_low, to_high)
        return [begin(a, peer, tag) for begin, a, peer, tag in (
            (self.comm.Irecv, from_low, low, TO_HIGH), (self.comm.Irecv, from_high, high, TO_LOW),
            (self.comm.Isend, to_low, low, TO_LOW), (self.comm.Isend, to_high, high, TO_HIGH)) if a.nbytes]

    def exchange(self, neighbours, to_low, to_high, from_low, from_high) -> None:
        """See Transport."""
        with self.phase("exchange"):
            self._wait(self._post(neighbours, to_low, to_high, from_low, from_high))

    def start(self, neighbours, to_low, to_high, from_low, from_high) -> Any:
        """See Transport."""
        with self.phase("exchange"):
            self._pending = self._post(neighbours, to_low, to_high, from_low, from_high)
        return self._pending

    def finish(self, pending) -> None:
        """See Transport."""
        with self.phase("exchange"):
            self._wait(pending)

    def beside(self, passing, meanwhile) -> None:
        """See Transport. MPI gets on with it between the pieces of work, and the next exchange begins when it can."""
        next(passing, None)
        for work in meanwhile:
            work()
            if self._done(self._pending):
                next(passing, None)
        for _ in passing:
            pass

    def exchange_counts(self, neighbours, to_low: int, to_high: int) -> tuple[int, int]:
        """See Transport."""
        counts = np.array([[to_low], [to_high], [0], [0]], np.int64)
        HostTransport.exchange(self, neighbours, *counts)
        return int(counts[2, 0]), int(counts[3, 0])

    def sum(self, a):
        """See Transport."""
        return self._reduce(np.ascontiguousarray(a, dtype=np.float64), None)

    def max(self, value: float) -> float:
        """See Transport."""
        from mpi4py import MPI

        return float(self._reduce(np.array(value, dtype=np.float64), MPI.MAX))

    def _reduce(self, a: np.ndarray, operation) -> np.ndarray:
        total = np.empty_like(a)
        options = () if operation is None else (operation,)
        self.traffic["reductions"] += 1
        with self.phase("reduce"):
            self._wait([self.comm.Iallreduce(a, total, *options)])
        return total


def _waiting():
    """A function that looks whether MPI requests are done, and one that waits for them.

    For a moment it spins, then it naps between looks: where ranks share processors, one that spins takes the time of
    the rank that it waits for.
    """
    from mpi4py import MPI

    def wait(requests: list) -> None:
        """Return when all requests are done."""
        begin = time.perf_counter()
        while not MPI.Request.Testall(requests):
            if time.perf_counter() - begin > SPIN_SECONDS:
                time.sleep(0)

    return MPI.Request.Testall, wait
