"""Write docs/deck_reference.md from the deck schema and the problems: ``python scripts/make_deck_reference.py``."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path
from typing import Any

from ecsim.deck.overrides import LISTS
from ecsim.deck.schema import SECTIONS, Diagnostic, Problem
from ecsim.deck.values import describe
from ecsim.diagnostics import registry as diagnostics
from ecsim.keys import keys_of, rule_of
from ecsim.problems import registry

PAGE = Path(__file__).resolve().parents[1] / "docs" / "deck_reference.md"
INTRODUCTION = """# Deck reference

<!-- Written by scripts/make_deck_reference.py from the schema; do not edit. -->

A deck is a [TOML](https://toml.io) file of the sections below. Keys without a default must be given. Unknown keys,
wrong types and values outside the allowed range are errors, all reported at once. On the command line
`--set section.key=value` changes a key (`--set species.NAME.key=value` for a species), and `ecsim check DECK` shows
what a deck amounts to. Units are those of [](units.md): lengths in ion skin depths d_i, times in 1/ω_pi, velocities
in c.
"""


def page() -> str:
    """The whole page as Markdown."""
    parts = [INTRODUCTION]
    for name, cls in SECTIONS.items():
        heading = f"[[{name}]]" if name in LISTS else f"[{name}]"
        parts.append(f"## `{heading}`\n\n{(cls.__doc__ or '').strip()}\n")
        sections = {Problem: problem_sections, Diagnostic: diagnostic_sections}
        parts.append(sections[cls]() if cls in sections else table(cls))
    return "\n".join(parts)


def problem_sections() -> str:
    """The key ``name``, then each problem with its own keys."""
    known = registry()
    parts = [f"`name` is one of {', '.join(f'`{name}`' for name in known)}.\n"]
    for name, problem in known.items():
        summary = (problem.__doc__ or "").strip().partition("\n")[0]
        honoured = ", ".join(f"`{key}`" for key in problem.species_keys)
        species = f" Of the optional `[[species]]` keys it takes {honoured}." if honoured else ""
        parts.append(f"### `{name}`\n\n{summary}{species}\n\n{table(problem.Params)}")
    return "\n".join(parts)


def diagnostic_sections() -> str:
    """The key ``kind``, then each kind with its keys."""
    known = diagnostics()
    parts = [f"`kind` is one of {', '.join(f'`{name}`' for name in known)}.\n"]
    for name, module in known.items():
        summary = " ".join((module.__doc__ or "").strip().split("\n\n")[0].split())
        parts.append(f"### `{name}`\n\n{summary}\n\n{table(module.Params)}")
    return "\n".join(parts)


def table(cls: Any) -> str:
    """One row a key: type, unit, default, allowed range and help."""
    hints = typing.get_type_hints(cls)
    rows = ["| key | type | unit | default | allowed | meaning |", "|---|---|---|---|---|---|"]
    for name, field in keys_of(cls).items():
        rule = rule_of(field)
        allowed = ", ".join(part for part in (rule.allowed(name), rule.allowed_length()) if part)
        cells = (f"`{name}`", describe(hints[name]), rule.unit, default(field), allowed, rule.help)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def default(field: dataclasses.Field[Any]) -> str:
    """The default as it would stand in a deck."""
    if field.default is dataclasses.MISSING:
        return "(required)"
    if field.default is None:
        return "(left out)"
    value = list(field.default) if isinstance(field.default, tuple) else field.default
    text = str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')
    return f"`{text}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
