"""Runs and what is read off them."""

from __future__ import annotations

import numpy as np

from ecsim.deck import load_deck
from ecsim.diagnostics.modes import mode_amplitude
from ecsim.simulation import Simulation


def simulation(name: str, changes: dict | None = None) -> Simulation:
    """A shipped deck with other values, on the CPU, without output."""
    return Simulation.from_deck(load_deck(name, {"backend.device": "cpu", **(changes or {})}))


def mode_history(run: Simulation, steps: int, component: int, mode) -> np.ndarray:
    """Complex amplitude of a mode of one component of E at times 0 … steps·Δt."""
    history = [mode_amplitude(run.E[component], mode)]
    for _ in range(steps):
        run.step()
        history.append(mode_amplitude(run.E[component], mode))
    return np.array(history)


def swing_frequency(history: np.ndarray, dt: float) -> float:
    """ω of a history ∝ cos(ωt + φ), from a(t + Δt) + a(t − Δt) = 2 cos(ωΔt) a(t); exact where ωΔt < π."""
    middle, sides = history[1:-1], history[2:] + history[:-2]
    cosine = 0.5 * np.vdot(middle, sides).real / np.vdot(middle, middle).real
    return float(np.arccos(cosine) / dt)


def energy_history(run: Simulation, steps: int) -> dict[str, np.ndarray]:
    """time, electric, magnetic, total and kinetic (steps + 1, species) at 0 … steps·Δt."""
    rows = []
    for step in range(steps + 1):
        if step:
            run.step()
        e = run.energies()
        rows.append((run.time, e["electric"], e["magnetic"], e["total"], list(e["kinetic"].values())))
    columns = list(zip(*rows, strict=True))
    names = ("time", "electric", "magnetic", "total", "kinetic")
    return {name: np.array(column) for name, column in zip(names, columns, strict=True)}
