"""Time series: HDF5 files with one row a record, readable while the run goes on.

One dataset per column, first axis = row, in single-writer multiple-reader mode: another process may read at any
moment, and a killed run leaves a valid file with every row up to the last flush. After a kill the file still carries
HDF5's mark of an open writer: other programs must open it with ``swmr=True``; `look` does without (see `marked`).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import h5py
import numpy as np

from ecsim.output.marked import Unmarked, has_writer
from ecsim.output.storage import FAULTS, VERSION_BOUNDS, discard, part_of, plain, reason, reserve

CHUNK = 1024
CHUNK_BYTES, BUFFER_BYTES, RESERVE = 1 << 18, 1 << 20, 1 << 20
FLUSH_EVERY, FLUSH_RATIO = 1.0, 200
PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2)
AXES = "axes"
T = TypeVar("T")


class Column(NamedTuple):
    """One quantity of a row: dtype, shape in a row, unit, meaning, and the names of its axes where it has any."""

    dtype: str
    shape: tuple[int, ...] = ()
    unit: str = ""
    meaning: str = ""
    axes: tuple[str, ...] = ()


class Axis(NamedTuple):
    """Coordinates along one axis of a column, in ``unit``."""

    values: np.ndarray
    unit: str = ""


STEP = {
    "step": Column("i8", (), "", "number of cycles done"),
    "time": Column("f8", (), "1/ω_pi", "time of the velocities and fields"),
}


class SeriesFile:
    """Writer of one time series.

    Parameters
    ----------
    path : file to create; an existing one is replaced, unless ``resume_at`` is given.
    columns : by name; ``step`` must be among them.
    attributes : stored as attributes of the file.
    axes : coordinates, by the names that columns use.
    flush_every : seconds between flushes; None is 1, or 200 times what a flush takes where that is more. Rows are
        buffered in memory in between; a kill loses at most these.
    resume_at : continue an existing file after this step: its rows up to and including it are kept.

    Raises
    ------
    OSError : naming the path, when the file cannot be written (also from `append`, `flush` and `close`).
    ValueError : if ``resume_at`` is given and the columns of the existing file differ.
    """

    def __init__(self, path: str | os.PathLike[str], columns: Mapping[str, Column], *, attributes: Mapping[str, Any],
                 axes: Mapping[str, Axis] | None = None, flush_every: float | None = None,
                 resume_at: int | None = None) -> None:
        self.path, self.columns, self.flush_every = Path(path), dict(columns), flush_every
        self._attributes, self._axes = dict(attributes), dict(axes or {})
        earlier = None if resume_at is None else self._earlier_rows(resume_at)
        row_bytes = sum(_row_bytes(column) for column in self.columns.values())
        self._capacity = max(1, min(CHUNK, BUFFER_BYTES // row_bytes))
        self._buffer = {name: np.empty((self._capacity, *c.shape), c.dtype) for name, c in self.columns.items()}
        self._buffered = 0
        self._reserved = 0
        self._datasets: dict[str, h5py.Dataset] = {}
        self._file: h5py.File | None = self._create(earlier)
        self._next_flush = time.monotonic() + (FLUSH_EVERY if flush_every is None else flush_every)

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one row, a value for each column.

        Raises ValueError if a column is missing, unknown or of the wrong shape, OSError if a flush fails.
        """
        if row.keys() != self._buffer.keys():
            missing, unknown = self._buffer.keys() - row.keys(), row.keys() - self._buffer.keys()
            raise ValueError(f"row of {self.path}: missing {sorted(missing)}, unknown {sorted(unknown)}")
        for name, column in self._buffer.items():
            column[self._buffered] = row[name]
        self._buffered += 1
        if self._buffered == self._capacity or time.monotonic() >= self._next_flush:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows and make them visible to readers."""
        if self._file is None:
            raise ValueError(f"{self.path} is closed")
        rows = {name: column[: self._buffered] for name, column in self._buffer.items()}
        self._buffered, begun = 0, time.monotonic()
        try:
            self._extend(self._file, self.path, rows)
        except FAULTS as error:
            raise OSError(f"cannot write the time series {self.path}: {reason(error)}") from error
        finally:
            now, wait = time.monotonic(), self.flush_every
            self._next_flush = now + (max(FLUSH_EVERY, FLUSH_RATIO * (now - begun)) if wait is None else wait)

    def close(self) -> None:
        """Flush and close; a second call does nothing."""
        if self._file is None:
            return
        try:
            self.flush()
        finally:
            file, self._file = self._file, None
            try:
                file.close()
            except FAULTS as error:
                raise OSError(f"cannot close the time series {self.path}: {reason(error)}") from error
        _cut(self.path)

    def __enter__(self) -> SeriesFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _earlier_rows(self, last: int) -> dict[str, np.ndarray] | None:
        """Rows up to step ``last`` of the existing file; None where there is no file."""
        if not self.path.exists():
            return None
        rows = read_ended(self.path)
        self._check_earlier(rows)
        keep = rows["step"] <= last
        return {name: rows[name][keep] for name in self.columns}

    def _check_earlier(self, rows: Mapping[str, Any]) -> None:
        """Raise ValueError if the table of an existing file is not of the kind that this run writes."""
        shapes = {name: rows[name].shape[1:] for name in rows if name not in ("attributes", AXES)}
        wanted = {name: column.shape for name, column in self.columns.items()}
        if shapes != wanted:
            raise ValueError(f"{self.path} has other columns than this run would write: {_difference(shapes, wanted)}")

    def _create(self, earlier: Mapping[str, np.ndarray] | None) -> h5py.File:
        """A file beside the final one, moved there once complete: a kill leaves the old or the new one."""
        part = part_of(self.path)
        file = None
        try:
            file = h5py.File(part, "w", libver=VERSION_BOUNDS, locking="best-effort")
            reserve(part, RESERVE + sum(np.size(axis.values) * 8 for axis in self._axes.values()))
            self._lay_out(file)
            file.swmr_mode = True
            self._extend(file, part, earlier or {"step": np.empty(0)})
            os.replace(part, self.path)
        except FAULTS as error:
            if file is not None:
                with suppress(*FAULTS):
                    file.close()
            discard(part)
            raise OSError(f"cannot create the time series {self.path}: {reason(error)}") from error
        return file

    def _lay_out(self, file: h5py.File) -> None:
        """Attributes, axes and empty columns."""
        for key, value in self._attributes.items():
            file.attrs[key] = value
        for name, axis in self._axes.items():
            data = file.create_dataset(f"{AXES}/{name}", data=np.asarray(axis.values))
            data.attrs["unit"] = axis.unit
        for name, column in self.columns.items():
            width = tuple(max(1, n) for n in column.shape)
            rows = _chunk_rows(column)
            data = file.create_dataset(name, (0, *column.shape), column.dtype, maxshape=(None, *width),
                                       chunks=(rows, *width))
            data.attrs["unit"], data.attrs["meaning"] = column.unit, column.meaning
            self._datasets[name] = data
            if column.axes:
                data.attrs[AXES] = np.array(column.axes, h5py.string_dtype())

    def _extend(self, file: h5py.File, path: Path, rows: Mapping[str, np.ndarray]) -> None:
        """Append ``rows`` to every column; ``step`` last, so that a reader who sees it sees the whole row."""
        if not len(rows["step"]):
            return
        bytes_needed = sum(2 * _chunk_rows(column) * _row_bytes(column) for column in self.columns.values())
        bytes_needed += sum(column.nbytes for column in rows.values())
        end = file.id.get_filesize()
        if end + bytes_needed > self._reserved:
            reserve(path, end + bytes_needed + RESERVE)
            self._reserved = end + bytes_needed + RESERVE
        for name in [*(name for name in self.columns if name != "step"), "step"]:
            column, new = self._datasets[name], rows[name]
            old = column.shape[0]
            column.resize(old + len(new), axis=0)
            column[old:] = new
            column.flush()


def look(path: str | os.PathLike[str], take: Callable[[h5py.File], T]) -> T:
    """What ``take`` gives of the HDF5 file of a time series, which a run may be writing just now.

    ``take`` may be called several times. Raises FileNotFoundError if there is no file, OSError if it is no time series,
    or damaged.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no time series {path}")
    for pause in (*PAUSES, None):
        marked = has_writer(path)
        try:
            return _looked(path, take)
        except (*FAULTS, AttributeError, IndexError, OverflowError, TypeError) as error:   # of a file of another kind
            if pause is None or not marked:
                why = f"damaged, or its run is just writing, {reason(error)}" if marked else reason(error)
                raise OSError(f"{path} is not a readable time series of ecsim: {why}") from error
        time.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


def _looked(path: Path, take: Callable[[h5py.File], T]) -> T:
    """One attempt, which what is just being written may spoil."""
    with Unmarked(path) as source, h5py.File(source, "r") as file:
        if "step" not in file:
            raise OSError("it has no steps")
        return take(file)


def read_ended(path: Path) -> dict[str, Any]:
    """What `read_series` gives of a run that has ended, however it did, to be gone on with. Raises OSError."""
    try:
        return read_series(path)
    except OSError as error:
        raise OSError(f"{error}; move it away to go on without its rows") from error


def _cut(path: Path) -> None:
    """Give back what was reserved beyond the end that the superblock of a closed file tells; HDF5 leaves it."""
    with open(path, "r+b") as file:
        head = file.read(36)
        file.truncate(min(path.stat().st_size, int.from_bytes(head[28:36], "little")))


def read_series(path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> dict[str, Any]:
    """A time series of a run that is going on, finished or was killed: all columns, or those asked for.

    Returns arrays with rows along the first axis, ``attributes`` (dict) and ``axes`` (arrays by name). Raises OSError
    if there is no such file, if it is not a time series of ecsim, is damaged, or lacks a column.
    """

    def take(file: h5py.File) -> dict[str, Any]:
        """The columns, of one length, in memory."""
        rows = file["step"].shape[0]
        names = columns_of(file) if columns is None else columns
        short = [name for name in names if len(file[name]) < rows]
        if short:
            raise OSError(f"{', '.join(short)} with fewer rows than step")
        table: dict[str, Any] = {name: file[name][:rows] for name in names}
        table["attributes"] = {key: plain(value) for key, value in file.attrs.items()}
        axes = [(name, file[AXES][name]) for name in (file[AXES] if AXES in file else ())]
        table[AXES] = {name: axis[()] for name, axis in axes}
        return table

    return look(path, take)


def columns_of(file: h5py.File) -> list[str]:
    """Names of the columns of a time series."""
    return [name for name in file if isinstance(file[name], h5py.Dataset)]


def _row_bytes(column: Column) -> int:
    return max(1, math.prod(column.shape)) * np.dtype(column.dtype).itemsize


def _chunk_rows(column: Column) -> int:
    return max(1, min(CHUNK, CHUNK_BYTES // _row_bytes(column)))


def _difference(have: Mapping[str, tuple], want: Mapping[str, tuple]) -> str:
    return "; ".join(f"{name} has shape {have.get(name, 'none')}, not {want.get(name, 'none')}"
                     for name in sorted(have.keys() | want.keys()) if have.get(name) != want.get(name))
