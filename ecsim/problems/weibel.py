"""An electron plasma hotter across x than along it: the Weibel instability makes its own magnetic field.

The wave vector is along x; currents along the hotter of y and z filament and grow a magnetic field across
both. The ions are a fixed background unless the deck gives them as a species.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ecsim.grid import Block
from ecsim.keys import key
from ecsim.particles.recipe import Recipe
from ecsim.problems import common

species_keys = ("density", "thermal_velocity")


@dataclass(frozen=True)
class Params:
    """Keys of [problem] for ``weibel``."""

    mode: int = key(1, low=1, help="Waves in the box along x of the magnetic seed, and of the theory line")
    perturbation: float = key(1e-4, unit="m_i c ω_pi/e", low=0, help="Amplitude of the magnetic seed")


def faults(deck) -> list[tuple[str, str]]:
    """At least one species, thermal motion along x, a mode that the grid carries."""
    mode = (deck.problem.params.mode,) + (0,) * (len(deck.grid.cells) - 1)
    found = [] if deck.species else [("species", "none given; at least the electrons are needed")]
    for s in deck.species:
        if common.thermal_velocity(s)[0] <= 0.0:
            found.append((f"species.{s.name}.thermal_velocity", "must be above 0 along x"))
    return found + common.mode_faults(deck, mode) + common.lattice_faults(deck)


def current_axis(deck) -> int:
    """The hotter of y (1) and z (2): the direction of the growing current."""

    def drive(axis: int) -> float:
        return sum(
            common.plasma_frequency_squared(s) * common.thermal_velocity(s)[axis] ** 2 for s in deck.species
        )

    return 1 if drive(1) > drive(2) else 2


def fields(block: Block, deck):
    """The seed, (3, *cells) each: B ∝ cos(kx) across x and the current, and the E that makes it grow."""
    p, axis, (wave, gamma) = deck.problem.params, current_axis(deck), _growing_mode(deck)
    E, B = common.zero_fields(block)
    mode = (p.mode,) + (0,) * (block.d - 1)
    sign = 1.0 if axis == 2 else -1.0
    E[axis] = gamma / wave * p.perturbation * np.sin(common.phase(block, mode, 0.0))
    B[3 - axis] = sign * p.perturbation * np.cos(common.phase(block, mode, 0.5))
    return E, B


def recipes(deck) -> tuple[Recipe, ...]:
    """Uniform bi-Maxwellian species; the first carries the current of the seed."""
    rest = tuple(common.uniform(deck, k) for k in range(1, len(deck.species)))
    return (common.uniform(deck, 0, _seed_flow(deck)), *rest)


def _growing_mode(deck) -> tuple[float, float]:
    """Wave number and growth rate of the seeded mode."""
    return 2.0 * np.pi * deck.problem.params.mode / deck.grid.size[0], theory(deck)[0].growth_rate


def _seed_flow(deck):
    """Velocity profile whose current is ∇×B − ∂E/∂t of the seed, −(k + γ²/k) b sin(kx)."""
    (wave, gamma), axis, first = _growing_mode(deck), current_axis(deck), deck.species[0]
    current = -(wave + gamma**2 / wave) * deck.problem.params.perturbation
    speed = current / (common.charge(first) * common.density(first))

    def flow(x):
        v = np.zeros((3, x.shape[1]))
        v[axis] = speed * np.sin(wave * x[0])
        return v

    return flow


def reference(deck):
    """Density, thermal velocity and drift by species name."""
    return common.uniform_reference(deck)


def magnetic_field(deck) -> float:
    """Amplitude of the seed."""
    return deck.problem.params.perturbation


def theory(deck) -> tuple[common.Theory, ...]:
    """Kinetic growth rate of the seeded mode."""
    wave = 2.0 * np.pi * deck.problem.params.mode / deck.grid.size[0]
    axis = current_axis(deck)
    species = [
        (common.plasma_frequency_squared(s), common.thermal_velocity(s)[0], common.thermal_velocity(s)[axis])
        for s in deck.species
    ]
    return (common.Theory("kinetic theory", "magnetic", growth_rate=growth_rate(wave, species)),)


def growth_rate(k: float, species) -> float:
    """Growth rate γ of the purely growing transverse mode of bi-Maxwellian species at rest; 0 if stable.

    ``species`` holds (ω_p², thermal velocity along k, along the current). With ω = iγ (Weibel 1959, Phys.
    Rev. Lett. 2, 83; Krall & Trivelpiece 1973, "Principles of Plasma Physics", sec. 9.10)

        γ² + k² = Σ ω_p² [A − (A + 1) √π y erfcx(y)], A = v_⊥²/v_∥² − 1, y = γ/(√2 k v_∥),

    whose right side falls with γ, so that there is one root if k² < Σ ω_p² A.
    """
    from scipy.optimize import brentq
    from scipy.special import erfcx

    def excess(gamma: float) -> float:
        total = -(gamma**2) - k**2
        for strength, along, across in species:
            ratio, y = (across / along) ** 2, gamma / (np.sqrt(2.0) * k * along)
            total += strength * (ratio - 1.0 - ratio * np.sqrt(np.pi) * y * erfcx(y))
        return total

    if excess(0.0) <= 0.0:
        return 0.0
    bound = np.sqrt(sum(strength * (across / along) ** 2 for strength, along, across in species))
    return brentq(excess, 0.0, bound, xtol=1e-14)
