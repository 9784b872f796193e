"""Files that are not decks, and the names of shipped ones."""

from __future__ import annotations

import pytest

from ecsim.deck import DeckError, find_deck, load_deck, shipped_decks


def refusal(source) -> str:
    with pytest.raises(DeckError) as caught:
        load_deck(source)
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"[grid]\ncells = [1\n\n[time]\n", ["not valid TOML", "line 4"]),
        (b"[grid]\ncells == 3\n", ["not valid TOML", "line 2", "cells == 3"]),
        (b"[grid]\n[grid]\n", ["not valid TOML"]),
        (b"x = " + b"[" * 100_000, ["nested too deeply"]),
        (b"x = " + b"9" * 10_000, ["not valid TOML"]),
        (b"\x7fELF\x02\x01\x00\xff\xfe\x80", ["not a text file"]),
        (b"\x00\x01\x02", ["not valid TOML"]),
        (b"", ["grid.cells: missing", "problem.name: missing"]),
        (b"# only a comment\n", ["4 faults"]),
        ('"ünsinn" = 1979-05-27\n'.encode(), ["ünsinn = 1979-05-27", "outside any section"]),
        (b"grid = 0x" + b"f" * 10_000, ["grid = (a very long integer)", "[grid]"]),
        (b"[[grid]]\ncells = [1]\n", ["grid = [{cells = [1]}]", "must be a section, written [grid]"]),
        (
            b"[grid.cells.x.y]\nz = 1\n",
            ["grid.cells = {x = {y = {z = 1}}}", "a list of integers, not a table"],
        ),
        (b"species = [[[]], 3, 'a']\n", ["species.0 = [[]]", "species.1 = 3", 'species.2 = "a"']),
    ],
)
def test_hostile_files_are_refused_clearly(tmp_path, content, parts):
    path = tmp_path / "deck.toml"
    path.write_bytes(content)
    message = refusal(path)
    assert message.startswith(str(path))
    assert all(part in message for part in parts), message
    assert len(message) < 2000


def test_missing_file_and_near_miss(tmp_path):
    assert "no such deck" in refusal(tmp_path / "none.toml")
    (tmp_path / "sheet.toml").write_text("")
    assert "did you mean `sheet.toml`?" in refusal(tmp_path / "shet.toml")


def test_directory_as_deck(tmp_path):
    assert "is a directory" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["", "\0", "a" * 5000, "no/such/folder/deck.toml"])
def test_names_that_are_no_files(name):
    assert "deck" in refusal(name) or "file name" in refusal(name)


def test_shipped_decks_go_by_their_bare_name():
    assert "double_harris" in shipped_decks()
    assert find_deck("double_harris") == shipped_decks()["double_harris"]
    assert load_deck("double_harris").problem.name == "double_harris"


@pytest.mark.parametrize("name", ["duoble_harris", "double_haris.toml"])
def test_near_miss_of_a_shipped_deck(name):
    assert "did you mean `double_harris`?" in refusal(name)


def test_a_file_beside_wins_over_nothing_and_a_folder_hides_no_shipped_deck(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "thermal").mkdir()
    assert find_deck("thermal") == shipped_decks()["thermal"]
