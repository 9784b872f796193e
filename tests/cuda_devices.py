"""The CUDA backend as tests use it: on a GPU, or its kernels run on the host with NumPy in the place of CuPy."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from host_cuda import HostKernel
from host_cuda import launch_sizes as host_launch_sizes

import ecsim.builder
from ecsim.backend import BackendError, select
from ecsim.backend.cuda import CudaBackend
from ecsim.backend.cuda.graphs import GraphRecorder


class Poisoned:
    """NumPy or CuPy whose ``empty`` is full of NaN and −1, so that what is never written shows."""

    def __init__(self, module=np) -> None:
        self.module = module

    def __getattr__(self, name):
        return getattr(self.module, name)

    def empty(self, shape, dtype=np.float64):
        a = self.module.empty(shape, dtype)
        if self.module is np or not self.module.cuda.get_current_stream().is_capturing():
            a.view(np.uint8)[...] = 0xFF
        return a


class HostCudaBackend(CudaBackend):
    """The same Python, the same kernels, no GPU."""

    def __init__(self) -> None:
        self.xp, self.tape = Poisoned(), None
        self._begin()

    def launch(self, file, name, grid, threads, arguments, shared=0, **macros) -> None:
        if all(grid):
            run = partial(HostKernel(file, name, **macros), grid, (threads,), arguments, shared_mem=shared)
            run() if self.tape is None else self.tape.append(run)

    def launch_sizes(self, file, **macros):
        return host_launch_sizes(file, **macros)

    def resident_blocks(self, file, name, threads, shared, **macros) -> int:
        return 3

    def to_host(self, a):
        return np.asarray(a)

    def from_host(self, a):
        return np.asarray(a)

    def page_locked(self, size):
        return np.full(size, np.nan)

    def copy_to_host(self, a, to) -> None:
        copy = partial(np.copyto, to, a)
        copy() if self.tape is None else self.tape.append(copy)

    def release_memory(self) -> None:
        pass

    def copy_from_host(self, a, to) -> None:
        self.copy_to_host(a, to)

    def mark(self):
        return lambda: None

    def graph_recorder(self, transport):
        return HostGraphRecorder(self, transport)

    def synchronize(self) -> None:
        pass


class HostGraphRecorder(GraphRecorder):
    """Puts kernels and copies on a tape in place of a graph."""

    def __init__(self, backend, transport) -> None:
        self.backend, self.traffic = backend, transport.traffic

    def record(self, work):
        tape = self.backend.tape = []
        try:
            work()
        finally:
            self.backend.tape = None
        return SimpleNamespace(launch=lambda: [step() for step in tape])


DEVICES = ["host", pytest.param("cuda", marks=pytest.mark.cuda)]


def backend_on(device: str) -> CudaBackend:
    """The backend, or a skip that says why there is none."""
    if device == "host":
        return HostCudaBackend()
    try:
        backend = CudaBackend()
        backend.xp = Poisoned(backend.xp)
        return backend
    except BackendError as error:
        pytest.skip(str(error))


def simulate_on(device: str, monkeypatch) -> None:
    """From now on simulations on device "cuda" take the backend of this device, if there is one; else a skip."""
    backend_on(device)

    def chosen(wanted: str, **options):
        if wanted != "cuda":
            return select(wanted, **options)
        backend = backend_on(device)
        if device == "host":
            backend.describe = lambda: "CUDA kernels on the host"
        return backend

    monkeypatch.setattr(ecsim.builder, "select", chosen)


def fresh_random() -> np.random.Generator:
    """Other numbers every time; pytest shows the seed of a test that fails."""
    seed = np.random.SeedSequence().entropy
    print(f"np.random.default_rng({seed})")
    return np.random.default_rng(seed)
