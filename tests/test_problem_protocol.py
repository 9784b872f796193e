"""What every problem and every shipped deck must offer, whatever its physics."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ecsim.deck import DeckError, load_deck, shipped_decks
from ecsim.fields.operators import divergence
from ecsim.grid import Block, Grid
from ecsim.problems import NAMES, registry
from ecsim.problems.common import Equilibrium

SMALL = {
    "double_harris": {"grid.cells": [8, 10, 2]},
    "double_harris_2d": {"grid.cells": [8, 10]},
    "thermal": {"grid.cells": [6, 5]},
}


def small(name: str):
    """A shipped deck on few cells."""
    return load_deck(name, SMALL.get(name, {}))


def block_of(deck) -> Block:
    return Block(Grid(deck.grid.cells, deck.grid.size, deck.grid.order))


@pytest.fixture(params=sorted(shipped_decks()))
def deck(request):
    return small(request.param)


def test_every_problem_has_a_deck():
    assert {small(name).problem.name for name in shipped_decks()} == set(NAMES) == set(registry())


def test_recipes_and_reference_cover_the_species(deck):
    problem = registry()[deck.problem.name]
    assert len(problem.recipes(deck)) == len(deck.species)
    reference = problem.reference(deck)
    assert list(reference) == [s.name for s in deck.species]
    for numbers in reference.values():
        assert set(numbers) == {"density", "thermal_velocity", "drift"}
        assert all(math.isfinite(v) and v >= 0.0 for v in numbers.values())
    for recipe, species in zip(problem.recipes(deck), deck.species, strict=True):
        assert recipe.charge == math.copysign(1.0, species.charge_to_mass)


def test_reference_field_is_the_largest(deck):
    problem, block = registry()[deck.problem.name], block_of(deck)
    B = problem.fields(block, deck)[1]
    largest = float(np.sqrt((B**2).sum(axis=0)).max())
    assert largest <= problem.magnetic_field(deck) * 1.5
    assert (largest > 0.0) == (problem.magnetic_field(deck) > 0.0)


def test_fields_are_the_same_bits_on_any_block(deck):
    problem, whole = registry()[deck.problem.name], block_of(deck)
    E, B = problem.fields(whole, deck)
    assert E.shape == B.shape == (3, *whole.cells)
    cut = whole.cells[0] // 3
    for begin, count in ((0, cut), (cut, whole.cells[0] - cut)):
        rest = whole.d - 1
        part = Block(whole.grid, (begin, *[0] * rest), (count, *whole.cells[1:]))
        for field, piece in zip((E, B), problem.fields(part, deck), strict=True):
            assert np.array_equal(field[:, begin : begin + count], piece)


def test_magnetic_field_has_no_divergence(deck):
    block = block_of(deck)
    B = registry()[deck.problem.name].fields(block, deck)[1]
    wrapped = np.pad(B, [(0, 0)] + [(1, 0)] * block.d, mode="wrap")
    scale = np.abs(B).max() / min(block.spacing)
    assert np.abs(divergence(wrapped, block.spacing)).max() <= 1e-14 * scale


def test_theory_names_an_energy_or_an_axis_with_its_field(deck):
    for line in registry()[deck.problem.name].theory(deck):
        assert line.label
        if isinstance(line, Equilibrium):
            assert line.across < len(line.clear) == len(deck.grid.cells)
            assert line.field(np.linspace(0.0, 1.0, 7)).shape == (3, 7)
        else:
            assert line.quantity in ("electric", "magnetic")
            assert line.growth_rate != 0.0 or line.frequency != 0.0


@pytest.mark.parametrize(
    ("name", "change", "key"),
    [
        ("double_harris", {"species.ions.charge_to_mass": -1.0}, "species"),
        ("double_harris", {"grid.cells": [8], "grid.size": [28.0]}, "problem.normal"),
        (
            "double_harris",
            {"grid.cells": [8], "grid.size": [28.0], "problem.normal": "x"},
            "problem.perturbation",
        ),
        ("double_harris", {"species.ions.start": "quiet"}, "species.ions.particles_per_cell"),
        ("langmuir", {"problem.mode": [32]}, "problem.mode"),
        ("langmuir", {"problem.mode": [0]}, "problem.mode"),
        ("langmuir", {"problem.mode": [1, 1]}, "problem.mode"),
        ("two_stream", {"problem.mode": 16}, "problem.mode"),
        ("vacuum_wave", {"problem.polarisation": [1.0, 0.0, 0.0]}, "problem.polarisation"),
        ("weibel", {"species.electrons.thermal_velocity": [0.0, 0.1, 0.1]}, "species.electrons.thermal_velocity"),
    ],
)
def test_faults_name_the_key(name, change, key):
    with pytest.raises(DeckError) as error:
        load_deck(name, change)
    assert [fault.key for fault in error.value.faults] == [key]


@pytest.mark.parametrize(("name", "needed"), [("langmuir", 1), ("two_stream", 2), ("double_harris", 2)])
def test_wrong_number_of_species(name, needed):
    raw = load_deck(name)
    species = [{"name": f"s{i}", "charge_to_mass": -1.0, "particles_per_cell": 1} for i in range(needed + 1)]
    with pytest.raises(DeckError, match=f"needs {needed}"):
        load_deck({"grid": {"cells": [8, 8], "size": [1.0, 1.0]}, "time": {"dt": 1.0, "steps": 1},
                   "problem": {"name": raw.problem.name, **({"mode": [1, 0]} if name == "langmuir" else {})},
                   "species": species})
