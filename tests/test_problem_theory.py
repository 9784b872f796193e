"""The theory that problems carry, against numbers and limits known from elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from ecsim.deck import load_deck
from ecsim.fields.operators import curl
from ecsim.grid import Block, Grid
from ecsim.problems import langmuir, two_stream, vacuum_wave, weibel

# -- Langmuir -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "mode", "dt", "expected"),
    [(64, 1, 0.1, 0.99837), (64, 8, 1.0, 0.88684), (64, 16, 1.0, 0.77519), (16, 4, 3.0, 0.59072)],
)
def test_cold_langmuir_frequency(cells, mode, dt, expected):
    """(2/Δt) atan(½Δt √M(k)), M = (2 + cos kΔ)/3, of a continuum of CIC particles."""
    changes = {"grid.cells": [cells], "problem.mode": [mode], "time.dt": dt, "species.electrons.start": "random"}
    scheme = langmuir.theory(load_deck("langmuir", changes))[1]
    assert scheme.frequency == pytest.approx(expected, abs=5e-6)


def test_langmuir_mass_of_a_lattice_and_of_tsc():
    """A lattice of p points per cell has ⟨t²⟩ = (1 − 1/p²)/3 in place of 1/3; TSC has the cubic-spline factor."""
    deck = load_deck("langmuir", {"species.electrons.particles_per_cell": 5, "problem.mode": [9]})
    phase, square = 2 * math.pi * 9 / 64, (1 - 1 / 25) / 3
    expected = 0.5 * (1 + square) + 0.5 * (1 - square) * math.cos(phase)
    assert langmuir.mass_matrix_of_mode(deck) == pytest.approx(expected, rel=1e-14)
    deck = load_deck("langmuir", {"species.electrons.start": "random", "grid.shape": "tsc", "problem.mode": [9]})
    expected = (66 + 52 * math.cos(phase) + 2 * math.cos(2 * phase)) / 120
    assert langmuir.mass_matrix_of_mode(deck) == pytest.approx(expected, rel=1e-13)


# -- two streams ----------------------------------------------------------------------------------


def test_two_stream_growth():
    """γ = ω_p/√8 at k v₀ = √(3/8) ω_p; stable above k v₀ = ω_p; the scheme tends to it and has 0.349 at Δt = ½."""
    beams = [0.5, 0.5]
    fastest = math.sqrt(3 / 8)
    assert two_stream.growth_rate(fastest, beams) == pytest.approx(1 / math.sqrt(8), rel=1e-7)
    assert two_stream.growth_rate(1.001, beams) == pytest.approx(0.0, abs=1e-7)
    assert two_stream.growth_rate(fastest, beams, 1e-3) == pytest.approx(1 / math.sqrt(8), rel=1e-6)
    assert two_stream.theory(load_deck("two_stream"))[1].growth_rate == pytest.approx(0.349, abs=5e-4)


def test_two_stream_continuum_root_solves_its_relation():
    strength, kv = [0.3, 0.7], 0.5
    gamma = two_stream.growth_rate(kv, strength)
    step = two_stream.growth_rate(kv, strength, 1e-3)
    assert gamma > 0.0 and step == pytest.approx(gamma, rel=1e-6)


# -- light ----------------------------------------------------------------------------------------


def test_vacuum_wave_phase_speed():
    """16 cells a wavelength, cΔt = Δx: 0.9813 c at θ = ½, without damping; damped at θ = 1."""
    deck = load_deck("vacuum_wave")
    assert vacuum_wave.phase_speed(deck) == pytest.approx(0.9813, abs=5e-5)
    assert vacuum_wave.theory(deck)[1].growth_rate == pytest.approx(0.0, abs=1e-15)
    kappa = 2 * math.sin(math.pi / 16)
    assert vacuum_wave.dispersion(kappa, 1.0, 1.0)[1] == pytest.approx(-0.5 * math.log(1 + kappa**2), rel=1e-12)


def test_vacuum_wave_fields_are_a_discrete_eigenmode():
    """One step of the scheme, solved directly, turns the phase of an oblique wave by ωΔt and does nothing else."""
    changes = {"grid.cells": [8, 6, 5], "grid.size": [4.0, 2.0, 3.0], "problem.mode": [1, -2, 1], "time.dt": 0.7}
    deck = load_deck("vacuum_wave", changes)
    block = Block(Grid(deck.grid.cells, deck.grid.size))
    E, B = vacuum_wave.fields(block, deck)
    kappa = np.linalg.norm(vacuum_wave.discrete_wave_vector(deck))
    curl_B = curl(np.pad(B, [(0, 0)] + [(1, 0)] * 3, mode="wrap"), block.spacing)
    curl_E = curl(np.pad(E, [(0, 0)] + [(0, 1)] * 3, mode="wrap"), block.spacing)
    squared = curl(np.pad(curl_E, [(0, 0)] + [(1, 0)] * 3, mode="wrap"), block.spacing)
    np.testing.assert_allclose(squared, kappa**2 * E, atol=1e-12 * kappa**2)
    half = 0.5 * deck.time.dt
    E_half = (E + half * curl_B) / (1 + (half * kappa) ** 2)
    omega = vacuum_wave.theory(deck)[1].frequency
    dt = deck.time.dt
    quarter_later = curl_B / kappa
    np.testing.assert_allclose(
        2 * E_half - E, math.cos(omega * dt) * E + math.sin(omega * dt) * quarter_later, atol=1e-13
    )


# -- Weibel ---------------------------------------------------------------------------------------


def test_weibel_root_solves_the_plasma_dispersion_relation():
    """The root, put into ω² − k² + ω_p²[A + (A+1) ζZ(ζ)] with Z from the Faddeeva function, gives zero."""
    k, along, across = 1.3, 0.08, 0.25
    gamma = weibel.growth_rate(k, [(1.0, along, across)])
    zeta = 1j * gamma / (math.sqrt(2) * k * along)
    anisotropy = (across / along) ** 2 - 1
    zeta_z = zeta * 1j * math.sqrt(math.pi) * special.wofz(zeta)
    assert abs(-(gamma**2) - k**2 + anisotropy + (anisotropy + 1) * zeta_z) < 1e-10
    assert gamma > 0.0


def test_weibel_scheme_tends_to_the_continuum():
    """First order in the time step: the error falls tenfold with Δt on a fine grid."""
    species = [(1.0, 0.1, 0.3)]
    exact = weibel.growth_rate(1.25, species)
    errors = [exact - weibel.growth_rate(1.25, species, weibel.Scheme(dt, 1e-3, 1)) for dt in (0.1, 0.01)]
    assert errors[1] < 1e-3 * exact
    assert errors[0] / errors[1] == pytest.approx(10.0, rel=0.02)


def test_weibel_limits():
    """Stable from k² = ω_p² A on; the cold limit γ = k v_⊥ ω_p/√(k² + ω_p²)."""
    along, across = 0.1, 0.3
    edge = math.sqrt((across / along) ** 2 - 1)
    assert weibel.growth_rate(1.0001 * edge, [(1.0, along, across)]) == 0.0
    assert weibel.growth_rate(0.999 * edge, [(1.0, along, across)]) > 0.0
    k, across = 2.0, 1e-3
    cold = k * across / math.sqrt(k**2 + 1)
    assert weibel.growth_rate(k, [(1.0, 1e-6, across)]) == pytest.approx(cold, rel=1e-4)
