"""How the kernels of this backend are compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numba

from ecsim import compilation
from ecsim.compilation import on_compile

__all__ = ["cache_directory", "compiling_first_time", "formula", "inline", "kernel", "on_compile"]

# Sums may be reordered into vector lanes and products fused, but NaN and infinity keep their meaning.
_ARITHMETIC = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy"}

cache_directory = partial(compilation.cache_directory, Path(__file__).parent)


@cache
def compiling_first_time() -> bool:
    """True if no kernel of this version had been compiled on this machine when first asked."""
    return not any(cache_directory().rglob("*.nbi"))


def kernel(function: Callable):
    """Compile ``function`` on first call, without the interpreter lock, and keep the machine code on disk."""
    return compilation.kept(function, **_ARITHMETIC)


def formula(function: Callable):
    """A function that becomes part of every kernel which calls it, and that Python can call as well."""
    return numba.njit(forceinline=True, no_cfunc_wrapper=True, **_ARITHMETIC)(function)


def inline(function: Callable):
    """As ``formula``, for kernels only, which saves compiling what Python would call."""
    return numba.njit(forceinline=True, no_cfunc_wrapper=True, no_cpython_wrapper=True, **_ARITHMETIC)(function)
