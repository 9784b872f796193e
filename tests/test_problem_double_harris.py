"""The double Harris sheet: pressure balance, current, ∇·B, the pinch, and the particles that carry it all."""

from __future__ import annotations

import numpy as np
import pytest
from loading_cases import loaded as particles_of

from ecsim.deck import load_deck
from ecsim.fields.operators import curl
from ecsim.grid import Block, Grid
from ecsim.problems import double_harris

EQUILIBRIUM = {"problem.perturbation": 0.0}


def sheet_deck(cells, **changes):
    """The production deck on other cells (2D), without the pinch."""
    size = [28.0, 14.0][: len(cells)]
    return load_deck("double_harris", {"grid.cells": cells, "grid.size": size, **EQUILIBRIUM, **changes})


def block_of(deck) -> Block:
    return Block(Grid(deck.grid.cells, deck.grid.size, deck.grid.order))


def lobe_field(deck, y):
    """B_x(y) of the contract."""
    p, (first, second) = deck.problem.params, double_harris.sheets(deck)
    lam = p.half_thickness
    return p.magnetic_field * (np.tanh((y - first) / lam) - np.tanh((y - second) / lam) - 1.0)


def densities(deck, k: int, y) -> np.ndarray:
    """Densities (3, n) of the populations of species k at places y."""
    x = np.stack([np.zeros_like(y), y])
    populations = double_harris.recipes(deck)[k].populations
    return np.stack([p.density(x) if callable(p.density) else np.full(y.shape, p.density) for p in populations])


def test_production_numbers():
    deck = load_deck("double_harris")
    ions, electrons = (double_harris.temperature(deck, k) for k in (0, 1))
    assert ions == pytest.approx(1.58e-4, rel=5e-3) and electrons == pytest.approx(3.17e-5, rel=5e-3)
    numbers = double_harris.reference(deck)
    assert numbers["electrons"]["thermal_velocity"] == pytest.approx(0.090, abs=5e-4)
    assert deck.grid.cells == (160, 80, 80) and deck.grid.size == (28.0, 14.0, 14.0)
    assert [s.charge_to_mass for s in deck.species] == [1.0, -256.0]
    assert [s.per_cell for s in deck.species] == [768, 768]
    assert deck.time.dt == 0.125 and deck.time.n_steps == 4800


def test_field_has_the_profile_of_the_contract():
    """Cell values converge to B_x(y) with second order."""
    errors = []
    for n in (140, 280):
        deck = sheet_deck([1, n])
        B = double_harris.fields(block_of(deck), deck)[1]
        y = (np.arange(n) + 0.5) * 14.0 / n
        errors.append(np.abs(B[0, 0] - lobe_field(deck, y)).max() / 0.0195)
        assert np.all(B[1:] == 0.0)
    assert errors[1] < 1e-3
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.05)


def test_pressure_balance():
    """n (T_i + T_e) + ½B² is the same everywhere, to the tails by which the sheets overlap."""
    deck = sheet_deck([1, 80])
    y = np.linspace(0.0, 14.0, 1001)
    thermal = sum(densities(deck, k, y).sum(axis=0) * double_harris.temperature(deck, k) for k in (0, 1))
    total = thermal + 0.5 * lobe_field(deck, y) ** 2
    assert np.ptp(total) < 1e-5 * total.mean()


def test_theory_is_this_equilibrium():
    """Field and moments of the recipes, that figures draw: the profile of the contract, and n T + ½B² the same."""
    deck = sheet_deck([8, 80], **{"problem.guide_field": 0.5})
    (theory,) = double_harris.theory(deck)
    y = np.linspace(0.0, 14.0, 1001)
    B = theory.field(y)
    np.testing.assert_allclose(B, [lobe_field(deck, y), 0 * y, np.full(1001, 0.5 * 0.0195)], atol=1e-16)
    x = np.stack([np.full_like(y, theory.clear[0]), y])
    total = 0.5 * np.sum(B**2, axis=0)
    for k, (s, recipe) in enumerate(zip(deck.species, double_harris.recipes(deck), strict=True)):
        n, flux, variance = recipe.moments(x)
        np.testing.assert_allclose(n, densities(deck, k, y).sum(axis=0), rtol=1e-13)
        np.testing.assert_allclose(variance[1], n * double_harris.temperature(deck, k) * abs(s.charge_to_mass))
        assert np.abs(flux[2]).max() == pytest.approx(abs(double_harris.drift_speed(deck, k)), rel=1e-3)
        total += variance[1] / abs(s.charge_to_mass)
    assert np.ptp(total) < 1e-5 * total.mean()


def test_pressure_follows_from_the_particles_numbers():
    """Thermal velocities and densities of the recipes give the temperatures of the balance."""
    deck = sheet_deck([1, 80])
    for k, s in enumerate(deck.species):
        for population in double_harris.recipes(deck)[k].populations:
            v = np.array(population.thermal_velocity)
            np.testing.assert_allclose(v**2 / abs(s.charge_to_mass), double_harris.temperature(deck, k), rtol=1e-13)


def test_current_carries_the_curl_of_B():
    """Σ q n u of the recipes against the discrete ∇×B at nodes, to second order in Δ."""
    errors = []
    for n in (140, 280):
        deck = sheet_deck([1, n])
        block = block_of(deck)
        B = double_harris.fields(block, deck)[1]
        curl_B = curl(np.pad(B, [(0, 0), (1, 0), (1, 0)], mode="wrap"), block.spacing)[:, 0]
        y = np.arange(n) * 14.0 / n
        J = np.zeros((3, n))
        for k, recipe in enumerate(double_harris.recipes(deck)):
            drifts = np.array([p.drift for p in recipe.populations])
            J += recipe.charge * drifts.T @ densities(deck, k, y)
        errors.append(np.abs(curl_B - J).max() / np.abs(J).max())
    assert errors[1] < 3e-3
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.05)


def test_sheet_axes_turn_together():
    """Sheets across x in one dimension are those across y in two, turned."""
    flat = load_deck("double_harris", {"grid.cells": [60], "grid.size": [14.0], "problem.normal": "x", **EQUILIBRIUM})
    B = double_harris.fields(block_of(flat), flat)[1]
    deck = sheet_deck([1, 60])
    turned = double_harris.fields(block_of(deck), deck)[1][:, 0]
    assert np.array_equal(B[2], turned[0])
    for a, b in zip(double_harris.recipes(flat), double_harris.recipes(deck), strict=True):
        assert [p.drift[1] for p in a.populations] == [p.drift[2] for p in b.populations]


def test_pinch_makes_an_x_point_in_each_sheet():
    """At (L_x/4, L_y/4) and (3L_x/4, 3L_y/4) B vanishes and ∂_xB_y ∂_yB_x > 0; the pinch stays at its sheet."""
    changes = {"problem.perturbation": 0.4}
    deck = sheet_deck([112, 112], **changes)
    block = block_of(deck)
    E, B = double_harris.fields(block, deck)
    assert np.all(E == 0.0)
    for i in (28, 84):
        around = B[:2, i - 1 : i + 1, i - 1 : i + 1]
        assert np.abs(around.mean(axis=(1, 2))).max() < 1e-12
        slopes = np.diff(around[1], axis=0).mean(), np.diff(around[0], axis=1).mean()
        assert slopes[0] * slopes[1] > 0.0
    straight = double_harris.fields(block, sheet_deck([112, 112]))[1]
    assert np.abs(B - straight)[:, :, 56].max() < 0.05 * np.abs(B - straight).max()


# -- particles ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loaded():
    """The particles of both species on 4 × 40 cells, with their places y."""
    deck = sheet_deck([4, 40])
    block, species = block_of(deck), []
    for k, recipe in enumerate(double_harris.recipes(deck)):
        p = particles_of(recipe, block, species=k, particles_per_cell=1000, seed=3)
        p["y"] = (p["cell"] % 40 + 0.5 + p["s"][1]) * block.spacing[1]
        species.append(p)
    return deck, block, species


def test_particles_start_neutral(loaded):
    """Electrons sit on ions with the opposite charge: E = 0 obeys Gauss's law."""
    ions, electrons = loaded[2]
    assert np.array_equal(ions["s"], electrons["s"]) and np.array_equal(ions["cell"], electrons["cell"])
    assert np.array_equal(ions["weight"], -electrons["weight"])


def test_particle_density_current_and_temperature(loaded):
    """Row by row of cells: density to the noise of positions, current and temperature to that of velocities."""
    deck, block, species = loaded
    rows = np.arange(40)
    fine = (np.arange(40 * 50) + 0.5) * 14.0 / (40 * 50)
    for k, p in enumerate(species):
        row = p["cell"] % 40
        weight = np.abs(p["weight"])
        volume = 4 * block.volume
        n = densities(deck, k, fine).reshape(3, 40, 50).mean(axis=2)
        np.testing.assert_allclose(np.bincount(row, weight) / volume, n.sum(axis=0), rtol=0.04)
        drift = double_harris.drift_speed(deck, k) * (n[0] - n[1])
        flow = np.bincount(row, weight * p["v"][2]) / volume
        temperature = double_harris.temperature(deck, k) * abs(deck.species[k].charge_to_mass)
        noise = np.sqrt(temperature + double_harris.drift_speed(deck, k) ** 2) * n.sum(axis=0) / np.sqrt(4000)
        assert np.all(np.abs(flow - drift) < 5 * noise + 0.04 * np.abs(drift))
        for component in (0, 1):
            spread = np.bincount(row, p["v"][component] ** 2) / np.bincount(row)
            np.testing.assert_allclose(spread[rows], temperature, rtol=0.12)
