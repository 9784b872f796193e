"""Seconds per phase of the cycle. Nested phases are exclusive: the inner one's time is not the outer one's."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import contextmanager


class Timer:
    """Accumulates wall-clock seconds under the name of the innermost open phase.

    ``seconds`` maps phase to seconds so far. A backend whose work is asynchronous passes ``synchronize``, called at
    every change of phase while ``exact`` is set; else a phase is charged for what the host waited in it.
    """

    def __init__(self, synchronize=None) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = time.perf_counter()
        self._synchronize = synchronize
        self.exact = False

    @property
    def seconds(self) -> dict[str, float]:
        """A copy of the seconds per phase."""
        return dict(self._seconds)

    def reset(self) -> None:
        """Forget what was measured (after a warm-up)."""
        self._seconds.clear()

    def _charge(self) -> None:
        if self.exact and self._synchronize is not None:
            self._synchronize()
        now = time.perf_counter()
        if self._open:
            self._seconds[self._open[-1]] += now - self._since
        self._since = now

    @contextmanager
    def phase(self, name: str):
        """Charge the time inside the ``with`` block to ``name``."""
        self._charge()
        self._open.append(name)
        try:
            yield
        finally:
            self._charge()
            self._open.pop()
