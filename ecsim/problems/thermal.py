"""A uniform Maxwellian plasma at rest: nothing happens, and the energy shows how exactly.

Every species is uniform with the density, thermal velocity and drift of its table; E and B start from zero
(plus an optional uniform B).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ecsim.grid import Block
from ecsim.keys import key
from ecsim.particles.recipe import Recipe
from ecsim.problems import common

species_keys = ("density", "thermal_velocity", "drift")


@dataclass(frozen=True)
class Params:
    """Keys of [problem] for ``thermal``."""

    magnetic_field: tuple[float, float, float] = key(
        (0.0, 0.0, 0.0), unit="m_i c ω_pi/e", help="Uniform magnetic field"
    )


def faults(deck) -> list[tuple[str, str]]:
    """At least one species, and lattices for quiet starts."""
    missing = [] if deck.species else [("species", "none given; at least one is needed")]
    return missing + common.lattice_faults(deck)


def fields(block: Block, deck):
    """E = 0 at nodes and the uniform B at centres, (3, *cells) each."""
    E, B = common.zero_fields(block)
    for component, value in zip(B, deck.problem.params.magnetic_field, strict=True):
        component[...] = value
    return E, B


def recipes(deck) -> tuple[Recipe, ...]:
    """Uniform species."""
    return tuple(common.uniform(deck, k) for k in range(len(deck.species)))


def reference(deck):
    """Density, thermal velocity and drift by species name."""
    return common.uniform_reference(deck)


def magnetic_field(deck) -> float:
    """|B|."""
    return math.hypot(*deck.problem.params.magnetic_field)


def theory(deck) -> tuple[common.Theory, ...]:
    """None: an equilibrium."""
    return ()
