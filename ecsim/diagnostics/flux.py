"""Magnetic flux function of a plane, its X and O points, and the reconnected flux.

In a plane with axes a, b the flux function ψ has B_a = ∂_b ψ and B_b = −∂_a ψ: its contours are field lines, its
extrema O-points and its saddles X-points.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np


class CriticalPoints(NamedTuple):
    """Critical points of a flux function: node indices (k, 2) and values (k,).

    ``maxima`` and ``minima`` are O-points. ``saddles`` are X-points; the first ``n_open`` of them are where a whole
    sheet of flux opens: contours above them close in themselves, those below run through the periodic box.
    """

    maxima: np.ndarray
    minima: np.ndarray
    saddles: np.ndarray
    maxima_flux: np.ndarray
    minima_flux: np.ndarray
    saddles_flux: np.ndarray
    n_open: int


def flux_function(Ba: np.ndarray, Bb: np.ndarray, spacing: tuple[float, float]) -> np.ndarray:
    """ψ at the nodes (na + 1, nb + 1) of a periodic plane; the last row and column are the first one's periodic images.

    Ba, Bb : (na, nb) at cell centres.  spacing : (Δa, Δb).

    The periodic part is the least-squares inverse of the discrete curl, so that a field that is one, as in a 2D run, is
    given back exactly; in a cut through a 3D run it is the nearest such field. A mean field adds ⟨Ba⟩ b − ⟨Bb⟩ a.
    """
    na, nb = Ba.shape
    ka, kb = np.pi * np.fft.fftfreq(na)[:, None], np.pi * np.fft.fftfreq(nb)[None, :]
    shift = np.exp(1j * (ka + kb))
    along_a = 2j / spacing[0] * np.sin(ka) * np.cos(kb) * shift
    along_b = 2j / spacing[1] * np.sin(kb) * np.cos(ka) * shift
    norm = np.abs(along_a) ** 2 + np.abs(along_b) ** 2
    usable = norm > 1e-12 * norm.max(initial=0.0)
    source = np.conj(along_b) * np.fft.fft2(Ba) - np.conj(along_a) * np.fft.fft2(Bb)
    periodic = np.fft.ifft2(np.divide(source, norm, out=np.zeros_like(source), where=usable)).real
    psi = np.pad(periodic, ((0, 1), (0, 1)), mode="wrap")
    a, b = spacing[0] * np.arange(na + 1)[:, None], spacing[1] * np.arange(nb + 1)[None, :]
    return psi + Ba.mean() * b - Bb.mean() * a


def critical_points(psi: np.ndarray, threshold: float = 0.01) -> CriticalPoints:
    """X and O points of a periodic flux function (n_a + 1, n_b + 1), without those of noise.

    Flux is taken away from the highest value down; an island is born at a maximum and ends at the saddle where it
    meets a higher one (likewise from below). Pairs whose flux differs by less than ``threshold`` times the whole range
    are left out (Edelsbrunner, Letscher & Zomorodian 2002, Discrete Comput. Geom. 28, 511). Two more saddles are where
    the flux first runs through the periodic box: the X-points of the two current sheets.

    Raises ValueError if ψ is not periodic, because a mean field crosses the plane.
    """
    span = float(np.ptp(psi))
    jump = max(np.ptp(psi[-1] - psi[0]), np.ptp(psi[:, -1] - psi[:, 0]),
               np.abs(psi[-1] - psi[0]).max(), np.abs(psi[:, -1] - psi[:, 0]).max())
    if jump > threshold * span:
        raise ValueError("the flux function is not periodic: a mean field crosses the plane")
    inner = np.ascontiguousarray(psi[:-1, :-1])
    maxima, upper, opening = _merge_tree(inner, threshold * span)
    minima, lower, _ = _merge_tree(-inner, threshold * span)
    saddles = np.concatenate([opening, upper, lower])
    flat = inner.ravel()

    def place(nodes):
        """Indices (P, 2) of flat nodes (P,)."""
        return np.stack(np.unravel_index(nodes, inner.shape), axis=-1)

    return CriticalPoints(place(maxima), place(minima), place(saddles), flat[maxima], flat[minima], flat[saddles],
                          len(opening))


def reconnected_flux(points: CriticalPoints) -> tuple[float, float]:
    """Closed flux around the O-points of the sheet where ψ is largest, and of that where it is smallest.

    Per unit length: the difference of ψ between the highest (lowest) O-point and the saddle where its sheet opens.
    """
    opening = points.saddles_flux[: points.n_open]
    if not opening.size:
        return 0.0, 0.0
    return float(points.maxima_flux.max() - opening.max()), float(opening.min() - points.minima_flux.min())


def _merge_tree(field: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Maxima that stand out by ``least``, the saddles where they end, and the saddles that wind around the torus."""
    order = np.argsort(-field.ravel(), kind="stable")
    maxima, saddles, opening = _sweep(field, order, least)
    return np.array(maxima, dtype=np.int64), np.array(saddles, dtype=np.int64), np.array(opening, dtype=np.int64)


@numba.njit(cache=True)
def _find(parent, offset, node):
    """Root of ``node`` and how many boxes (a, b) its path winds; compresses the path."""
    wind_a, wind_b, root = 0, 0, node
    while parent[root] != root:
        wind_a += offset[root, 0]
        wind_b += offset[root, 1]
        root = parent[root]
    rest_a, rest_b = wind_a, wind_b
    while parent[node] != root and node != root:
        above = parent[node]
        step_a, step_b = offset[node, 0], offset[node, 1]
        parent[node], offset[node, 0], offset[node, 1] = root, rest_a, rest_b
        rest_a -= step_a
        rest_b -= step_b
        node = above
    return root, wind_a, wind_b


@numba.njit(cache=True)
def _sweep(field, order, least):
    """Union-find from the highest node down, on a torus of triangles (each node has six neighbours)."""
    na, nb = field.shape
    values = field.ravel()
    parent = np.full(na * nb, -1)
    offset = np.zeros((na * nb, 2), np.int64)
    maxima, saddles, opening = [0 for _ in range(0)], [0 for _ in range(0)], [0 for _ in range(0)]
    loop_a, loop_b = 0, 0
    for node in order:
        parent[node] = node
        a, b = node // nb, node % nb
        for step_a, step_b in ((-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (1, 1)):
            box_a, box_b = (a + step_a) // na, (b + step_b) // nb
            other = (a + step_a - box_a * na) * nb + (b + step_b - box_b * nb)
            if parent[other] < 0:
                continue
            low, low_a, low_b = _find(parent, offset, node)
            high, high_a, high_b = _find(parent, offset, other)
            wind_a, wind_b = high_a - low_a - box_a, high_b - low_b - box_b
            if low == high:
                if (wind_a != 0 or wind_b != 0) and (
                    len(opening) == 0 or (len(opening) == 1 and wind_a * loop_b - wind_b * loop_a != 0)
                ):
                    loop_a, loop_b = wind_a, wind_b
                    opening.append(node)
                continue
            if values[low] > values[high] or (values[low] == values[high] and low < high):
                low, high, wind_a, wind_b = high, low, -wind_a, -wind_b
            if values[low] - values[node] >= least and low != node:
                maxima.append(low)
                saddles.append(node)
            parent[low], offset[low, 0], offset[low, 1] = high, wind_a, wind_b
    maxima.append(order[0])
    return maxima, saddles, opening
