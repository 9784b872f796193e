"""Flux function and its critical points, against potentials whose answer is known."""

import numpy as np
import pytest

from ecsim.diagnostics.flux import critical_points, flux_function, reconnected_flux
from ecsim.fields.operators import curl


def in_plane_field(potential, spacing):
    """Centred B of a nodal A_z given on (na + 1, nb + 1) nodes."""
    A = np.zeros((3, *potential.shape))
    A[2] = potential
    return curl(A, spacing)[:2]


def nodes(na, nb, size):
    return np.meshgrid(np.linspace(0, size[0], na + 1), np.linspace(0, size[1], nb + 1), indexing="ij")


def islands(a, b, size, amplitude=0.1):
    """Two current sheets with one island each: ψ = cos(2πb/L_b) + amplitude cos(2πa/L_a)."""
    ka, kb = 2 * np.pi / size[0], 2 * np.pi / size[1]
    return np.cos(kb * b) + amplitude * np.cos(ka * a)


@pytest.mark.parametrize("cells", [(24, 20), (17, 13)])
def test_a_discrete_curl_is_inverted_exactly(cells):
    size = (3.0, 5.0)
    spacing = (size[0] / cells[0], size[1] / cells[1])
    a, b = nodes(*cells, size)
    psi = islands(a, b, size) + 0.3 * np.sin(2 * np.pi * (3 * a / size[0] - 2 * b / size[1]))
    Ba, Bb = in_plane_field(psi, spacing)
    found = flux_function(Ba + 0.2, Bb - 0.1, spacing)
    expected = psi - psi[:-1, :-1].mean() + 0.2 * b + 0.1 * a
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_two_islands_have_their_points_and_flux():
    size, cells, amplitude = (4.0, 2.0), (64, 32), 0.125
    psi = islands(*nodes(*cells, size), size, amplitude)
    points = critical_points(psi)
    assert points.maxima.tolist() == [[0, 0]] and points.minima.tolist() == [[32, 16]]
    assert points.n_open == 2
    assert points.saddles.tolist() == [[32, 0], [0, 16]]
    np.testing.assert_allclose(points.saddles_flux, [1 - amplitude, -1 + amplitude], atol=1e-15)
    np.testing.assert_allclose(reconnected_flux(points), (2 * amplitude, 2 * amplitude), atol=1e-15)


def test_points_stay_the_same_wherever_the_box_is_cut():
    size, cells = (4.0, 2.0), (48, 40)
    psi = islands(*nodes(*cells, size), size)
    for shift in ((5, 0), (24, 20), (47, 39)):
        moved = np.pad(np.roll(psi[:-1, :-1], shift, axis=(0, 1)), ((0, 1), (0, 1)), mode="wrap")
        points = critical_points(moved)
        assert points.maxima.tolist() == [[shift[0] % 48, shift[1] % 40]]
        assert points.saddles.tolist() == [[(24 + shift[0]) % 48, shift[1] % 40], [shift[0] % 48, (20 + shift[1]) % 40]]


def test_three_islands_in_one_sheet():
    size, cells = (6.0, 2.0), (96, 32)
    a, b = nodes(*cells, size)
    psi = np.cos(np.pi * b) * (1 + 0.1 * np.cos(np.pi * a) + 0.02 * np.cos(np.pi * a / 3)) - 0.5 * np.sin(np.pi * b / 2)
    points = critical_points(psi, threshold=0.005)
    top = points.maxima[points.maxima[:, 1] < 3]
    assert sorted(top[:, 0].tolist()) == [0, 32, 64]
    assert len(points.maxima) + len(points.minima) == len(points.saddles)


def test_noise_makes_no_points():
    size, cells = (4.0, 2.0), (128, 64)
    noise = 0.004 * np.random.default_rng(2).standard_normal((128, 64))
    clean = islands(*nodes(*cells, size), size, 0.2)
    psi = clean + np.pad(noise, ((0, 1), (0, 1)), mode="wrap")
    points = critical_points(psi, threshold=0.03)
    assert (len(points.maxima), len(points.minima), len(points.saddles)) == (1, 1, 2)
    assert len(critical_points(psi, threshold=0.0).maxima) > 10
    np.testing.assert_allclose(reconnected_flux(points), (0.4, 0.4), atol=0.04)


def test_a_mean_field_across_is_refused():
    size = (4.0, 2.0)
    a, b = nodes(32, 16, size)
    with pytest.raises(ValueError, match="not periodic"):
        critical_points(islands(a, b, size) + 0.5 * a)
