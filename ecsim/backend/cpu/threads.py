"""Threads over slabs of planes along dimension 0.

A kernel is a compiled function that works on one slab and does not hold the interpreter lock. How the planes are cut
does not depend on the number of threads, and slabs that write to common nodes never run at the same time (even ones
first, then odd ones), so results are the same, bit for bit, for any number of threads.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue

MOST_SLABS = 256
MOST_THREADS = 4096
STACK_BYTES = 2**22
FEWEST_CELLS = 256


def available_threads() -> int:
    """Processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cut(planes: int, cells_per_plane: int, order: int) -> list[tuple[int, int]]:
    """Cut planes into slabs [first, last), each (but perhaps the last) of one thickness.

    At least order + 1 planes thick, so that its particles reach no node which those of the slab after next reach, and
    at least FEWEST_CELLS large (16 suffice), so that no kernel, which may add 0 to 7 nodes beyond, gets there either.
    """
    thickness = max(order + 1, -(-planes // MOST_SLABS), -(-FEWEST_CELLS // cells_per_plane))
    return [(first, min(first + thickness, planes)) for first in range(0, planes, thickness)]


def _serve(tasks: SimpleQueue) -> None:
    """What a helper does: one task after the other, until it is handed None."""
    while (task := tasks.get()) is not None:
        work, ended = task
        try:
            work()
        except BaseException as error:
            ended.put(error)
        else:
            ended.put(None)
        del task, work, ended


def _dismiss(tasks: SimpleQueue, count: int) -> None:
    """Hand None to ``count`` helpers, which ends them."""
    for _ in range(count):
        tasks.put(None)


class _Helpers:
    """Threads that wait for work. Handing it over costs a few microseconds, a tenth of what a pool of futures takes.

    Each has a stack for the kernels' work arrays (0.4 MB; some systems give less). Raises OSError if the system does
    not start so many; those that did start end.
    """

    def __init__(self, count: int) -> None:
        self._tasks: SimpleQueue = SimpleQueue()
        before, started = threading.stack_size(STACK_BYTES), 0
        try:
            for started in range(count):
                threading.Thread(target=_serve, args=(self._tasks,), name=f"ecsim-{started}", daemon=True).start()
        except RuntimeError as error:
            _dismiss(self._tasks, started)
            raise OSError(f"{count + 1} threads are more than this system lets a process start") from error
        finally:
            threading.stack_size(before)
        weakref.finalize(self, _dismiss, self._tasks, count)

    def run(self, work: Callable[[], None], count: int) -> None:
        """Call ``work`` here and on ``count`` helpers; waits for those that have begun, and raises what one raised."""
        ended: SimpleQueue = SimpleQueue()
        for _ in range(count):
            self._tasks.put((work, ended))
        try:
            work()
        finally:
            outcomes = [ended.get() for _ in range(count - self._recall())]
        for error in filter(None, outcomes):
            raise error

    def _recall(self) -> int:
        """Take back the tasks that no helper has begun; returns how many."""
        recalled = 0
        while True:
            try:
                self._tasks.get_nowait()
            except Empty:
                return recalled
            recalled += 1


class Threads:
    """A fixed number of threads, the caller's among them, that share lists of kernel calls."""

    def __init__(self, count: int | None = None) -> None:
        self.count = available_threads() if count is None else int(count)
        if not 1 <= self.count <= MOST_THREADS:
            raise ValueError(f"threads = {count}; 1 to {MOST_THREADS} are allowed")
        self._helpers = _Helpers(self.count - 1) if self.count > 1 else None

    def run(self, kernel: Callable, calls: Iterable[tuple]) -> None:
        """Call ``kernel(*arguments)`` for all ``calls``, in any order; returns when all are done."""
        calls = list(calls)
        if self._helpers is None or len(calls) < 2:
            for arguments in calls:
                kernel(*arguments)
            return
        waiting = iter(calls)

        def work() -> None:
            """Take calls from the common iterator until none is left."""
            for arguments in waiting:
                kernel(*arguments)

        self._helpers.run(work, min(self.count, len(calls)) - 1)

    def run_scattering(self, kernel: Callable, calls: Iterable[tuple]) -> None:
        """As ``run``, for calls in the order of slabs whose neighbours write to common nodes."""
        calls = list(calls)
        self.run(kernel, calls[0::2])
        self.run(kernel, calls[1::2])

    def ranges(self, n: int) -> list[tuple[int, int]]:
        """Cut [0, n) into a few equal ranges per thread, for work whose result does not depend on the cut."""
        pieces = max(1, min(4 * self.count if self.count > 1 else 1, n // 4096))
        return [(n * k // pieces, n * (k + 1) // pieces) for k in range(pieces)]
