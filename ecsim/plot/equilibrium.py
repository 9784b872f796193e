"""The start of a run beside the equilibrium of its problem: field, densities, current and pressures along one axis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ecsim.output.snapshots import COMPONENTS, Snapshot, read_fields
from ecsim.plot.plane import AXES
from ecsim.plot.source import Run
from ecsim.plot.style import BLACK, COLOURS, NothingToDraw, position, power_of_ten, quantity
from ecsim.problems.common import Equilibrium

HEIGHT = 6.4
FINE = 1000
INVISIBLE = 1e-6
SUM = "total"
Curves = Mapping[str, np.ndarray]
"""Values (P,) by the label of their curve."""
Moments = Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
"""Of each species density (P,), current (3, P) and pressure along the axis (P,)."""


def draw(run: Run, figure) -> None:
    """Panels along the axis of the equilibrium: dots are what was loaded, lines are theory.

    Moments are means over the other axes; the field is that where the problem's seeds hardly reach.

    Raises NothingToDraw for problems without such an equilibrium, and without a snapshot of the start.
    """
    theory, snapshot = _start(run)
    h, n = snapshot.spacing[theory.across], snapshot.cells[theory.across]
    nodes, fine = h * np.arange(n), np.linspace(0.0, h * n, FINE)
    B, expected_B, expected_moments = _field(snapshot, theory), theory.field(fine), _expected(run, theory, fine)
    flow = int(np.argmax(np.abs(sum(J for _, J, _ in expected_moments.values())).max(axis=1)))
    at_nodes = 0.5 * (B + np.roll(B, 1, axis=1))
    dots = _curves(B, at_nodes, _loaded(run, snapshot, theory), theory.across, flow)
    lines = _curves(expected_B, expected_B, expected_moments, theory.across, flow)
    titles = ("B", "magnetic_field"), ("n", "number_density"), (f"J_{AXES[flow]}", "current_density"), ("P", "pressure")
    panels = figure.subplots(4, 1, sharex=True)
    for axes, (symbol, kind), measured, expected in zip(panels, titles, dots, lines, strict=True):
        power = _panel(axes, nodes + 0.5 * h if symbol == "B" else nodes, measured, fine, expected)
        axes.set_ylabel(quantity(symbol, kind, power))
    panels[-1].set(xlabel=position(AXES[theory.across]), xlim=(0, fine[-1]))
    figure.align_ylabels()
    keys = [panels[0].plot([], [], color=BLACK, linewidth=0.9)[0],
            panels[0].plot([], [], color=BLACK, marker="o", markersize=2.5, linestyle="none")[0]]
    figure.legend(keys, [theory.label, rf"loaded, {run.clock(snapshot.time)}"], loc="outside upper center", ncols=2)


def _panel(axes, x, measured: Curves, fine, expected: Curves) -> int:
    """Dots and lines in one colour a label, those on top the smaller ones; returns the power of ten taken out."""
    largest = max(np.abs(values).max() for values in expected.values())
    scale = 10.0 ** (power := power_of_ten(largest))
    shown = [label for label, values in expected.items() if np.abs(values).max() > INVISIBLE * largest]
    for k, label in enumerate(shown):
        colour = BLACK if label == SUM or len(shown) == 1 else COLOURS[k]
        axes.plot(fine, expected[label] / scale, color=colour, linewidth=0.9, label=label)
        axes.plot(x, measured[label] / scale, color=colour, marker="o", markersize=3.4 - 0.7 * k, linestyle="none")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return power


def _start(run: Run) -> tuple[Equilibrium, Snapshot]:
    """The equilibrium of the problem and the snapshot of step 0."""
    found = [theory for theory in run.problem.theory(run.deck) if isinstance(theory, Equilibrium)]
    if not found:
        raise NothingToDraw(f"the problem {run.deck.problem.name} has no equilibrium to compare with")
    snapshot = read_fields(run.snapshots[0])
    if snapshot.step:
        raise NothingToDraw(f"{run.directory} has no snapshot of step 0")
    return found[0], snapshot


def _curves(B, B_at_nodes, moments: Moments, across: int, flow: int) -> tuple[Curves, ...]:
    """What the four panels show: components of B, densities, current along ``flow``, pressures along ``across``."""
    current = {name: J[flow] for name, (_, J, _) in moments.items()}
    plasma, magnetic = sum(P for _, _, P in moments.values()), 0.5 * np.sum(B_at_nodes**2, axis=0)
    return ({f"$B_{axis}$": part for axis, part in zip(AXES, B, strict=True)},
            {name: n for name, (n, _, _) in moments.items()},
            {**current, SUM: sum(current.values())},
            {f"$P_{{{2 * AXES[across]}}}$": plasma, "$B^2/2$": magnetic, SUM: plasma + magnetic})


def _field(snapshot: Snapshot, theory: Equilibrium) -> np.ndarray:
    """B (3, P) at the centres of the cells along the line through the clear place."""
    index = [int(x / h) for x, h in zip(theory.clear, snapshot.spacing, strict=True)]
    line = (*index[: theory.across], slice(None), *index[theory.across + 1:])
    return snapshot.meshes["B"].values[(slice(None), *line)]


def _loaded(run: Run, snapshot: Snapshot, theory: Equilibrium) -> Moments:
    """Moments at nodes, means over the other axes.

    The pressure is that of all particles of a row together: Σ (P + mass flux · u) is what they carry, less their mean.
    """
    a, d = theory.across, len(snapshot.cells)
    others = tuple(k for k in range(-d, 0) if k != a - d)
    found = {}
    for s in run.deck.species:
        rho, J, P = (snapshot.meshes[f"{name}_{s.name}"].values for name in ("rho", "J", "P"))
        normal = COMPONENTS[6].index(2 * AXES[a])
        carried = P[normal] + np.divide(J[a] ** 2, rho, out=np.zeros_like(rho), where=rho != 0) / s.charge_to_mass
        rho, J, carried = (values.mean(axis=others) for values in (rho, J, carried))
        found[s.name] = np.abs(rho), J, carried - J[a] ** 2 / rho / s.charge_to_mass
    return found


def _expected(run: Run, theory: Equilibrium, places: np.ndarray) -> Moments:
    """Moments of the recipes at ``places`` along the line through the clear place."""
    x = np.repeat(np.array(theory.clear, dtype=float)[:, None], len(places), axis=1)
    x[theory.across] = places
    found = {}
    for s, recipe in zip(run.deck.species, run.problem.recipes(run.deck), strict=True):
        n, flux, variance = recipe.moments(x)
        found[s.name] = n, recipe.charge * flux, variance[theory.across] / abs(s.charge_to_mass)
    return found
