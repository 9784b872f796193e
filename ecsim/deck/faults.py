"""What is wrong with a deck, said so that it can be mended: key, value, what is allowed, the near miss."""

from __future__ import annotations

import dataclasses
import datetime
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LONGEST_VALUE = 60


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault: the dotted key (empty for the whole deck), the value as text (or empty), what is wrong."""

    key: str
    value: str
    message: str

    def __str__(self) -> str:
        place = f"{_printable(self.key)} = {self.value}" if self.value else _printable(self.key)
        return f"{place}: {self.message}" if place else self.message


class DeckError(ValueError):
    """A deck that cannot be run; `faults` holds every fault found, `source` says where the deck came from."""

    def __init__(self, faults: Iterable[Fault], source: str = "") -> None:
        self.faults = tuple(faults)
        self.source = source
        super().__init__(self._text())

    def _text(self) -> str:
        head = f"{_printable(self.source)}: " if self.source else ""
        if len(self.faults) == 1:
            return f"{head}{self.faults[0]}"
        lines = [f"{head}{len(self.faults)} faults"] + [f"  {fault}" for fault in self.faults]
        return "\n".join(lines)


def show(value: Any) -> str:
    """A value as it would stand in a deck, on one line and not too long."""
    try:
        text = _plain(value)
    except (ValueError, RecursionError):
        return f"(a very long {kind(value).removeprefix('a ').removeprefix('an ')})"
    text = _printable(text)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 4] + " ..."


def kind(value: Any) -> str:
    """What sort of value this is, in words."""
    words: Sequence[tuple[Any, str]] = (
        (bool, "true or false"),
        (int, "an integer"),
        (float, "a decimal number"),
        (str, "a string"),
        (Mapping, "a table"),
        ((list, tuple), "a list"),
        ((datetime.date, datetime.time), "a date or time"),
    )
    return next((word for types, word in words if isinstance(value, types)), f"a {type(value).__name__}")


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name most like `name`, or None when none is close."""
    found = difflib.get_close_matches(name.lower(), list(names), n=1, cutoff=0.6)
    return found[0] if found else None


def hint(name: str, names: Iterable[str]) -> str:
    """``; did you mean `x`?`` for the nearest name, or nothing."""
    found = nearest(name, names)
    return f"; did you mean `{found}`?" if found else ""


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name} = {_plain(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_plain(item) for item in value) + "]"
    return str(value)
