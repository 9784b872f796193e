"""The time series of a run, ``energies.h5``: one row a step, readable while the run goes on.

One HDF5 dataset per column, first axis = row, in single-writer multiple-reader mode: another process may read
at any moment, and a killed run leaves a valid file with every row up to the last flush. After a kill the file
still carries HDF5's mark of an open writer: readers must open it with ``swmr=True``, as `read_energies` does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ecsim.output.storage import VERSION_BOUNDS, discard, part_of, plain, reason, reserve

CHUNK = 1024
RESERVE = 1 << 20
# name: (dtype, length of the second axis or 0 for none ("species": one per species), unit, meaning)
COLUMNS: dict[str, tuple[str, int | str, str, str]] = {
    "step": ("i8", 0, "", "number of cycles done"),
    "time": ("f8", 0, "1/ω_pi", "time of the velocities and fields"),
    "electric": ("f8", 0, "n0 m_i c² (c/ω_pi)^d", "½ V Σ E² over the nodes"),
    "magnetic": ("f8", 0, "n0 m_i c² (c/ω_pi)^d", "½ V Σ B² over the cell centres"),
    "kinetic": ("f8", "species", "n0 m_i c² (c/ω_pi)^d", "Σ ½ m v² of each species"),
    "total": ("f8", 0, "n0 m_i c² (c/ω_pi)^d", "electric + magnetic + kinetic of all species"),
    "drift": ("f8", 0, "", "(total − initial total) / initial total"),
    "momentum": ("f8", 3, "n0 m_i c (c/ω_pi)^d", "Σ m v of all particles"),
    "charge": ("f8", 0, "n0 q_i (c/ω_pi)^d", "sum of the particles' charges"),
    "divergence_B": ("f8", 0, "m_i ω_pi²/(q_i c)", "largest |∇·B| over the nodes"),
    "gauss_residual": ("f8", 0, "n0 q_i", "rms of ∇·E − (ρ − ⟨ρ⟩) over the centres; NaN where not computed"),
    "iterations": ("i4", 0, "", "GMRES iterations of the step"),
    "residual": ("f8", 0, "", "relative residual of the solve"),
    "at_rounding": ("?", 0, "", "whether the solve ended because the residual stood at rounding level"),
}


class EnergyFile:
    """Writer of ``energies.h5``.

    Parameters
    ----------
    path : file to create; an existing one is replaced, unless ``resume_at`` is given.
    species : names of the species, in the order of ``kinetic``.
    attributes : stored as attributes of the file (resolved deck text, seed, `provenance`, …).
    flush_every : seconds between flushes. Rows are buffered in memory in between; a kill loses at most these.
    resume_at : continue the existing file after this step: its rows up to and including it are kept.

    Raises
    ------
    OSError : naming the path, when the file cannot be written (also from `append`, `flush` and `close`).
    ValueError : if ``resume_at`` is given and the species of the existing file differ.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        species: Sequence[str],
        attributes: Mapping[str, str | int | float],
        flush_every: float = 1.0,
        resume_at: int | None = None,
    ) -> None:
        self.path = Path(path)
        self.species = list(species)
        self.flush_every = flush_every
        self._attributes = dict(attributes)
        earlier = None if resume_at is None else self._earlier_rows(resume_at)
        self._buffer = {name: np.empty(self._shape(name, CHUNK), COLUMNS[name][0]) for name in COLUMNS}
        self._buffered = 0
        self._reserved = 0
        self._file: h5py.File | None = self._create(earlier)
        self._flushed = time.monotonic()

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one row, a value for each of `COLUMNS` (``kinetic`` has shape (S,), ``momentum`` (3,)).

        Raises ValueError if a column is missing, unknown or of the wrong length, OSError if a flush fails.
        """
        if row.keys() != self._buffer.keys():
            missing, unknown = self._buffer.keys() - row.keys(), row.keys() - self._buffer.keys()
            raise ValueError(f"row of {self.path}: missing {sorted(missing)}, unknown {sorted(unknown)}")
        for name, column in self._buffer.items():
            column[self._buffered] = row[name]
        self._buffered += 1
        if self._buffered == CHUNK or time.monotonic() - self._flushed >= self.flush_every:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows and make them visible to readers."""
        if self._file is None:
            raise ValueError(f"{self.path} is closed")
        rows = {name: column[: self._buffered] for name, column in self._buffer.items()}
        self._buffered = 0
        self._flushed = time.monotonic()
        try:
            self._extend(self._file, self.path, rows)
        except (OSError, RuntimeError) as error:
            raise OSError(f"cannot write the time series {self.path}: {reason(error)}") from error

    def close(self) -> None:
        """Flush and close; a second call does nothing."""
        if self._file is None:
            return
        try:
            self.flush()
        finally:
            self._file.close()
            self._file = None

    def __enter__(self) -> EnergyFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _shape(self, name: str, rows: int) -> tuple[int, ...]:
        width = COLUMNS[name][1]
        length = len(self.species) if width == "species" else int(width)
        return (rows, length) if width else (rows,)

    def _earlier_rows(self, last: int) -> dict[str, np.ndarray]:
        rows = read_energies(self.path)
        if rows["species"] != self.species:
            raise ValueError(f"{self.path} has the species {rows['species']}, this run has {self.species}")
        keep = rows["step"] <= last
        return {name: rows[name][keep] for name in COLUMNS}

    def _create(self, earlier: dict[str, np.ndarray] | None) -> h5py.File:
        """A file beside the final one, moved there once complete: a kill leaves the old or the new one."""
        part = part_of(self.path)
        file = None
        try:
            file = h5py.File(part, "w", libver=VERSION_BOUNDS, locking="best-effort")
            reserve(part, RESERVE)
            self._lay_out(file)
            file.swmr_mode = True
            self._extend(file, part, earlier or {"step": np.empty(0)})
            os.replace(part, self.path)
        except (OSError, RuntimeError) as error:
            if file is not None:
                file.close()
            discard(part)
            raise OSError(f"cannot create the time series {self.path}: {reason(error)}") from error
        return file

    def _lay_out(self, file: h5py.File) -> None:
        """Attributes and empty columns."""
        file.attrs["species"] = np.array(self.species, h5py.string_dtype())
        for key, value in self._attributes.items():
            file.attrs[key] = value
        for name, (dtype, _, unit, meaning) in COLUMNS.items():
            empty = self._shape(name, 0)
            width = tuple(max(1, length) for length in empty[1:])
            column = file.create_dataset(name, empty, dtype, maxshape=(None, *width), chunks=(CHUNK, *width))
            column.attrs["unit"], column.attrs["meaning"] = unit, meaning

    def _extend(self, file: h5py.File, path: Path, rows: Mapping[str, np.ndarray]) -> None:
        """Append ``rows`` to every column; ``step`` last, so that a reader who sees it sees the whole row."""
        if not len(rows["step"]):
            return
        bytes_needed = 2 * sum(column.nbytes for column in self._buffer.values())
        bytes_needed += sum(column.nbytes for column in rows.values())
        end = file.id.get_filesize()
        if end + bytes_needed > self._reserved:
            reserve(path, end + bytes_needed + RESERVE)
            self._reserved = end + bytes_needed + RESERVE
        for name in [*(name for name in COLUMNS if name != "step"), "step"]:
            column, new = file[name], rows[name]
            old = column.shape[0]
            column.resize(old + len(new), axis=0)
            column[old:] = new
            column.flush()


def read_energies(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The whole time series of a run that is going on, finished or was killed.

    Parameters
    ----------
    path : ``energies.h5`` or the run directory that holds it.

    Returns
    -------
    dict of arrays, one for each of `COLUMNS` with rows along the first axis, and ``species`` (list of names)
    and ``attributes`` (dict).

    Raises
    ------
    OSError : if there is no such file or it is not a time series of ecsim.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "energies.h5"
    if not path.is_file():
        raise FileNotFoundError(f"no time series {path}")
    try:
        with h5py.File(path, "r", libver=VERSION_BOUNDS, swmr=True, locking="best-effort") as file:
            rows = file["step"].shape[0]
            table: dict[str, Any] = {name: file[name][:rows] for name in COLUMNS}
            attributes = {key: plain(value) for key, value in file.attrs.items()}
    except (OSError, KeyError) as error:
        raise OSError(f"{path} is not a readable time series of ecsim: {reason(error)}") from error
    table["species"] = [str(name) for name in attributes.pop("species", [])]
    table["attributes"] = attributes
    return table
