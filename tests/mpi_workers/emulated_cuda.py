"""``python emulated_cuda.py OUT``: the case "small" by the CUDA backend, its kernels compiled for the host."""

from __future__ import annotations

import sys

import numpy as np
from cases import CASES
from cuda_devices import HostCudaBackend

import ecsim.builder
from ecsim.parallel.launch import world
from ecsim.parallel.transport import HostTransport

if __name__ == "__main__":
    ecsim.builder.select = lambda *arguments, **named: HostCudaBackend()
    ecsim.builder.connect = lambda here, backend, wanted: HostTransport(here.comm, backend.timer)
    found = CASES["small"](method="conventional")
    if world().is_root:
        np.savez(sys.argv[1], **{f"small:{key}": value for key, value in found.items()})
