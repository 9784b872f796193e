"""A small thermal plasma, run in pieces, and its state as one dictionary of arrays to compare."""

from __future__ import annotations

import numpy as np

from ecsim.resume import arrays_of
from ecsim.simulation import Simulation

DECK = {
    "grid": {"cells": [6, 5], "size": [0.9, 0.7]},
    "time": {"dt": 0.2, "steps": 12},
    "problem": {"name": "thermal", "magnetic_field": [0.0, 0.1, 0.3]},
    "species": [
        {"name": "ions", "charge_to_mass": 1.0, "particles_per_cell": 5, "thermal_velocity": 0.1},
        {"name": "electrons", "charge_to_mass": -25.0, "particles_per_cell": 7, "thermal_velocity": 0.4},
    ],
    "particles": {"ids": True, "seed": 3},
    "backend": {"device": "cpu", "threads": 1},
}

EVERYTHING = [
    {"kind": "fields", "every": 2, "precision": "float64", "records": ["E", "B", "rho", "J", "JE", "moments",
                                                                       "u_ions"]},
    {"kind": "fields", "name": "corner", "every": 3, "region": [0.3, 0.9, 0.0, 0.42], "stride": [2, 1]},
    {"kind": "particles", "every": 2, "precision": "float64"},
    {"kind": "particles", "name": "some", "every": 3, "every_id": 3, "species": ["electrons"],
     "region": [0.1, 0.6, 0.0, 0.7]},
    {"kind": "probe", "every": 1, "position": [0.3, 0.28], "moments": True},
    {"kind": "cut", "name": "line", "every": 2, "along": ["y"], "at": [0.3], "records": ["E", "B", "n_ions"]},
    {"kind": "cut", "name": "plane", "every": 2, "along": ["x", "y"], "records": ["B"]},
    {"kind": "spectrum", "every": 2, "record": "E", "along": ["x"]},
    {"kind": "spectrum", "name": "both", "every": 2, "record": "n_electrons", "along": ["x", "y"]},
    {"kind": "histogram", "every": 2, "species": "electrons", "axes": ["vx", "vy"], "low": [-3, -3], "high": [3, 3],
     "bins": [6, 5]},
    {"kind": "reconnection", "every": 2},
    {"kind": "tracers", "every": 1, "species": "ions", "every_id": 7},
    {"kind": "health", "every": 2},
]


def run(directory, steps: int, diagnostic=(), **more) -> Simulation:
    """Run the deck, with diagnostics, to ``steps`` in a directory and close it."""
    simulation = Simulation.from_deck({**DECK, "diagnostic": list(diagnostic)}, output=directory, steps=steps, **more)
    simulation.run()
    return simulation


def state(simulation: Simulation) -> dict[str, np.ndarray]:
    """Everything that decides how a run goes on."""
    return {name: np.array(a) for name, a in arrays_of(simulation.plasma)}


def assert_same(first: dict, second: dict) -> None:
    """Bit for bit."""
    assert first.keys() == second.keys()
    for name, a in first.items():
        np.testing.assert_array_equal(a, second[name], err_msg=name)
