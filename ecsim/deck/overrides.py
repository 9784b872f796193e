"""Changes to a deck from outside it: ``--set section.key=value`` and keyword arguments."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ecsim.deck import schema
from ecsim.deck.faults import Fault, hint, nearest, show
from ecsim.deck.source import read_value
from ecsim.keys import keys_of

Overrides = Mapping[str, Any] | Sequence[str]
EXCLUSIVE = {"time.steps": "end_time", "time.end_time": "steps"}


def apply(raw: Mapping[str, Any], overrides: Overrides, faults: list[Fault]) -> dict[str, Any]:
    """A copy of the raw tables with the overrides put in; those that fit nowhere are appended to `faults`.

    `overrides` is a mapping from ``section.key`` to a value, or a sequence of ``section.key=value`` with
    values in TOML. Setting one of time.steps and time.end_time takes the place of the other.
    """
    tables = copy.deepcopy(dict(raw))
    given = parse(overrides, faults)
    for path, value in given.items():
        rival = EXCLUSIVE.get(path)
        if rival and f"time.{rival}" not in given and isinstance(tables.get("time"), dict):
            tables["time"].pop(rival, None)
        _put(tables, path, value, faults)
    return tables


LISTS = ("species", "diagnostic")


def full_key(name: str) -> str:
    """``section.key`` of a bare key name that one section of the schema has; other names are returned as they are."""
    sections = {section: cls for section, cls in schema.SECTIONS.items() if section not in (*LISTS, "problem")}
    owners = [section for section, cls in sections.items() if name in keys_of(cls)]
    return f"{owners[0]}.{name}" if len(owners) == 1 else name


def parse(overrides: Overrides, faults: list[Fault]) -> dict[str, Any]:
    """Overrides as a mapping from path to value; the last of several for one path counts."""
    if isinstance(overrides, Mapping):
        return dict(overrides)
    given = {}
    for text in overrides:
        path, equals, value = text.partition("=")
        path = re.sub(r"\[(\d+)\]", r".\1", path.strip())
        if not equals:
            faults.append(Fault(show(text), "", "an override is written section.key=value"))
            continue
        try:
            given[path] = read_value(value.strip())
        except ValueError as error:
            message = f"{error} (a string needs quotes, a list brackets)"
            faults.append(Fault(path, show(value.strip())[1:-1], message))
    return given


def _put(tables: dict[str, Any], path: str, value: Any, faults: list[Fault]) -> None:
    section, *inner = path.split(".")
    if section in LISTS and len(inner) == 2:
        table = _listed_table(section, tables.get(section), inner[0], path, value, faults)
    elif section not in LISTS and len(inner) == 1:
        table = tables.setdefault(section, {})
    else:
        form = f"{section}.NAME.key=value" if section in LISTS else "section.key=value"
        homes = schema.homes()
        near = nearest(section, homes)
        meant = f"; did you mean `{homes[near]}`?" if near and not inner else ""
        faults.append(Fault(path, show(value), f"an override is written {form}{meant}"))
        return
    if isinstance(table, dict):
        table[inner[-1]] = value


def _listed_table(section: str, tables: Any, which: str, path: str, value: Any, faults: list[Fault]) -> Any:
    """The table of a species or diagnostic given by its name or its number from 0."""
    if not isinstance(tables, list):
        tables = []
    names = [str(entry.get("name", entry.get("kind"))) for entry in tables if isinstance(entry, dict)]
    if which.isdecimal() and int(which) < len(tables):
        return tables[int(which)]
    for entry in tables:
        if isinstance(entry, dict) and entry.get("name", entry.get("kind")) == which:
            return entry
    have = f"the deck has {', '.join(names)}" if names else f"the deck has no {section}"
    faults.append(Fault(path, show(value), f"there is no {section} {which} ({have}){hint(which, names)}"))
    return None
