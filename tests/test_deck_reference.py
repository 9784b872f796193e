"""The deck reference in the manual is the one that the schema gives."""

from __future__ import annotations

import runpy
from pathlib import Path

from ecsim.deck.schema import SECTIONS
from ecsim.diagnostics import registry as diagnostics
from ecsim.keys import keys_of
from ecsim.problems import registry

ROOT = Path(__file__).resolve().parents[1]


def test_committed_page_is_current():
    script = runpy.run_path(str(ROOT / "scripts" / "make_deck_reference.py"))
    committed = (ROOT / "docs" / "deck_reference.md").read_text(encoding="utf-8")
    assert script["page"]() == committed, "run python scripts/make_deck_reference.py"


def test_every_key_of_every_section_and_problem_is_on_the_page():
    page = (ROOT / "docs" / "deck_reference.md").read_text(encoding="utf-8")
    sections = [cls for name, cls in SECTIONS.items() if name != "problem"]
    for cls in [*sections, *(module.Params for module in [*registry().values(), *diagnostics().values()])]:
        for name in keys_of(cls):
            assert f"| `{name}` |" in page or f"`{name}` is one of" in page
