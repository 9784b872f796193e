"""The CUDA backend: CUDA C++ kernels of kernels/, compiled at run time through CuPy. The twin of ecsim.backend.cpu."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np

from ecsim.backend import BackendError
from ecsim.backend.cuda import assembly
from ecsim.backend.cuda import move as mover
from ecsim.backend.cuda.compile import kernel, launch_sizes
from ecsim.backend.cuda.fields import (
    FIELD_EQUATION,
    SCALAR,
    TENSOR,
    Faces,
    Krylov,
    Padding,
    PeriodicGhosts,
    Staggered,
    curl_curl_blocks,
    multiply,
)
from ecsim.backend.cuda.graphs import GraphRecorder
from ecsim.backend.cuda.move import Outbox
from ecsim.backend.cuda.store import CudaParticleStore
from ecsim.timing import Timer

__all__ = ["CudaBackend", "CudaParticleStore", "device_report"]

OLDEST = (8, 0)
SUM_BLOCKS = 256


def _cupy():
    try:
        import cupy
    except ImportError as error:
        raise BackendError(f"device 'cuda' needs CuPy, which cannot be imported ({error}); install the extra 'cuda12' "
                           "or 'cuda13', or ask for device 'cpu'") from error
    return cupy


def _usable_device(cupy, device: int) -> None:
    """Raise BackendError unless CuPy finds a driver and, under this number, a GPU that is recent enough."""
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise BackendError(f"device 'cuda' needs an NVIDIA GPU and its driver ({error}); or ask for device 'cpu'"
                           ) from error
    if not 0 <= device < count:
        raise BackendError(f"CUDA device {device} is not there; {count} found, numbered from 0")
    properties = cupy.cuda.runtime.getDeviceProperties(device)
    capability = properties["major"], properties["minor"]
    if capability < OLDEST:
        raise BackendError(f"{properties['name'].decode()} has compute capability {capability[0]}.{capability[1]}; "
                           f"{OLDEST[0]}.{OLDEST[1]} or newer is needed")


def for_local_rank(local_rank: int) -> int:
    """Device number for a process that shares the host with others: its own number among them, counted round."""
    try:
        return local_rank % max(1, _cupy().cuda.runtime.getDeviceCount())
    except RuntimeError:
        return 0


def device_report(device: int = 0) -> dict[str, str]:
    """Device, memory, driver, CuPy and tensor-core modes, for `ecsim info`. Raises BackendError if there is none."""
    cupy = _cupy()
    _usable_device(cupy, device)
    runtime, properties = cupy.cuda.runtime, cupy.cuda.runtime.getDeviceProperties(device)
    major, minor = properties["major"], properties["minor"]
    driver = runtime.driverGetVersion()
    tiles = "m8n8k4" if (major, minor) < (9, 0) else "m8n8k4, m16n8k4, m16n8k8"
    return {
        "device": f"{properties['name'].decode()}, compute capability {major}.{minor}",
        "memory": f"{properties['totalGlobalMem'] / 2**30:.0f} GiB",
        "driver": f"for CUDA up to {driver // 1000}.{driver % 1000 // 10}",
        "CuPy": cupy.__version__,
        "tensor cores": f"FP64 {tiles}; TF32 m16n8k8",
    }


class CudaBackend:
    """Particle kernels, assembly and products on one NVIDIA GPU; arrays are CuPy's and stay on the device.

    device : number of the GPU. Raises BackendError saying what is missing: CuPy, the driver, the GPU, its capability.
    """

    name = "cuda"
    part_of_rows = True  # are quickly worked on: memory comes in pieces of four numbers

    def __init__(self, device: int = 0) -> None:
        self.xp = _cupy()
        _usable_device(self.xp, device)
        self.device = device
        self.xp.cuda.Device(device).use()
        self._begin()

    def _begin(self) -> None:
        self._kernels: dict = {}
        self._sizes: dict = {}
        self._resident: dict = {}
        self.outbox = Outbox(self)
        self.krylov = Krylov(self)
        self.timer = Timer(self.synchronize)
        self.threads = SimpleNamespace(count=len(os.sched_getaffinity(0)))  # of the host, for the loading of particles
        self.reason = ""

    def describe(self) -> str:
        """The device in one line, and why it was taken where that was left open."""
        report = device_report(self.device)
        line = f"{report['device']}, {report['memory']}, driver {report['driver']}, CuPy {report['CuPy']}"
        return f"{line} ({self.reason})" if self.reason else line

    def launch(self, file: str, name: str, grid: tuple[int, ...], threads: int, arguments: tuple, shared: int = 0,
               **macros) -> None:
        """Run kernel ``name`` of ``file`` compiled with ``macros`` on a grid of blocks; no blocks, no launch.

        shared : bytes of dynamic shared memory.
        """
        if all(grid):
            self._kernel(file, name, shared, macros)(grid, (threads,), arguments, shared_mem=shared)

    def _kernel(self, file: str, name: str, shared: int, macros: dict):
        key = (file, name, shared, *macros.items())
        if key not in self._kernels:
            self._kernels[key] = kernel(file, name, shared, **macros)
        return self._kernels[key]

    def launch_sizes(self, file: str, **macros) -> tuple[int, ...]:
        """What a launch must agree on with ``file`` compiled with ``macros``."""
        key = (file, *macros.items())
        if key not in self._sizes:
            self._sizes[key] = launch_sizes(file, **macros)
        return self._sizes[key]

    def resident_blocks(self, file: str, name: str, threads: int, shared: int, **macros) -> int:
        """Blocks of a kernel, with ``shared`` bytes of dynamic shared memory, that the whole device holds at a time."""
        compiled = self._kernel(file, name, shared, macros)
        if compiled not in self._resident:
            per_multiprocessor = self.xp.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
                compiled.kernel.ptr, threads, shared)
            self._resident[compiled] = per_multiprocessor * self.xp.cuda.Device().attributes["MultiProcessorCount"]
        return self._resident[compiled]

    # -- particles ---------------------------------------------------------------------------------------------

    def new_store(self, block, *, position_dtype: str = "float64", velocity_dtype: str = "float64",
                  weight: float | None = None, ids: bool = False, capacity: int = 0, sort_every: int = 1,
                  migration=None, gather_dtype: str = "float64") -> CudaParticleStore:
        """An empty CudaParticleStore.

        capacity : particles that will be loaded, reserved at once. sort_every is for the CPU: here every move sorts.
        migration : takes particles to other blocks, needed where the block does not span the box.
        Raises ValueError for velocities that are not float64.
        """
        if velocity_dtype != "float64":
            raise ValueError(f"velocity = {velocity_dtype!r}; float64 is allowed on the device cuda")
        return CudaParticleStore(self, block, position_dtype=position_dtype, weight=weight, ids=ids, capacity=capacity,
                                 migration=migration, gather_dtype=gather_dtype)

    def sum_rows(self, rows):
        """Column sums of (n, 5) float64, in an order fixed by n, on the device."""
        xp = self.xp
        blocks = min(SUM_BLOCKS, -(-len(rows) // 32))
        partial, total = xp.empty((blocks, 5)), xp.empty((1, 5))
        for source, target in ((rows, partial), (partial, total)):
            self.launch("sums.cu", "sum_rows", (len(target), 1), 160, (source, len(source), target),
                        DIM=1, POS="float", WEIGHTS=0, IDS=0)
        return total[0]

    def assemble(self, stores: list, betas: list[float], *, method: str = "pair", precision: str = "fp64", B_nodes,
                 stencil, moments) -> None:
        """Set padded arrays with ghosts to M, ρ and Ĵ (each / V) of all stores; see ecsim.backend.cuda.assembly."""
        assembly.assemble(self, stores, betas, method=method, precision=precision, B_nodes=B_nodes, stencil=stencil,
                          moments=moments)

    def move(self, stores: list, betas: list[float], dt: float, E_nodes, B_nodes) -> list:
        """Kick and push the particles of all stores, see CudaParticleStore.move; returns the sums of each."""
        return mover.move(stores, betas, dt, E_nodes, B_nodes)

    def assemble_columns(self, block, cell, s, columns, stencil, method: str = "pair") -> None:
        """stencil[o, c, node] += Σ_p columns[c, p] W_a W_b / V for particles in any order; as on the CPU."""
        assembly.assemble_columns(self, block, cell, s, columns, stencil, method)

    # -- fields ------------------------------------------------------------------------------------------------

    def matvec(self, stencil, x, out) -> None:
        """out = M x: stencil (n_offsets, 9 or 1, *padded) and x padded, both with valid ghosts; out owned.

        x : (3, *padded) for 9 components, (k, *padded) for a scalar stencil; out likewise with *cells.
        """
        multiply(self, stencil, x, out, TENSOR if stencil.shape[1] == 9 else SCALAR)

    def field_operator(self, stencil, x, out, spacing, theta_dt: float, part=None) -> None:
        """out = x + (θΔt)² ∇×∇×x + θΔt M x in one pass; x (3, *padded) with valid ghosts, out owned (3, *cells).

        part : a `Part` of the owned nodes, whose values alone are set and whose neighbours alone must be valid.
        """
        multiply(self, stencil, x, out, FIELD_EQUATION, theta_dt, curl_curl_blocks(spacing, theta_dt**2), part)

    def periodic_ghosts(self, block) -> PeriodicGhosts:
        """``fill`` and ``add`` of a block that is its own neighbour on all sides, one launch each."""
        return PeriodicGhosts(self, block)

    def padding(self, block, cut) -> Padding:
        """Owned values to a padded array with its ghosts, but for those along the dimensions ``cut``, in one launch."""
        return Padding(self, block, cut)

    def staggered(self, block) -> Staggered:
        """Curls and the mean between nodes and centres, one launch each."""
        return Staggered(self, block)

    def faces(self, block) -> Faces:
        """``pack`` and ``unpack`` of what travels to neighbouring blocks, one launch each."""
        return Faces(self, block)

    # -- host and device ---------------------------------------------------------------------------------------

    def to_host(self, a) -> np.ndarray:
        """``a`` as a numpy array."""
        return self.xp.asnumpy(a)

    def from_host(self, a):
        """A numpy array as one on the device."""
        return self.xp.asarray(a)

    def page_locked(self, size: int) -> np.ndarray:
        """Zeros on the host, float64, where the device can write beside other work."""
        array = np.frombuffer(self.xp.cuda.alloc_pinned_memory(8 * size), np.float64, size)
        array[...] = 0.0
        return array

    def copy_to_host(self, a, to: np.ndarray) -> None:
        """Begin to copy a few numbers into contiguous page-locked memory; a `mark` made afterwards waits for them."""
        runtime = self.xp.cuda.runtime     # CuPy's own copy refuses to be recorded
        runtime.memcpyAsync(to.ctypes.data, a.data.ptr, a.nbytes, runtime.memcpyDeviceToHost,
                            self.xp.cuda.get_current_stream().ptr)

    def copy_from_host(self, a: np.ndarray, to) -> None:
        """The inverse: begin to copy from page-locked memory, which must stay as it is until a later `mark`."""
        runtime = self.xp.cuda.runtime
        runtime.memcpyAsync(to.data.ptr, a.ctypes.data, a.nbytes, runtime.memcpyHostToDevice,
                            self.xp.cuda.get_current_stream().ptr)

    def mark(self) -> Callable[[], None]:
        """A function that waits until the device has done what it was given up to here."""
        event = self.xp.cuda.Event(disable_timing=True)
        event.record()
        return event.synchronize

    def graph_recorder(self, transport) -> GraphRecorder:
        """What makes work of the device, exchanges of ``transport`` included, replay itself."""
        return GraphRecorder(self, transport)

    def synchronize(self) -> None:
        """Wait until the device has done all that it was given."""
        self.xp.cuda.get_current_stream().synchronize()

    def release_memory(self) -> None:
        """Give back to the device what CuPy's pool holds but nothing uses: old arrays are too small for new ones."""
        self.xp.get_default_memory_pool().free_all_blocks()

    @property
    def memory(self) -> dict[str, int]:
        """Bytes in use and held by CuPy's pool, and free and total on the device."""
        pool = self.xp.get_default_memory_pool()
        free, total = self.xp.cuda.runtime.memGetInfo()
        return {"used": pool.used_bytes(), "held": pool.total_bytes(), "free": free, "total": total}
