"""Calling functions every so many steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def check_interval(interval: int, what: str = "the interval") -> int:
    """``interval`` as an int; raises ValueError naming ``what`` unless it is a whole number of at least 1 step."""
    if isinstance(interval, bool) or int(interval) != interval or interval < 1:
        raise ValueError(f"{what} is {interval!r}; a whole number of steps, at least 1, is allowed")
    return int(interval)


class Schedule:
    """Functions with their intervals, called in the order in which they were added."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, Callable[..., Any]]] = []

    def on(self, interval: int, function: Callable[..., Any]) -> None:
        """Call ``function`` at the steps that are multiples of ``interval``. Raises ValueError unless it is ≥ 1."""
        self._entries.append((check_interval(interval), function))

    def due(self, step: int) -> list[Callable[..., Any]]:
        """The functions whose turn ``step`` is."""
        return [function for interval, function in self._entries if step % interval == 0]

    def call(self, step: int, *arguments: Any) -> None:
        """Call what is due at ``step`` with ``arguments``."""
        for function in self.due(step):
            function(*arguments)
