"""What a species is made of at the start, as plain values that `loading` turns into particles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

LEAST_QUIET = 8
"""Fewest particles per cell of a warm quiet start: four pairs ±v, to span three directions."""

SAMPLES = 1024
"""Places in the box at which a profile is looked at."""

Profile = Callable[[np.ndarray], np.ndarray]
"""A function of positions ``x`` of shape (d, P) in c/ω_pi."""


@dataclass(frozen=True)
class Sheet:
    """The profile sech²((x − place)/half_thickness) along ``axis``, which loading evaluates in its own loop."""

    axis: int
    place: float
    half_thickness: float

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Values (P,) at positions (d, P), without overflow."""
        e = np.exp(-2.0 * np.abs((x[self.axis] - self.place) / self.half_thickness))
        return 4.0 * e / (1.0 + e) ** 2


@dataclass(frozen=True)
class Population:
    """One Maxwellian: number density, drift and thermal velocity √(T/m) along x, y, z.

    ``density`` is a number or a profile (d, P) -> (P,) in units of n₀; ``drift`` three numbers or a profile
    (d, P) -> (3, P), and ``thermal_velocity`` three numbers, in units of c.
    """

    density: float | Profile = 1.0
    drift: Sequence[float] | Profile = (0.0, 0.0, 0.0)
    thermal_velocity: Sequence[float] = (0.0, 0.0, 0.0)

    def at(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Density (P,) and drift (3, P) at positions ``x`` (d, P)."""
        density = self.density(x) if callable(self.density) else self.density
        drift = self.drift(x) if callable(self.drift) else np.asarray(self.drift, dtype=float)[:, None]
        return np.broadcast_to(density, x.shape[1:]), np.broadcast_to(drift, (3, x.shape[1]))


@dataclass(frozen=True)
class Recipe:
    """What a species consists of.

    ``charge`` is the charge of a physical particle (±1 in units of e). ``positions_of`` is the number of the
    species whose position draws are used instead of the species' own: species placed on each other make the
    initial charge density vanish, so that E = 0 obeys Gauss's law from the start.

    Raises
    ------
    ValueError : if one of several populations has a drift that varies in space.
    """

    charge: float
    populations: tuple[Population, ...]
    positions_of: int | None = None

    def __post_init__(self) -> None:
        if len(self.populations) > 1 and any(callable(p.drift) for p in self.populations):
            raise ValueError("only a species of a single population may have a drift that varies in space")

    @property
    def is_warm(self) -> bool:
        """Whether any particle has a thermal velocity."""
        return any(any(p.thermal_velocity) for p in self.populations)

    def uniform_weight(self, volume: float, per_cell: int) -> float | None:
        """The macro-charge all particles share, or None where the density varies in space."""
        if any(callable(p.density) for p in self.populations):
            return None
        return self.charge * sum(p.density for p in self.populations) * volume / per_cell

    def moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Density n (P,), flux n⟨v⟩ (3, P) and the variance n⟨(v_i − ⟨v_i⟩)²⟩ (3, P) at positions ``x`` (d, P)."""
        parts = [(*p.at(x), np.asarray(p.thermal_velocity, dtype=float)[:, None]) for p in self.populations]
        n = sum(density for density, _, _ in parts)
        flux = sum(density * u for density, u, _ in parts)
        second = sum(density * (u**2 + spread**2) for density, u, spread in parts)
        return n, flux, second - np.divide(flux**2, n, out=np.zeros_like(flux), where=n > 0)

    def distribution(self, v: np.ndarray, axis: int, x: np.ndarray) -> np.ndarray:
        """Density per velocity (V,) at the values ``v`` (V,) of component ``axis``, mean over positions ``x`` (d, P).

        Raises
        ------
        ValueError : if a population is cold along that axis.
        """
        total = np.zeros(len(v))
        for p in self.populations:
            spread = p.thermal_velocity[axis]
            if spread <= 0.0:
                raise ValueError(f"a population is cold along {'xyz'[axis]}; its distribution is a spike")
            density, drift = p.at(x)
            norm = 1.0 / (math.sqrt(2.0 * math.pi) * spread)
            total += [float(np.mean(density * np.exp(-0.5 * ((value - drift[axis]) / spread) ** 2))) * norm
                      for value in v]
        return total


def spread_over(size: Sequence[float], count: int) -> np.ndarray:
    """Positions (d, count) spread evenly over a box: each coordinate takes ``count`` different values."""
    fractions = np.outer([1.0, 17.0, 67.0][: len(size)], np.arange(count) / count) % 1.0
    return np.asarray(size, dtype=float)[:, None] * fractions


def lattice(particles_per_cell: int | Sequence[int], d: int) -> tuple[int, ...]:
    """Lattice points per dimension of a quiet start.

    Raises
    ------
    ValueError : unless the number is a d-th power or a list of one count per active dimension.
    """
    if isinstance(particles_per_cell, (int, np.integer)):
        side = round(particles_per_cell ** (1.0 / d))
        if side**d != particles_per_cell:
            raise ValueError(
                f"particles_per_cell = {particles_per_cell} is not a whole number to the power {d}; "
                f"a quiet start in {d} dimensions needs that, or one count per dimension, e.g. {[side] * d}"
            )
        return (side,) * d
    counts = tuple(int(n) for n in particles_per_cell)
    if len(counts) != d or any(n < 1 for n in counts):
        raise ValueError(f"particles_per_cell = {list(counts)}; {d} positive counts are needed")
    return counts


def count_per_cell(particles_per_cell: int | Sequence[int]) -> int:
    """Macro-particles per cell, whether given as a number or as counts per dimension."""
    if isinstance(particles_per_cell, (int, np.integer)):
        return int(particles_per_cell)
    return math.prod(particles_per_cell)


def speeds(recipe: Recipe, size: Sequence[float]) -> tuple[list[float], list[float]]:
    """Largest thermal and drift speed of a species along each active dimension; profiles are sampled in the box."""
    d = len(size)
    drifts = [p.at(spread_over(size, SAMPLES))[1] for p in recipe.populations]
    thermal = np.max([p.thermal_velocity[:d] for p in recipe.populations], axis=0)
    drift = np.max([np.abs(profile[:d]).max(axis=1) for profile in drifts], axis=0)
    return thermal.tolist(), drift.tolist()
