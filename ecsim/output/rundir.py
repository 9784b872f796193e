"""The directory that a run writes into, and the promise never to destroy anything else.

A run directory holds ``deck.toml`` (the resolved deck, written first), ``energies.h5``, ``fields/`` and the
``figures/`` drawn from them. It counts as one if ``deck.toml`` begins with `DECK_HEADER` or ``energies.h5`` was
written by ecsim.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ecsim.output.energies import read_energies
from ecsim.output.storage import discard, part_of, reason

DECK_HEADER = "# ecsim: the resolved deck of this run\n"
ENERGIES = "energies.h5"
DECK = "deck.toml"
FIELDS = "fields"
FIGURES = "figures"
DIAGNOSTICS = "diagnostics"
CHECKPOINTS = "checkpoints"
SNAPSHOTS = (f"{FIELDS}/fields_[0-9]*.h5", f"{DIAGNOSTICS}/*/*_[0-9]*.h5")
TEMPORARY = (
    f".{DECK}.part", f".{ENERGIES}.part", ".timings.json.part", ".*.xdmf.part", ".*.xdmf.h5.part",
    f"{FIELDS}/.fields_[0-9]*.h5.part", f"{DIAGNOSTICS}/.*.h5.part", f"{DIAGNOSTICS}/*/.*_[0-9]*.h5.part",
)
OURS = (
    DECK, ENERGIES, f"{DIAGNOSTICS}/*.h5", *SNAPSHOTS, *TEMPORARY,
    *(f"{CHECKPOINTS}/{name}/{file}" for name in ("step_[0-9]*", ".step_[0-9]*.part")
      for file in ("manifest.json", "rank_[0-9]*.bin")),
    "*.xdmf", "*.xdmf.h5", "timings.json", "report.html", ".report.html.part",
    *(f"{FIGURES}/{name}{more}.{end}" for name, more in (
        ("energy", ""), ("growth", ""), ("reconnection", ""), ("equilibrium", ""), ("stages", ""), ("fields", ""),
        ("fields", "_[0-9]*"),
        *((kind, more) for kind in ("probe", "spectrum", "histogram", "health") for more in ("", "_*")))
      for end in ("png", "pdf", "mp4")),
)
FOLDERS = (f"{CHECKPOINTS}/step_[0-9]*", f"{CHECKPOINTS}/.step_[0-9]*.part", f"{DIAGNOSTICS}/*", CHECKPOINTS,
           DIAGNOSTICS, FIELDS, FIGURES)


def openpmd_directory(run: str | os.PathLike[str], name: str) -> Path:
    """Where the openPMD files of a diagnostic lie; "fields" is what the deck's output.fields_every makes."""
    return Path(run) / FIELDS if name == FIELDS else Path(run) / DIAGNOSTICS / name


class RunDirectoryError(OSError):
    """A run directory cannot be used; the message says which and what to do."""


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
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise RunDirectoryError(f"the run directory {path} is not readable and writable")
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
        clear_run_directory(path)
        _store_deck(path, deck_text)
    except OSError as error:
        raise RunDirectoryError(f"cannot prepare the run directory {path}: {reason(error)}") from error
    return path


def clear_run_directory(path: Path) -> None:
    """Remove the files of a run, the deck last, and the folders that are empty then. Raises OSError if that fails."""
    _remove(path, reversed(OURS))
    for pattern in FOLDERS:
        for folder in path.glob(pattern):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def continue_run_directory(path: str | os.PathLike[str], deck_text: str, step: int) -> Path:
    """Make ``path`` ready for its run to go on after ``step`` and store the resolved deck.

    Snapshots of later steps, of a future that is computed again, and what a killed run left half written are removed;
    everything else stays. Raises RunDirectoryError if that fails.
    """
    path = Path(path)
    try:
        _remove(path, (*TEMPORARY, "*.xdmf.h5"))
        for pattern in SNAPSHOTS:
            for file in path.glob(pattern):
                number = file.stem.rpartition("_")[2]
                if number.isdecimal() and int(number) > step:
                    file.unlink()
        _store_deck(path, deck_text)
    except OSError as error:
        raise RunDirectoryError(f"cannot continue in the run directory {path}: {reason(error)}") from error
    return path


def _remove(path: Path, patterns: Iterable[str]) -> None:
    for pattern in patterns:
        for file in path.glob(pattern):
            file.unlink()


def _store_deck(path: Path, deck_text: str) -> None:
    part = part_of(path / DECK)
    try:
        part.write_text(DECK_HEADER + deck_text, encoding="utf-8")
        os.replace(part, path / DECK)
    except OSError:
        discard(part)
        raise


def read_deck_text(path: str | os.PathLike[str]) -> str:
    """The resolved deck stored in a run directory. Raises OSError if there is none."""
    return (Path(path) / DECK).read_text(encoding="utf-8")
