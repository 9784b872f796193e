"""How a key of the input language is declared: a dataclass field that carries its own manual entry.

The deck schema and every problem's ``Params`` are frozen dataclasses whose fields are made by `key`. The
loader checks values against what is written there, and the deck reference is generated from it: a key is
described once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

Choice = str | int


@dataclasses.dataclass(frozen=True)
class Rule:
    """What a key means and which values it allows (of a list: which elements)."""

    help: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    exclusive_low: bool = False
    exclusive_high: bool = False
    choices: tuple[Choice, ...] | None = None
    min_length: int | None = None
    max_length: int | None = None
    nonzero: bool = False
    identifier: bool = False

    def admits(self, value: Any) -> bool:
        """Whether a single value of the right type is in the allowed range."""
        if self.choices is not None and value not in self.choices:
            return False
        if self.low is not None and (value <= self.low if self.exclusive_low else value < self.low):
            return False
        if self.high is not None and (value >= self.high if self.exclusive_high else value > self.high):
            return False
        if self.identifier and not (value.isascii() and value.replace("-", "_").isidentifier()):
            return False
        return not (self.nonzero and value == 0)

    def admits_length(self, length: int) -> bool:
        """Whether a list may have this many elements."""
        return (self.min_length or 0) <= length and (self.max_length is None or length <= self.max_length)

    def allowed(self, name: str = "value") -> str:
        """The allowed range in words, such as ``0.5 <= theta <= 1``; empty when the type says it all."""
        if self.choices is not None:
            return "one of " + ", ".join(str(choice) for choice in self.choices)
        if self.identifier:
            return "letters, digits, _ and -, beginning with a letter or _"
        parts = (self._range(name), "anything but 0" if self.nonzero else "")
        return " and ".join(part for part in parts if part)

    def allowed_length(self) -> str:
        """The allowed number of elements of a list, in words; empty when any number is."""
        low, high = self.min_length, self.max_length
        if high is None:
            return "" if low is None else f"at least {low} elements"
        return f"{low} elements" if low == high else f"{low or 0} to {high} elements"

    def _range(self, name: str) -> str:
        above = "<" if self.exclusive_high else "<="
        if self.low is None:
            return "" if self.high is None else f"{above} {self.high:.12g}"
        if self.high is None:
            return f"{'>' if self.exclusive_low else '>='} {self.low:.12g}"
        return f"{self.low:.12g} {'<' if self.exclusive_low else '<='} {name} {above} {self.high:.12g}"


def key(
    default: Any = dataclasses.MISSING,
    *,
    help: str,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    exclusive_low: bool = False,
    exclusive_high: bool = False,
    choices: Sequence[Choice] | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    nonzero: bool = False,
    identifier: bool = False,
) -> Any:
    """Declare one key of a deck section; without `default` the deck must give it.
    The type is the annotation: ``bool``, ``int``, ``float``, ``str``, ``tuple[T, ...]``, ``tuple[T, T, T]``,
    unions of these, and ``| None`` for a key that may be left out. Lists are stored as tuples; `low`,
    `high`, `choices` and `nonzero` then hold for each element. `identifier` asks a string to be usable as a
    name.

    Example: ``width: float = key(0.5, unit="d_i", low=0, exclusive_low=True, help="Half-thickness")``.
    """
    rule = Rule(
        help=help,
        unit=unit,
        low=low,
        high=high,
        exclusive_low=exclusive_low,
        exclusive_high=exclusive_high,
        choices=None if choices is None else tuple(choices),
        min_length=min_length,
        max_length=max_length,
        nonzero=nonzero,
        identifier=identifier,
    )
    return dataclasses.field(default=default, metadata={"rule": rule})


def keys_of(section: Any) -> dict[str, dataclasses.Field[Any]]:
    """The fields of a dataclass that were declared by `key`, by name, in order."""
    return {field.name: field for field in dataclasses.fields(section) if "rule" in field.metadata}


def rule_of(field: dataclasses.Field[Any]) -> Rule:
    """The `Rule` a field was declared with."""
    return field.metadata["rule"]
