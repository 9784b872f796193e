"""An XDMF sidecar, ``<name>.xdmf``, with which ParaView opens the snapshots of a diagnostic as one animation.

openPMD arrays have x as their slowest axis where XDMF's uniform meshes have z, so the mesh is given by explicit points,
written once to ``<name>.xdmf.h5``. Values at nodes and at cell centres are two grids.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from xml.sax.saxutils import quoteattr

import h5py
import numpy as np

from ecsim.output.snapshots import COMPONENTS, list_snapshots
from ecsim.output.storage import FAULTS, discard, part_of, reason

GRIDS = ("node", "centre")
MOST_KEPT = 8192


def write_xdmf(run: str | os.PathLike[str], name: str) -> Path:
    """Write the sidecar of a diagnostic's snapshots. Raises OSError naming the path."""
    run = Path(run)
    path, points = run / f"{name}.xdmf", run / f"{name}.xdmf.h5"
    files = list_snapshots(run, name)
    try:
        lattice = _lattice(files[-1])
        if not points.exists():
            _write_points(points, *lattice)
        text = "\n".join(_document(run, files, points.name, lattice))
        part = part_of(path)
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    except (OSError, RuntimeError) as error:
        discard(part_of(path))
        raise OSError(f"cannot write {path}: {reason(error)}") from error
    return path


def _lattice(snapshot: Path) -> tuple[tuple, tuple, tuple]:
    """Number, width and offset of the cells that a snapshot holds."""
    with h5py.File(snapshot, "r", locking="best-effort") as file:
        record = next(iter(next(iter(file["data"].values()))["meshes"].values()))
        component = record if isinstance(record, h5py.Dataset) else next(iter(record.values()))
        return component.shape, tuple(record.attrs["gridSpacing"]), tuple(record.attrs["gridGlobalOffset"])


def _write_points(path: Path, shape: tuple, spacing: tuple, offset: tuple) -> None:
    """X, Y, Z of every node and of every centre, as float32; a missing dimension is one plane at 0."""
    part = part_of(path)
    with h5py.File(part, "w") as file:
        for grid, shift in zip(GRIDS, (0.0, 0.5), strict=True):
            lines = [o + h * (np.arange(n) + shift) for n, h, o in zip(shape, spacing, offset, strict=True)]
            lines += [np.zeros(1)] * (3 - len(lines))
            for axis, values in zip("XYZ", np.meshgrid(*lines, indexing="ij"), strict=True):
                file[f"{grid}/{axis}"] = values.astype(np.float32)
    os.replace(part, path)


def _document(run: Path, files: list[Path], points: str, lattice: tuple):
    yield '<?xml version="1.0"?>\n<Xdmf Version="3.0">\n<Domain>'
    for grid in GRIDS:
        blocks = [block for file in files if (block := _grid_or_none(run, file, points, grid, lattice))]
        if blocks:
            yield f'<Grid Name="{grid}s" GridType="Collection" CollectionType="Temporal">'
            yield from blocks
            yield "</Grid>"
    yield "</Domain>\n</Xdmf>\n"


def _grid_or_none(run: Path, path: Path, points: str, grid: str, lattice: tuple) -> str:
    """`_grid`; nothing for a file that was removed or damaged since, or holds other cells (before a restart)."""
    try:
        return _grid(run, path, path.stat().st_mtime_ns, points, grid, lattice)
    except FAULTS:
        return ""


@lru_cache(maxsize=MOST_KEPT)
def _grid(run: Path, path: Path, changed: int, points: str, grid: str, lattice: tuple) -> str:
    """One time of one grid, or nothing where no record lies on it; kept for a file that has not ``changed``."""
    if _lattice(path) != lattice:
        return ""
    with h5py.File(path, "r", locking="best-effort") as file:
        ((step, iteration),) = file["data"].items()
        found = []
        for name, record in iteration["meshes"].items():
            first = record if isinstance(record, h5py.Dataset) else next(iter(record.values()))
            shape = first.shape + (1,) * (3 - len(first.shape))
            if (first.attrs["position"][0] > 0) == (grid == "centre"):
                place = f"{path.relative_to(run).as_posix()}:/data/{step}/meshes/{name}"
                found.append(_attribute(name, record, place, shape, first.dtype.itemsize))
        if not found:
            return ""
        time = float(iteration.attrs["time"])
    sizes = " ".join(map(str, shape))
    coordinates = "\n".join(_item(f"{points}:/{grid}/{axis}", sizes, 4) for axis in "XYZ")
    return (f'<Grid Name="{step}">\n<Time Value="{time!r}"/>\n<Topology TopologyType="3DSMesh" Dimensions="{sizes}"/>\n'
            f'<Geometry GeometryType="X_Y_Z">\n{coordinates}\n</Geometry>\n' + "\n".join(found) + "\n</Grid>")


def _attribute(name: str, record, place: str, shape: tuple[int, ...], precision: int) -> str:
    sizes = " ".join(map(str, shape))
    if isinstance(record, h5py.Dataset):
        return _scalar(name, _item(place, sizes, precision))
    if len(record) == 3:
        items = "\n".join(_item(f"{place}/{component}", sizes, precision) for component in COMPONENTS[3])
        return (f'<Attribute Name={quoteattr(name)} AttributeType="Vector" Center="Node">\n'
                f'<DataItem ItemType="Function" Function="JOIN($0, $1, $2)" Dimensions="{sizes} 3">\n{items}\n'
                "</DataItem>\n"
                "</Attribute>")
    return "\n".join(_scalar(f"{name}_{component}",
                             _item(f"{place}/{component}", sizes, precision)) for component in COMPONENTS[6])


def _scalar(name: str, item: str) -> str:
    return f'<Attribute Name={quoteattr(name)} AttributeType="Scalar" Center="Node">\n{item}\n</Attribute>'


def _item(place: str, sizes: str, precision: int) -> str:
    return f'<DataItem Format="HDF" NumberType="Float" Precision="{precision}" Dimensions="{sizes}">{place}</DataItem>'
