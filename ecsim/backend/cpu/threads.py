"""Threads over slabs of planes along dimension 0.

A kernel is a compiled function that works on one slab and does not hold the interpreter lock. How the planes are cut
does not depend on the number of threads, and slabs that write to common nodes never run at the same time (even ones
first, then odd ones), so results are the same, bit for bit, for any number of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait

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


def _started_pool(count: int) -> ThreadPoolExecutor:
    """A pool whose threads run already, with stacks for the kernels' work arrays (0.4 MB; some systems give less)."""
    before = threading.stack_size(STACK_BYTES)
    try:
        pool, everyone = ThreadPoolExecutor(count, thread_name_prefix="ecsim"), threading.Barrier(count + 1)
        try:
            for _ in range(count):
                pool.submit(everyone.wait)
        except RuntimeError as error:
            everyone.abort()        # else those that did start would wait for ever, and the process with them
            pool.shutdown()
            raise OSError(f"{count + 1} threads are more than this system lets a process start") from error
        everyone.wait()
    finally:
        threading.stack_size(before)
    return pool


class Threads:
    """A fixed number of threads, the caller's among them, that share lists of kernel calls."""

    def __init__(self, count: int | None = None) -> None:
        self.count = available_threads() if count is None else int(count)
        if not 1 <= self.count <= MOST_THREADS:
            raise ValueError(f"threads = {count}; 1 to {MOST_THREADS} are allowed")
        self._pool = _started_pool(self.count - 1) if self.count > 1 else None

    def run(self, kernel: Callable, calls: Iterable[tuple]) -> None:
        """Call ``kernel(*arguments)`` for all ``calls``, in any order; returns when all are done."""
        calls = list(calls)
        if self._pool is None or len(calls) == 1:
            for arguments in calls:
                kernel(*arguments)
            return
        waiting = iter(calls)

        def work() -> None:
            for arguments in waiting:
                kernel(*arguments)

        helpers = [self._pool.submit(work) for _ in range(min(self.count, len(calls)) - 1)]
        try:
            work()
        finally:
            started = [helper for helper in helpers if not helper.cancel()]
            wait(started)
        for helper in started:
            helper.result()

    def run_scattering(self, kernel: Callable, calls: Iterable[tuple]) -> None:
        """As ``run``, for calls in the order of slabs whose neighbours write to common nodes."""
        calls = list(calls)
        self.run(kernel, calls[0::2])
        self.run(kernel, calls[1::2])

    def ranges(self, n: int) -> list[tuple[int, int]]:
        """Cut [0, n) into a few equal ranges per thread, for work whose result does not depend on the cut."""
        pieces = max(1, min(4 * self.count if self.count > 1 else 1, n // 4096))
        return [(n * k // pieces, n * (k + 1) // pieces) for k in range(pieces)]
