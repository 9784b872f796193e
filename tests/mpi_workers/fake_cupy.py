"""Enough of CuPy, on NumPy arrays, for the transports of GPU arrays to run without a GPU.

NCCL matches messages between two ranks by their order alone; so does the one here, which has no tags.
"""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import numpy as np


class DeviceArray(np.ndarray):
    """A NumPy array with the methods by which CuPy's are copied, and an address."""

    def get(self, out, blocking=True):
        """To the host."""
        assert not isinstance(out, DeviceArray)
        out[...] = self.view(np.ndarray)
        return out

    def set(self, host):
        """From the host."""
        assert not isinstance(host, DeviceArray)
        self[...] = host

    @property
    def data(self):
        """The address as CuPy gives it."""
        assert self.flags.c_contiguous
        return SimpleNamespace(ptr=self.ctypes.data)


class FakeNccl:
    """Send, receive and all-reduce on addresses, by MPI."""

    available, NCCL_INT8, NCCL_FLOAT64, NCCL_SUM = True, 1, 2, 3

    def __init__(self, comm):
        self.comm, self.open = comm, []

    def get_unique_id(self):
        return (1, 2, 3)

    def NcclCommunicator(self, size, identifier, rank):
        assert (size, identifier, rank) == (self.comm.size, (1, 2, 3), self.comm.rank)
        return self

    def groupStart(self):
        assert not self.open

    def groupEnd(self):
        from mpi4py import MPI

        MPI.Request.Waitall(self.open)
        self.open = []

    def send(self, address, count, dtype, peer, stream):
        self.open.append(self.comm.Isend(memory(address, count), peer))

    def recv(self, address, count, dtype, peer, stream):
        self.open.append(self.comm.Irecv(memory(address, count), peer))

    def allReduce(self, source, target, count, dtype, operation, stream):
        self.comm.Allreduce(memory(source, 8 * count).view(np.float64), memory(target, 8 * count).view(np.float64))


def memory(address, count):
    """The bytes at an address."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(address))


class FakeStream:
    """A stream in whose order nothing waits for anything; it notes what it was asked for."""

    ptr = 0

    def __init__(self, **options):
        self.options, self.asked = options, []

    def __enter__(self):
        self.before, FakeStream.current = FakeStream.current, self

    def __exit__(self, *error):
        FakeStream.current = self.before

    def synchronize(self):
        self.asked.append("synchronize")

    def record(self):
        self.asked.append("record")
        return self

    def wait_event(self, event):
        assert event is not self and event.asked[-1] == "record"
        self.asked.append("wait")


FakeStream.current = FakeStream()


class FakeCupy:
    """The array module: NumPy's functions, with results that count as on the device."""

    __name__ = "fake_cupy"

    def __init__(self, comm):
        self.cuda = SimpleNamespace(alloc_pinned_memory=bytearray, Stream=FakeStream,
                                    get_current_stream=lambda: FakeStream.current)
        sys.modules["fake_cupy.cuda.nccl"] = FakeNccl(comm)

    def __getattr__(self, name):
        function = getattr(np, name)

        def wrapped(*arguments, **named):
            result = function(*arguments, **named)
            return result.view(DeviceArray) if isinstance(result, np.ndarray) else result

        return wrapped

    @staticmethod
    def asnumpy(a):
        """On the host."""
        return np.array(a)
