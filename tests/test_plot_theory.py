"""Figures beside what the problem starts from, and what figures of diagnostics make of gaps: equilibria, histograms."""

import numpy as np
import pytest
import synthetic_runs

from ecsim.grid import Block, Grid
from ecsim.output.snapshots import Mesh, write_fields
from ecsim.output.timings import write_timings
from ecsim.plot import PlotError, equilibrium, histogram, reconnection, spectrum, stages
from ecsim.plot.source import Run
from ecsim.plot.style import figure

pytest.importorskip("matplotlib")
SMALL = {"grid__cells": [16, 64], "grid__size": [28.0, 14.0]}


def start(path, step=0, **changes):
    """A run of the double Harris sheet whose snapshot has the moments of the recipes, without noise; its Run."""
    deck = synthetic_runs.start(path, "double_harris", **{**SMALL, **changes})
    block = Block(Grid(deck.grid.cells, deck.grid.size))
    run = Run(path)
    _, B = run.problem.fields(block, deck)
    x = np.stack(np.meshgrid(*(h * np.arange(n) for h, n in zip(block.spacing, block.cells, strict=True)),
                             indexing="ij")).reshape(2, -1)
    fields = {"B": Mesh(B, "centre", "magnetic_field")}
    for s, recipe in zip(deck.species, run.problem.recipes(deck), strict=True):
        n, flux, variance = recipe.moments(x)
        P = np.zeros((6, len(n)))
        P[[0, 3, 5]] = variance / abs(s.charge_to_mass)
        for name, values, kind in (("rho", recipe.charge * n, "charge_density"), ("P", P, "pressure"),
                                   ("J", recipe.charge * flux, "current_density")):
            shape = (*np.shape(values)[:-1], *block.cells)
            fields[f"{name}_{s.name}"] = Mesh(values.reshape(shape), "node", kind)
    write_fields(path, step=step, time=0.125 * step, dt=0.125, spacing=block.spacing, fields=fields)
    return run


def drawn(module, run):
    """The figure of a module that draws into one."""
    with figure(4.0) as drawing:
        module.draw(run, drawing)
    return drawing


@pytest.mark.parametrize("changes", [{}, {"problem__guide_field": 0.3}])
def test_dots_lie_on_the_lines_of_the_equilibrium(tmp_path, changes):
    """Exact moments give exact dots; B and its pressure differ by the second order of the cells, the pinch by less."""
    run = start(tmp_path, **changes)
    field, density, current, pressure = drawn(equilibrium, run).axes
    labels = [[text.get_text() for text in axes.legend_.get_texts()] for axes in (field, density, current, pressure)]
    assert labels == [["$B_x$", *(["$B_z$"] if changes else [])], ["ions", "electrons"],
                      ["ions", "electrons", "total"], ["$P_{yy}$", "$B^2/2$", "total"]]
    for axes, tolerance in ((field, 0.02), (density, 1e-3), (current, 1e-3), (pressure, 0.05)):
        curves = [line for line in axes.lines if len(line.get_xdata())]
        for line, dots in zip(curves[::2], curves[1::2], strict=True):
            largest = np.abs(line.get_ydata()).max()
            expected = np.interp(dots.get_xdata(), *line.get_data())
            np.testing.assert_allclose(dots.get_ydata(), expected, atol=tolerance * largest)
    total = pressure.lines[-2].get_ydata()
    assert np.ptp(total) < 1e-4 * total.mean()
    assert "n_0" in density.get_ylabel() and pressure.get_xlabel().startswith("$y")


def test_pressure_of_a_row_counts_that_its_cells_move_apart(tmp_path):
    """Cells of one row that flow in opposite directions have a pressure together, n m u²."""
    run = start(tmp_path)
    theory, snapshot = equilibrium._start(run)
    before = equilibrium._loaded(run, snapshot, theory)["ions"][2]
    rho, J = snapshot.meshes["rho_ions"].values, snapshot.meshes["J_ions"].values
    J[1] = 0.1 * rho * np.where(np.arange(16) % 2, 1.0, -1.0)[:, None]
    after = equilibrium._loaded(run, snapshot, theory)["ions"][2]
    np.testing.assert_allclose(after - before, 0.01 * rho.mean(axis=0), rtol=1e-12)


def test_no_equilibrium_is_said(tmp_path):
    with pytest.raises(PlotError, match="no snapshot of step 0"):
        drawn(equilibrium, start(tmp_path / "late", step=4))
    synthetic_runs.travelling(tmp_path / "wave")
    with pytest.raises(PlotError, match="vacuum_wave has no equilibrium"):
        drawn(equilibrium, Run(tmp_path / "wave"))


def histogram_of(path, deck, axis, centres, rows, **keys):
    """The figure of a histogram over one axis."""
    synthetic_runs.start(path, deck)
    synthetic_runs.write_series(path / "diagnostics" / "histogram.h5", "histogram",
                                {"time": np.arange(len(rows)), "f": np.array(rows)}, {axis: centres}, **keys)
    run = Run(path)
    ((_, series),) = run.series("histogram")
    return histogram.draw(run, series)


def test_velocities_beside_the_maxwellian_of_the_start(tmp_path):
    v = np.linspace(-0.4, 0.4, 33)
    f = 1.92**2 * np.exp(-0.5 * (v / 0.1) ** 2) / (np.sqrt(2 * np.pi) * 0.1)
    drawing = histogram_of(tmp_path, "thermal", "vx", v, [f, 0.0 * f], key_species="electrons")
    (panel,) = drawing.axes
    lines = {line.get_label(): line for line in panel.lines}
    assert list(lines) == [r"$\omega_{pi}t = 0$", r"$\omega_{pi}t = 1$", "theory, start"]
    np.testing.assert_allclose(lines["theory, start"].get_ydata(), f, rtol=1e-12)
    assert panel.get_yscale() == "log" and panel.get_ylim()[0] == pytest.approx(0.5 * f.min())
    assert np.isnan(lines[r"$\omega_{pi}t = 1$"].get_ydata()).all()


@pytest.mark.parametrize("deck, axis, species", [("langmuir", "vx", "electrons"), ("thermal", "x", "ions"),
                                                 ("thermal", "speed", "ions"), ("thermal", "vx", "others")])
def test_no_theory_of_cold_or_other_axes(tmp_path, deck, axis, species):
    drawing = histogram_of(tmp_path, deck, axis, np.linspace(0.0, 0.1, 5), [np.ones(5)], key_species=species)
    (panel,) = drawing.axes
    assert len(panel.lines) == 1 and panel.get_ylim()[0] == (0.5 if axis[0] in "vs" else 0.0)


def test_theory_of_a_region_has_the_particles_of_that_region(tmp_path):
    """All the carriers of the first sheet, whose mean velocity is theirs."""
    v, region = np.linspace(-0.1, 0.1, 201), np.array([0.0, 28.0, 0.0, 7.0, 0.0, 14.0])
    drawing = histogram_of(tmp_path, "double_harris", "vz", v, [np.ones(201)], key_species="ions", key_region=region)
    f = drawing.axes[0].lines[-1].get_ydata()
    number = np.sum(f) * (v[1] - v[0])
    assert number == pytest.approx(28.0 * 14.0 * (0.2 * 7.0 + 2 * 0.5), rel=1e-3)
    deck = Run(tmp_path).deck
    drift = -2 * Run(tmp_path).problem.temperature(deck, 0) / (0.0195 * 0.5)
    assert np.sum(v * f) / np.sum(f) == pytest.approx(drift * 1.0 / (0.2 * 7.0 + 1.0), rel=2e-3)


def test_a_spectrum_leaves_out_what_has_no_power(tmp_path):
    synthetic_runs.start(tmp_path, "thermal")
    power = np.outer([0.0, 1e-6, 1e-4], [5.0, 1.0, 2.0, 0.5])[:, None, :]
    for name, values in (("some", power), ("none", 0.0 * power)):
        synthetic_runs.write_series(tmp_path / "diagnostics" / f"{name}.h5", "spectrum",
                                    {"time": np.arange(3.0), "power": values},
                                    {"component": np.arange(1), "kx": np.arange(4.0)}, key_record="E")
    run = Run(tmp_path)
    (_, none), (_, some) = run.series("spectrum")
    now, history = spectrum.draw(run, some).axes
    assert [line.get_label() for line in now.lines] == [r"$\omega_{pi}t = 1$", r"$\omega_{pi}t = 2$"]
    assert now.get_ylim() == pytest.approx((0.25e-6, 6e-4)) == history.get_ylim()
    with pytest.raises(PlotError, match="has no power"):
        spectrum.draw(run, none)


def test_the_rate_of_reconnection_holds_to_the_ends(tmp_path):
    """A steady rate is drawn as such over the whole history, gaps left out, in both normalisations of each sheet."""
    synthetic_runs.start(tmp_path, "double_harris")
    time, both = np.linspace(0.0, 480.0, 97), np.ones((97, 2))
    inflow, density = [0.03, 0.024] * both, [0.25, 0.64] * both
    inflow[3] = np.nan
    synthetic_runs.write_series(tmp_path / "diagnostics" / "reconnection.h5", "reconnection", {
        "time": time, "flux": 0.1 * 0.0195**2 * time[:, None] * both, "JE_x_point": 0 * both, "B_inflow": inflow,
        "n_inflow": density}, {"sheet": np.arange(2)})
    rate = drawn(reconnection, Run(tmp_path)).axes[1]
    shown = [line for line in rate.lines if len(line.get_xdata()) > 2]
    measured = [0.1 * 0.0195**2 * root / B**2 for B, root in ((0.03, 0.5), (0.024, 0.8))]
    for line, expected in zip(shown, (0.1, measured[0], 0.1, measured[1]), strict=True):
        np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-12)
        assert line.get_xdata()[[0, -1]] == pytest.approx([20.0, 460.0])


def test_the_title_of_the_stages_has_room(tmp_path):
    write_timings(tmp_path, {"from_step": 0, "to_step": 10, "wall_seconds": 1.0, "seconds": {"mover": 0.5},
                             "particles": 1000, "ranks": 1, "device": "CPU, 2 threads (no GPU: " + 200 * "x" + ")"},
                  fresh=True)
    assert drawn(stages, Run(tmp_path)).axes[0].get_title() == "CPU, 2 threads, 0.01 M particle-steps/s"
