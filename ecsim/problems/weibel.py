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
        """Σ ω_p² v_th² along an axis."""
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
        """Velocity (3, P) at positions (d, P)."""
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
    """Growth of the seeded mode by kinetic theory, and in the scheme with its time step and grid."""
    wave, grid = 2.0 * np.pi * deck.problem.params.mode / deck.grid.size[0], deck.grid
    axis = current_axis(deck)
    species = [
        (common.plasma_frequency_squared(s), common.thermal_velocity(s)[0], common.thermal_velocity(s)[axis])
        for s in deck.species
    ]
    scheme = Scheme(deck.time.dt, grid.size[0] / grid.cells[0], {"cic": 1, "tsc": 2}[grid.shape])
    return (
        common.Theory("kinetic theory", "magnetic", growth_rate=growth_rate(wave, species)),
        common.Theory("kinetic theory of the scheme", "magnetic", growth_rate=growth_rate(wave, species, scheme)),
    )


@dataclass(frozen=True)
class Scheme:
    """What the discrete equations (θ = ½) do to a growing wave: time step, cell width along x, shape order."""

    dt: float
    dx: float
    order: int

    def rate(self, gamma: float) -> float:
        """Γ in place of γ in Maxwell's equations: differences over means in time."""
        return 2.0 / self.dt * np.tanh(0.5 * gamma * self.dt)

    def wave_number(self, k: float) -> float:
        """κ in place of k in the curls."""
        return 2.0 / self.dx * np.sin(0.5 * k * self.dx)

    def coupling(self, k: float) -> float:
        """Factor of ω_p²: the shape function's transform, once in the gather and once in the deposit."""
        return float(np.sinc(0.5 * k * self.dx / np.pi)) ** (2 * (self.order + 1))

    def magnetic_force(self, gamma: float, k: float) -> float:
        """B^n at nodes over the B of Faraday's law at the particles' time n+½: first order in Δt."""
        late = gamma * self.dt / np.expm1(gamma * self.dt)
        return late * self.wave_number(k) / k * np.cos(0.5 * k * self.dx)


def growth_rate(k: float, species, scheme: Scheme | None = None) -> float:
    """Growth rate γ of the purely growing transverse mode of bi-Maxwellian species at rest; 0 if stable.

    ``species`` holds (ω_p², thermal velocity along k, along the current). With ω = iγ (Weibel 1959, Phys.
    Rev. Lett. 2, 83; Krall & Trivelpiece 1973, "Principles of Plasma Physics", sec. 9.10)

        γ² + k² = Σ ω_p² [A (1 − W) − W], A = v_⊥²/v_∥² − 1, W = √π y erfcx(y), y = γ/(√2 k v_∥).

    The scheme has Γ² + κ² on the left, S²Γ/γ times ω_p² and b A in place of A: the terms of `Scheme`. It is of
    first order in Δt because the magnetic force of a step takes B^n, not B^{n+½}.
    """
    from scipy.optimize import brentq
    from scipy.special import erfcx

    def excess(gamma: float) -> float:
        """What the dispersion relation lacks to 0 at a growth rate."""
        rate, kappa, strength, force = gamma, k, 1.0, 1.0
        if scheme is not None:
            rate, kappa = scheme.rate(gamma), scheme.wave_number(k)
            strength, force = scheme.coupling(k) * rate / gamma, scheme.magnetic_force(gamma, k)
        total = -(rate**2) - kappa**2
        for omega_squared, along, across in species:
            y = gamma / (np.sqrt(2.0) * k * along)
            streaming = np.sqrt(np.pi) * y * erfcx(y)
            drive = force * ((across / along) ** 2 - 1.0) * (1.0 - streaming)
            total += strength * omega_squared * (drive - streaming)
        return total

    bound = np.sqrt(sum(w * (across / along) ** 2 for w, along, across in species))
    least = 1e-9 * bound
    return brentq(excess, least, bound, xtol=1e-14) if excess(least) > 0.0 else 0.0
