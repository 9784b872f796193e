"""Checking what a caller hands to ``Simulation.from_arrays``: every fault at once, before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ecsim.grid import SHAPE_ORDERS, Grid

SPECIES_KEYS = ("name", "charge_to_mass", "x", "v", "q")


def _finite_array(faults: list[str], what: str, value, shape: tuple) -> np.ndarray | None:
    try:
        a = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        faults.append(f"{what} is not an array of numbers")
        return None
    if a.shape != shape:
        faults.append(f"{what} has shape {a.shape}; {shape} is allowed")
    elif not np.isfinite(a).all():
        faults.append(f"{what} holds values that are not finite")
    else:
        return a
    return None


def _check_species(faults: list[str], k: int, given: dict, d: int) -> dict:
    name = str(given.get("name", f"species{k}"))
    what = f"species[{k}] '{name}'"
    for key in given:
        if key not in SPECIES_KEYS:
            faults.append(f"{what}: unknown key '{key}'; allowed are {', '.join(SPECIES_KEYS)}")
    missing = [key for key in SPECIES_KEYS[1:] if key not in given]
    if missing:
        faults.append(f"{what}: missing {', '.join(missing)}")
        return {}
    qm = given["charge_to_mass"]
    try:
        qm = float(qm)
    except (TypeError, ValueError):
        qm = math.nan
    if not math.isfinite(qm) or qm == 0.0:
        faults.append(f"{what}: charge_to_mass = {given['charge_to_mass']!r}; a finite number other than 0 is allowed")
    count = len(np.atleast_1d(np.asarray(given["x"], dtype=object)))
    x = _finite_array(faults, f"{what}: x", given["x"] if count else np.zeros((0, d)), (count, d))
    v = _finite_array(faults, f"{what}: v", given["v"] if count else np.zeros((0, 3)), (count, 3))
    scalar = np.ndim(given["q"]) == 0
    q = _finite_array(faults, f"{what}: q", given["q"], () if scalar else (count,))
    if q is not None and math.isfinite(qm) and (q * qm < 0).any():
        faults.append(f"{what}: q and charge_to_mass differ in sign, which is a negative mass")
    return {"name": name, "charge_to_mass": qm, "x": x, "v": v, "q": float(q) if scalar and q is not None else q}


def check_arrays(*, cells, size, dt, theta, shape, species, E, B, tolerance,
                 faults=()) -> tuple[Grid, list[dict], Any, Any]:
    """Checked and converted arguments of ``Simulation.from_arrays``; faults : found already, told with the others.

    Returns the grid, the species (x (P, d), v (P, 3), q (P,) or float) and the owned fields (3, *cells), all float64.
    Raises ValueError listing every fault.
    """
    faults = [str(fault) for fault in faults]
    order = SHAPE_ORDERS.get(shape) if isinstance(shape, str) else None
    if order is None:
        faults.append(f"shape = {shape!r}; {' or '.join(SHAPE_ORDERS)} is allowed")
    ranges = (("dt", dt, 0.0, math.inf), ("theta", theta, 0.5, 1.0), ("tolerance", tolerance, 0.0, 1.0))
    for name, value, low, high in ranges:
        fits = isinstance(value, (int, float, np.number)) and math.isfinite(value) and low <= value <= high
        if not fits or (name != "theta" and value <= 0):
            zero = "" if name == "theta" else ", not 0,"
            faults.append(f"{name} = {value!r}; a number in [{low:g}, {high:g}]{zero} is allowed")
    try:
        grid = Grid(tuple(np.atleast_1d(cells)), tuple(np.atleast_1d(size)), order or 1)
    except (TypeError, ValueError) as error:
        raise ValueError("; ".join([*faults, str(error)])) from None
    fields = [_finite_array(faults, name, a, (3, *grid.cells)) for name, a in (("E", E), ("B", B))]
    species = list(species) if isinstance(species, Iterable) else [species]
    if not all(isinstance(s, Mapping) for s in species):
        faults.append(f"species must be a list of dicts with {', '.join(SPECIES_KEYS)}")
        species = []
    checked = [_check_species(faults, k, dict(s), grid.d) for k, s in enumerate(species)]
    names = [s["name"] for s in checked if s]
    faults += [f"species name '{n}' is given {names.count(n)} times" for n in sorted(set(names)) if names.count(n) > 1]
    if faults:
        raise ValueError("; ".join(faults))
    return grid, checked, fields[0], fields[1]
