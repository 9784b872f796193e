"""Checking what a caller hands to ``Simulation.from_arrays``: every fault at once, before anything is allocated."""

from __future__ import annotations

import hashlib
import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ecsim.grid import SHAPE_ORDERS, Grid
from ecsim.units import LARGEST

SPECIES_KEYS = ("name", "charge_to_mass", "x", "v", "q")


def _number(value) -> float:
    """A real number as float; NaN for anything else, true and false and what is beyond LARGEST among it."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) <= LARGEST else math.nan


def _numbers(faults: list[str], name: str, value) -> tuple[float, ...] | None:
    """One number, or a list of them, as a tuple."""
    found = tuple(map(_number, np.ravel(np.asarray(value, dtype=object))))
    if not any(map(math.isnan, found)):
        return found
    faults.append(f"{name} = {value!r:.60}; numbers within ±{LARGEST:g} are allowed")
    return None


def _array(faults: list[str], what: str, value, shape: tuple | None) -> np.ndarray | None:
    """An array of numbers of a shape (None: of any), as float64."""
    try:
        a = np.asarray(value)
        if a.dtype.kind == "O":
            a = np.array(list(map(_number, a.flat)), dtype=np.float64).reshape(a.shape)
        if a.dtype.kind not in "iuf":
            raise TypeError
        a = np.array(a, dtype=np.float64)
    except (TypeError, ValueError):
        faults.append(f"{what} is not an array of numbers")
        return None
    if shape is not None and a.shape != shape:
        faults.append(f"{what} has shape {a.shape}; {shape} is allowed")
    elif not (np.abs(a) <= LARGEST).all():
        faults.append(f"{what} holds values that are not finite, or beyond ±{LARGEST:g}")
    else:
        return a
    return None


def _check_species(faults: list[str], k: int, given: dict, d: int | None) -> dict:
    name = str(given.get("name", f"species{k}"))
    what = f"species[{k}] '{name}'"
    for key in given:
        if key not in SPECIES_KEYS:
            faults.append(f"{what}: unknown key '{key}'; allowed are {', '.join(SPECIES_KEYS)}")
    missing = [key for key in SPECIES_KEYS[1:] if key not in given]
    if missing:
        faults.append(f"{what}: missing {', '.join(missing)}")
        return {}
    qm = _number(given["charge_to_mass"])
    if math.isnan(qm) or qm == 0.0:
        faults.append(f"{what}: charge_to_mass = {given['charge_to_mass']!r:.60}; a number within ±{LARGEST:g} other "
                      "than 0 is allowed")
    count = len(np.atleast_1d(np.asarray(given["x"], dtype=object)))
    x = _array(faults, f"{what}: x", given["x"] if count else np.zeros((0, d or 1)), d and (count, d))
    v = _array(faults, f"{what}: v", given["v"] if count else np.zeros((0, 3)), (count, 3))
    scalar = np.ndim(given["q"]) == 0
    q = _array(faults, f"{what}: q", given["q"], () if scalar else (count,))
    if q is not None and (q * qm < 0).any():
        faults.append(f"{what}: q and charge_to_mass differ in sign, which is a negative mass")
    return {"name": name, "charge_to_mass": qm, "x": x, "v": v, "q": float(q) if scalar and q is not None else q}


def check_arrays(*, cells, size, shape, species, E, B, faults=()) -> tuple[Grid, list[dict], Any, Any]:
    """Checked and converted arguments of ``Simulation.from_arrays``; faults : found already, told with the others.

    Returns the grid, the species (x (P, d), v (P, 3), q (P,) or float) and the owned fields (3, *cells), all float64.
    Raises ValueError listing every fault.
    """
    faults = [str(fault) for fault in faults]
    grid = None
    box = _numbers(faults, "cells", cells), _numbers(faults, "size", size)
    if None not in box:
        try:
            grid = Grid(*box, SHAPE_ORDERS[shape] if shape in tuple(SHAPE_ORDERS) else 1)
            if min(grid.spacing) < 1 / LARGEST:
                faults.append(f"size = {size!r} gives cells too small to compute with")
        except ValueError as error:
            faults.append(str(error))
    fields = [_array(faults, name, a, grid and (3, *grid.cells)) for name, a in (("E", E), ("B", B))]
    species = list(species) if isinstance(species, Iterable) else [species]
    if not all(isinstance(s, Mapping) for s in species):
        faults.append(f"species must be a list of dicts with {', '.join(SPECIES_KEYS)}")
        species = []
    checked = [_check_species(faults, k, dict(s), grid and grid.d) for k, s in enumerate(species)]
    names = [s["name"] for s in checked if s]
    faults += [f"species name '{n}' is given {names.count(n)} times" for n in sorted(set(names)) if names.count(n) > 1]
    if faults or grid is None:
        raise ValueError("; ".join(faults))
    return grid, checked, fields[0], fields[1]


def fingerprint(*given) -> bytes:
    """A hash of arrays and plain values, however nested: that of other ranks is the same if they are given the same."""
    found = hashlib.sha256()
    for value in given:
        if isinstance(value, np.ndarray):
            found.update(repr((value.shape, value.dtype)).encode())
            found.update(np.ascontiguousarray(value).view(np.uint8).data if value.size else b"")
        elif isinstance(value, Mapping):
            found.update(fingerprint(*value.keys()) + fingerprint(*value.values()))
        elif isinstance(value, (list, tuple)):
            found.update(fingerprint(*value))
        else:
            found.update(repr(value).encode())
    return found.digest()
