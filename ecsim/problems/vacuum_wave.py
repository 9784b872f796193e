"""A plane light wave in vacuum: an exact travelling wave of the discrete equations.

The curl from nodes to centres multiplies a plane wave by i𝛋, κ_μ = (2/Δ_μ) sin(½k_μΔ_μ) Π_{ν≠μ} cos(½k_νΔ_ν)
(forward difference, averaged over the other dimensions), so E = e cos(k·x) at nodes and B = 𝛋̂×e cos(k·x) at
centres, with e ⟂ 𝛋, is one travelling eigenmode and not the sum of two.
"""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass

import numpy as np

from ecsim.grid import Block
from ecsim.keys import key
from ecsim.particles.recipe import Recipe
from ecsim.problems import common

species_keys = ()


@dataclass(frozen=True)
class Params:
    """Keys of [problem] for ``vacuum_wave``."""

    mode: tuple[int, ...] = key(
        (1,), min_length=1, max_length=3, help="Waves in the box along each dimension"
    )
    amplitude: float = key(1.0, unit="m_i c ω_pi/e", low=0, exclusive_low=True, help="Largest |E|")
    polarisation: tuple[float, float, float] = key(
        (0.0, 0.0, 1.0), help="Direction of E; its part along the wave is taken off"
    )


def faults(deck) -> list[tuple[str, str]]:
    """No species, a mode that the grid carries, a polarisation that is not along it."""
    found = common.count_faults(deck, 0, "it is a vacuum")
    wrong_mode = common.mode_faults(deck, deck.problem.params.mode)
    if not wrong_mode and np.linalg.norm(_transverse(deck)) < 1e-6:
        found.append(("problem.polarisation", "is along the wave; it needs a part across"))
    return found + wrong_mode


def discrete_wave_vector(deck) -> np.ndarray:
    """𝛋 (3,): what the discrete curl makes of the mode's wave vector."""
    half = np.pi * np.asarray(deck.problem.params.mode, dtype=float) / np.asarray(deck.grid.cells)
    spacing = np.asarray(deck.grid.size) / np.asarray(deck.grid.cells)
    kappa = np.zeros(3)
    for mu in range(half.size):
        others = np.delete(np.cos(half), mu)
        kappa[mu] = 2.0 / spacing[mu] * np.sin(half[mu]) * np.prod(others)
    return kappa


def fields(block: Block, deck):
    """E (3, *cells) at nodes and B (3, *cells) at centres of the travelling wave at t = 0."""
    p, kappa = deck.problem.params, discrete_wave_vector(deck)
    e = _transverse(deck)
    e *= p.amplitude / np.linalg.norm(e)
    b = np.cross(kappa / np.linalg.norm(kappa), e)
    column = (3,) + (1,) * block.d
    E = e.reshape(column) * np.cos(common.phase(block, p.mode, 0.0))
    B = b.reshape(column) * np.cos(common.phase(block, p.mode, 0.5))
    return E, B


def recipes(deck) -> tuple[Recipe, ...]:
    """No species."""
    return ()


def reference(deck):
    """No species."""
    return {}


def magnetic_field(deck) -> float:
    """Largest |B|."""
    return deck.problem.params.amplitude


def theory(deck) -> tuple[common.Theory, ...]:
    """Light in the continuum and the damped light wave of the scheme."""
    k = float(np.linalg.norm(common.wave_vector(deck, deck.problem.params.mode)))
    kappa = float(np.linalg.norm(discrete_wave_vector(deck)))
    omega, gamma = dispersion(kappa, deck.time.dt, deck.time.theta)
    return (
        common.Theory("continuum ω = ck", "electric", frequency=k),
        common.Theory("scheme", "electric", growth_rate=gamma, frequency=omega),
    )


def dispersion(kappa: float, dt: float, theta: float = 0.5) -> tuple[float, float]:
    """Frequency ω and growth rate γ ≤ 0 of a vacuum wave.

    One step multiplies the wave by g with (g − 1)/(θg + 1 − θ) = −iκΔt, from
    E^{n+1} = E^n + Δt ∇×B^{n+θ} and B^{n+1} = B^n − Δt ∇×E^{n+θ}; so g = (1 − (1−θ)iκΔt)/(1 + θiκΔt) and
    g = exp((γ − iω)Δt). At θ = ½: ω = (2/Δt) atan(½κΔt), γ = 0.
    """
    z = 1j * kappa * dt
    log = cmath.log((1.0 - (1.0 - theta) * z) / (1.0 + theta * z))
    return -log.imag / dt, log.real / dt


def phase_speed(deck) -> float:
    """Phase speed ω/k of the scheme in c."""
    scheme = theory(deck)[1]
    return scheme.frequency / math.hypot(*common.wave_vector(deck, deck.problem.params.mode))


def _transverse(deck) -> np.ndarray:
    """The polarisation without its part along 𝛋, relative to its length."""
    kappa = discrete_wave_vector(deck)
    e = np.array(deck.problem.params.polarisation, dtype=float)
    length = np.linalg.norm(e)
    e = e / length if length else e
    direction = kappa / np.linalg.norm(kappa)
    return e - direction * (direction @ e)
