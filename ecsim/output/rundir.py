"""The directory that a run writes into, and the promise never to destroy anything else.

A run directory holds ``deck.toml`` (the resolved deck, written first), ``energies.h5``, ``fields/`` and the
``figures/`` drawn from them. It counts as one if ``deck.toml`` begins with `DECK_HEADER` or ``energies.h5`` was
written by ecsim.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from ecsim.output.energies import read_energies
from ecsim.output.storage import part_of, reason

DECK_HEADER = "# ecsim: the resolved deck of this run\n"
ENERGIES = "energies.h5"
DECK = "deck.toml"
FIELDS = "fields"
FIGURES = "figures"
DIAGNOSTICS = "diagnostics"
CHECKPOINTS = "checkpoints/step_[0-9]*"
OURS = (
    DECK, f".{DECK}.part", ENERGIES, f".{ENERGIES}.part", f"{FIELDS}/fields_[0-9]*.h5",
    f"{FIELDS}/.fields_[0-9]*.h5.part",
    f"{DIAGNOSTICS}/*.h5", f"{DIAGNOSTICS}/.*.h5.part", f"{DIAGNOSTICS}/*/*_[0-9]*.h5",
    f"{DIAGNOSTICS}/*/.*_[0-9]*.h5.part",
    f"{CHECKPOINTS}/manifest.json", f"{CHECKPOINTS}/rank_[0-9]*.bin", "*.xdmf", "*.xdmf.h5", "timings.json",
    "report.html",
    *(f"{FIGURES}/{name}.{end}" for name in (
        "energy", "growth", "reconnection", "stages", "fields_[0-9]*", "probe_*", "spectrum_*", "histogram_*",
        "health_*")
      for end in ("png", "pdf", "mp4")),
)


def openpmd_directory(run: str | os.PathLike[str], name: str) -> Path:
    """Where the openPMD files of a diagnostic lie; "fields" is what the deck's output.fields_every makes."""
    return Path(run) / FIELDS if name == FIELDS else Path(run) / DIAGNOSTICS / name


class RunDirectoryError(OSError):
    """A run directory cannot be used; the message says which and what to do."""


class Hold:
    """Keeps a second run out of a run directory, by a lock on it that ends with this process at the latest.

    Where the file system has no locks it does nothing.
    """

    def __init__(self) -> None:
        self._handle: int | None = None

    def take(self, path: str | os.PathLike[str]) -> None:
        """Lock a directory that exists. Raises RunDirectoryError if another run holds it."""
        if self._handle is not None or not os.path.isdir(path):
            return
        try:
            handle = os.open(path, os.O_RDONLY)
        except OSError:
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise RunDirectoryError(f"another run is writing into {path}; wait for its end, or choose another "
                                    "directory") from None
        except OSError:
            os.close(handle)
            return
        self._handle = handle

    def release(self) -> None:
        """Let others use the directory."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def is_run_directory(path: str | os.PathLike[str]) -> bool:
    """Whether ecsim made this directory: by the header of its deck, or by its time series."""
    path = Path(path)
    try:
        with open(path / DECK, encoding="utf-8") as deck:
            if deck.readline() == DECK_HEADER:
                return True
    except (OSError, UnicodeDecodeError):
        pass
    try:
        read_energies(path / ENERGIES)
    except OSError:
        return False
    return True


def check_run_directory(path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Raise `RunDirectoryError` if a run may not write into ``path``; changes nothing."""
    path = Path(path)
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        raise RunDirectoryError(f"{ascii(str(path))} cannot be used as a run directory: {reason(error)}") from None
    if path.is_symlink() and not path.exists():
        raise RunDirectoryError(f"the run directory {path} is a link to nothing; choose another name")
    if not path.exists():
        above = next(parent for parent in path.absolute().parents if parent.exists())
        if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
            raise RunDirectoryError(
                f"cannot create the run directory {path}: {above} is not a writable directory")
        return
    if not path.is_dir():
        raise RunDirectoryError(f"the run directory {path} exists and is a file; choose another name")
    if not os.access(path, os.W_OK | os.X_OK):
        raise RunDirectoryError(f"the run directory {path} is not writable")
    if not any(path.iterdir()):
        return
    if not is_run_directory(path):
        raise RunDirectoryError(
            f"the directory {path} is not empty and was not made by ecsim, so it is left alone; "
            "choose another one")
    if not overwrite:
        raise RunDirectoryError(
            f"the run directory {path} exists; choose another one, or allow to overwrite it "
            "(--overwrite, or overwrite = true in [output])")


def create_run_directory(path: str | os.PathLike[str], deck_text: str, overwrite: bool = False) -> Path:
    """Make ``path`` ready for a run and store the resolved deck in it.

    With ``overwrite`` the files of an earlier run in it are removed first; any other file stays.

    Raises
    ------
    RunDirectoryError : if the directory holds something already, is not writable or the disk is full.
    """
    path = Path(path)
    check_run_directory(path, overwrite)
    try:
        path.mkdir(parents=True, exist_ok=True)
        for pattern in reversed(OURS):
            for file in path.glob(pattern):
                file.unlink()
        for folder in path.glob(CHECKPOINTS):
            if not any(folder.iterdir()):
                folder.rmdir()
        (path / DECK).write_text(DECK_HEADER + deck_text, encoding="utf-8")
    except OSError as error:
        raise RunDirectoryError(f"cannot prepare the run directory {path}: {reason(error)}") from error
    return path


def continue_run_directory(path: str | os.PathLike[str], deck_text: str) -> Path:
    """Store the resolved deck of a run that goes on; everything else stays. Raises RunDirectoryError if that fails."""
    path = Path(path)
    try:
        part = part_of(path / DECK)
        part.write_text(DECK_HEADER + deck_text, encoding="utf-8")
        os.replace(part, path / DECK)
    except OSError as error:
        raise RunDirectoryError(f"cannot continue in the run directory {path}: {reason(error)}") from error
    return path


def discard_later_files(path: str | os.PathLike[str], step: int) -> None:
    """Remove the openPMD files of steps after ``step``: of a future that a restart computes again."""
    for pattern in (f"{FIELDS}/fields_[0-9]*.h5", f"{DIAGNOSTICS}/*/*_[0-9]*.h5"):
        for file in Path(path).glob(pattern):
            number = file.stem.rpartition("_")[2]
            if number.isdigit() and int(number) > step:
                file.unlink()


def read_deck_text(path: str | os.PathLike[str]) -> str:
    """The resolved deck stored in a run directory. Raises OSError if there is none."""
    return (Path(path) / DECK).read_text(encoding="utf-8")
