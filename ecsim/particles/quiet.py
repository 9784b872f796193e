"""The quiet start: a lattice of places in a cell, and a set of velocities that is Maxwellian without noise.

Every cell of a species gets the same places and the same velocities, so that particles of equal velocity form
beams of one particle per cell, whose charge and current on the grid are uniform to rounding wherever they stream.
The velocities are bit-reversed numbers and their kin in base 3 and 5 (the Halton sequence), through the inverse
normal distribution function, in pairs ±v of neighbouring places, and turned and scaled so that the set has the
mean and the pressure tensor of the Maxwellian exactly (Birdsall & Langdon 1985, "Plasma Physics via Computer
Simulation", ch. 16). The price: for δv the spacing of the velocities, phases recur after 2π/(k δv).
"""

from __future__ import annotations

import numpy as np

from ecsim.particles import draws
from ecsim.particles.recipe import LEAST_QUIET


def positions(counts: tuple[int, ...]) -> np.ndarray:
    """Fractions (d, ΠN) of the lattice points of a cell, the last dimension fastest."""
    axes = [(np.arange(n) + 0.5) / n for n in counts]
    return np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")])


def deviates(shift: np.ndarray, count: int, warm: bool = True) -> np.ndarray:
    """Normal deviates (3, count) with mean 0 and covariance 1 exactly, from points shifted by ``shift`` (3,).

    A cold species (not ``warm``) needs none and gets zeros.

    Raises
    ------
    ValueError : if there are too few particles to carry a temperature in three directions.
    """
    if not warm:
        return np.zeros((3, count))
    if count < LEAST_QUIET:
        raise ValueError(f"{count} particles per cell; a warm quiet start needs at least {LEAST_QUIET}")
    pairs = (count + 1) // 2
    points = np.stack([halton(base, pairs) for base in (2, 3, 5)])
    z = np.stack([draws.quantiles(u) for u in (points + shift[:, None]) % 1.0])
    z = np.stack([z, -z], axis=2).reshape(3, 2 * pairs)[:, :count]
    z -= z.mean(axis=1, keepdims=True)
    return np.linalg.solve(np.linalg.cholesky(z @ z.T / count), z)


def choices(count: int) -> np.ndarray:
    """Evenly spread numbers (count,) in [0, 1), equal within a pair: multiples of the golden ratio."""
    return np.repeat(np.arange((count + 1) // 2) * (0.5 * (5.0**0.5 - 1.0)) % 1.0, 2)[:count]


def halton(base: int, count: int) -> np.ndarray:
    """The numbers (count,) whose digits in ``base`` are those of 0, 1, 2, … mirrored at the radix point."""
    left, digit, points = np.arange(count), 1.0 / base, np.zeros(count)
    while left.any():
        points += digit * (left % base)
        left, digit = left // base, digit / base
    return points
