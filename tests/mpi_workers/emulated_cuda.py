"""``python emulated_cuda.py OUT``: the case "small" by the CUDA backend, its kernels compiled for the host.

Solver iterations are recorded and replayed as with NCCL: exchanges and sums wait on the tape with the kernels.
"""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
from cases import CASES
from cuda_devices import HostCudaBackend

import ecsim.builder
from ecsim.parallel.launch import world
from ecsim.parallel.transport import HostTransport


class TapedTransport(HostTransport):
    """MPI as a stream has it: in order, and on the tape of the backend where it records."""

    stream_ordered = True

    def __init__(self, comm, backend) -> None:
        super().__init__(comm, backend.timer)
        self.backend, self.taped = backend, 0

    def _later(self, work) -> None:
        if self.backend.tape is None:
            work()
        else:
            self.backend.tape.append(work)
            self.taped += 1

    def exchange(self, *arguments) -> None:
        """See Transport."""
        self._later(partial(HostTransport.exchange, self, *arguments))

    start = exchange

    def finish(self, pending) -> None:
        """See Transport."""

    def beside(self, passing, meanwhile) -> None:
        """See Transport."""
        for work in (*meanwhile, *passing):
            if work is not None:
                work()

    def sum(self, a):
        """See Transport."""
        total = np.full_like(a, np.nan, dtype=np.float64)
        self._later(lambda: np.copyto(total, HostTransport.sum(self, a)))
        return total


if __name__ == "__main__":
    transports = []
    ecsim.builder.select = lambda *arguments, **named: HostCudaBackend()
    ecsim.builder.connect = lambda here, backend, wanted: transports.append(
        TapedTransport(here.comm, backend)) or transports[-1]
    found = CASES["small"](method="conventional")
    assert transports[-1].taped > 20
    if world().is_root:
        np.savez(sys.argv[1], **{f"small:{key}": value for key, value in found.items()})
