"""What the problems share: uniform Maxwellian species from the deck, plane waves, lines of theory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ecsim.grid import Block
from ecsim.particles.recipe import LEAST_QUIET, Population, Profile, Recipe, lattice

AXES = "xyz"


@dataclass(frozen=True)
class Theory:
    """How an amplitude behaves: ∝ exp(γt) cos(ωt), so its energy grows with 2γ and beats with 2ω.

    ``label`` says which approximation it is, ``quantity`` which energy shows it ("electric" or "magnetic");
    ``growth_rate`` γ and ``frequency`` ω are in units of ω_pi.
    """

    label: str
    quantity: str
    growth_rate: float = 0.0
    frequency: float = 0.0


@dataclass(frozen=True)
class Equilibrium:
    """A plasma that varies along one axis only and would stay as it starts, were it not for a seed and for noise.

    ``field`` gives B (3, P) at coordinates (P,) along the axis ``across``; density, current and pressure are those of
    the recipes. ``clear`` is a place in the box, one coordinate per dimension, far from all seeds.
    """

    label: str
    across: int
    field: Callable[[np.ndarray], np.ndarray]
    clear: tuple[float, ...]


def charge(species) -> float:
    """Charge of a physical particle: the sign of its charge-to-mass ratio."""
    return math.copysign(1.0, species.charge_to_mass)


def density(species, default: float = 1.0) -> float:
    """Number density of a uniform species in n₀."""
    return default if species.density is None else species.density


def thermal_velocity(species) -> tuple[float, float, float]:
    """Thermal velocities √(T/m) along x, y, z in c; 0 where the deck gives none."""
    v = species.thermal_velocity
    if v is None:
        return (0.0, 0.0, 0.0)
    return tuple(v) if isinstance(v, (tuple, list)) else (v, v, v)


def drift(species) -> tuple[float, float, float]:
    """Mean velocity in c; 0 where the deck gives none."""
    return (0.0, 0.0, 0.0) if species.drift is None else tuple(species.drift)


def plasma_frequency_squared(species, default_density: float = 1.0) -> float:
    """ω_p² = n q²/m in units of ω_pi² (|q| = 1)."""
    return density(species, default_density) * abs(species.charge_to_mass)


def uniform(deck, k: int, flow: Profile | None = None, default_density: float = 1.0) -> Recipe:
    """Species k as one uniform Maxwellian from its table; ``flow`` replaces its drift by a profile."""
    s = deck.species[k]
    one = Population(density(s, default_density), flow or drift(s), thermal_velocity(s))
    return Recipe(charge(s), (one,), shared_positions(deck, k))


def shared_positions(deck, k: int) -> int:
    """The species whose positions species k takes: the first with as many particles per cell.

    Equal and opposite species then cancel exactly at the start.
    """
    return next(j for j, s in enumerate(deck.species) if s.per_cell == deck.species[k].per_cell)


def uniform_reference(deck, default_density: float = 1.0) -> dict[str, dict[str, float]]:
    """Density, hottest thermal velocity and drift speed of uniform species, by name."""
    return {
        s.name: {
            "density": density(s, default_density),
            "thermal_velocity": max(thermal_velocity(s)),
            "drift": math.hypot(*drift(s)),
        }
        for s in deck.species
    }


def lattice_faults(deck, warm: bool = False) -> list[tuple[str, str]]:
    """Species whose quiet start has no lattice, or too few particles for a temperature."""
    found = []
    for s in deck.species:
        if s.start == "quiet":
            key = f"species.{s.name}.particles_per_cell"
            try:
                lattice(s.particles_per_cell, len(deck.grid.cells))
            except ValueError as error:
                found.append((key, str(error)))
            if s.per_cell < LEAST_QUIET and (warm or any(thermal_velocity(s))):
                found.append((key, f"must be at least {LEAST_QUIET} for a warm quiet start"))
    return found


def count_faults(deck, needed: int, which: str) -> list[tuple[str, str]]:
    """A wrong number of species."""
    if len(deck.species) == needed:
        return []
    given = len(deck.species)
    return [("species", f"{given} given; the problem {deck.problem.name} needs {needed}: {which}")]


def mode_faults(deck, mode) -> list[tuple[str, str]]:
    """Mode numbers that are not one per dimension, all zero, or not below the Nyquist number of the grid."""
    cells = deck.grid.cells
    if len(mode) != len(cells):
        return [("problem.mode", f"has {len(mode)} entries; one per dimension ({len(cells)}) is needed")]
    if not any(mode):
        return [("problem.mode", "is zero everywhere; at least one entry must not be")]
    return [
        ("problem.mode", f"{m} waves along {AXES[k]}; fewer than cells/2 = {n / 2:g} are allowed")
        for k, (m, n) in enumerate(zip(mode, cells, strict=True))
        if m and 2 * abs(m) >= n
    ]


def wave_vector(deck, mode) -> np.ndarray:
    """k (d,) of a mode of the periodic box."""
    return 2.0 * np.pi * np.asarray(mode, dtype=float) / np.asarray(deck.grid.size)


def phase(block: Block, mode, offset: float) -> np.ndarray:
    """k·x (*cells) at the block's owned nodes (offset 0) or centres (offset ½)."""
    total = np.zeros(block.cells)
    for k, m in enumerate(mode):
        i = block.origin[k] + np.arange(block.cells[k]) + offset
        shape = [1] * block.d
        shape[k] = -1
        total = total + (2.0 * np.pi * m / block.grid.cells[k] * i).reshape(shape)
    return total


def zero_fields(block: Block) -> tuple[np.ndarray, np.ndarray]:
    """E (3, *cells) at nodes and B (3, *cells) at centres, both zero."""
    return np.zeros((3, *block.cells)), np.zeros((3, *block.cells))
