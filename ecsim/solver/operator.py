"""The field equation of one cycle, ``[I + (θΔt)² ∇×∇× + θΔt M] E^{n+θ} = E^n + θΔt (∇×B^n − Ĵ)``, as linear maps."""

from __future__ import annotations


class FieldOperator:
    """``E ↦ E + (θΔt)² ∇×∇×E + θΔt M E`` on owned nodal values (3, *cells).

    A chain of linear maps: fill the ghosts, then the backend's ``field_operator``, which may fuse its three terms
    into one kernel. A further map (an averaging, a smoothing on both sides of M) is one more line in ``__call__``.
    Source: Lapenta 2017, J. Comput. Phys. 334, eq. 33.
    """

    def __init__(self, mass_matrix, halo, theta_dt: float) -> None:
        self.mass_matrix, self.halo, self.theta_dt = mass_matrix, halo, theta_dt
        self.backend, self.block = mass_matrix.backend, mass_matrix.block
        self._padded = self.backend.xp.zeros((3, *self.block.padded))

    def pad(self, x):
        """Owned values (3, *cells) with their ghosts filled, in a work array that the next call overwrites."""
        self._padded[self.block.interior] = x
        self.halo.fill(self._padded)
        return self._padded

    def __call__(self, x):
        out = self.backend.xp.empty((3, *self.block.cells))
        self.backend.field_operator(self.mass_matrix.values, self.pad(x), out, self.block.spacing, self.theta_dt)
        return out
