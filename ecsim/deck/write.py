"""A deck written out again, every key of it, so that a run can be repeated from what it stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ecsim.deck.schema import SECTIONS, Deck
from ecsim.keys import keys_of


def resolved(deck: Deck) -> dict[str, Any]:
    """All sections and keys with the values in force; keys that are left out (None) are left out.

    ``load_deck(resolved(deck)) == deck``.
    """
    tables: dict[str, Any] = {}
    for name in SECTIONS:
        part = getattr(deck, name)
        if name == "species":
            tables[name] = [_table(species) for species in part]
        elif name == "diagnostic":
            tables[name] = [{"kind": entry.kind, **_table(entry.params)} for entry in part]
        elif name == "problem":
            tables[name] = {"name": part.name, **_table(part.params)}
        else:
            tables[name] = _table(part)
    return tables


def dump(deck: Deck) -> str:
    """The resolved deck as TOML text, which loads back equal."""
    lines: list[str] = []
    for name, table in resolved(deck).items():
        if isinstance(table, list):
            for entry in table:
                lines += [f"[[{name}]]", *_lines(entry), ""]
        else:
            lines += [f"[{name}]", *_lines(table), ""]
    return "\n".join(lines)


def _table(section: Any) -> dict[str, Any]:
    values = {name: getattr(section, name) for name in keys_of(section)}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items() if v is not None}


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {_value(value)}" for name, value in table.items()]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
