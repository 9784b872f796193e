"""--set section.key=value and overrides from Python: same checks, same messages as the deck itself."""

from __future__ import annotations

import pytest
from test_deck_load import GOOD, faults_of

from ecsim.deck import load_deck


@pytest.mark.parametrize(
    ("override", "get", "value"),
    [
        ("time.dt=0.25", lambda deck: deck.time.dt, 0.25),
        (" time.dt = 1 ", lambda deck: deck.time.dt, 1.0),
        ("grid.cells=[16, 2]", lambda deck: deck.grid.cells, (16, 2)),
        ("assembly.method=direct", lambda deck: deck.assembly.method, "direct"),
        ('assembly.method="direct"', lambda deck: deck.assembly.method, "direct"),
        ("particles.ids=true", lambda deck: deck.particles.ids, True),
        ("output.directory=runs/here", lambda deck: deck.output.directory, "runs/here"),
        ("species.electrons.particles_per_cell=8", lambda deck: deck.species[1].per_cell, 8),
        ("species.1.start=quiet", lambda deck: deck.species[1].start, "quiet"),
        ("species[0].thermal_velocity=0.5", lambda deck: deck.species[0].thermal_velocity, 0.5),
    ],
)
def test_an_override_takes_effect(override, get, value):
    assert (
        get(load_deck({**GOOD, "species": [{**s, "particles_per_cell": 16} for s in GOOD["species"]]}, [override]))
        == value
    )


def test_overrides_from_python_and_the_last_of_several():
    assert load_deck(GOOD, {"time.dt": 0.5, "species.ions.charge_to_mass": 2}).species[0].charge_to_mass == 2.0
    assert load_deck(GOOD, ["time.dt=0.5", "time.dt=0.7"]).time.dt == 0.7


def test_the_given_deck_is_left_alone():
    load_deck(GOOD, ["time.dt=0.5", "species.ions.charge_to_mass=3"])
    assert GOOD["time"]["dt"] == 0.1 and GOOD["species"][0]["charge_to_mass"] == 1


def test_a_loaded_deck_can_be_changed():
    deck = load_deck("double_harris")
    assert load_deck(deck, ["time.dt=0.5"]).time.dt == 0.5
    assert load_deck(deck) == deck and load_deck(deck).source == deck.source


def test_steps_and_end_time_take_each_others_place():
    assert load_deck(GOOD, ["time.end_time=2.0"]).time.n_steps == 20
    assert load_deck("double_harris", ["time.steps=3"]).time.n_steps == 3
    assert "both" in faults_of(GOOD, ["time.steps=3", "time.end_time=2.0"])[0]


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("time.theta=1.2", ["time.theta = 1.2", "0.5 <= theta <= 1"]),
        ("time.theat=0.6", ["time.theat = 0.6", "did you mean `theta`?"]),
        ("tiem.theta=0.6", ["tiem: unknown section", "did you mean `time`?"]),
        ("time.dt=fast", ['time.dt = "fast"', "must be a number, not a string"]),
        ("time.dt=", ["time.dt", "is not a TOML value"]),
        ("time.dt=1\nsteps = 4", ["time.dt = 1\\nsteps = 4", "is not a TOML value"]),
        ("time.dt=[1", ["time.dt = [1", "is not a TOML value"]),
        ("time.dt", ['"time.dt"', "section.key=value"]),
        ("dt=1", ["dt = 1", "section.key=value", "did you mean `time.dt`?"]),
        ("stpes=1", ["stpes = 1", "section.key=value", "did you mean `time.steps`?"]),
        ("time.dt.x=1", ["time.dt.x = 1", "section.key=value"]),
        (
            "species.electron.start=quiet",
            ["no species electron", "ions, electrons", "did you mean `electrons`?"],
        ),
        ("species.7.start=quiet", ["no species 7", "ions, electrons"]),
        ("species.start=quiet", ["species.start", "species.NAME.key=value"]),
        ("species.ions.stat=quiet", ["species.ions.stat", "did you mean `start`?"]),
    ],
)
def test_a_bad_override_is_one_clear_fault(override, parts):
    faults = faults_of(GOOD, [override])
    assert len(faults) == 1, faults
    for part in parts:
        assert part in faults[0]


def test_bad_overrides_come_together_with_faults_of_the_deck():
    faults = faults_of({**GOOD, "time": {"dt": -1.0, "steps": 1}}, ["time.theta=7", "nonsense", "species.x.y=1"])
    assert len(faults) == 4
