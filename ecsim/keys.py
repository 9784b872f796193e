"""How a key of the input language is declared: a dataclass field that carries its own manual entry.

The schema and every problem's ``Params`` are frozen dataclasses whose fields are made by `key`. The loader checks
values against what is written there, and the deck reference is generated from it, so that a key is described once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Rule:
    """What a key means and which values it allows (for a list: what each element allows)."""

    help: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    exclusive_low: bool = False
    exclusive_high: bool = False
    choices: tuple[str | int, ...] | None = None
    min_length: int | None = None
    max_length: int | None = None
    nonzero: bool = False
    pattern: str | None = None

    def allowed(self) -> str:
        """The allowed range in words, e.g. ``0.5 <= value <= 1``; empty when every value of the type is allowed."""
        if self.choices is not None:
            return "one of " + ", ".join(str(choice) for choice in self.choices)
        parts = []
        if self.low is not None and self.high is not None:
            parts.append(f"{self.low:g} {self._below()} value {self._above()} {self.high:g}")
        elif self.low is not None:
            parts.append(f"{'>' if self.exclusive_low else '>='} {self.low:g}")
        elif self.high is not None:
            parts.append(f"{self._above()} {self.high:g}")
        if self.nonzero:
            parts.append("not 0")
        if self.min_length is not None or self.max_length is not None:
            parts.append(self._lengths())
        return ", ".join(parts)

    def admits(self, value: Any) -> bool:
        """Whether a single value (of the right type) lies in the allowed range."""
        if self.choices is not None and value not in self.choices:
            return False
        if self.low is not None and (value <= self.low if self.exclusive_low else value < self.low):
            return False
        if self.high is not None and (value >= self.high if self.exclusive_high else value > self.high):
            return False
        return not (self.nonzero and value == 0)

    def admits_length(self, length: int) -> bool:
        """Whether a list may have this many elements."""
        return (self.min_length or 0) <= length and (self.max_length is None or length <= self.max_length)

    def _below(self) -> str:
        return "<" if self.exclusive_low else "<="

    def _above(self) -> str:
        return "<" if self.exclusive_high else "<="

    def _lengths(self) -> str:
        if self.min_length == self.max_length:
            return f"{self.min_length} elements"
        if self.max_length is None:
            return f"at least {self.min_length} elements"
        return f"{self.min_length or 0} to {self.max_length} elements"


def key(
    default: Any = dataclasses.MISSING,
    *,
    help: str,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    exclusive_low: bool = False,
    exclusive_high: bool = False,
    choices: Sequence[str | int] | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    nonzero: bool = False,
    pattern: str | None = None,
) -> Any:
    """Declare one key of a deck section; without `default` the deck must give it.

    The type comes from the annotation: ``bool``, ``int``, ``float``, ``str``, ``tuple[T, ...]``, ``tuple[T, T, T]``, unions of
    these, and ``| None`` for a key that may be left out. For lists the range is that of each element. Lists are written as
    tuples (frozen). Use as ``width: float = key(0.5, unit="d_i", low=0, exclusive_low=True, help="Half-thickness")``.
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
        pattern=pattern,
    )
    return dataclasses.field(default=default, metadata={"rule": rule})


def rule_of(field: dataclasses.Field[Any]) -> Rule:
    """The `Rule` a field was declared with."""
    return field.metadata["rule"]
