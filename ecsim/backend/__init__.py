"""The choice of who computes, made once: `select` returns the backend that everything else is handed."""

from __future__ import annotations

import importlib.util
import os
from glob import glob

GPU_FILES = ("/dev/nvidia[0-9]*", "/dev/dxg")
DEVICES = ("auto", "cpu", "cuda")


class BackendError(RuntimeError):
    """The device that was asked for is not to be had; the message says why and what to do."""


def _cuda(local_rank: int):
    if importlib.util.find_spec("cupy") is None:
        raise BackendError("device 'cuda' needs CuPy, which is not installed; install the extra 'cuda12' or 'cuda13', "
                           "or ask for device 'cpu'")
    try:
        from ecsim.backend.cuda import CudaBackend, for_local_rank
    except ImportError as error:
        raise BackendError(f"device 'cuda' cannot be loaded: {error}; ask for device 'cpu'") from error
    return CudaBackend(for_local_rank(local_rank))


def _cpu(threads: int):
    from ecsim.backend.cpu import CpuBackend

    return CpuBackend(threads or None)


def expected(device: str) -> str:
    """What ``select(device)`` will most likely take, "cpu" or "cuda", told without loading anything."""
    if device != "auto":
        return device
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")
    return "cuda" if importlib.util.find_spec("cupy") and any(map(glob, GPU_FILES)) and not hidden else "cpu"


def select(device: str = "auto", threads: int = 0, local_rank: int = 0):
    """The backend for ``device``, one of "auto", "cpu" or "cuda".

    threads : CPU threads, 0 for as many as this process may use.  local_rank : number of this process among those that
    share the host; it takes the GPU of that number, counted round.
    "auto" takes a usable NVIDIA GPU if there is one, else the CPU; ``describe()`` of the result says in one line what
    was taken and why. Raises BackendError if CUDA is asked for and missing, ValueError for any other name.
    """
    if device not in DEVICES:
        raise ValueError(f"device = {device!r}; one of {', '.join(DEVICES)} is allowed")
    if device == "cpu":
        return _cpu(threads)
    if device == "cuda":
        return _cuda(local_rank)
    try:
        backend = _cuda(local_rank)
        backend.reason = "a usable NVIDIA GPU was found"
    except BackendError as error:
        backend = _cpu(threads)
        backend.reason = f"no usable NVIDIA GPU: {error}"
    return backend
