"""The unit system, and its conversion to SI from one reference density.

Heaviside–Lorentz, normalised: c = 1, length c/ω_pi (ion skin depth at the reference density), time 1/ω_pi,
density n0, ion charge 1, ion mass 1. So ∂E/∂t = ∇×B − J, ∂B/∂t = −∇×E, ∇·E = ρ; a species of density n, charge q
and mass m has ω_p² = n q²/m; the field energy density is (E² + B²)/2 and the Alfvén speed B/√(n m).
"""

from __future__ import annotations

from math import sqrt

# No number of a deck or of an argument is larger: products of a few of them are then finite.
LARGEST = 1e50
NAMES = {
    "length": "c/ω_pi",
    "time": "1/ω_pi",
    "velocity": "c",
    "density": "n0",
    "charge": "q_i",
    "mass": "m_i",
}


def plasma_frequency(density: float, charge_to_mass: float, charge: float = 1.0) -> float:
    """ω_p of a species of number ``density`` (n0), ``charge_to_mass`` (q_i/m_i) and ``charge`` (q_i), in ω_pi."""
    return sqrt(abs(density * charge * charge_to_mass))


def reference_frequency(omega_pi: float | None, density: float | None) -> float | None:
    """ω_pi in rad/s: as given, or of protons of ``density`` per m³, or None where neither is."""
    if density is None:
        return omega_pi
    from scipy import constants as si

    return sqrt(density * si.e**2 / (si.epsilon_0 * si.m_p))


def gyrofrequency(magnetic_field: float, charge_to_mass: float) -> float:
    """|q B / m| of a species, in ω_pi."""
    return abs(charge_to_mass * magnetic_field)
