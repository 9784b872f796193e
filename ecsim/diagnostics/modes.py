"""Single Fourier modes, and how fast they grow or swing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

SATURATING = np.log(30.0)


class Growth(NamedTuple):
    """An exponential fitted to a history: a ∝ exp(rate·t) for ``start`` ≤ t ≤ ``stop``.

    ``intercept`` is ln a at t = 0, ``spread`` the rms distance of ln a from the line.
    """

    rate: float
    intercept: float
    start: float
    stop: float
    spread: float

    def __call__(self, time):
        """The fitted a(t)."""
        return np.exp(self.intercept + self.rate * np.asarray(time))


def mode_amplitude(field: np.ndarray, mode: Sequence[int]) -> complex:
    """Complex amplitude A of a mode of a periodic field: its part of the field is Re[A exp(2πi Σ m_k i_k/n_k)].

    field : (*cells).  mode : waves in the box along each axis.
    """
    phase = sum(m * i / n for m, i, n in zip(mode, np.indices(field.shape), field.shape, strict=True))
    share = 1.0 if not any(mode) else 2.0
    return complex(share * np.mean(field * np.exp(-2j * np.pi * phase)))


def fit_growth(time: np.ndarray, amplitude: np.ndarray, start: float | None = None,
               stop: float | None = None) -> Growth:
    """Fit an exponential to a positive history, by least squares of its logarithm.

    Without ``start`` and ``stop`` the window is found: from the last time before saturation (the largest value) at
    which the logarithm was in the lower half of its rise, to the first at which it came within a factor 30 of
    saturation, or into the uppermost quarter of its rise if that is nearer.

    Raises ValueError if fewer than three positive values lie in the window.
    """
    time, amplitude = np.asarray(time, dtype=float), np.asarray(amplitude, dtype=float)
    positive = amplitude > 0
    time, logarithm = time[positive], np.log(amplitude[positive])
    if start is None or stop is None:
        found = _window(time, logarithm)
        start = found[0] if start is None else start
        stop = found[1] if stop is None else stop
    inside = (time >= start) & (time <= stop)
    if inside.sum() < 3:
        raise ValueError(f"{inside.sum()} positive values from t = {start:g} to {stop:g}; a fit needs at least 3")
    rate, intercept = np.polyfit(time[inside], logarithm[inside], 1)
    spread = np.sqrt(np.mean((logarithm[inside] - intercept - rate * time[inside]) ** 2))
    return Growth(float(rate), float(intercept), float(start), float(stop), float(spread))


def _window(time: np.ndarray, logarithm: np.ndarray) -> tuple[float, float]:
    """Times between which the logarithm has left the noise and does not yet saturate."""
    if len(time) < 3:
        return 0.0, 0.0
    top = int(np.argmax(logarithm))
    rise = logarithm[: top + 1]
    low, high = rise.min(), rise.max()
    first = np.flatnonzero(rise <= low + (high - low) / 2)[-1]
    last = first + np.flatnonzero(rise[first:] >= high - min(SATURATING, (high - low) / 4))[0]
    return float(time[first]), float(time[last])
