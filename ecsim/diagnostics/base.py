"""What all diagnostics have in common: when they are due, where they write, and how a deck's entry describes them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ecsim.diagnostics.sample import Sample
from ecsim.keys import key
from ecsim.output.openpmd import NO_AUTHOR, Moment
from ecsim.output.quantities import QUANTITIES
from ecsim.output.rundir import DIAGNOSTICS, RunDirectoryError
from ecsim.output.series import STEP, Axis, Column, SeriesFile, read_ended
from ecsim.output.snapshots import Mesh

AXES = "xyz"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Params:
    """The keys that every diagnostic has."""

    every: int = key(low=1, help="Steps between records")
    name: str | None = key(None, identifier=True, help="Name of its files; left out, its kind")


@dataclasses.dataclass(frozen=True)
class Scene:
    """What a check of a diagnostic's keys may look at: the box, the species' names, whether particles have ids."""

    cells: tuple[int, ...]
    size: tuple[float, ...]
    species: tuple[str, ...]
    ids: bool


@dataclasses.dataclass(frozen=True)
class Setting:
    """Where a run writes and what it says of itself. ``resume_at`` : the step after which its files go on, or None."""

    directory: Path
    attributes: Mapping[str, Any]
    omega_pi: float | None = None
    author: str = NO_AUTHOR
    resume_at: int | None = None

    def moment(self, sample: Sample) -> Moment:
        """For an openPMD file of this step."""
        return Moment(sample.step, sample.time, sample.plasma.dt, self.omega_pi, self.author, self.attributes)


class Diagnostic:
    """One thing on a schedule. Subclasses say what `record` writes; all ranks call it, rank 0 writes.

    moments : whether the species' moments are needed.
    """

    moments = False

    def __init__(self, params: Any, kind: str, plasma, setting: Setting) -> None:
        self.params, self.plasma, self.setting = params, plasma, setting
        self.name = params.name or kind
        self.world = plasma.domain.world

    def due(self, step: int) -> bool:
        """Whether it is its turn."""
        return step % self.params.every == 0

    def record(self, sample: Sample) -> None:
        """Write what belongs to this step (collective)."""
        raise NotImplementedError

    def flush(self) -> None:
        """Bring everything to the files."""

    def close(self) -> None:
        """Close the files."""


def described(params: Any, kind: str) -> dict[str, Any]:
    """What a file says of the diagnostic that writes it: its keys and its kind."""
    entry = {f.name: getattr(params, f.name) for f in dataclasses.fields(params)}
    return {"kind": kind} | {f"key_{name}": value for name, value in entry.items() if value is not None}


class SeriesDiagnostic(Diagnostic):
    """A diagnostic that adds a row to ``diagnostics/<name>.h5``; the file is made with the first row."""

    series: SeriesFile | None = None
    laid_out = False

    def __init__(self, params: Any, kind: str, plasma, setting: Setting) -> None:
        super().__init__(params, kind, plasma, setting)
        self.path = self.path_in(setting.directory, params, kind)
        self.described = described(params, kind)

    @staticmethod
    def path_in(directory: Path, params: Any, kind: str) -> Path:
        """The file of a run directory that it writes."""
        return directory / DIAGNOSTICS / f"{params.name or kind}.h5"

    @classmethod
    def check_earlier(cls, directory: Path, params: Any, kind: str) -> None:
        """Look whether its file, if there is one, can be gone on with.

        Raises OSError if it is damaged, RunDirectoryError if it holds something else.
        """
        path, now = cls.path_in(directory, params, kind), described(params, kind)
        if not path.exists():
            return
        was = {name: value for name, value in read_ended(path)["attributes"].items() if name[:4] in ("key_", "kind")}
        now = {name: list(value) if isinstance(value, tuple) else value for name, value in now.items()}
        changed = [f"{name.removeprefix('key_')} was {was.get(name)} and is {now.get(name)}"
                   for name in sorted((was.keys() | now.keys()) - {"key_every", "key_name"})
                   if was.get(name) != now.get(name)]
        if changed:
            raise RunDirectoryError(f"{path} holds another diagnostic: {'; '.join(changed)}. Give this one "
                                    "another name, or move the file away")

    def layout(self, sample: Sample) -> tuple[dict[str, Column], dict[str, Axis]]:
        """Columns besides step and time, and their axes (collective)."""
        raise NotImplementedError

    def row(self, sample: Sample) -> dict[str, Any]:
        """Values of these columns on rank 0 (collective)."""
        raise NotImplementedError

    def record(self, sample: Sample) -> None:
        """Add a row."""
        columns, axes = ({}, {}) if self.laid_out else self.layout(sample)
        self.laid_out = True
        row = self.row(sample)
        if not self.world.is_root:
            return
        if self.series is None:
            try:
                self.path.parent.mkdir(exist_ok=True)
            except OSError as error:
                raise OSError(f"cannot make the directory {self.path.parent}: {error.strerror}") from error
            self.series = SeriesFile(self.path, {**STEP, **columns}, axes=axes, resume_at=self.setting.resume_at,
                                     attributes={**self.setting.attributes, **self.described})
        self.series.append({"step": sample.step, "time": sample.time, **row})

    def flush(self) -> None:
        """Bring all rows to the file."""
        if self.series:
            self.series.flush()

    def close(self) -> None:
        """Close the file."""
        if self.series:
            self.series.close()

    @property
    def kind(self) -> str:
        """The kind that a deck names it by."""
        return type(self).__module__.rpartition(".")[2]


def region_faults(region: Sequence[float] | None, scene: Scene, name: str = "region") -> Iterator[tuple[str, str]]:
    """Faults of a region: low and high along each dimension, in the box."""
    if region is None:
        return
    d = len(scene.cells)
    if len(region) != 2 * d:
        yield name, f"must have {2 * d} numbers, low and high along each of the {d} dimensions"
    elif any(not 0 <= low < high <= length * (1 + 1e-12)
             for low, high, length in zip(region[::2], region[1::2], scene.size, strict=True)):
        yield name, f"must have 0 <= low < high <= {' × '.join(f'{length:g}' for length in scene.size)}"


def cells_of(region: Sequence[float] | None, cells: Sequence[int], spacing: Sequence[float]) -> list[tuple[int, int]]:
    """First cell and the one after the last, along each dimension, of a region (None: everything)."""
    if region is None:
        return [(0, n) for n in cells]
    spans = []
    for low, high, n, h in zip(region[::2], region[1::2], cells, spacing, strict=True):
        first = min(math.floor(round(low / h, 9)), n - 1)
        spans.append((first, max(first + 1, min(n, math.ceil(round(high / h, 9))))))
    return spans


def inside(x: np.ndarray, region: Sequence[float] | None) -> np.ndarray | slice:
    """Which positions (P, d) lie in a region: low ≤ x < high."""
    if region is None:
        return slice(None)
    low, high = np.array(region[::2]), np.array(region[1::2])
    return ((x >= low) & (x < high)).all(axis=1)


def unit_of(mesh: Mesh) -> str:
    """Label of the code's unit of a record."""
    return QUANTITIES[mesh.quantity].label


def sum_over_ranks(plasma, values: np.ndarray) -> np.ndarray:
    """Sum of a small host array over all ranks, on the host of each (collective)."""
    flat = np.ascontiguousarray(values, dtype=np.float64).reshape(-1)
    return plasma.backend.to_host(plasma.halo.sum(plasma.backend.from_host(flat))).reshape(np.shape(values))
