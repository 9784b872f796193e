"""Physical quantities as openPMD wants them: unit label, powers of the SI base units, factor to SI."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Quantity:
    """A kind of physical quantity.

    Attributes
    ----------
    label : the code unit, for axes of figures.
    dimension : powers of (length, mass, time, current, temperature, amount, light), as in openPMD.
    powers : the code unit in SI, as powers of (ω_pi, m_i, c, q_i, ε0).
    """

    label: str
    dimension: tuple[int, ...]
    powers: tuple[int, int, int, int, int]

    def unit_si(self, omega_pi: float | None) -> float:
        """The code unit in SI for a reference ``omega_pi`` (rad/s) of protons; 1 for None."""
        if omega_pi is None:
            return 1.0
        from scipy import constants as si

        a, b, c, e, f = self.powers
        return omega_pi**a * si.m_p**b * si.c**c * si.e**e * si.epsilon_0**f


QUANTITIES = {
    "length": Quantity("c/ω_pi", (1, 0, 0, 0, 0, 0, 0), (-1, 0, 1, 0, 0)),
    "time": Quantity("1/ω_pi", (0, 0, 1, 0, 0, 0, 0), (-1, 0, 0, 0, 0)),
    "electric_field": Quantity("m_i c ω_pi/q_i", (1, 1, -3, -1, 0, 0, 0), (1, 1, 1, -1, 0)),
    "magnetic_field": Quantity("m_i ω_pi/q_i", (0, 1, -2, -1, 0, 0, 0), (1, 1, 0, -1, 0)),
    "number_density": Quantity("n0", (-3, 0, 0, 0, 0, 0, 0), (2, 1, 0, -2, 1)),
    "charge_density": Quantity("n0 q_i", (-3, 0, 1, 1, 0, 0, 0), (2, 1, 0, -1, 1)),
    "current_density": Quantity("n0 q_i c", (-2, 0, 0, 1, 0, 0, 0), (2, 1, 1, -1, 1)),
    "pressure": Quantity("n0 m_i c²", (-1, 1, -2, 0, 0, 0, 0), (2, 2, 2, -2, 1)),
    "temperature": Quantity("m_i c²", (2, 1, -2, 0, 0, 0, 0), (0, 1, 2, 0, 0)),
    "power_density": Quantity("n0 m_i c² ω_pi", (-1, 1, -3, 0, 0, 0, 0), (3, 2, 2, -2, 1)),
    "momentum": Quantity("m_i c", (1, 1, -1, 0, 0, 0, 0), (0, 1, 1, 0, 0)),
    "charge": Quantity("q_i", (0, 0, 1, 1, 0, 0, 0), (0, 0, 0, 1, 0)),
    "mass": Quantity("m_i", (0, 1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0)),
    "macro_number": Quantity("n0 (c/ω_pi)³", (0, 0, 0, 0, 0, 0, 0), (-1, 1, 3, -2, 1)),
    "velocity": Quantity("c", (1, 0, -1, 0, 0, 0, 0), (0, 0, 1, 0, 0)),
    "dimensionless": Quantity("", (0, 0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0)),
}
