"""The gallery: a page a deck, with the deck, a figure beside theory, and what it cost; and the script that makes it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from ecsim.deck import shipped_decks

pytest.importorskip("matplotlib")
pytest.importorskip("PIL")
ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "gallery"
THEORY = {"growth", "histogram", "equilibrium"}


@pytest.fixture
def script(tmp_path):
    """Names of the script, which writes to a folder of its own."""
    found = runpy.run_path(str(ROOT / "scripts" / "make_gallery.py"))
    found["main"].__globals__["DOCS"] = tmp_path
    return found


@pytest.mark.parametrize("name", sorted(shipped_decks()))
def test_a_page_has_deck_figure_theory_and_cost(name):
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert f"literalinclude}} ../../decks/{name}.toml" in text
    assert re.search(r"(?m)^## Cost", text)
    images = re.findall(r"!\[.+\]\(\.\./images/(.+)\.png\)", text)
    kinds = {image.removeprefix(name).lstrip("-").split("-")[-1].partition("_")[0] for image in images}
    assert kinds & THEORY and all((ROOT / "docs" / "images" / f"{image}.png").stat().st_size > 5000 for image in images)


def test_no_picture_is_left_over():
    shown = "".join(page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    left = [path.name for path in (ROOT / "docs" / "images").iterdir() if path.name not in shown]
    assert not left


def test_the_index_lists_every_page(script):
    assert script["index"]() == (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")


def test_a_page_is_made_by_the_script(script, tmp_path):
    script["main"](["langmuir"])
    page = (tmp_path / "gallery" / "langmuir.md").read_text(encoding="utf-8")
    assert {path.name for path in (tmp_path / "images").iterdir()} == {"langmuir-growth.png", "langmuir-energy.png"}
    made, kept = (re.sub(r"(?m)^\| (machine|wall time|worst|GMRES).*$", "", text)
                  for text in (page, (PAGES / "langmuir.md").read_text(encoding="utf-8")))
    assert made == kept


def test_an_unknown_name_is_said(script):
    with pytest.raises(SystemExit, match="no such deck: langmuire; there are double_harris, "):
        script["main"](["langmuire"])


def test_smaller_versions_change_only_what_they_say(script):
    """Cells, extent of the plane, particles and length; everything else is the production deck's."""
    from ecsim.deck import dump, load_deck

    lines = {line for line in dump(load_deck("double_harris")).splitlines() if line}
    for run in script["SMALLER"]:
        smaller = {line for line in dump(load_deck("double_harris", run.changes)).splitlines() if line}
        changed = {line.partition(" =")[0] for line in smaller - lines}
        assert changed <= {key.split(".")[-1] for key in run.changes} and "particles_per_cell" in changed


def test_the_cost_of_the_full_case_is_that_of_the_manual(script, tmp_path):
    with pytest.raises(FileNotFoundError):
        script["full_cost"]()
    (tmp_path / "performance.md").write_text("| **whole cycle** | **125.0** | **76.2** |")
    assert "125.0 ms per cycle, 10 minutes for the 4,800 cycles" in script["full_cost"]()
    (tmp_path / "performance.md").write_text("nothing")
    with pytest.raises(SystemExit, match="whole cycle"):
        script["full_cost"]()
