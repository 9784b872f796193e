"""The results of a run as arrays: `open_run`.

    >>> import ecsim
    >>> run = ecsim.open_run("runs/double_harris_2d")
    >>> run.energies["time"], run.energies.unit("time")
    >>> B = run.fields().record("B")          # (snapshots, 3, *cells), nothing read yet
    >>> B[-1, 2]                              # one component of the last snapshot
    >>> B.to_xarray().sel(component="z")      # with coordinates, where xarray is installed; as lazy
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ecsim.deck import Deck, load_deck
from ecsim.output.checkpoint import list_checkpoints
from ecsim.output.energies import read_energies
from ecsim.output.particles import read_particles
from ecsim.output.quantities import QUANTITIES
from ecsim.output.rundir import DECK, DIAGNOSTICS, ENERGIES, FIELDS
from ecsim.output.series import columns_of, look
from ecsim.output.snapshots import COMPONENTS, Snapshot, list_snapshots, read_fields
from ecsim.output.storage import plain

AXES = "xyz"


class ReadError(OSError):
    """A run has not what was asked for; the message says what it has."""


def open_run(path: str | os.PathLike[str]) -> Run:
    """The run in a directory, going on, finished or killed. Raises ReadError if there is none."""
    return Run(path)


class Run:
    """The files of one run; everything is read when it is looked at.

    A time series keeps the length that it had at the first look, so that its columns fit together while the run goes
    on; open the run again to see later rows.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.directory = Path(path)
        self._series: dict[str, Series] = {}
        if not (self.directory / DECK).is_file():
            raise ReadError(f"{self.directory} is not the directory of a run: it has no {DECK}")

    def __repr__(self) -> str:
        return f"Run({str(self.directory)!r}: {', '.join([ENERGIES, *self.series_names, *self.openpmd_names])})"

    @cached_property
    def deck(self) -> Deck:
        """The deck that was run. Raises DeckError if this version cannot read it."""
        return load_deck(self.directory / DECK)

    @cached_property
    def energies(self) -> Series:
        """The energy ledger."""
        return Series(self.directory / ENERGIES)

    @property
    def species(self) -> list[str]:
        """Names of the species, in the order of ``energies["kinetic"]``."""
        return read_energies(self.directory)["species"]

    @property
    def series_names(self) -> list[str]:
        """The diagnostics that are time series."""
        return sorted(path.stem for path in (self.directory / DIAGNOSTICS).glob("*.h5"))

    @property
    def openpmd_names(self) -> list[str]:
        """The diagnostics that are openPMD files: fields or particles."""
        folders = [path for path in (self.directory / DIAGNOSTICS).glob("*") if path.is_dir()]
        names = sorted(folder.name for folder in folders if list_snapshots(self.directory, folder.name))
        return [FIELDS, *names] if list_snapshots(self.directory, FIELDS) else names

    def series(self, name: str) -> Series:
        """A diagnostic by its name. Raises ReadError if there is none."""
        if name not in self.series_names:
            raise ReadError(f"{self.directory} has no time series {name}; it has {_listed(self.series_names)}")
        return self._series.setdefault(name, Series(self.directory / DIAGNOSTICS / f"{name}.h5"))

    def fields(self, name: str = FIELDS) -> Fields:
        """The snapshots of a diagnostic. Raises ReadError if there are none."""
        paths = list_snapshots(self.directory, name)
        if not paths:
            raise ReadError(f"{self.directory} has no snapshots {name}; it has {_listed(self.openpmd_names)}")
        return Fields(paths)

    def particle_steps(self, name: str = "particles") -> list[int]:
        """The steps at which a diagnostic wrote particles."""
        return [_step_of(path) for path in list_snapshots(self.directory, name)]

    def particles(self, name: str = "particles", step: int | None = None) -> dict[str, dict[str, Any]]:
        """Particles by species at a step (None: the last), from `read_particles`. Raises ReadError if none are."""
        found = {_step_of(path): path for path in list_snapshots(self.directory, name)}
        wanted = max(found, default=None) if step is None else step
        if wanted not in found:
            raise ReadError(f"{self.directory} has no particles {name} of step {wanted}; it has {_listed(found)}")
        return read_particles(found[wanted])

    @property
    def checkpoints(self) -> list[Path]:
        """The checkpoints, oldest first."""
        return list_checkpoints(self.directory)


class Series:
    """A time series: ``series["column"]`` is an array with rows along the first axis."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: int | None = None

    def __getitem__(self, column: str) -> np.ndarray:
        rows = len(self)
        return self._of(column, lambda data: data[:rows])

    def __len__(self) -> int:
        if self._rows is None:
            self._rows = look(self.path, lambda file: file["step"].shape[0])
        return self._rows

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return look(self.path, columns_of)

    def unit(self, column: str) -> str:
        """The code's unit of a column."""
        return self._of(column, lambda data: plain(data.attrs["unit"]))

    def axes(self, column: str) -> dict[str, np.ndarray]:
        """Coordinates along the axes of a column after the first, by name."""
        return self._of(column, lambda data: {name: data.file[f"axes/{name}"][()]
                                              for name in data.attrs.get("axes", ())})

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """What the file says of itself and its run."""
        return look(self.path, lambda file: {key: plain(value) for key, value in file.attrs.items()})

    def _of(self, column: str, take: Callable[[h5py.Dataset], Any]) -> Any:
        """What ``take`` gives of a column. Raises KeyError if there is none of that name."""
        found = look(self.path, lambda file: (take(file[column]),) if column in file else None)
        if found is None:
            raise KeyError(f"{self.path} has no column {column}; it has {_listed(self.columns)}")
        return found[0]

    def to_xarray(self):
        """An xarray Dataset over ``time``. Raises ImportError where there is no xarray."""
        import xarray

        time, variables, coordinates = self["time"], {}, {}
        for name in self.columns:
            axes = self.axes(name)
            values = self[name]
            dims = ["time", *(axes or [f"{name}_{k}" for k in range(values.ndim - 1)])]
            coordinates.update({axis: _text(values) for axis, values in axes.items()})
            if name != "time":
                variables[name] = (dims, values, {"units": self.unit(name)})
        return xarray.Dataset(variables, {"time": time, **coordinates}, self.attributes)


class Fields:
    """Snapshots in order of time. Iterating reads one after another."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = list(paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[Snapshot]:
        return (read_fields(path) for path in self.paths)

    @property
    def steps(self) -> list[int]:
        """Their steps."""
        return [_step_of(path) for path in self.paths]

    @cached_property
    def times(self) -> np.ndarray:
        """Their times, in 1/ω_pi."""
        found = []
        for path in self.paths:
            with h5py.File(path, "r", locking="best-effort") as file:
                found.append(float(next(iter(file["data"].values())).attrs["time"]))
        return np.array(found)

    @property
    def names(self) -> list[str]:
        """The records that the last snapshot holds."""
        with h5py.File(self.paths[-1], "r", locking="best-effort") as file:
            return list(next(iter(file["data"].values()))["meshes"])

    def snapshot(self, step: int | None = None, names: Sequence[str] | None = None) -> Snapshot:
        """All or some records of one step (None: the last). Raises ReadError if there is no such snapshot."""
        wanted = self.steps[-1] if step is None else step
        if wanted not in self.steps:
            raise ReadError(f"no snapshot of step {wanted}; there are {_listed(self.steps)}")
        return read_fields(self.paths[self.steps.index(wanted)], names)

    def record(self, name: str) -> LazyRecord:
        """A record of all snapshots. Raises ReadError if there is none of that name."""
        if name not in self.names:
            raise ReadError(f"no record {name}; there are {_listed(self.names)}")
        return LazyRecord(self, name)


class LazyRecord:
    """An array (snapshots, [components,] *cells) that reads what is indexed, by numbers and slices.

    ``dims``, ``coordinates``, ``unit`` describe it.
    """

    def __init__(self, fields: Fields, name: str) -> None:
        self.fields, self.name = fields, name
        with h5py.File(fields.paths[-1], "r", locking="best-effort") as file:
            record = next(iter(file["data"].values()))["meshes"][name]
            first = record if isinstance(record, h5py.Dataset) else next(iter(record.values()))
            self.components = () if isinstance(record, h5py.Dataset) else COMPONENTS[len(record)]
            self.dtype, cells = first.dtype, first.shape
            self.unit = QUANTITIES[plain(record.attrs["quantity"])].label
            spacing, offset = record.attrs["gridSpacing"], record.attrs["gridGlobalOffset"]
            position = first.attrs["position"]
        leading = (len(self.components),) if self.components else ()
        self.shape = (len(fields), *leading, *cells)
        self.coordinates: dict[str, np.ndarray] = {"time": fields.times}
        if self.components:
            self.coordinates["component"] = np.array(self.components)
        for axis, n, h, o, p in zip(AXES, cells, spacing, offset, position, strict=False):
            self.coordinates[axis] = o + h * (np.arange(n) + p)

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(self.coordinates)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key) -> np.ndarray:
        key = key if isinstance(key, tuple) else (key,)
        if Ellipsis in key:
            at = key.index(Ellipsis)
            key = (*key[:at], *(slice(None),) * (len(self.shape) - len(key) + 1), *key[at + 1:])
        key = (*key, *(slice(None),) * (len(self.shape) - len(key)))
        if isinstance(key[0], (int, np.integer)):
            return self._read(self.fields.paths[key[0]], key[1:])
        chosen = self.fields.paths[key[0]]
        empty = np.empty((0, *self.shape[1:]), self.dtype)[(slice(None), *key[1:])]
        return np.stack([self._read(path, key[1:]) for path in chosen]) if chosen else empty

    def _read(self, path: Path, key: tuple) -> np.ndarray:
        with h5py.File(path, "r", locking="best-effort") as file:
            record = next(iter(file["data"].values()))["meshes"][self.name]
            if not self.components:
                return record[key]
            if isinstance(key[0], (int, np.integer)):
                return record[self.components[key[0]]][key[1:]]
            return np.stack([record[component][key[1:]] for component in self.components[key[0]]])

    def to_xarray(self):
        """An xarray DataArray that reads the files when its values are asked for. Raises ImportError without xarray."""
        import xarray
        from xarray.backends import BackendArray
        from xarray.core import indexing

        outer = self

        class Wrapper(BackendArray):
            shape, dtype = outer.shape, outer.dtype

            def __getitem__(self, key):
                return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC,
                                                          outer.__getitem__)

        lazy = indexing.LazilyIndexedArray(Wrapper())
        variable = xarray.Variable(self.dims, lazy, {"units": self.unit})
        return xarray.DataArray(variable, self.coordinates, name=self.name)


def _step_of(path: Path) -> int:
    return int(path.stem.rpartition("_")[2])


def _text(values: np.ndarray) -> np.ndarray:
    return np.char.decode(values) if values.dtype.kind == "S" else values


def _listed(names) -> str:
    return ", ".join(map(str, names)) or "none"
