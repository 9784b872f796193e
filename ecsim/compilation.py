"""Where the machine code of Numba kernels is kept, and word of it when one is compiled.

Numba keys its cache by a function's own source file and does not see edits of the helpers it calls, so the cache
directory carries a hash of all sources of the package that a kernel belongs to.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import numba
from numba.core import event

UNUSED_SECONDS = 30 * 86400


def _user_cache() -> Path:
    """The user's cache directory, by the custom of the system; NUMBA_CACHE_DIR comes first."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        return Path(os.environ["NUMBA_CACHE_DIR"])
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home()))
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _writable(directory: Path) -> bool:
    """Whether a file can be made in the directory, which is made where it is missing."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError:
        return False
    return True


def _own_temporary() -> Path:
    """A directory under the temporary one into which nobody else can have put code; raises OSError if there is none."""
    own = Path(tempfile.gettempdir()) / f"ecsim-{getpass.getuser()}"
    own.mkdir(mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and own.stat().st_uid != os.getuid():
        raise OSError(f"neither {_user_cache()} nor {own} can keep kernels; set NUMBA_CACHE_DIR")
    return own


def _forget_old(directory: Path) -> None:
    """Remove the kernels of other versions that no run has used for a month."""
    for other in directory.glob("kernels-*"):
        with suppress(OSError):
            if time.time() - other.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(other)


@cache
def cache_directory(package: Path) -> Path:
    """Where this version's kernels of a package are kept: in the user's cache, or the temporary directory if that is
    read-only.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for source in [Path(__file__), *sorted(package.glob("*.py"))]:
        digest.update(source.read_bytes())
    name = Path("ecsim") / f"kernels-{digest.hexdigest()[:16]}"
    directory = _user_cache() / name
    if not _writable(directory):
        directory = _own_temporary() / name
        directory.mkdir(parents=True, exist_ok=True)
    os.utime(directory)
    _forget_old(directory.parent)
    return directory


def kept(function: Callable, **options):
    """Compile ``function`` on first call, without the interpreter lock, and keep the machine code on disk."""
    directory = cache_directory(Path(function.__code__.co_filename).parent)
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(directory)
    try:
        return numba.njit(nogil=True, cache=True, no_cfunc_wrapper=True, **options)(function)
    finally:
        numba.config.CACHE_DIR = before


class _OnCompile(event.Listener):
    """Passes the names of kernels that Numba begins to compile to a function."""

    def __init__(self, function: Callable[[str], None]) -> None:
        self._function = function

    def on_start(self, event) -> None:
        """Called by Numba; only kernels run without the interpreter lock, what is inlined into them does not."""
        if event.data["dispatcher"].targetoptions.get("nogil"):
            self._function(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event) -> None:
        """Called by Numba; nothing to do."""
        pass


def on_compile(function: Callable[[str], None]) -> None:
    """Call ``function(kernel name)`` whenever a kernel has to be compiled because no cached one fits."""
    event.register("numba:compile", _OnCompile(function))
