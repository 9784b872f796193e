"""The field equation of one cycle, ``[I + (θΔt)² ∇×∇× + θΔt M] E^{n+θ} = E^n + θΔt (∇×B^n − Ĵ)``, as linear maps."""

from __future__ import annotations

import math
from functools import partial

from ecsim.grid import Part

FEWEST_NODES = 8192  # of a piece of work beside an exchange


class FieldOperator:
    """``E ↦ E + (θΔt)² ∇×∇×E + θΔt M E`` on owned nodal values (3, *cells).

    A chain of linear maps: fill the ghosts, then the backend's ``field_operator``, which may fuse its three terms
    into one kernel. A further map (an averaging, a smoothing on both sides of M) is one more line in ``__call__``.
    While ghosts travel between ranks, the inner nodes, which need none of them, are multiplied; then the others, to the
    same bits.
    Source: Lapenta 2017, J. Comput. Phys. 334, eq. 33.
    """

    def __init__(self, mass_matrix, halo, theta_dt: float) -> None:
        self.mass_matrix, self.halo, self.theta_dt = mass_matrix, halo, theta_dt
        self.backend, self.block = mass_matrix.backend, mass_matrix.block
        self._padded = self.backend.xp.zeros((3, *self.block.padded))
        self._inner = halo.inner
        self._pieces = _pieces(self._inner, halo.transport.pieces) if self._inner else []

    def __call__(self, x, out=None):
        out = self.backend.xp.empty((3, *self.block.cells)) if out is None else out
        if self._inner is None:
            self.halo.pad(x, self._padded)
            self._multiply(out, None)
        else:
            self.halo.pad(x, self._padded, [partial(self._multiply, out, piece) for piece in self._pieces],
                          partial(self._multiply, out, self._inner._replace(outside=True)))
        return out

    def _multiply(self, out, part: Part | None) -> None:
        """The values of ``out`` on a part of the nodes, or on all of them."""
        self.backend.field_operator(self.mass_matrix.values, self._padded, out, self.block.spacing, self.theta_dt, part)


def _pieces(inner: Part, most: int) -> list[Part]:
    """The inner nodes in some pieces along the first dimension."""
    begin, end = inner.low[0], inner.high[0]
    nodes = math.prod(b - a for a, b in zip(inner.low, inner.high, strict=True))
    count = max(1, min(most, nodes // FEWEST_NODES, end - begin))
    cuts = [begin + (end - begin) * k // count for k in range(count + 1)]
    return [Part((a, *inner.low[1:]), (b, *inner.high[1:])) for a, b in zip(cuts, cuts[1:], strict=False)]
