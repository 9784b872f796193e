"""Run directories as ``ecsim run`` leaves them, with analytic content, for tests of readers and figures."""

from pathlib import Path

import numpy as np

from ecsim.deck import dump, load_deck
from ecsim.fields.operators import curl
from ecsim.output.energies import EnergyFile
from ecsim.output.rundir import ENERGIES, create_run_directory
from ecsim.output.series import Axis, Column, SeriesFile
from ecsim.output.snapshots import Mesh, write_fields


def start(path: Path, deck: str, **changes):
    """A run directory with its resolved deck; returns the deck."""
    resolved = load_deck(deck, {key.replace("__", "."): value for key, value in changes.items()})
    create_run_directory(path, dump(resolved), overwrite=True)
    return resolved


def write_energies(path: Path, deck, time, electric, magnetic, kinetic) -> None:
    """A time series; ``kinetic`` is (rows, species)."""
    total = electric + magnetic + kinetic.sum(axis=1)
    noise = np.random.default_rng(5).integers(-3, 4, len(time)).cumsum() * 4e-17
    with EnergyFile(path / ENERGIES, species=[s.name for s in deck.species], attributes={}) as file:
        for k, t in enumerate(time):
            file.append(dict(step=k, time=t, electric=electric[k], magnetic=magnetic[k], kinetic=kinetic[k],
                             total=total[k], drift=noise[k], momentum=np.zeros(3), charge=0.0, divergence_B=1e-18,
                             gauss_residual=np.nan, iterations=5, residual=1e-15, at_rounding=False))


def write_series(path: Path, kind: str, columns, axes=None, **attributes) -> None:
    """A diagnostic's time series: ``columns`` by name (rows, …), all over the same ``axes``; "time" among them."""
    shapes = {name: np.shape(values)[1:] for name, values in columns.items()}
    layout = {name: Column("f8", shape, "", "", tuple(axes or ()) if shape else ()) for name, shape in shapes.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with SeriesFile(path, {"step": Column("i8"), **layout}, attributes={"kind": kind, **attributes},
                    axes={name: Axis(values) for name, values in (axes or {}).items()}) as file:
        for k, row in enumerate(zip(*columns.values(), strict=True)):
            file.append({"step": k, **dict(zip(columns, row, strict=True))})


def double_harris(path: Path, cells=(112, 56), island=0.25, noise=0.15, time=300.0):
    """Two sheets with an island each, an out-of-plane quadrupole, noise of a few hundred particles per cell."""
    size = (28.0, 14.0, 14.0)[: len(cells)]
    deck = start(path, "double_harris", grid__cells=list(cells), grid__size=list(size))
    spacing = [length / n for length, n in zip(size, cells, strict=True)]
    B0, lam = deck.problem.params.magnetic_field, deck.problem.params.half_thickness
    random = np.random.default_rng(3).standard_normal
    grids = np.meshgrid(*(h * np.arange(n + 1) for h, n in zip(spacing, cells, strict=True)), indexing="ij")
    x, y = grids[0], grids[1]

    def sheet(place, phase):
        width = lam * (1 + 2 * island * (1 - np.cos(2 * np.pi * (x - phase) / size[0])))
        return width * np.log(np.cosh((y - place) / width)), 1 / np.cosh((y - place) / width) ** 2

    (first, n1), (second, n2) = sheet(size[1] / 4, 7.0), sheet(3 * size[1] / 4, 21.0)
    A = np.zeros((3, *x.shape))
    A[2] = B0 * (first - second - y)
    A[2] -= (A[2][(slice(None), -1)] - A[2][(slice(None), 0)]).mean() * y / size[1]
    owned = (slice(None, -1),) * len(cells)
    B = curl(A, spacing)
    xo, yo, n1, n2 = (a[owned] for a in (x, y, n1, n2))
    B[2] += 0.1 * B0 * np.sin(2 * np.pi * xo / size[0]) * np.sin(4 * np.pi * yo / size[1]) * (n1 + n2)
    density = 0.2 + n1 + n2
    flow = 0.01 * np.sin(4 * np.pi * (xo - 7) / size[0]) * (n1 - n2)

    def noisy(a, level):
        return a + noise * level * random(a.shape)

    J = np.stack([-density * flow, 0 * flow, 0.04 * (n1 - n2)])
    fields = {
        "E": Mesh(noisy(np.zeros((3, *cells)), 2e-3), "node", "electric_field"),
        "B": Mesh(noisy(B, 0.02 * B0), "centre", "magnetic_field"),
        "J": Mesh(noisy(J, 0.02), "node", "current_density", -0.0625),
        "rho_ions": Mesh(noisy(density, 0.3), "node", "charge_density", -0.0625),
        "rho_electrons": Mesh(noisy(-density, 0.3), "node", "charge_density", -0.0625),
        "J_electrons": Mesh(noisy(J, 0.02), "node", "current_density", -0.0625),
    }
    step = round(time / deck.time.dt)
    write_fields(path, step=step, time=time, dt=deck.time.dt, spacing=spacing, fields=fields)
    t = np.linspace(0, time, 400)
    released = 0.04 / (1 + np.exp(-(t - 0.7 * time) / (0.08 * time)))
    magnetic, ions, electrons = 0.04 * (1 - released), 0.0093 + 0.028 * released, 0.0019 + 0.012 * released
    write_energies(path, deck, t, 2e-6 * (1 - 0.9 * np.exp(-t)), magnetic, np.stack([ions, electrons], axis=1))
    return deck


def growing(path: Path, deck="two_stream", quantity="electric", **changes):
    """A run whose energy grows from noise with the rate of the problem's last theory and saturates."""
    deck = start(path, deck, **changes)
    from ecsim.problems import registry
    rate = registry()[deck.problem.name].theory(deck)[-1].growth_rate
    time = np.arange(0, 60, deck.time.dt)
    wave = 1e-12 * np.exp(2 * rate * time)
    energy = wave / (1 + wave / 1e-3) * (1 + 0.1 * np.sin(2.1 * time)) + 1e-12 * (1 + np.cos(time) ** 2)
    other = np.full_like(time, 1e-14)
    kinetic = np.stack([0.5 * (0.01 - energy)] * len(deck.species), axis=1)
    parts = (energy, other) if quantity == "electric" else (other, energy)
    write_energies(path, deck, time, *parts, kinetic)
    return deck


def beating(path: Path, **changes):
    """A cold oscillation with the frequency of the problem's last theory."""
    deck = start(path, "langmuir", **changes)
    from ecsim.problems import registry
    omega = registry()["langmuir"].theory(deck)[-1].frequency
    time = deck.time.dt * np.arange(deck.time.n_steps + 1)
    energy = 1e-12 * np.sin(omega * time) ** 2
    write_energies(path, deck, time, energy, np.zeros_like(time), (1e-12 - energy)[:, None])
    return deck


def travelling(path: Path, snapshots=20):
    """A light wave with the frequency of the problem's last theory, as snapshots."""
    deck = start(path, "vacuum_wave")
    from ecsim.problems import registry
    omega = registry()["vacuum_wave"].theory(deck)[-1].frequency
    (n,), (mode,) = deck.grid.cells, deck.problem.params.mode
    for step in range(0, 20 * snapshots, 20):
        phase = 2 * np.pi * mode * np.arange(n) / n - omega * step * deck.time.dt
        E = np.stack([0 * phase, 0 * phase, np.cos(phase)])
        fields = {"E": Mesh(E, "node", "electric_field"), "B": Mesh(-E[[0, 2, 1]], "centre", "magnetic_field")}
        write_fields(path, step=step, time=step * deck.time.dt, dt=deck.time.dt, spacing=(1.0,), fields=fields)
    time = deck.time.dt * np.arange(400)
    write_energies(path, deck, time, np.full(400, 16.0), np.full(400, 16.0), np.zeros((400, 0)))
    return deck
