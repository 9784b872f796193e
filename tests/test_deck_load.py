"""Decks are checked whole: every fault is named with key, value, what is allowed and the near miss."""

from __future__ import annotations

import copy
import dataclasses
import math
import typing

import numpy as np
import pytest

from ecsim.deck import Deck, DeckError, device_faults, dump, load_deck, resolved, shipped_decks
from ecsim.deck.schema import SECTIONS
from ecsim.keys import keys_of, rule_of
from ecsim.problems import registry

GOOD = {
    "grid": {"cells": [8, 4], "size": [2.0, 1.0]},
    "time": {"dt": 0.1, "steps": 5},
    "problem": {"name": "thermal"},
    "species": [
        {"name": "ions", "charge_to_mass": 1, "particles_per_cell": 4, "thermal_velocity": 0.01},
        {
            "name": "electrons",
            "charge_to_mass": -25.0,
            "particles_per_cell": [2, 3],
            "thermal_velocity": [0.1, 0.1, 0.2],
        },
    ],
}


def changed(**paths) -> dict:
    """The good deck with values put at paths such as ``time__dt`` or ``species__0__name``; None removes."""
    deck = copy.deepcopy(GOOD)
    for path, value in paths.items():
        *way, last = [int(part) if part.isdigit() else part for part in path.split("__")]
        table = deck
        for part in way:
            table = table.setdefault(part, {}) if isinstance(table, dict) else table[part]
        if value is None:
            del table[last]
        else:
            table[last] = value
    return deck


def faults_of(deck, overrides=()) -> list[str]:
    with pytest.raises(DeckError) as caught:
        load_deck(deck, overrides)
    assert all(str(fault) in str(caught.value) for fault in caught.value.faults)
    return [str(fault) for fault in caught.value.faults]


def only_fault(**paths) -> str:
    faults = faults_of(changed(**paths))
    assert len(faults) == 1, faults
    return faults[0]


def test_good_deck_loads_with_defaults_and_plain_types():
    deck = load_deck(GOOD)
    assert deck.grid.cells == (8, 4) and deck.grid.spacing == (0.25, 0.25) and deck.grid.shape == "cic"
    assert deck.time.theta == 0.5 and deck.time.n_steps == 5
    assert deck.species[0].charge_to_mass == 1.0 and isinstance(deck.species[0].charge_to_mass, float)
    assert deck.species[1].particles_per_cell == (2, 3) and deck.species[1].per_cell == 6
    assert deck.species[1].thermal_velocity == (0.1, 0.1, 0.2)
    assert deck.solver.tolerance == 1e-12 and deck.output.directory is None


def test_deck_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        load_deck(GOOD).time.dt = 1.0


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"time__theat": 0.5}, ["time.theat = 0.5", "unknown key", "did you mean `theta`?"]),
        ({"time__theta": 1.2}, ["time.theta = 1.2", "0.5 <= theta <= 1"]),
        ({"time__theta": 0.49}, ["time.theta = 0.49", "0.5 <= theta <= 1"]),
        ({"time__dt": "0.5"}, ['time.dt = "0.5"', "must be a number, not a string"]),
        ({"time__dt": True}, ["time.dt = true", "must be a number, not true or false"]),
        ({"time__dt": [0.5]}, ["time.dt = [0.5]", "must be a number, not a list"]),
        ({"time__dt": {"a": 1}}, ["time.dt = {a = 1}", "must be a number, not a table"]),
        ({"time__dt": 0.0}, ["time.dt = 0.0", "> 0"]),
        ({"time__dt": -0.1}, ["time.dt = -0.1", "> 0"]),
        ({"time__dt": math.nan}, ["time.dt = nan", "finite"]),
        ({"time__dt": math.inf}, ["time.dt = inf", "finite"]),
        ({"time__dt": 10**400}, ["time.dt = 1000", "...", "finite"]),
        ({"time__dt": None}, ["time.dt: missing", "a number, > 0"]),
        ({"time__steps": 2.0}, ["time.steps = 2.0", "must be an integer, not a decimal number"]),
        ({"time__steps": 0}, ["time.steps = 0", ">= 1"]),
        ({"time__steps": 2**63}, ["time.steps = 9223372036854775808", "64 bits"]),
        ({"time__end_time": 1.0}, ["time.steps", "either time.steps or time.end_time", "both"]),
        ({"time__steps": None}, ["time.steps", "either time.steps or time.end_time", "neither"]),
        ({"time": 3}, ["time = 3", "must be a section, written [time]"]),
        ({"grid__cells": [8, 0]}, ["grid.cells[1] = 0", ">= 1"]),
        ({"grid__cells": [8, -4]}, ["grid.cells[1] = -4", ">= 1"]),
        ({"grid__cells": [8.0, 4], "grid__size": [1, 2]}, ["grid.cells[0] = 8.0", "must be an integer"]),
        ({"grid__cells": 8}, ["grid.cells = 8", "must be a list of integers, not an integer"]),
        ({"grid__cells": []}, ["grid.cells = []", "1 to 3 elements, not 0"]),
        ({"grid__cells": [2, 2, 2, 2]}, ["grid.cells = [2, 2, 2, 2]", "1 to 3 elements, not 4"]),
        ({"grid__cells": [[8], 4]}, ["grid.cells[0] = [8]", "must be an integer, not a list"]),
        ({"grid__size": [1.0]}, ["grid.size = [1.0]", "2 entries, as many as grid.cells, not 1"]),
        ({"grid__size": [0.0, 1.0]}, ["grid.size[0] = 0.0", "> 0"]),
        ({"mpi__ranks": [2]}, ["mpi.ranks = [2]", "2 entries, as many as grid.cells"]),
        ({"mpi__ranks": [1000, 1]}, ["mpi.ranks = [1000, 1]", "a block is at least 1 thick"]),
        ({"grid__size": [1e-320, 1.0]}, ["grid.size", "too small"]),
        ({"grid__shape": "tcs"}, ['grid.shape = "tcs"', "one of cic, tsc", "did you mean `tsc`?"]),
        ({"problem__name": "termal"}, ['problem.name = "termal"', "did you mean `thermal`?"]),
        ({"problem__name": 3}, ["problem.name = 3", "must be one of double_harris"]),
        ({"problem__name": None}, ["problem.name: missing", "thermal"]),
        ({"problem__temperatrue": 3}, ["problem.temperatrue = 3", "unknown key"]),
        ({"species__0__particles_per_cell": -4}, ["species.ions.particles_per_cell = -4", ">= 1"]),
        ({"species__0__particles_per_cell": [2, 0]}, ["species.ions.particles_per_cell[1] = 0", ">= 1"]),
        (
            {"species__0__particles_per_cell": [2]},
            ["species.ions.particles_per_cell = [2]", "each of the 2 dimensions"],
        ),
        ({"species__0__particles_per_cell": "4"}, ["an integer or a list of integers, not a string"]),
        ({"species__0__charge_to_mass": 0}, ["species.ions.charge_to_mass = 0", "anything but 0"]),
        ({"species__0__name": "two words"}, ['species.0.name = "two words"', "letters, digits"]),
        ({"species__0__name": "électrons"}, ["species.0.name", "letters, digits"]),
        ({"species__0__name": "../up"}, ['species.0.name = "../up"', "letters, digits"]),
        ({"species__0__name": ""}, ["species.0.name", "letters, digits"]),
        ({"species__0__name": None}, ["species.0.name: missing"]),
        ({"species__1__name": "ions"}, ['species.1.name = "ions"', "species 0 has that name already"]),
        ({"species__0__drift": [0.1, 0.2]}, ["species.ions.drift = [0.1, 0.2]", "3 elements, not 2"]),
        ({"species__0": 7}, ["species.0 = 7", "written [[species]]"]),
        ({"species": {"name": "ions"}}, ["species = {", "written [[species]]"]),
        ({"particles__seed": -1}, ["particles.seed = -1", "0 <= seed <="]),
        ({"particles__ids": 1}, ["particles.ids = 1", "must be true or false, not an integer"]),
        ({"solver__tolerance": 0}, ["solver.tolerance = 0", "0 < tolerance < 1"]),
        ({"solver__guess": 1}, ["solver.guess = 1", "a string, not an integer"]),
        ({"backend__device": "gpu"}, ['backend.device = "gpu"', "auto, cpu, cuda"]),
        ({"gird": {"cells": [1]}}, ["gird: unknown section", "did you mean `grid`?"]),
        ({"wholly_other": {}}, ["wholly_other: unknown section", "known are grid, time"]),
        ({"theta": 0.5}, ["theta = 0.5", "outside any section", "did you mean `time.theta`?"]),
        ({"grid__theta": 0.5}, ["grid.theta = 0.5", "did you mean `time.theta`?"]),
        ({"time__threads": 2}, ["time.threads = 2", "did you mean `backend.threads`?"]),
        ({"output__fields_evry": 5}, ["output.fields_evry = 5", "did you mean `fields_every`?"]),
        ({"time__\x1b[31mred\n": 1}, ["time.\\x1b[31mred\\n = 1"]),
    ],
)
def test_one_fault_one_clear_message(change, parts):
    message = only_fault(**change)
    for part in parts:
        assert part in message
    assert "\n" not in message and "\x1b" not in message


def test_all_faults_come_at_once():
    deck = changed(
        time__theat=1.2, time__dt="fast", grid__cells=[0, 4], species__0__particles_per_cell=-4,
        species__1__name="ions", assembly__method="mma", assembly__precision="tf32", backend__device="cpu",
        solver__tolerance=2, nonsense={},
    )  # fmt: skip
    keys = [fault.partition(" = ")[0].partition(":")[0] for fault in faults_of(deck)]
    assert sorted(keys) == sorted(
        ["nonsense", "grid.cells[0]", "time.theat", "time.dt", "species.0.particles_per_cell",
         "species.1.name", "solver.tolerance", "assembly.method", "assembly.precision"]
    )  # fmt: skip


@pytest.mark.parametrize("change, message", [
    ({"time__dt": None, "time__dtt": -1}, "time.dtt = -1: unknown key; did you mean `dt`?"),
    ({"time__theat": 7}, "time.theat = 7: unknown key; did you mean `theta`?"),
    ({"grid__cells": None, "grid__cels": [0, 0]}, "grid.cels = [0, 0]: unknown key; did you mean `cells`?"),
])
def test_of_a_misspelt_key_nothing_else_is_said(change, message):
    """Neither that the other is missing nor what of its value would be wrong there: the deck has no such key."""
    assert faults_of(changed(**change)) == [message]


def test_an_empty_deck_lists_what_is_missing():
    assert [fault.partition(":")[0] for fault in faults_of({})] == [
        "grid.cells", "grid.size", "time.dt", "problem.name",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["double_harris", "two_stream", "langmuir", "weibel"])
def test_problems_that_need_species_say_so(name):
    faults = faults_of(changed(problem={"name": name}, species=[]))
    assert any(fault.startswith("species: ") for fault in faults), faults


def test_a_species_key_that_the_problem_would_ignore_is_a_fault():
    deck = load_deck("double_harris")
    faults = faults_of(deck, {"species.ions.density": 2.0})
    assert len(faults) == 1 and "species.ions.density = 2.0" in faults[0] and "double_harris" in faults[0]


def test_problem_faults_come_together_with_faults_elsewhere():
    faults = faults_of(changed(problem={"name": "langmuir", "mode": [99, 0]}, species=[], time__dt=-1.0))
    assert [fault.partition(" = ")[0].partition(":")[0] for fault in faults] == [
        "time.dt",
        "species",
        "problem.mode",
    ]


@pytest.mark.parametrize(
    ("assembly", "device", "key"),
    [
        ({"method": "mma"}, "cpu", "assembly.method"),
        ({"method": "flat"}, "cpu", "assembly.method"),
        ({"method": "conventional"}, "cpu", "assembly.method"),
        ({"method": "direct"}, "cuda", "assembly.method"),
        ({"precision": "tf32"}, "cpu", "assembly.precision"),
        ({"method": "flat", "precision": "tf32"}, "cuda", "assembly.precision"),
    ],
)
def test_devices_refuse_what_they_cannot_do(assembly, device, key):
    faults = faults_of(changed(assembly=assembly, backend={"device": device}))
    assert (
        len(faults) == 1
        and faults[0].startswith(key)
        and ("cpu" in faults[0] or "cuda" in faults[0] or "flat" in faults[0])
    )


@pytest.mark.parametrize(("shape", "wrong", "right"), [("cic", "tf32", "fp64"), ("tsc", "fp64", "tf32")])
@pytest.mark.parametrize("device", ["cuda", "auto"])
def test_the_tiles_of_mma_have_one_precision_for_each_shape(shape, wrong, right, device):
    def deck(precision):
        return changed(assembly={"method": "mma", "precision": precision}, grid__shape=shape,
                       backend={"device": device})

    fault, = faults_of(deck(wrong))
    assert fault.startswith("assembly.precision") and right in fault and shape in fault
    assert load_deck(deck(right)).assembly.method == "mma"


@pytest.mark.parametrize("method", ["pair", "direct", "auto"])
def test_devices_take_what_they_can(method):
    assert load_deck(changed(assembly={"method": method}, backend={"device": "cpu"})).assembly.method == method


def test_velocities_in_float32_are_for_the_cpu():
    deck = load_deck(changed(particles={"velocity": "float32"}))
    assert device_faults(deck, "cpu") == []
    assert [fault.key for fault in device_faults(deck, "cuda")] == ["particles.velocity"]


def test_device_faults_of_a_deck_that_leaves_the_device_open():
    deck = load_deck(changed(assembly={"method": "mma"}))
    assert [fault.key for fault in device_faults(deck, "cpu")] == ["assembly.method"]
    assert device_faults(deck, "cuda") == []


def test_numpy_scalars_count_as_numbers():
    deck = load_deck(changed(time__dt=np.float64(0.5), grid__cells=[np.int64(8), np.int32(4)]))
    assert deck.time.dt == 0.5 and deck.grid.cells == (8, 4) and type(deck.grid.cells[0]) is int


@pytest.mark.parametrize(
    ("end_time", "dt", "steps"),
    [(600.0, 0.125, 4800), (0.3, 0.1, 3), (0.7, 0.1, 7), (1.1, 0.1, 11), (1.0, 0.3, 4), (0.01, 1.0, 1)],
)
def test_end_time_is_rounded_up_to_whole_steps(end_time, dt, steps):
    assert load_deck(changed(time={"dt": dt, "end_time": end_time})).time.n_steps == steps


@pytest.mark.parametrize("time", [{"dt": 1e-300, "end_time": 1e30}, {"dt": 1e-9, "end_time": 1e9}])
def test_uncountable_steps_are_refused(time):
    assert "steps" in only_fault(time=time)


@pytest.mark.parametrize("name", sorted(shipped_decks()))
def test_resolved_decks_load_back_equal(name, tmp_path):
    deck = load_deck(name)
    path = tmp_path / "again.toml"
    path.write_text(dump(deck), encoding="utf-8")
    assert load_deck(path) == deck
    assert load_deck(resolved(deck)) == deck
    assert dump(load_deck(path)) == dump(deck)


def sample(annotation, rule, random):
    """A value that the declaration allows."""
    if type(None) in typing.get_args(annotation):
        options = [option for option in typing.get_args(annotation) if option is not type(None)]
        return random.choice([None, *(sample(option, rule, random) for option in options)])
    if typing.get_origin(annotation) is tuple:
        item, *rest = typing.get_args(annotation)
        length = 2 if rest == [Ellipsis] else 1 + len(rest)
        return [sample(item, rule, random) for _ in range(length)]
    if typing.get_args(annotation):
        return sample(random.choice(typing.get_args(annotation)), rule, random)
    if rule.choices:
        return random.choice(rule.choices)
    if annotation is str:
        return 'a "quoted" \\ path\twith\nnew lines, ünïcode and \x7f'
    if annotation is bool:
        return bool(random.integers(2))
    low = 0.0 if rule.low is None else rule.low
    high = low + 1000.0 if rule.high is None else rule.high
    value = low + (high - low) * random.uniform(0.01, 0.99)
    return int(value) + 1 if annotation is int else float(value)


class Random:
    """The few draws that `sample` needs."""

    def __init__(self, seed):
        self.generator = np.random.default_rng(seed)

    def choice(self, options):
        return options[self.generator.integers(len(options))]

    def uniform(self, low, high):
        return self.generator.uniform(low, high)

    def integers(self, high):
        return self.generator.integers(high)


def random_deck(seed) -> dict:
    """A deck with every key of every section drawn from its allowed range, on a device that takes it."""
    random, deck = Random(seed), {}
    for name in ("particles", "solver", "backend", "output"):
        hints = typing.get_type_hints(SECTIONS[name])
        drawn = {key: sample(hints[key], rule_of(field), random) for key, field in keys_of(SECTIONS[name]).items()}
        deck[name] = {key: value for key, value in drawn.items() if value is not None}
    if deck["particles"]["velocity"] == "float32":
        deck["backend"]["device"] = "cpu"
    return {**copy.deepcopy(GOOD), **deck}


@pytest.mark.parametrize("seed", range(20))
def test_random_decks_round_trip(seed, tmp_path):
    deck = load_deck(random_deck(seed))
    path = tmp_path / "deck.toml"
    path.write_text(dump(deck), encoding="utf-8")
    assert load_deck(path) == deck


def test_diagnostics_round_trip(tmp_path):
    entries = [{"kind": "fields", "every": 2, "records": ["E", "moments"], "stride": 3, "name": "mine"},
               {"kind": "probe", "every": 1, "position": [0.1] * len(GOOD["grid"]["cells"])}]
    deck = load_deck({**GOOD, "diagnostic": entries}, {"diagnostic.mine.every": 5, "diagnostic.probe.every": 7})
    assert [(d.name, d.params.every) for d in deck.diagnostic] == [("mine", 5), ("probe", 7)]
    path = tmp_path / "deck.toml"
    path.write_text(dump(deck), encoding="utf-8")
    assert load_deck(path) == deck


def test_resolved_holds_every_key_that_is_set():
    tables = resolved(load_deck(GOOD))
    assert list(tables) == [field.name for field in dataclasses.fields(Deck) if field.name != "source"]
    assert tables["diagnostic"] == []
    for name, cls in SECTIONS.items():
        if name == "diagnostic":
            continue
        table = tables[name][0] if name == "species" else tables[name]
        optional = {key for key, field in keys_of(cls).items() if field.default is None} if name != "problem" else set()
        expected = {"name", *keys_of(registry()["thermal"].Params)} if name == "problem" else set(keys_of(cls))
        assert expected - optional <= set(table) <= expected
