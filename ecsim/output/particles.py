"""Particles in openPMD files, ``/data/<step>/particles/<species>``, as the ED-PIC extension wants them.

Positions lie half a step before the velocities (after the first cycle); each record's ``timeOffset`` says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from ecsim.output.openpmd import Moment, Writer, openpmd_file, set_attributes
from ecsim.output.quantities import QUANTITIES
from ecsim.output.storage import FAULTS, plain, reason

AXES = "xyz"


class Population(NamedTuple):
    """Some particles of one species.

    Attributes
    ----------
    name : of the species.  charge, mass : of one real particle, in those of the ion.
    n : how many.  pieces : (place of the first, arrays) until all are there; ``x`` (d, k) in c/ω_pi, ``v`` (3, k) in c,
        ``weight`` (k,) real particles in n0 (c/ω_pi)^d, and ``id`` (k,) where they are kept.
    time_offset : time of the positions minus that of the velocities, in 1/ω_pi.
    """

    name: str
    charge: float
    mass: float
    n: int
    pieces: Iterator[tuple[int, Mapping[str, np.ndarray]]]
    ids: bool
    time_offset: float


class Record(NamedTuple):
    """How a record of openPMD is made: quantity, macro-weighted?, power of the weight, which arrays."""

    quantity: str
    macro: int
    power: float


RECORDS = {
    "position": Record("length", 0, 0.0),
    "positionOffset": Record("length", 0, 0.0),
    "momentum": Record("momentum", 0, 1.0),
    "weighting": Record("dimensionless", 1, 1.0),
    "charge": Record("charge", 0, 1.0),
    "mass": Record("mass", 0, 1.0),
    "id": Record("dimensionless", 0, 0.0),
}


def write_particles(path: Path, moment: Moment, populations: Iterable[Population], box: Sequence[float], *, order: int,
                    precision: str = "float64") -> None:
    """Write one openPMD file of particles in a periodic box, given by its lengths along the active dimensions.

    order : of the particle shape.  precision : of positions, momenta and weights.
    Raises OSError naming the path; then no partial file is left.
    """
    with openpmd_file(path, moment, "particle file", "particles") as writer:
        for population in populations:
            _write_population(writer, population, len(box), order, np.dtype(precision))
            _write_patch(writer.group[population.name], population, box, moment)


def _write_population(writer: Writer, p: Population, d: int, order: int, dtype: np.dtype) -> None:
    writer.room(p.n * ((d + 4) * dtype.itemsize + 8 * p.ids))
    species, real = writer.group.create_group(p.name), writer.moment.unit("macro_number")
    set_attributes(species, {
        "particleShape": float(order), "currentDeposition": "other",
        "currentDepositionParameters": "mass matrix (ECSIM)", "particlePush": "other",
        "particlePushParameters": "energy-conserving semi-implicit (ECSIM)",
        "particleInterpolation": "energyConserving",
        "particleSmoothing": "none"})
    for axis in AXES[:d]:
        species.create_dataset(f"position/{axis}", (p.n,), dtype)
    for axis in AXES:
        species.create_dataset(f"momentum/{axis}", (p.n,), dtype)
    species.create_dataset("weighting", (p.n,), dtype)
    if p.ids:
        species.create_dataset("id", (p.n,), np.uint64)
    for first, part in p.pieces:
        last = first + len(part["weight"])
        for k, axis in enumerate(AXES[:d]):
            species[f"position/{axis}"][first:last] = part["x"][k]
        for k, axis in enumerate(AXES):
            species[f"momentum/{axis}"][first:last] = p.mass * part["v"][k]
        species["weighting"][first:last] = real * part["weight"]
        if p.ids:
            species["id"][first:last] = part["id"]
    for axis in AXES[:d]:
        _constant(species, f"positionOffset/{axis}", 0.0, p.n)
    _constant(species, "charge", p.charge, p.n)
    _constant(species, "mass", p.mass, p.n)
    _describe(species, p, writer.moment)


def _write_patch(species: h5py.Group, p: Population, box: Sequence[float], moment: Moment) -> None:
    """One patch that holds all particles: the whole box."""
    patches = species.create_group("particlePatches")
    for name, count in (("numParticles", p.n), ("numParticlesOffset", 0)):
        patches[name] = np.array([count], np.uint64)
        patches[name].attrs["unitSI"] = 1.0
    for name, values in (("offset", [0.0] * len(box)), ("extent", box)):
        for axis, value in zip(AXES, values, strict=False):
            patches[f"{name}/{axis}"] = np.array([value], np.float64)
            patches[f"{name}/{axis}"].attrs["unitSI"] = moment.unit("length")
        patches[name].attrs["unitDimension"] = np.array(QUANTITIES["length"].dimension, dtype=np.float64)


def _constant(species: h5py.Group, name: str, value: float, n: int) -> None:
    """A record component that is the same for all particles."""
    component = species.create_group(name)
    component.attrs["value"], component.attrs["shape"] = float(value), np.array([n], np.uint64)


def _describe(species: h5py.Group, p: Population, moment: Moment) -> None:
    for name, record in RECORDS.items():
        if name not in species:
            continue
        offset = p.time_offset if name.startswith("position") else 0.0
        set_attributes(species[name], {
            "unitDimension": np.array(QUANTITIES[record.quantity].dimension, dtype=np.float64),
            "timeOffset": float(offset),
            "weightingPower": record.power, "macroWeighted": np.uint32(record.macro)})
        vector = name in ("position", "positionOffset", "momentum")
        for component in species[name].values() if vector else [species[name]]:
            component.attrs["unitSI"] = 1.0 if name == "weighting" else moment.unit(record.quantity)
    species["weighting"].attrs["perCodeUnit"] = moment.unit("macro_number")


def read_particles(path: str | os.PathLike[str], species: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """Particles of one file, by species: ``x`` (d, P), ``v`` (3, P), ``weight`` (P,), ``id`` (P,) where kept,
    ``charge``, ``mass`` and ``time_offset`` of the positions, in the code's units.

    Raises OSError if the file is missing or is not a particle file of ecsim.
    """
    try:
        with h5py.File(path, "r", locking="best-effort") as file:
            ((_, iteration),) = file["data"].items()
            groups = iteration["particles"]
            return {name: _read_population(groups[name]) for name in (groups if species is None else species)}
    except FAULTS as error:
        raise OSError(f"{path} is not a readable particle file of ecsim: {reason(error)}") from error


def _read_population(group: h5py.Group) -> dict[str, Any]:
    mass = plain(group["mass"].attrs["value"])
    found = {
        "x": np.stack([a[()].astype(np.float64) for a in group["position"].values()]),
        "v": np.stack([a[()].astype(np.float64) for a in group["momentum"].values()]) / mass,
        "weight": group["weighting"][()].astype(np.float64) / group["weighting"].attrs["perCodeUnit"],
        "charge": plain(group["charge"].attrs["value"]), "mass": mass,
        "time_offset": plain(group["position"].attrs["timeOffset"]),
    }
    return {**found, "id": group["id"][()]} if "id" in group else found
