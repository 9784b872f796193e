"""What every openPMD 1.1 file has in common: its root, its iteration, and that it appears complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ecsim.output.provenance import timestamp, version_of
from ecsim.output.quantities import QUANTITIES
from ecsim.output.storage import VERSION_BOUNDS, discard, part_of, reason, reserve, sync

OVERHEAD = 1 << 20
NO_AUTHOR = "unknown"


@dataclass(frozen=True)
class Moment:
    """When a file is of, and what it says of its run.

    step, time, dt : cycles done, time of fields and velocities, time step (1/ω_pi).  omega_pi : reference frequency
    in rad/s, None leaves the code's units.  author, attributes : stored on the root group.
    """

    step: int
    time: float
    dt: float
    omega_pi: float | None = None
    author: str = NO_AUTHOR
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def unit(self, quantity: str) -> float:
        """Factor to SI of a key of `QUANTITIES`."""
        return QUANTITIES[quantity].unit_si(self.omega_pi)


class Writer:
    """A file that is being written, with the ``group`` of its records; `room` is called before anything large is."""

    def __init__(self, file: h5py.File, part: Path, moment: Moment, holds: str) -> None:
        self.file, self.moment = file, moment
        self.group = file.create_group(f"data/{moment.step}/{holds}")
        self._part, self._reserved = part, OVERHEAD

    def room(self, bytes_needed: int) -> None:
        """Reserve so many bytes more on disk; raises OSError if there is no room."""
        self._reserved += bytes_needed
        reserve(self._part, self._reserved)


@contextmanager
def openpmd_file(path: Path, moment: Moment, what: str, holds: str) -> Iterator[Writer]:
    """A new openPMD file of one iteration with "meshes" or "particles" (``holds``), synced and renamed at the end.

    Raises OSError naming the path and ``what`` it is, when it cannot be written; then no partial file is left.
    """
    part = part_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(part, "w", libver=VERSION_BOUNDS, locking="best-effort") as file:
            reserve(part, OVERHEAD)
            _write_root(file, path, moment, holds)
            yield Writer(file, part, moment, holds)
        sync(part)
        os.replace(part, path)
        sync(path.parent)
    except (OSError, RuntimeError) as error:
        discard(part)
        raise OSError(f"cannot write the {what} {path}: {reason(error)}") from error
    except BaseException:
        discard(part)
        raise


def set_attributes(group: h5py.Group | h5py.Dataset, attributes: Mapping[str, Any]) -> None:
    """Store attributes, text in the form that openPMD wants."""
    for key, value in attributes.items():
        group.attrs[key] = np.bytes_(value.encode()) if isinstance(value, str) else value


def _write_root(file: h5py.File, path: Path, moment: Moment, holds: str) -> None:
    series = path.stem.rpartition("_")[0]
    set_attributes(file, {
        **moment.attributes,
        "openPMD": "1.1.0",
        "openPMDextension": np.uint32(1),
        "basePath": "/data/%T/",
        f"{holds}Path": f"{holds}/",
        "iterationEncoding": "fileBased",
        "iterationFormat": f"{series}_%06T",
        "author": moment.author,
        "software": "ecsim",
        "softwareVersion": version_of("ecsim"),
        "date": timestamp(),
    })
    iteration = file.create_group(f"data/{moment.step}")
    set_attributes(iteration, {"time": float(moment.time), "dt": float(moment.dt), "timeUnitSI": moment.unit("time")})
