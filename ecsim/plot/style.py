"""How figures look, and how they are saved. Nothing here touches matplotlib's global state."""

from __future__ import annotations

import math
from contextlib import contextmanager
from pathlib import Path

WIDTH = 7.0
DPI = 200
# Okabe & Ito's colours, told apart by all kinds of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
BLACK, GREY = "#000000", "#888888"
SIGNED, POSITIVE = "RdBu_r", "viridis"
RC = {
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.titlesize": 9,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.linewidth": 0.7,
    "lines.linewidth": 1.2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.use_mathtext": True,
    "axes.formatter.limits": (-3, 4),
    "legend.frameon": False,
    "mathtext.fontset": "dejavusans",
    "pdf.fonttype": 42,
}
UNITS = {
    "electric_field": r"m_i c\,\omega_{pi}/e",
    "magnetic_field": r"m_i\,\omega_{pi}/e",
    "charge_density": r"e\,n_0",
    "number_density": r"n_0",
    "current_density": r"e\,n_0 c",
    "velocity": "c",
    "pressure": r"n_0\,m_i c^2",
}
TIME = r"$\omega_{pi}\,t$"


class PlotError(Exception):
    """A figure cannot be drawn; the message says why and what would help."""


def position(axis: str) -> str:
    """Label of a space axis."""
    return rf"${axis}\,/\,d_i$"


def quantity(symbol: str, kind: str, power: int = 0) -> str:
    """Label of a quantity with its unit times 10^power, e.g. ``J_z`` in ``current_density``."""
    factor = rf"10^{{{power}}}\," if power else ""
    return rf"${symbol}$  $[{factor}{UNITS[kind]}]$"


def power_of_ten(largest: float) -> int:
    """The power of ten to take out of numbers up to ``largest``; 0 where they read well as they are."""
    power = math.floor(math.log10(largest)) if largest > 0 else 0
    return 0 if -2 < power < 3 else power


def colour(k: int) -> str:
    """The k-th colour; they come again after the last."""
    return COLOURS[k % len(COLOURS)]


def span(values) -> tuple[float, float]:
    """From the first to the last of some ordered values, as the limits of an axis; they may be one."""
    return values[0], values[-1] if values[-1] > values[0] else values[0] + 1.0


def unit_label(unit: str) -> str:
    """A unit as the files write it, typeset: ``m_i c ω_pi/q_i``."""
    for plain, maths in (("ω_pi", r"\omega_{pi}"), ("n0", "n_0"), ("²", "^2"), ("³", "^3"), ("·", r"\cdot "),
                         (" ", r"\,")):
        unit = unit.replace(plain, maths)
    return f"$[{unit}]$" if unit else ""


def energy_unit(d: int) -> str:
    """Unit of energies in ``d`` dimensions."""
    return r"n_0\,m_i c^2\,d_i" + ("" if d == 1 else f"^{d}")


class NothingToDraw(PlotError):
    """The run has nothing for this kind of figure."""


@contextmanager
def figure(height: float, width: float = WIDTH):
    """A new matplotlib Figure in the house style, in inches; raises PlotError where there is no matplotlib."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise PlotError("figures need matplotlib: pip install 'ecsim[plot]'") from None
    with matplotlib.rc_context(RC):
        yield Figure(figsize=(width, height), layout="constrained")


def save(drawing, path: Path) -> Path:
    """Write a figure (PNG or PDF by the suffix) and return its path; raises PlotError naming it if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        drawing.savefig(path, dpi=DPI)
    except OSError as error:
        raise PlotError(f"cannot write {path}: {error.strerror or error}") from error
    return path
