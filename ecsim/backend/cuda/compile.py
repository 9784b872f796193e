"""From the CUDA C++ files of ``kernels/`` to launchable kernels, and to machine code without a GPU.

Every file names its compile-time parameters near its head, ``// variants: DIM=1,2,3 ORDER=1,2 …``. They are macros;
all kernels are ``extern "C"``. Options carry a hash of all sources, since the cache of CuPy does not see edits of
included headers.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import re
from functools import cache
from importlib import util
from pathlib import Path

STANDARD = "-std=c++17"


class CompileError(RuntimeError):
    """NVRTC refused a kernel; the message holds its log."""


@cache
def kernel_directory() -> Path:
    """Where the sources are: beside the package in a source tree, inside it in an installed wheel.

    Raises FileNotFoundError naming both places.
    """
    package = Path(__file__).resolve().parents[2]
    places = [package / "_kernels", package.parent / "kernels"]
    for place in places:
        if (place / "formulas.cuh").is_file():
            return place
    raise FileNotFoundError(f"no CUDA sources in {places[0]} or {places[1]}")


@cache
def source_hash() -> str:
    """Hash of all kernel sources, headers included."""
    digest = hashlib.sha256()
    for path in sorted(kernel_directory().glob("*.cu*")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def variants(file: str) -> list[dict]:
    """All combinations of macros that ``file`` declares, those of each of its ``// variants:`` lines."""
    lines = re.findall(r"^// variants:(.*)$", (kernel_directory() / file).read_text(), re.MULTILINE)
    if not lines:
        raise ValueError(f"{file} has no '// variants:' line")
    found = []
    for line in lines:
        names, values = zip(*(item.split("=") for item in line.split()), strict=True)
        for choice in itertools.product(*(v.split(",") for v in values)):
            found.append(dict(zip(names, choice, strict=True)))
    return found


def options(macros: dict) -> tuple[str, ...]:
    """NVRTC options of a variant."""
    defines = tuple(f"-D{name}={value}" for name, value in macros.items())
    return (STANDARD, f"-I{kernel_directory()}", f"-DSOURCES=0x{source_hash()}", *defines)


@cache
def _module(device: int, file: str, macros: tuple):
    import cupy

    code = (kernel_directory() / file).read_text()
    return cupy.RawModule(code=code, options=options(dict(macros)), backend="nvrtc")


@cache
def _kernel(device: int, file: str, name: str, shared: int, macros: tuple):
    function = _module(device, file, macros).get_function(name)
    if shared > 48 * 1024:
        function.max_dynamic_shared_size_bytes = shared
    return function


def kernel(file: str, name: str, shared: int = 0, **macros):
    """The kernel ``name`` of ``file`` for the current device, compiled once a process (and kept on disk by CuPy).

    ``shared`` is the most dynamic shared memory in bytes that a launch of it will ask for.
    """
    import cupy

    return _kernel(cupy.cuda.Device().id, file, name, shared, tuple(sorted(macros.items())))


@cache
def _sizes(device: int, file: str, macros: tuple) -> tuple[int, ...]:
    import cupy

    pointer = _module(device, file, macros).get_global("launch_sizes")
    return tuple(cupy.ndarray((8,), cupy.int32, pointer).get().tolist())


def launch_sizes(file: str, **macros) -> tuple[int, ...]:
    """What a launch must agree on with the kernel: the array ``launch_sizes[8]`` that the file defines."""
    import cupy

    return _sizes(cupy.cuda.Device().id, file, tuple(sorted(macros.items())))


@cache
def _nvrtc() -> ctypes.CDLL:
    """The NVRTC library of the nvidia-cuda-nvrtc wheel, or of the system."""
    candidates = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"]
    namespace = util.find_spec("nvidia")
    for root in namespace.submodule_search_locations if namespace else ():
        candidates[:0] = sorted(str(p) for p in Path(root).glob("*/lib/libnvrtc.so.*"))
    for name in candidates:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise CompileError("NVRTC is missing: install nvidia-cuda-nvrtc (13 or newer) or the CUDA toolkit")


def _text(library: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, buffer)
    return buffer.raw


def compile_offline(file: str, macros: dict, architecture: int, what: str = "CUBIN") -> bytes:
    """Machine code ("CUBIN") or assembly ("PTX") of one variant for ``sm_<architecture>``, without a GPU or CuPy.

    Raises CompileError with NVRTC's log, also for warnings.
    """
    library, program = _nvrtc(), ctypes.c_void_p()
    source = (kernel_directory() / file).read_bytes()
    library.nvrtcCreateProgram(ctypes.byref(program), source, file.encode(), 0, None, None)
    flags = [flag.encode() for flag in (*options(macros), f"-arch=sm_{architecture}")]
    status = library.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
    log = _text(library, "ProgramLog", program).rstrip(b"\0").decode().strip()
    code = _text(library, what, program) if status == 0 else b""
    library.nvrtcDestroyProgram(ctypes.byref(program))
    if status != 0 or log:
        raise CompileError(f"{file} {macros} sm_{architecture}:\n{log or f'NVRTC error {status}'}")
    return code
