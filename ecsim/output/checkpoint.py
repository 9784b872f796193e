"""Checkpoints, ``checkpoints/step_000100/``: everything that a run needs to go on, one file a rank and a manifest.

``rank_0000.bin`` holds arrays one after the other, as they lie in memory. ``manifest.json`` says what they are, where
each begins and its CRC-32; it has one itself. All of it is written into a hidden directory, synced to disk and
renamed, so that a checkpoint which exists is whole; what a disk does to it later is found by the checksums.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ecsim.output.rundir import CHECKPOINTS, read_deck_text
from ecsim.output.storage import reason, sync
from ecsim.parallel.launch import World

FOLDER, MANIFEST, FORMAT = CHECKPOINTS, "manifest.json", 1
PIECE, ALIGNMENT = 1 << 24, 64
Arrays = Iterable[tuple[str, np.ndarray]]


class CheckpointError(OSError):
    """A checkpoint cannot be used; the message says which and why."""


class Checkpoint:
    """A checkpoint on disk; ``manifest`` is the dict that `write_checkpoint` was given, with ``step`` and ``files``.

    Raises CheckpointError if the manifest is missing, damaged or of another format.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            manifest = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
            checksum = manifest.pop("checksum")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{self.path} has no readable {MANIFEST}: {reason(error)}") from error
        if checksum != _checksum_of(manifest):
            raise CheckpointError(f"{self.path / MANIFEST} is damaged: its checksum is wrong")
        if manifest["format"] != FORMAT or manifest["byteorder"] != sys.byteorder:
            raise CheckpointError(f"{self.path} has format {manifest['format']} ({manifest['byteorder']} endian); "
                                  f"{FORMAT} ({sys.byteorder} endian) can be read here")
        self.manifest: dict[str, Any] = manifest

    @property
    def step(self) -> int:
        """Cycles done."""
        return self.manifest["step"]

    @property
    def ranks(self) -> int:
        """Number of ranks that wrote it."""
        return len(self.manifest["files"])

    def names(self, rank: int) -> list[str]:
        """The arrays of one rank."""
        return list(self.manifest["files"][rank])

    def array(self, rank: int, name: str) -> np.ndarray:
        """One array, read from disk as it is looked at."""
        entry = self.manifest["files"][rank][name]
        shape, dtype = tuple(entry["shape"]), np.dtype(entry["dtype"])
        if 0 in shape:
            return np.empty(shape, dtype)
        return np.memmap(_file(self.path, rank), dtype, "r", entry["offset"], shape)

    def check(self, world: World | None = None) -> None:
        """Read everything against the checksums, files shared out among the ranks (collective).

        Raises CheckpointError, on all ranks, naming the file and the array that is not what was written.
        """
        world = world or World()
        together(world, lambda: self._check_ranks(range(world.rank, self.ranks, world.size)))

    def _check_ranks(self, ranks: Iterable[int]) -> None:
        for rank in ranks:
            self._check_rank(rank)

    def _check_rank(self, rank: int) -> None:
        path = _file(self.path, rank)
        try:
            with open(path, "rb") as file:
                for name, entry in self.manifest["files"][rank].items():
                    file.seek(entry["offset"])
                    size, found = entry["bytes"], 0
                    while size and (piece := file.read(min(size, PIECE))):
                        found, size = zlib.crc32(piece, found), size - len(piece)
                    if size:
                        raise CheckpointError(f"{path} is cut short: {size} bytes of {name} are missing")
                    if found != entry["crc32"]:
                        raise CheckpointError(f"{path} is damaged: the checksum of {name} is wrong")
        except CheckpointError:
            raise
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {reason(error)}") from error


def write_checkpoint(run: str | os.PathLike[str], step: int, state: Mapping[str, Any], arrays: Arrays, *, keep: int = 2,
                     world: World | None = None) -> Path:
    """Write a checkpoint of all ranks and return its directory (collective).

    run : run directory.  state : anything that JSON can hold, the same on all ranks.  arrays : names and host arrays of
    this rank, taken one at a time.  keep : how many checkpoints stay.
    Raises OSError, on all ranks, naming the path; earlier checkpoints stay valid.
    """
    world = world or World()
    target = _directory(run, step)
    part = target.with_name(f".{target.name}.part")
    try:
        together(world, lambda: _prepare(part) if world.is_root else None)
        tables = together(world, lambda: _write_arrays(_file(part, world.rank), arrays))
        manifest = {**state, "format": FORMAT, "byteorder": sys.byteorder, "step": step, "files": tables}
        together(world, lambda: _complete(part, target, manifest, keep) if world.is_root else None)
    except OSError as error:
        if world.is_root:
            shutil.rmtree(part, ignore_errors=True)
        raise OSError(f"cannot write the checkpoint {target}: {reason(error)}") from error
    return target


def list_checkpoints(run: str | os.PathLike[str]) -> list[Path]:
    """The checkpoints of a run directory, oldest first, valid or not."""
    found = {path.name[len("step_"):]: path for path in (Path(run) / FOLDER).glob("step_*") if path.is_dir()}
    return [found[number] for number in sorted(filter(str.isdecimal, found), key=int)]


def tidy(run: str | os.PathLike[str], step: int, keep: int) -> None:
    """Before a run goes on from ``step``: remove later checkpoints, of a future that is given up, those beyond the
    ``keep`` newest, and what a killed run left half written. Raises OSError if that fails.
    """
    _remove_parts(Path(run) / FOLDER)
    numbers = {path: int(path.name[len("step_"):]) for path in list_checkpoints(run)}
    for path, number in numbers.items():
        if number > step:
            shutil.rmtree(path)
    _prune(run, keep)


def _prune(run: str | os.PathLike[str], keep: int) -> None:
    for path in list_checkpoints(run)[:-keep]:
        shutil.rmtree(path)


def _remove_parts(folder: Path) -> None:
    for left in folder.glob(".step_*.part"):
        shutil.rmtree(left)


def find_checkpoint(where: str | os.PathLike[str], world: World | None = None) -> tuple[Checkpoint, list[str]]:
    """The checkpoint ``where``, or the newest valid one of the run directory ``where`` (collective).

    It is one that all ranks find: rank 0 says which there are.
    Returns it and why newer ones were passed over. Raises CheckpointError if there is none, with all reasons.
    """
    path, here = Path(where), world or World()
    passed_over: list[str] = []
    for candidate in here.on_root(lambda: _candidates(path)):
        try:
            opened: list[Checkpoint] = []
            if len(set(together(here, partial(_open, candidate, opened)))) > 1:
                raise CheckpointError(f"{candidate} is not the same checkpoint on all ranks")
            opened[0].check(here)
            return opened[0], passed_over
        except CheckpointError as error:
            passed_over.append(str(error))
    if not passed_over:
        raise CheckpointError(f"{path} has no checkpoints" if path.is_dir() else f"there is no {path}")
    raise CheckpointError("no valid checkpoint: " + "; ".join(passed_over))


def _open(path: Path, opened: list[Checkpoint]) -> int:
    """Put the checkpoint into a list; returns a checksum of what its manifest says."""
    opened.append(Checkpoint(path))
    return _checksum_of(opened[0].manifest)


def newest_step(where: str | os.PathLike[str]) -> int | None:
    """The step of the newest checkpoint with a readable manifest, None if there is none; nothing else is checked.

    Raises CheckpointError if ``where`` can be neither a checkpoint nor a run directory.
    """
    for candidate in _candidates(Path(where)):
        try:
            return Checkpoint(candidate).step
        except CheckpointError:
            continue
    return None


def _candidates(path: Path) -> list[Path]:
    """The checkpoint ``path``, or those of the run directory, newest first."""
    try:
        alone = (path / MANIFEST).exists() or path.parent.name == FOLDER
    except OSError as error:
        raise CheckpointError(f"{path} cannot be a checkpoint: {reason(error)}") from error
    return [path] if alone else list_checkpoints(path)[::-1]


def origin_of(where: str | os.PathLike[str]) -> tuple[Path, str]:
    """The run directory of a checkpoint (or the run directory itself), and the deck it was run with as text.

    Raises CheckpointError if ``where`` is neither.
    """
    path = Path(where)
    try:
        if (path / MANIFEST).exists():
            return path.absolute().parent.parent, Checkpoint(path).manifest["deck"]
        return path, read_deck_text(path)
    except CheckpointError:
        raise
    except OSError as error:
        raise CheckpointError(f"{path} is neither a checkpoint nor the directory of a run: {reason(error)}") from error


def belongs_to(where: str | os.PathLike[str], run: str | os.PathLike[str]) -> bool:
    """Whether ``where`` is the run directory ``run`` or a checkpoint in it."""
    place = Path(where).resolve()
    return place == Path(run).resolve() or place.parent == (Path(run) / FOLDER).resolve()


def together(world: World, function: Callable[[], Any]) -> list[Any]:
    """What ``function`` returns on every rank, in their order; an OSError of any rank is raised on all (collective)."""
    outcome: tuple[Any, OSError | None] = (None, None)
    try:
        outcome = function(), None
    except OSError as caught:
        outcome = None, caught
    outcomes = [outcome] if world.comm is None else world.comm.allgather(outcome)
    for _, error in outcomes:
        if error is not None:
            raise error
    return [result for result, _ in outcomes]


def _directory(run: str | os.PathLike[str], step: int) -> Path:
    return Path(run) / FOLDER / f"step_{step:06d}"


def _file(directory: Path, rank: int) -> Path:
    return directory / f"rank_{rank:04d}.bin"


def _checksum_of(manifest: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(manifest, sort_keys=True).encode())


def _prepare(part: Path) -> None:
    """An empty hidden directory; what killed runs left is removed."""
    _remove_parts(part.parent)
    part.mkdir(parents=True)


def _write_arrays(path: Path, arrays: Arrays) -> dict[str, Any]:
    """Write one rank's file and return its table of contents."""
    table: dict[str, Any] = {}
    with open(path, "xb") as file:
        for name, array in arrays:
            file.write(bytes(-file.tell() % ALIGNMENT))
            offset, checksum = file.tell(), 0
            flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            for begin in range(0, len(flat), PIECE):
                piece = flat[begin:begin + PIECE].data
                checksum = zlib.crc32(piece, checksum)
                file.write(piece)
            table[name] = {"dtype": array.dtype.str, "shape": list(array.shape), "offset": offset, "bytes": len(flat),
                           "crc32": checksum}
        file.flush()
        os.fsync(file.fileno())
    return table


def _complete(part: Path, target: Path, manifest: dict[str, Any], keep: int) -> None:
    """Add the manifest, give the directory its name, and remove what is no longer kept."""
    text = json.dumps({**manifest, "checksum": _checksum_of(json.loads(json.dumps(manifest)))}, indent=1)
    with open(part / MANIFEST, "x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    sync(part)
    if target.exists():
        shutil.rmtree(target)
    os.replace(part, target)
    sync(target.parent)
    _prune(target.parent.parent, keep)
