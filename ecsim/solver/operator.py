"""The field equation of one cycle, ``[I + (θΔt)² ∇×∇× + θΔt M] E^{n+θ} = E^n + θΔt (∇×B^n − Ĵ)``, as linear maps."""

from __future__ import annotations


class FieldOperator:
    """``E ↦ E + (θΔt)² ∇×∇×E + θΔt M E`` on owned nodal values (3, *cells).

    A further map (an averaging, a smoothing on both sides of M) is one more line in ``__call__``.
    Source: Lapenta 2017, J. Comput. Phys. 334, eq. 33.
    """

    def __init__(self, operators, mass_matrix, halo, theta_dt: float) -> None:
        self.operators, self.mass_matrix, self.halo, self.theta_dt = operators, mass_matrix, halo, theta_dt
        xp, block = mass_matrix.backend.xp, mass_matrix.block
        self._padded = xp.zeros((3, *block.padded))
        self._response = xp.empty((3, *block.cells))

    def pad(self, x):
        """Owned values (3, *cells) with their ghosts filled, in a work array that the next call overwrites."""
        self._padded[self.mass_matrix.block.interior] = x
        self.halo.fill(self._padded)
        return self._padded

    def __call__(self, x):
        padded = self.pad(x)
        self.mass_matrix.multiply_padded(padded, self._response)
        y = self.operators.curl_curl(padded)
        y *= self.theta_dt**2
        y += self.theta_dt * self._response
        y += x
        return y
