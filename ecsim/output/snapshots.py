"""Field snapshots, ``fields/fields_000100.h5``: one HDF5 file a time, in the layout of openPMD 1.1 meshes.

A file is written under a temporary name, synced to disk and renamed, so that one which exists is complete.
Readers of openPMD find their way: ``/data/<step>/meshes/E/x`` and so on, with axes, positions and units.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from ecsim.output.openpmd import Moment, openpmd_file, set_attributes
from ecsim.output.quantities import QUANTITIES
from ecsim.output.rundir import FIELDS, openpmd_directory
from ecsim.output.storage import FAULTS, plain, reason

COMPONENTS = {3: ("x", "y", "z"), 6: ("xx", "xy", "xz", "yy", "yz", "zz")}
CENTRINGS = {"node": 0.0, "centre": 0.5}


class Mesh(NamedTuple):
    """One record of a snapshot.

    Attributes
    ----------
    values : host array: a scalar (*cells), a vector (3, *cells) or a symmetric tensor (6, *cells) in the
        order xx, xy, xz, yy, yz, zz.
    centring : ``"node"`` (x = iΔ) or ``"centre"`` (x = (i+½)Δ).
    quantity : a key of `quantities.QUANTITIES`, which gives the unit.
    time_offset : time of the values minus the time of the snapshot, in 1/ω_pi.
    """

    values: np.ndarray
    centring: str
    quantity: str
    time_offset: float = 0.0


@dataclass(frozen=True)
class Snapshot:
    """What `read_fields` returns: ``meshes`` by name, and where and when they are.

    ``step``, ``time`` and ``dt`` (1/ω_pi); ``cells``, ``spacing`` and ``offset`` of the first cell (c/ω_pi) along
    each active dimension; ``attributes`` of the file.
    """

    step: int
    time: float
    dt: float
    cells: tuple[int, ...]
    spacing: tuple[float, ...]
    meshes: dict[str, Mesh]
    offset: tuple[float, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def wide(self) -> list[int]:
        """The dimensions that have more than one cell."""
        return [k for k, n in enumerate(self.cells) if n > 1]


def snapshot_path(run: str | os.PathLike[str], step: int) -> Path:
    """Where the snapshot of ``step`` of a run lies."""
    return openpmd_directory(run, FIELDS) / f"{FIELDS}_{step:06d}.h5"


def write_fields(
    run: str | os.PathLike[str],
    *,
    step: int,
    time: float,
    dt: float,
    spacing: Sequence[float],
    fields: Mapping[str, Mesh],
    attributes: Mapping[str, str | int | float] | None = None,
    omega_pi: float | None = None,
    precision: str = "float64",
) -> Path:
    """Write one snapshot of the whole grid and return its path.

    Parameters
    ----------
    run : run directory; the file goes into its subdirectory ``fields``.
    step, time, dt : cycles done, time of the snapshot, time step (1/ω_pi).
    spacing : cell widths Δ along each active dimension (c/ω_pi).
    fields : the records; names are free, ``E`` and ``B`` are what viewers look for.
    attributes : stored on the root group besides those of openPMD (resolved deck, versions, …).
    omega_pi : reference ion plasma frequency in rad/s for SI units; None leaves the code's units.
    precision : ``"float64"`` or ``"float32"``, as stored.

    Raises
    ------
    ValueError : if a record's shape does not fit ``spacing``, or its centring or quantity is unknown.
    OSError : naming the path, when it cannot be written; no partial file is left, earlier ones stay.
    """
    for name, mesh in fields.items():
        _components(name, mesh, len(spacing))
    path = snapshot_path(run, step)
    moment = Moment(step, time, dt, omega_pi, attributes=attributes or {})
    write_meshes(path, moment, fields.items(), Lattice(tuple(spacing)), precision)
    return path


@dataclass(frozen=True)
class Lattice:
    """Where stored values lie: cell widths Δ, first global cell and stride in cells along each dimension."""

    spacing: tuple[float, ...]
    first: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()

    def attributes(self, moment: Moment) -> dict[str, Any]:
        """Those of a mesh record of openPMD."""
        d, stride = len(self.spacing), self.stride or (1,) * len(self.spacing)
        first = self.first or (0,) * d
        return {
            "geometry": "cartesian",
            "dataOrder": "C",
            "axisLabels": np.array([b"x", b"y", b"z"][:d]),
            "gridSpacing": np.array([h * k for h, k in zip(self.spacing, stride, strict=True)], dtype=np.float64),
            "gridGlobalOffset": np.array([h * i for h, i in zip(self.spacing, first, strict=True)], dtype=np.float64),
            "gridUnitSI": moment.unit("length"),
            "fieldSmoothing": "none",
        }

    def position(self, centring: str) -> np.ndarray:
        """Of a value in the stored cells, in units of their width."""
        return CENTRINGS[centring] / np.array(self.stride or (1,) * len(self.spacing), dtype=np.float64)


def write_meshes(path: Path, moment: Moment, fields: Iterable[tuple[str, Mesh]], lattice: Lattice,
                 precision: str = "float64") -> None:
    """Write records, taken one at a time, as the meshes of one openPMD file. Raises as `write_fields` does."""
    with openpmd_file(path, moment, "snapshot", "meshes") as writer:
        meshes = writer.group
        boundary = np.array([b"periodic"] * 2 * len(lattice.spacing))
        set_attributes(meshes, {**MESHES_ATTRIBUTES, "fieldBoundary": boundary, "particleBoundary": boundary})
        for name, mesh in fields:
            components = _components(name, mesh, len(lattice.spacing))
            writer.room(np.size(mesh.values) * np.dtype(precision).itemsize)
            _write_record(meshes, name, mesh, components, lattice, moment, precision)


def list_snapshots(run: str | os.PathLike[str], name: str = FIELDS) -> list[Path]:
    """The complete openPMD files of a diagnostic of a run, in order of their step."""
    numbered = {path.stem[len(name) + 1:]: path for path in openpmd_directory(run, name).glob(f"{name}_*.h5")}
    return [numbered[number] for number in sorted(filter(str.isdecimal, numbered), key=int)]


def read_fields(path: str | os.PathLike[str], names: Sequence[str] | None = None) -> Snapshot:
    """Read a snapshot, all records or those of ``names``, as float64 arrays in the code's units.

    Raises
    ------
    OSError : if the file is missing or is not a snapshot of ecsim.
    KeyError : if it lacks a record of ``names``.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no snapshot {path}")
    try:
        with h5py.File(path, "r", locking="best-effort") as file:
            ((step, iteration),) = file["data"].items()
            meshes = iteration["meshes"]
            wanted = list(meshes) if names is None else list(names)
            absent = [name for name in wanted if name not in meshes]
            if not absent:
                records = {name: _read_record(meshes[name]) for name in wanted}
                any_record = meshes[next(iter(meshes))]
                spacing, offset = (tuple(float(h) for h in any_record.attrs[key])
                                   for key in ("gridSpacing", "gridGlobalOffset"))
                cells = _shape_of(any_record)
                time, dt = float(iteration.attrs["time"]), float(iteration.attrs["dt"])
                attributes = {key: plain(value) for key, value in file.attrs.items()}
            else:
                available = list(meshes)
    except (*FAULTS, StopIteration) as error:
        raise OSError(f"{path} is not a readable snapshot of ecsim: {reason(error)}") from error
    if absent:
        raise KeyError(f"{path} has no {', '.join(absent)}; it holds {', '.join(available)}")
    return Snapshot(int(step), time, dt, cells, spacing, records, offset, attributes)


MESHES_ATTRIBUTES = {
    "fieldSolver": "other",
    "fieldSolverParameters": "energy-conserving semi-implicit (ECSIM)",
    "currentSmoothing": "none",
    "chargeCorrection": "none",
}


def _components(name: str, mesh: Mesh, d: int) -> dict[str, np.ndarray]:
    """The arrays of a record by component; a scalar has the one component ``""``."""
    checks = (("centring", mesh.centring, CENTRINGS), ("quantity", mesh.quantity, QUANTITIES))
    for what, value, allowed in checks:
        if value not in allowed:
            raise ValueError(f"record {name}: {what} = {value!r}; one of {', '.join(allowed)} is allowed")
    values = np.asarray(mesh.values)
    if values.ndim == d:
        return {"": values}
    if values.ndim == d + 1 and len(values) in COMPONENTS:
        return dict(zip(COMPONENTS[len(values)], values, strict=True))
    raise ValueError(f"record {name} has shape {values.shape}; (*cells), (3, *cells) or (6, *cells) with "
                     f"{d} axes of cells is allowed")


def _write_record(meshes: h5py.Group, name: str, mesh: Mesh, components: Mapping[str, np.ndarray], lattice: Lattice,
                  moment: Moment, precision: str) -> None:
    quantity = QUANTITIES[mesh.quantity]
    for component, values in components.items():
        target = f"{name}/{component}" if component else name
        data = meshes.create_dataset(target, data=values, dtype=precision)
        data.attrs["position"] = lattice.position(mesh.centring)
        data.attrs["unitSI"] = moment.unit(mesh.quantity)
    set_attributes(meshes[name], {
        **lattice.attributes(moment),
        "unitDimension": np.array(quantity.dimension, dtype=np.float64),
        "timeOffset": float(mesh.time_offset),
        "quantity": mesh.quantity,
    })


def _first(record: h5py.Group | h5py.Dataset) -> h5py.Dataset:
    return record if isinstance(record, h5py.Dataset) else record[next(iter(record))]


def _shape_of(record: h5py.Group | h5py.Dataset) -> tuple[int, ...]:
    return tuple(_first(record).shape)


def _read_record(record: h5py.Group | h5py.Dataset) -> Mesh:
    if isinstance(record, h5py.Dataset):
        values = record[()].astype(np.float64)
    else:
        order = next(names for names in COMPONENTS.values() if set(names) == set(record))
        values = np.stack([record[name][()] for name in order]).astype(np.float64)
    centring = "centre" if _first(record).attrs["position"][0] > 0 else "node"
    return Mesh(values, centring, plain(record.attrs["quantity"]), float(record.attrs["timeOffset"]))

