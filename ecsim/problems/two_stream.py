"""Two cold electron beams ±v₀ along x that excite each other: the two-stream instability.

Both beams have half the density n₀ unless the deck says otherwise; a small modulation of their velocities
with ``mode`` waves in the box starts the instability.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ecsim.grid import Block
from ecsim.keys import key
from ecsim.particles.recipe import Recipe
from ecsim.problems import common

species_keys = ("density", "thermal_velocity")
BEAM_DENSITY = 0.5


@dataclass(frozen=True)
class Params:
    """Keys of [problem] for ``two_stream``."""

    velocity: float = key(0.1, unit="c", low=0, exclusive_low=True, help="Beam speed v₀, along +x and −x")
    mode: int = key(1, low=1, help="Waves of the modulation in the box along x")
    perturbation: float = key(1e-4, low=0, help="Modulation of the beam velocity relative to v₀")


def faults(deck) -> list[tuple[str, str]]:
    """Two species, a mode that the grid carries."""
    mode = (deck.problem.params.mode,) + (0,) * (len(deck.grid.cells) - 1)
    found = common.count_faults(deck, 2, "the beam along +x, then the beam along −x")
    return found + common.mode_faults(deck, mode) + common.lattice_faults(deck)


def fields(block: Block, deck):
    """No fields: E and B (3, *cells) are zero."""
    return common.zero_fields(block)


def recipes(deck) -> tuple[Recipe, ...]:
    """The beams, v_x = v₀(±1 + ε sin kx)."""
    flows = (_flow(deck, 1.0), _flow(deck, -1.0))
    return tuple(common.uniform(deck, k, flow, BEAM_DENSITY) for k, flow in enumerate(flows))


def _flow(deck, sign: float):
    """Velocity profile of one beam."""
    p = deck.problem.params
    wave = 2.0 * np.pi * p.mode / deck.grid.size[0]

    def flow(x):
        """Velocity (3, P) at positions (d, P)."""
        along = p.velocity * (sign + p.perturbation * np.sin(wave * x[0]))
        return np.stack([along, np.zeros_like(along), np.zeros_like(along)])

    return flow


def reference(deck):
    """The beams by name."""
    numbers = common.uniform_reference(deck, BEAM_DENSITY)
    for s in numbers.values():
        s["drift"] = deck.problem.params.velocity
    return numbers


def magnetic_field(deck) -> float:
    """|B| = 0."""
    return 0.0


def theory(deck) -> tuple[common.Theory, ...]:
    """Growth of the mode in the continuum, and in the scheme with its time step and shape function."""
    p, dx = deck.problem.params, deck.grid.size[0] / deck.grid.cells[0]
    wave = 2.0 * np.pi * p.mode / deck.grid.size[0]
    strength = [common.plasma_frequency_squared(s, BEAM_DENSITY) for s in deck.species]
    order = {"cic": 1, "tsc": 2}[deck.grid.shape]
    spread = float(np.sinc(wave * dx / (2.0 * np.pi))) ** (2 * (order + 1))
    numeric = growth_rate(wave * p.velocity, [spread * w for w in strength], deck.time.dt)
    return (
        common.Theory("continuum", "electric", growth_rate=growth_rate(wave * p.velocity, strength)),
        common.Theory("scheme", "electric", growth_rate=numeric),
    )


def growth_rate(kv: float, strength, dt: float | None = None) -> float:
    """Growth rate of cold beams with ω_pj² = ``strength`` and Doppler shifts ±``kv``, largest root or 0.

    Continuum: 1 = Σ ω_pj²/Ω_j², Ω_j = ω − k·u_j. The scheme at θ = ½ (particles pushed at n+½ by the mean of
    E^n and E^{n+1}, current from the mean velocity and from the displaced charge) gives in its place

        1 = Σ (ω_pj Δt/2)² cot(½ωΔt) [cot(½Ω_jΔt) + ½k·u_jΔt / sin²(½Ω_jΔt)],

    where ω_pj² carries the square of the shape function's transform sinc^{order+1}(½kΔx) (first Brillouin
    zone only; the grid's aliases are left out).
    """
    shifts = np.array([kv, -kv])
    if dt is None:
        polynomial = np.polymul([1.0, -shifts[0]], [1.0, -shifts[0]])
        other = np.polymul([1.0, -shifts[1]], [1.0, -shifts[1]])
        equation = np.polysub(np.polymul(polynomial, other), strength[0] * other)
        equation = np.polysub(equation, strength[1] * polynomial)
        return max(0.0, float(np.max(np.roots(equation).imag)))
    return _scheme_growth_rate(shifts, np.asarray(strength), dt)


def _scheme_growth_rate(shifts, strength, dt: float) -> float:
    """Root of the scheme's relation by Newton's method from the continuum's."""
    start = growth_rate(shifts[0], strength)
    if start == 0.0:
        return 0.0

    def excess(omega: complex) -> complex:
        """What the dispersion relation lacks to 0 at a frequency."""
        doppler = 0.5 * dt * (omega - shifts)
        response = 1.0 / np.tan(doppler) + 0.5 * dt * shifts / np.sin(doppler) ** 2
        return complex(np.sum(strength * (0.5 * dt) ** 2 * response) / np.tan(0.5 * dt * omega) - 1.0)

    omega, step = 1j * start, 1e-6
    for _ in range(50):
        slope = (excess(omega + step) - excess(omega - step)) / (2.0 * step)
        change = excess(omega) / slope
        omega -= change
        if abs(change) < 1e-13:
            break
    return omega.imag
