"""Work of the device that is recorded once and then replayed, one call of the host in place of many: CUDA graphs."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import contextmanager


class GraphRecorder:
    """Makes functions record what they give the device to do.

    Such a function takes whole numbers and returns nothing. Its work depends on them alone, is the device's alone, and
    what it leaves behind is in arrays that stay. What it allocates on its way is kept, and shared by all recordings of
    a recorder: they are replayed in one stream, one after the other. Exchanges and sums of the transport may be part of
    it; its ``traffic`` counts them again at every replay.

    backend : its timer, which is to be exact on all ranks or on none, and CuPy.  transport : of the exchanges.
    """

    def __init__(self, backend, transport) -> None:
        self.backend, self.traffic = backend, transport.traffic
        self._stream = backend.xp.cuda.Stream(non_blocking=True)
        self._kept: list = []

    def __call__(self, function: Callable[..., None]) -> RecordedFunction:
        """The function, recording."""
        return RecordedFunction(self, function)

    def record(self, work: Callable[[], None]):
        """A graph of what ``work`` gives the device to do; nothing of it is done."""
        xp, free = self.backend.xp, list(self._kept)
        pool = xp.get_default_memory_pool()

        def allocate(size: int):
            """Memory that nothing else of this recording has, and nothing but recordings ever."""
            for k, memory in enumerate(free):
                if memory.mem.size >= size:
                    return free.pop(k)
            self._kept.append(pool.malloc(size))
            return self._kept[-1]

        with _no_garbage_collected(), self._stream, xp.cuda.using_allocator(allocate):
            self._stream.begin_capture()
            try:
                work()
            except BaseException:
                _abandon(self._stream)
                raise
            return self._stream.end_capture()


class RecordedFunction:
    """A function that is run the first time, which compiles and connects, recorded the second time, then replayed.

    While the timer is exact, which it is between the phases inside a function too, it is run. A communicator of NCCL
    waits for ever for graphs that it is part of: they end first, also where all of this ends in one collection of
    garbage.
    """

    def __init__(self, recorder: GraphRecorder, function: Callable[..., None]) -> None:
        self.recorder, self.function = recorder, function
        self.graphs: dict = {}

    def __del__(self) -> None:
        self.graphs.clear()

    def __call__(self, *key: int) -> None:
        """Do its work."""
        if self.recorder.backend.timer.exact:
            self.function(*key)
        elif key not in self.graphs:
            self.function(*key)
            self.graphs[key] = None
        else:
            self._replay(key)

    def _replay(self, key: tuple[int, ...]) -> None:
        traffic = self.recorder.traffic
        if self.graphs[key] is None:
            before = dict(traffic)
            try:
                graph = self.recorder.record(lambda: self.function(*key))
                self.graphs[key] = graph, {name: n - before[name] for name, n in traffic.items()}
            finally:
                traffic.update(before)
        graph, counts = self.graphs[key]
        for name, n in counts.items():
            traffic[name] += n
        graph.launch()


@contextmanager
def _no_garbage_collected():
    """What garbage frees on the device (memory, communicators) may not be freed while a stream is captured."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _abandon(stream) -> None:
    """End a capture that has failed; what CUDA says to that is not the fault."""
    try:
        stream.end_capture()
    except RuntimeError:
        pass
