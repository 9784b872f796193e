"""CUDA kernels compiled for the host and run thread by thread, so that their logic is tested without a GPU."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import re
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from ecsim.backend.cuda.compile import kernel_directory, source_hash, variants

HERE = Path(__file__).parent
GCC = ("g++", "-std=c++17", "-O1", "-fPIC", "-U_FORTIFY_SOURCE", "-Wno-unknown-pragmas")


@cache
def _directory() -> Path:
    """Where compiled kernels lie: for all processes of a pytest run, or for this one."""
    return Path(os.environ.get("ECSIM_HOST_KERNELS") or mkdtemp(prefix="ecsim-host-kernels-"))


def _compile(target: Path, *arguments: str, source: str = "") -> None:
    """Make ``target``, where "-" among the arguments stands for the source, unless another process has or does."""
    with open(f"{target}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            part = target.with_suffix(".part")
            done = subprocess.run([*GCC, *arguments, "-o", str(part)], input=source, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr[:4000])
            part.rename(target)


@cache
def _library(file: str, macros: tuple) -> ctypes.CDLL:
    if {name: str(value) for name, value in macros} not in variants(file):
        raise ValueError(f"{file} does not declare the variant {dict(macros)}: nothing compiles it without a GPU")
    source = (kernel_directory() / file).read_text()
    source = re.sub(r"extern __shared__ .*?char (\w+)\[\];", r"char* \1 = host::dynamic_shared();", source)
    names = re.findall(r"extern \"C\" __global__ void (?:__launch_bounds__\([^{;]*?\))?\s+(\w+)\(", source)
    entries = "".join(f'extern "C" void run_{n}(const unsigned* sizes, std::size_t shared, void** arguments) '
                      f"{{ host::launch({n}, sizes, shared, arguments); }}\n" for n in dict.fromkeys(names))
    where, defines = _directory(), [f"-D{k}={v}" for k, v in macros]
    code = f'#include "cuda.hpp"\n{source}\n{entries}'
    digest = hashlib.sha256("\0".join([code, source_hash(), *defines]).encode()).hexdigest()[:16]
    library = where / f"{Path(file).stem}-{digest}.so"
    _compile(where / "cuda.hpp.gch", "-x", "c++-header", str(HERE / "cuda.hpp"))
    _compile(library, "-x", "c++", "-", "-shared", f"-I{where}", f"-I{HERE}", f"-I{kernel_directory()}", *defines,
             source=code)
    return ctypes.CDLL(str(library))


class HostKernel:
    """Called like a CuPy kernel, ``k(grid, block, arguments, shared_mem=…)``, with NumPy arrays and NumPy scalars."""

    def __init__(self, file: str, name: str, **macros) -> None:
        self._run = getattr(_library(file, tuple(sorted(macros.items()))), f"run_{name}")

    def __call__(self, grid, block, arguments, shared_mem=0) -> None:
        sizes = [*grid, *[1] * (3 - len(grid)), *block, *[1] * (3 - len(block))]
        held = []
        for a in arguments:
            if isinstance(a, np.ndarray) and a.dtype.names:  # a structure, by value
                held.append((ctypes.c_char * a.itemsize).from_buffer(a))
            elif isinstance(a, np.ndarray):
                held.append(ctypes.c_void_p(a.ctypes.data))
            elif a is None:
                held.append(ctypes.c_void_p())
            else:
                held.append({"float64": ctypes.c_double, "int64": ctypes.c_longlong, "int32": ctypes.c_int}[
                    np.dtype(type(a)).name](a))
        pointers = (ctypes.c_void_p * len(held))(*(ctypes.cast(ctypes.byref(h), ctypes.c_void_p) for h in held))
        self._run((ctypes.c_uint * 6)(*sizes), ctypes.c_size_t(shared_mem), pointers)


def launch_sizes(file: str, **macros) -> tuple[int, ...]:
    """As ecsim.backend.cuda.compile.launch_sizes."""
    return tuple((ctypes.c_int * 8).in_dll(_library(file, tuple(sorted(macros.items()))), "launch_sizes"))
