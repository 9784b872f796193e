"""The plane of a snapshot that reconnection is seen in, and the flux function there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ecsim.diagnostics.flux import flux_function
from ecsim.output.snapshots import Snapshot
from ecsim.plot.source import Run

AXES = "xyz"
LEAST_ISLAND = 0.02  # of the whole range of the flux: smaller islands are taken for noise


class Plane(NamedTuple):
    """A plane of a snapshot: its two axes, the one across it, and where it cuts that one (an index, or None)."""

    a: int
    b: int
    normal: int
    index: int | None


def plane_of(run: Run, snapshot: Snapshot) -> Plane:
    """The only plane of a 2D box; in 3D the one across the current of a sheet, else x–y, through the middle."""
    wide = snapshot.wide
    if len(wide) == 2:
        return Plane(*wide, 3 - sum(wide), None)
    normal = getattr(run.deck.problem.params, "current", 2)
    a, b = (k for k in wide if k != normal)
    return Plane(a, b, normal, snapshot.cells[normal] // 2)


def cut(values: np.ndarray, plane: Plane, d: int) -> np.ndarray:
    """(..., na, nb) of an array (..., *cells)."""
    index: list = [0] * d
    index[plane.a] = index[plane.b] = slice(None)
    if plane.index is not None:
        index[plane.normal] = plane.index
    return values[(..., *index)]


def smoothed(values: np.ndarray) -> np.ndarray:
    """Twice the 1-2-1 mean along both axes of a periodic plane, against the noise of few particles."""
    for axis in (0, 1, 0, 1):
        values = 0.5 * values + 0.25 * (np.roll(values, 1, axis) + np.roll(values, -1, axis))
    return values


def flux_of(snapshot: Snapshot, plane: Plane) -> np.ndarray:
    """ψ (na + 1, nb + 1) at the nodes of the plane."""
    B = cut(snapshot.meshes["B"].values, plane, len(snapshot.cells))
    return flux_function(B[plane.a], B[plane.b], (snapshot.spacing[plane.a], snapshot.spacing[plane.b]))


def has_structure(snapshot: Snapshot, plane: Plane) -> bool:
    """Whether the field in the plane is more than noise: smoothing over neighbours leaves most of its energy."""
    B = cut(snapshot.meshes["B"].values, plane, len(snapshot.cells))[[plane.a, plane.b]]
    return sum(float(np.sum(smoothed(part) ** 2)) for part in B) > 0.5 * float(np.sum(B**2))
