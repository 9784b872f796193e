"""Transports of arrays on GPUs, one GPU a rank: NCCL, an MPI that takes device pointers, and pinned memory on the host.

An MPI that does not know of CUDA takes a device pointer for one of the host's and crashes the process. So it is asked
first, and only a clear yes counts.
"""

from __future__ import annotations

import ctypes
import warnings
from contextlib import nullcontext
from typing import Any

import numpy as np

from ecsim.parallel.transport import HostTransport, TransportError


class DeviceTransport(HostTransport):
    """What the transports of arrays on GPUs have in common.  xp : cupy.

    An exchange beside other work runs in a stream of its own, which comes first where both want the device. The work is
    handed over before it, so that the device has something to do while the host deals with the exchange.
    Where the host does not wait in it, it is charged with what outlasts the work.
    """

    pieces = 1

    def __init__(self, comm, timer, xp) -> None:
        super().__init__(comm, timer)
        self.xp = xp
        self._aside: Any = None
        self._quiet = False

    def phase(self, name: str):
        """The timer's phase, where there is a timer and the host has something to wait for."""
        return nullcontext() if self._quiet else super().phase(name)

    def start(self, neighbours, to_low, to_high, from_low, from_high) -> Any:
        """See Transport: all of it, as far as the host has to do with it."""
        self.exchange(neighbours, to_low, to_high, from_low, from_high)

    def finish(self, pending) -> None:
        """See Transport."""

    def beside(self, passing, meanwhile) -> None:
        """See Transport."""
        stream = self.xp.cuda.get_current_stream()
        if self._aside is None:
            self._aside = self.xp.cuda.Stream(non_blocking=True, priority=-1)
        self._aside.wait_event(stream.record())
        for work in meanwhile:
            work()
        self._quiet = self.stream_ordered
        try:
            with self._aside:
                for _ in passing:
                    pass
                passed = self._aside.record()
        finally:
            self._quiet = False
        with self.phase("exchange"):
            stream.wait_event(passed)


class StagedTransport(DeviceTransport):
    """Through pinned memory on the host: works with every MPI."""

    name = "host"

    def __init__(self, comm, timer, xp) -> None:
        super().__init__(comm, timer, xp)
        self._pinned: dict[int, np.ndarray] = {}

    def _stage(self, slot: int, like) -> np.ndarray:
        """Page-locked memory of the size of ``like``; it is kept, and replaced where it is too small."""
        if slot not in self._pinned or self._pinned[slot].nbytes < like.nbytes:
            size = like.nbytes + like.nbytes // 4 + 8
            self._pinned[slot] = np.frombuffer(self.xp.cuda.alloc_pinned_memory(size), np.uint8, size)
        return self._pinned[slot][: like.nbytes].view(like.dtype).reshape(like.shape)

    def exchange(self, neighbours, to_low, to_high, from_low, from_high) -> None:
        """See Transport."""
        device = (to_low, to_high, from_low, from_high)
        host = [self._stage(slot, a) for slot, a in enumerate(device)]
        with self.phase("exchange"):
            stream = self.xp.cuda.get_current_stream()
            for a, staged in zip(device[:2], host[:2], strict=True):
                if a.nbytes:
                    a.get(out=staged, blocking=False)
            stream.synchronize()
            super().exchange(neighbours, *host)
            for a, staged in zip(device[2:], host[2:], strict=True):
                if a.nbytes:
                    a.set(staged)
            stream.synchronize()

    def sum(self, a):
        """See Transport."""
        return self.xp.asarray(super().sum(self.xp.asnumpy(a)))


class CudaAwareTransport(DeviceTransport):
    """Device pointers handed to an MPI that has said that it takes them."""

    name = "cuda-aware"

    def exchange(self, neighbours, to_low, to_high, from_low, from_high) -> None:
        """See Transport."""
        with self.phase("exchange"):
            self.xp.cuda.get_current_stream().synchronize()
            super().exchange(neighbours, to_low, to_high, from_low, from_high)

    def sum(self, a):
        """See Transport. Small arrays: a copy on the host is faster than a reduction on the device."""
        return self.xp.asarray(super().sum(self.xp.asnumpy(a)))


class NcclTransport(DeviceTransport):
    """NCCL, in the order of the current stream: the host waits for nothing.

    All ranks call it in one order, whatever the streams: an exchange aside ends before the next sum begins.
    """

    name = "nccl"
    stream_ordered = True

    def __init__(self, comm, timer, xp) -> None:
        super().__init__(comm, timer, xp)
        self.nccl = nccl_of(xp)
        identifier = comm.bcast(self.nccl.get_unique_id() if comm.rank == 0 else None, root=0)
        self.peers = self.nccl.NcclCommunicator(comm.size, identifier, comm.rank)

    def exchange(self, neighbours, to_low, to_high, from_low, from_high) -> None:
        """See Transport. Messages between two ranks match in their order: what goes to low comes from high."""
        low, high = neighbours
        self.count(to_low, to_high)
        stream = self.xp.cuda.get_current_stream().ptr
        with self.phase("exchange"):
            self.nccl.groupStart()
            for call, a, peer in ((self.peers.send, to_low, low), (self.peers.send, to_high, high),
                                  (self.peers.recv, from_high, high), (self.peers.recv, from_low, low)):
                if a.nbytes:
                    call(a.data.ptr, a.nbytes, self.nccl.NCCL_INT8, peer, stream)
            self.nccl.groupEnd()

    def sum(self, a):
        """See Transport."""
        given = self.xp.ascontiguousarray(a, dtype=np.float64)
        total = self.xp.empty_like(given)
        self.traffic["reductions"] += 1
        with self.phase("reduce"):
            self.peers.allReduce(given.data.ptr, total.data.ptr, given.size, self.nccl.NCCL_FLOAT64,
                                 self.nccl.NCCL_SUM, self.xp.cuda.get_current_stream().ptr)
        return total


def nccl_of(xp):
    """CuPy's NCCL module, or None where the library is missing."""
    from importlib import import_module

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = import_module(f"{xp.__name__}.cuda.nccl")
        except ImportError:
            return None
    return module if module.available else None


def mpi_takes_device_pointers() -> bool:
    """What the loaded MPI library answers when asked whether it is CUDA-aware; False if it cannot be asked."""
    from mpi4py import MPI

    try:
        query = ctypes.CDLL(MPI.__file__).MPIX_Query_cuda_support
    except (OSError, AttributeError):
        return False
    return bool(query())


def obstacles(comm, xp, device: int) -> dict[str, str]:
    """What stands against each transport on any rank, by name; empty texts if nothing does."""
    from mpi4py import MPI

    place = MPI.Get_processor_name(), xp.cuda.runtime.deviceGetPCIBusId(device)
    found = {
        "nccl": "" if nccl_of(xp) else "CuPy finds no NCCL (install nvidia-nccl-cu12 or nvidia-nccl-cu13)",
        "cuda-aware": "" if mpi_takes_device_pointers() else "the MPI library does not say that it is CUDA-aware",
        "host": "",
    }
    everyone = comm.allgather((place, found))
    places = [where for where, _ in everyone]
    worst = {name: next((f[name] for _, f in everyone if f[name]), "") for name in found}
    if len(set(places)) < len(places):
        worst["nccl"] = "several ranks share a GPU, which NCCL refuses"
    return worst


def connect_devices(comm, timer, xp, device: int, wanted: str = "auto"):
    """The transport for arrays on GPUs: ``wanted``, or with "auto" the fastest that there is (collective).

    Raises TransportError saying what stands against the one that was asked for.
    """
    kinds = {"nccl": NcclTransport, "cuda-aware": CudaAwareTransport, "host": StagedTransport}
    against = obstacles(comm, xp, device)
    name = next(n for n in kinds if not against[n]) if wanted == "auto" else wanted
    if against[name]:
        raise TransportError(f"mpi.transport = '{name}' is not to be had: {against[name]}")
    return kinds[name](comm, timer, xp)
