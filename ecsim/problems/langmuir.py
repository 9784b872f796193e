"""A cold Langmuir oscillation: electrons swing through a fixed neutralising background.

The electrons start on a uniform density with the velocity v = a k̂ sin(k·x), and E = 0 obeys Gauss's law with
the background, which needs no particles because ECSIM feels charge only through its current.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

from ecsim.grid import Block
from ecsim.keys import key
from ecsim.particles.recipe import Recipe, lattice
from ecsim.problems import common

species_keys = ("density",)


@dataclass(frozen=True)
class Params:
    """Keys of [problem] for ``langmuir``."""

    mode: tuple[int, ...] = key(
        (1,), min_length=1, max_length=3, help="Waves in the box along each dimension"
    )
    amplitude: float = key(1e-4, unit="c", low=0, exclusive_low=True, help="Largest electron velocity")


def faults(deck) -> list[tuple[str, str]]:
    """One species, a mode that the grid carries."""
    one = common.count_faults(deck, 1, "the electrons")
    return one + common.mode_faults(deck, deck.problem.params.mode) + common.lattice_faults(deck)


def fields(block: Block, deck):
    """No fields: E and B (3, *cells) are zero."""
    return common.zero_fields(block)


def recipes(deck) -> tuple[Recipe, ...]:
    """Cold electrons that flow along k as a sin(k·x)."""
    wave = common.wave_vector(deck, deck.problem.params.mode)
    direction = np.zeros(3)
    direction[: wave.size] = wave / np.linalg.norm(wave)

    def flow(x):
        """Velocity (3, P) at positions (d, P)."""
        return direction[:, None] * (deck.problem.params.amplitude * np.sin(wave @ x))

    return (common.uniform(deck, 0, flow),)


def reference(deck):
    """The electrons by name, the amplitude as their drift."""
    numbers = common.uniform_reference(deck)
    for s in numbers.values():
        s["drift"] = deck.problem.params.amplitude
    return numbers


def magnetic_field(deck) -> float:
    """|B| = 0."""
    return 0.0


def theory(deck) -> tuple[common.Theory, ...]:
    """The plasma frequency and the frequency of the scheme on this grid with this step."""
    omega_p = math.sqrt(common.plasma_frequency_squared(deck.species[0]))
    omega = frequency(deck.time.dt, omega_p**2 * mass_matrix_of_mode(deck))
    return (
        common.Theory("continuum ω_p", "electric", frequency=omega_p),
        common.Theory("scheme (2/Δt) atan(½Δt √M(k))", "electric", frequency=omega),
    )


def frequency(dt: float, mass: float) -> float:
    """ω = (2/Δt) atan(½Δt √M) of a cold oscillation at θ = ½, where Δt/2 · M is its mass matrix.

    With x fixed to first order, (E^{n+1} − E^n)/Δt = −(Ĵ + ½Δt M Ē), (Ĵ^{n+1} − Ĵ^n)/Δt = M Ē and
    Ē = ½(E^n + E^{n+1}): the Crank–Nicolson step of an oscillator of frequency √M.
    """
    return 2.0 / dt * math.atan(0.5 * dt * math.sqrt(mass))


def mass_matrix_of_mode(deck) -> float:
    """M(k)/ω_p²: what the mass matrix of a uniform plasma makes of a plane wave.

    Per dimension Σ_b ⟨φ_a φ_b⟩ cos(k(x_a − x_b)), averaged over the particle's places in the cell: all of
    them for a random start, giving (2 + cos kΔ)/3 for CIC, or the lattice points of a quiet one.
    """
    electrons, order = deck.species[0], {"cic": 1, "tsc": 2}[deck.grid.shape]
    modes, cells = deck.problem.params.mode, deck.grid.cells
    counts = (None,) * len(cells)
    if electrons.start == "quiet":
        counts = lattice(electrons.particles_per_cell, len(cells))
    return math.prod(
        _factor(2.0 * math.pi * m / n, order, count) for m, n, count in zip(modes, cells, counts, strict=True)
    )


def _factor(phase: float, order: int, count: int | None) -> float:
    """One dimension's factor of M(k) for a phase kΔ and ``count`` lattice points (None: a continuum)."""
    if count is None:
        f, weight = np.polynomial.legendre.leggauss(8)
        f, weight = 0.5 * f + 0.5 * (2 - order), 0.5 * weight
    else:
        f, weight = (np.arange(count) + 0.5) / count, np.full(count, 1.0 / count)
    nodes, values = _shape(f, order)
    total = 0.0
    for (i, a), (j, b) in product(zip(nodes, values, strict=True), repeat=2):
        total += float(np.sum(weight * a * b * np.cos(phase * (i - j))))
    return total


def _shape(f, order: int):
    """Nodes around a place ``f`` of cell 0 and the shape function's values there, one row a node."""
    if order == 1:
        return (0, 1), (1.0 - f, f)
    near = np.floor(f + 0.5)
    s = f - near
    return (near - 1, near, near + 1), (0.5 * (0.5 - s) ** 2, 0.75 - s**2, 0.5 * (0.5 + s) ** 2)
