"""Two Harris current sheets in a periodic box, in pressure balance, with a pinch that starts reconnection.

With n along y (``normal``), B along x and the current along z, half-thickness λ, sheets at L_y/4 and 3L_y/4
(Harris 1962, Nuovo Cimento 23, 115):

    B_x(y) = B₀ [tanh((y−y₁)/λ) − tanh((y−y₂)/λ) − 1],
    n(y) = n₀ [sech²((y−y₁)/λ) + sech²((y−y₂)/λ)] + n_b,   n₀ (T_i + T_e) = ½B₀²,   n₀ = 1.

The sheet populations drift along z with u_s = ∓2T_s/(q_s B₀ λ) in the first and second sheet, so that
their current is ∇×B; the background does not drift. The magnetic field is the discrete curl of a vector
potential at nodes plus its mean, so ∇·B = 0 to rounding. The perturbation adds to the flux of each sheet

    δA_z = ± a B₀ λ exp(−½(x−x_s)²/ℓ² − ½(y−y_s)²/w²)

(made periodic) that pinches it at x_s: an X-point at L_x/4 of the first sheet and at 3L_x/4 of the second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ecsim.fields.operators import curl
from ecsim.grid import Block
from ecsim.keys import key
from ecsim.particles.recipe import Population, Recipe, Sheet
from ecsim.problems import common

species_keys = ()


@dataclass(frozen=True)
class Params:
    """Keys of [problem] for ``double_harris``."""

    magnetic_field: float = key(0.0195, unit="m_i c ω_pi/e", low=0, exclusive_low=True, help="Lobe field B₀")
    half_thickness: float = key(
        0.5, unit="d_i", low=0, exclusive_low=True, help="Half-thickness λ of a sheet"
    )
    background: float = key(0.2, unit="n0", low=0, help="Background density n_b")
    temperature_ratio: float = key(5.0, low=0, exclusive_low=True, help="T_i/T_e")
    perturbation: float = key(0.0, help="Flux a of the pinch in B₀λ; 0 keeps the equilibrium")
    perturbation_length: float = key(
        2.0, unit="d_i", low=0, exclusive_low=True, help="Extent ℓ of the pinch along the field"
    )
    perturbation_width: float = key(
        1.0, unit="d_i", low=0, exclusive_low=True, help="Extent w of the pinch across the sheet"
    )
    guide_field: float = key(0.0, unit="B0", help="Uniform field along the current, relative to B₀")
    normal: str = key("y", choices=("x", "y", "z"), help="Direction across the sheets, an active dimension")

    @property
    def across(self) -> int:
        """Axis across the sheets."""
        return common.AXES.index(self.normal)

    @property
    def along(self) -> int:
        """Axis of the lobe field."""
        return (self.across + 2) % 3

    @property
    def current(self) -> int:
        """Axis of the current."""
        return (self.across + 1) % 3


def faults(deck) -> list[tuple[str, str]]:
    """Ions and electrons, sheets across an active dimension, a pinch only where the field has a dimension."""
    p, d = deck.problem.params, len(deck.grid.cells)
    found = common.count_faults(deck, 2, "one of positive, one of negative charge")
    if not found and common.charge(deck.species[0]) == common.charge(deck.species[1]):
        found.append(("species", "both have the same sign of charge; one must be positive and one negative"))
    if p.across >= d:
        found.append(("problem.normal", f"must be an active dimension, one of {', '.join(common.AXES[:d])}"))
    elif p.perturbation and p.along >= d:
        found.append(("problem.perturbation", f"must be 0 where {common.AXES[p.along]} is not active"))
    return found + common.lattice_faults(deck, warm=True)


def sheets(deck) -> tuple[float, float]:
    """Places y₁, y₂ of the sheets."""
    length = deck.grid.size[deck.problem.params.across]
    return 0.25 * length, 0.75 * length


def temperature(deck, k: int) -> float:
    """T of species k from ½B₀² = T_i + T_e (n₀ = 1)."""
    p = deck.problem.params
    share = p.temperature_ratio if common.charge(deck.species[k]) > 0 else 1.0
    return 0.5 * p.magnetic_field**2 * share / (1.0 + p.temperature_ratio)


def drift_speed(deck, k: int) -> float:
    """Drift of species k along the current axis in the first sheet; the second sheet has the opposite one."""
    p = deck.problem.params
    charge = common.charge(deck.species[k])
    return -2.0 * temperature(deck, k) / (charge * p.magnetic_field * p.half_thickness)


def recipes(deck) -> tuple[Recipe, ...]:
    """Per species the two sheet populations and the background."""
    return tuple(_recipe(deck, k) for k in range(2))


def _recipe(deck, k: int) -> Recipe:
    p, s = deck.problem.params, deck.species[k]
    spread = (math.sqrt(temperature(deck, k) * abs(s.charge_to_mass)),) * 3

    def sheet(place: float, sign: float) -> Population:
        """The carriers of the current of one sheet, with a drift along ``sign``."""
        drift = [0.0, 0.0, 0.0]
        drift[p.current] = sign * drift_speed(deck, k)
        return Population(Sheet(p.across, place, p.half_thickness), tuple(drift), spread)

    first, second = sheets(deck)
    background = Population(p.background, (0.0, 0.0, 0.0), spread)
    populations = (sheet(first, 1.0), sheet(second, -1.0), background)
    return Recipe(common.charge(s), populations, common.shared_positions(deck, k))


def log_cosh(u):
    """ln cosh(u), without overflow."""
    a = np.abs(u)
    return a + np.log1p(np.exp(-2.0 * a)) - math.log(2.0)


def fields(block: Block, deck):
    """E = 0 at nodes and B = ∇×A + mean field at centres, (3, *cells) each."""
    p = deck.problem.params
    E, B = common.zero_fields(block)
    A = np.zeros((3, *(n + 1 for n in block.cells)))
    mean, A[p.current] = _potential(deck, block)
    B += curl(A, block.spacing)
    B[p.along] += mean
    B[p.current] += p.guide_field * p.magnetic_field
    return E, B


def _potential(deck, block: Block):
    """Mean lobe field, and the periodic vector potential (*cells + 1) along the current at nodes."""
    p = deck.problem.params
    x = _node_axes(block)
    length, lam, B0 = deck.grid.size[p.across], p.half_thickness, p.magnetic_field

    def flux(y):
        """A of the sheets alone: B₀ λ [ln cosh((y − y₁)/λ) − ln cosh((y − y₂)/λ)] − B₀ y."""
        first, second = sheets(deck)
        return B0 * (lam * (log_cosh((y - first) / lam) - log_cosh((y - second) / lam)) - y)

    mean = float(flux(length) - flux(0.0)) / length
    A = np.zeros([n + 1 for n in block.cells]) + flux(x[p.across]) - mean * x[p.across]
    if p.perturbation:
        A = A + p.perturbation * B0 * lam * (_hill(deck, x, 0) - _hill(deck, x, 1))
    return mean, A


def _node_axes(block: Block):
    """Coordinates of nodes origin … origin + cells (wrapped), one broadcastable array per dimension."""
    axes = []
    for k in range(block.d):
        i = (block.origin[k] + np.arange(block.cells[k] + 1)) % block.grid.cells[k]
        axes.append((i * block.spacing[k]).reshape([-1 if j == k else 1 for j in range(block.d)]))
    return axes


def _hill(deck, x, sheet: int):
    """The pinch at one sheet: 1 at its X-point, falling like a Gaussian, periodic."""
    p, size = deck.problem.params, deck.grid.size
    across = _periodic_gauss(x[p.across] - sheets(deck)[sheet], p.perturbation_width, size[p.across])
    place = (0.25, 0.75)[sheet] * size[p.along]
    return across * _periodic_gauss(x[p.along] - place, p.perturbation_length, size[p.along])


def _periodic_gauss(distance, width: float, period: float):
    """exp(−½(distance/width)²) for small distances, periodic: exp((cos φ − 1)/(2π width/period)²)."""
    unit = 2.0 * np.pi / period
    return np.exp((np.cos(unit * distance) - 1.0) / (unit * width) ** 2)


def reference(deck):
    """Peak density, thermal velocity and sheet drift by species name."""
    return {
        s.name: {
            "density": 1.0 + deck.problem.params.background,
            "thermal_velocity": math.sqrt(temperature(deck, k) * abs(s.charge_to_mass)),
            "drift": abs(drift_speed(deck, k)),
        }
        for k, s in enumerate(deck.species)
    }


def magnetic_field(deck) -> float:
    """|B| of the lobes."""
    p = deck.problem.params
    return p.magnetic_field * math.hypot(1.0, p.guide_field)


def theory(deck) -> tuple[common.Equilibrium, ...]:
    """The equilibrium at the start; reconnection has no line to compare with."""
    p = deck.problem.params

    def field(y):
        """B (3, P) at places (P,) across the sheets."""
        first, second = sheets(deck)
        B = np.zeros((3, len(y)))
        B[p.along] = np.tanh((y - first) / p.half_thickness) - np.tanh((y - second) / p.half_thickness) - 1.0
        B[p.current] = p.guide_field
        return p.magnetic_field * B

    return (common.Equilibrium("Harris equilibrium", p.across, field, (0.0,) * len(deck.grid.cells)),)
