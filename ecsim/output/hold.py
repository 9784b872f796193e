"""One run at a time writes into a run directory: the lock on it, and what becomes of it when a start fails."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from ecsim.output.rundir import RunDirectoryError, check_run_directory, clear_run_directory, create_run_directory
from ecsim.output.storage import reason
from ecsim.parallel.launch import World


class Hold:
    """One run's right to write into a directory, until `release`, or until it or its process ends.

    It is a lock; where the file system has none, nobody is kept out.
    """

    def __init__(self) -> None:
        self._path = Path()
        self._handle: int | None = None
        self._made: list[Path] = []
        self._wrote = False
        self._identity: tuple | None = None

    def take(self, path: str | os.PathLike[str], overwrite: bool = False,
             goes_on: bool = False) -> tuple[list[Path], tuple | None]:
        """Lock a directory, made if there is none; returns the directories that were made, and which one it is.

        goes_on : it is that of a run which goes on (if there is none, nothing is done); else it must be one that a run
        may write into.
        Raises RunDirectoryError if it is not (see `check_run_directory`), or if another run holds it.
        """
        if not goes_on:
            check_run_directory(path, overwrite)
        self._path = Path(path)
        try:
            while self._handle is None:                 # again where the directory was removed before the lock was ours
                if goes_on and not self._path.is_dir():
                    return [], None
                if not goes_on:
                    self._made += [folder for folder in (self._path, *self._path.parents)
                                   if not folder.exists() and folder not in self._made]
                    self._path.mkdir(parents=True, exist_ok=True)
                self._handle = _locked(self._path)
            if not goes_on:
                check_run_directory(path, overwrite)    # again: a run may have come and gone before the lock was ours
        except OSError as error:
            self.release()
            if isinstance(error, RunDirectoryError):
                raise
            raise RunDirectoryError(f"cannot use the run directory {path}: {reason(error)}") from error
        return self._made, _identity(self._path)

    def stand_by(self, path: str | os.PathLike[str], taken: tuple[list[Path], tuple | None], wrote: bool) -> None:
        """On another rank than the one that has taken ``path``: what there is to be cleared if this one fails alone.

        Nothing is, unless ``path`` is the same directory here.
        taken : what `take` has returned there.  wrote : whether `create` has made the directory ready for this run.
        """
        self._path, (self._made, self._identity) = Path(path), taken
        self._wrote = wrote or self._path in self._made

    def create(self, deck_text: str, overwrite: bool = False) -> None:
        """Make the directory ready, as `create_run_directory`: what of ours lies in it is from now on of this run."""
        create_run_directory(self._path, deck_text, overwrite)
        self._wrote = True

    def abandon(self) -> None:
        """After a start that failed: remove what this run wrote, and the directories that it made; then release."""
        if self._handle is not None:
            self._clear()
        self.release()

    def abandon_on_all(self, here: World) -> None:
        """`abandon` where every rank may have failed, or one alone, which then does it before it ends the job."""
        here.announce_closing()
        self.abandon()
        if not here.fail_together() and self._identity is not None and self._identity == _identity(self._path):
            self._clear()

    def _clear(self) -> None:
        with suppress(OSError):
            if self._wrote:
                clear_run_directory(self._path)
            for folder in self._made:
                folder.rmdir()

    def release(self) -> None:
        """Let others use the directory."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    __del__ = release


def _identity(path: Path) -> tuple | None:
    """Which directory this is among all of this host, and which host; None where that is not known."""
    try:
        found = os.stat(path)
        return Path("/proc/sys/kernel/random/boot_id").read_text(), found.st_dev, found.st_ino
    except OSError:
        return None


def _locked(path: Path) -> int | None:
    """A descriptor of the directory with a lock on it; None if the directory was removed before the lock was ours.

    Raises RunDirectoryError if another run has it.
    """
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise RunDirectoryError(f"another run is writing into {path}; wait for its end (in Python: close() it), or "
                                "choose another directory") from None
    except OSError:
        pass
    if _is_at(handle, path):
        return handle
    os.close(handle)
    return None


def _is_at(handle: int, path: Path) -> bool:
    """Whether the directory of a descriptor is still the one at ``path``."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
