"""Careful file writing: room reserved first, files synced and renamed, errors that name the cause.

HDF5 does not survive a failed write (it may crash when the process ends), so the room that a write may need
is reserved from the file system beforehand: a full disk is then an ordinary error and the file stays intact.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

VERSION_BOUNDS = ("v110", "v110")
FAULTS = (OSError, RuntimeError, ValueError, KeyError)      # what h5py raises where a disk or a file is at fault
CANNOT_RESERVE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


def reserve(path: str | os.PathLike[str], size: int) -> None:
    """Reserve disk blocks so that ``path`` can grow to ``size`` bytes; raises OSError if there is no room.

    HDF5 cuts the file to what it used when it closes it. Does nothing where the system has no such call.
    """
    if not hasattr(os, "posix_fallocate"):
        return
    handle = os.open(path, os.O_RDWR)
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError as error:
        if error.errno not in CANNOT_RESERVE:
            raise
    finally:
        os.close(handle)


def sync(path: str | os.PathLike[str]) -> None:
    """Ask the system to bring a file, or the entries of a directory, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def part_of(path: Path) -> Path:
    """Temporary name beside ``path`` under which it is written."""
    return path.with_name(f".{path.name}.part")


def discard(part: Path) -> None:
    """Remove what a failed write left, as far as that is possible."""
    with suppress(OSError):
        part.unlink()


def reason(error: BaseException) -> str:
    """The system's message where there is one, else the library's first line."""
    number = getattr(error, "errno", None)
    return os.strerror(number) if number else str(error).partition("\n")[0]


def plain(value: Any) -> Any:
    """An HDF5 attribute as a plain Python value."""
    value = value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value
    return value.decode() if isinstance(value, bytes) else value
