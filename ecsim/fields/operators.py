"""Curl, divergence and averages on the staggered grid, for numpy and cupy arrays alike.

Nodes and centres alternate along every dimension. From nodes to centres ``∂_μ`` is the forward difference along
μ averaged over the two nodes of each other active dimension; from centres to nodes the backward difference,
averaged likewise. As array operations both directions are the same: an axis of N points becomes N − 1 points half
a cell in between. The two curls are each other's adjoint on a periodic grid, which energy conservation rests on
(Lapenta 2017, J. Comput. Phys. 334, eqs. 20–24).

Every function takes arrays whose last ``d`` axes are space and returns arrays one point shorter along each of
them; ghosts are the caller's concern.
"""

from __future__ import annotations

import sys

from ecsim.grid import Block


def _shifted(a, d: int, k: int):
    """The two halves ``a[:-1]`` and ``a[1:]`` along spatial dimension ``k`` of ``d``."""
    rest = (slice(None),) * (d - 1 - k)
    return a[(..., slice(None, -1), *rest)], a[(..., slice(1, None), *rest)]


def xp_of(a):
    """The array module (numpy or cupy) that ``a`` belongs to."""
    return sys.modules[type(a).__module__.partition(".")[0]]


def average(a, d: int):
    """Mean of the 2^d surrounding points: nodes to centres, or centres to nodes."""
    for k in range(d):
        low, high = _shifted(a, d, k)
        a = 0.5 * (low + high)
    return a


def derivative(a, spacing, mu: int):
    """∂_μ between nodes and centres (either way); zero-dimensional directions are the caller's concern."""
    d = len(spacing)
    for k in range(d):
        low, high = _shifted(a, d, k)
        a = (high - low) / spacing[k] if k == mu else 0.5 * (low + high)
    return a


def curl(a, spacing):
    """∇×a of a vector (3, ...) with ``d = len(spacing)`` space axes, on the other lattice (one point shorter)."""
    d = len(spacing)
    shape = tuple(n - 1 for n in a.shape[1:])
    out = xp_of(a).zeros((3, *shape))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        if j < d:
            out[i] += derivative(a[k], spacing, j)
        if k < d:
            out[i] -= derivative(a[j], spacing, k)
    return out


def divergence(a, spacing):
    """∇·a of a vector (3, ...), on the other lattice (one point shorter along each axis)."""
    return sum(derivative(a[k], spacing, k) for k in range(len(spacing)))


class FieldOperators:
    """The operators of one block on padded arrays with valid ghosts; results are owned arrays.

    kernels : does the curls and the mean of a cycle in a launch each, where a backend has such; same verbs.
    """

    def __init__(self, block: Block, kernels=None) -> None:
        self.block = block
        if kernels is not None:
            self.curl_to_centres, self.curl_to_nodes = kernels.curl_to_centres, kernels.curl_to_nodes
            self.to_nodes = kernels.to_nodes
        self.spacing = block.spacing
        g, cells = block.ghosts, block.cells
        self._nodes_in = tuple(slice(g, g + n + 1) for n in cells)
        self._centres_in = tuple(slice(g - 1, g + n) for n in cells)
        self._wide = tuple(slice(g - 1, g + n + 1) for n in cells)

    def curl_to_centres(self, nodes):
        """∇× of a nodal vector (3, *padded), at the owned centres (3, *cells)."""
        return curl(nodes[(slice(None), *self._nodes_in)], self.spacing)

    def curl_to_nodes(self, centres):
        """∇× of a centred vector (3, *padded), at the owned nodes (3, *cells)."""
        return curl(centres[(slice(None), *self._centres_in)], self.spacing)

    def curl_curl(self, nodes):
        """∇×∇× of a nodal vector (3, *padded), at the owned nodes (3, *cells)."""
        return curl(curl(nodes[(slice(None), *self._wide)], self.spacing), self.spacing)

    def to_nodes(self, centres):
        """Mean of the 2^d centres around each owned node; ``centres`` is (..., *padded)."""
        return average(centres[(..., *self._centres_in)], self.block.d)

    def divergence_of_nodes(self, nodes):
        """∇· of a nodal vector (3, *padded), at the owned centres (*cells)."""
        return divergence(nodes[(slice(None), *self._nodes_in)], self.spacing)

    def divergence_of_centres(self, centres):
        """∇· of a centred vector (3, *padded), at the owned nodes (*cells)."""
        return divergence(centres[(slice(None), *self._centres_in)], self.spacing)


def field_energy(a, volume: float):
    """½ V Σ a² of owned values: electric or magnetic energy of one block, a scalar of the array's module."""
    return 0.5 * volume * (a * a).sum()
