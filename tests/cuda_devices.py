"""The CUDA backend as tests use it: on a GPU, or its kernels run on the host with NumPy in the place of CuPy."""

from __future__ import annotations

import numpy as np
import pytest
from host_cuda import HostKernel
from host_cuda import launch_sizes as host_launch_sizes

from ecsim.backend import BackendError
from ecsim.backend.cuda import CudaBackend


class Poisoned:
    """NumPy whose ``empty`` is full of NaN and −1, so that what is never written shows."""

    def __getattr__(self, name):
        return getattr(np, name)

    @staticmethod
    def empty(shape, dtype=np.float64):
        a = np.empty(shape, dtype)
        a.view(np.uint8)[...] = 0xFF
        return a


class HostCudaBackend(CudaBackend):
    """The same Python, the same kernels, no GPU."""

    def __init__(self) -> None:
        self.xp = Poisoned()
        self._begin()

    def launch(self, file, name, grid, threads, arguments, shared=0, **macros) -> None:
        if all(grid):
            HostKernel(file, name, **macros)(grid, (threads,), arguments, shared_mem=shared)

    def launch_sizes(self, file, **macros):
        return host_launch_sizes(file, **macros)

    def resident_blocks(self, file, name, threads, shared, **macros) -> int:
        return 3

    def to_host(self, a):
        return np.asarray(a)

    def from_host(self, a):
        return np.asarray(a)

    def fetch(self, a):
        return lambda: np.asarray(a)

    def synchronize(self) -> None:
        pass


DEVICES = ["host", pytest.param("cuda", marks=pytest.mark.cuda)]


def backend_on(device: str) -> CudaBackend:
    """The backend, or a skip that says why there is none."""
    if device == "host":
        return HostCudaBackend()
    try:
        return CudaBackend()
    except BackendError as error:
        pytest.skip(str(error))


def fresh_random() -> np.random.Generator:
    """Other numbers every time; pytest shows the seed of a test that fails."""
    seed = np.random.SeedSequence().entropy
    print(f"np.random.default_rng({seed})")
    return np.random.default_rng(seed)
