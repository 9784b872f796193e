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
