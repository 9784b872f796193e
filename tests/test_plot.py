"""Figures are drawn from files alone, say what theory says, and are never empty."""

import sys

import numpy as np
import pytest
import synthetic_runs

from ecsim.grid import Block, Grid
from ecsim.output.energies import EnergyFile
from ecsim.output.snapshots import Mesh, write_fields
from ecsim.plot import PlotError, energy, fields, growth, plot_run, reconnection
from ecsim.plot.source import Run
from ecsim.plot.style import figure

matplotlib = pytest.importorskip("matplotlib")


def names(paths) -> list[str]:
    return [path.name for path in paths]


def colours(path) -> int:
    """How many different colours a PNG has: a blank one has one."""
    from matplotlib.image import imread
    return len(np.unique((255 * imread(path)).round().astype(np.uint8).view(np.uint32)))


def drawn(module, run):
    """The figure of a module that draws into one."""
    with figure(4.0) as drawing:
        module.draw(Run(run), drawing)
    return drawing


def legend(drawing) -> dict[str, str]:
    """Legend entries, split at the colon."""
    texts = [text.get_text() for text in drawing.legends[0].get_texts()]
    return dict(text.partition(":")[::2] for text in texts)


def number(entry: str) -> float:
    return float(entry.split("=")[-1].split("\\")[0])


def test_all_kinds_that_a_run_has_something_for(tmp_path):
    synthetic_runs.double_harris(tmp_path / "dh", cells=(56, 28))
    synthetic_runs.growing(tmp_path / "ts")
    written = plot_run(tmp_path / "dh")
    assert names(written) == ["energy.png", "fields_002400.png"]
    assert all(path.parent == tmp_path / "dh" / "figures" and colours(path) > 50 for path in written)
    assert names(plot_run(tmp_path / "ts", output=tmp_path / "out")) == ["energy.png", "growth.png"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"energy.png", "growth.png"}


def test_pdf_and_every_snapshot(tmp_path):
    synthetic_runs.travelling(tmp_path, snapshots=3)
    written = plot_run(tmp_path, ["fields"], format="pdf", every_snapshot=True)
    assert names(written) == ["fields_000000.pdf", "fields_000020.pdf", "fields_000040.pdf"]
    assert written[0].read_bytes().startswith(b"%PDF")


def test_ledger_shows_every_energy_and_the_drift(tmp_path):
    synthetic_runs.double_harris(tmp_path, cells=(8, 8))
    drawing = drawn(energy, tmp_path)
    assert list(legend(drawing)) == ["electric", "magnetic", "kinetic, ions", "kinetic, electrons", "total"]
    levels, changes, error = drawing.axes
    assert levels.get_yscale() == error.get_yscale() == "log"
    magnetic = changes.lines[1].get_ydata()
    assert magnetic[0] == 0 and magnetic[-1] == pytest.approx(-100 * 0.04 * 0.0391 / 0.0512, rel=0.02)
    assert np.nanmax(error.lines[0].get_ydata()) < 1e-14


def test_map_has_x_and_o_points_where_the_sheets_have_them(tmp_path):
    synthetic_runs.double_harris(tmp_path, cells=(112, 56))
    drawing = fields.draw(Run(tmp_path), Run(tmp_path).snapshots[0])
    panels = [axes for axes in drawing.axes if axes.images]
    labels = " ".join(axes.get_title() for axes in panels)
    assert len(panels) == 4 and all(name in labels for name in ("J_z", "B_z", "n_", "u_"))
    points = {line.get_marker(): line.get_xydata() for line in panels[0].lines if line.get_color() == "white"}
    assert points["x"][np.argsort(points["x"][:, 1])] == pytest.approx(np.array([[7, 3.5], [21, 10.5]]), abs=0.6)
    assert points["o"][0] == pytest.approx([21, 3.5], abs=1.0) or points["o"][0] == pytest.approx([7, 10.5], abs=1.0)
    np.testing.assert_allclose(panels[0].get_xlim(), (0, 28))
    image = panels[0].images[0]
    assert image.get_extent() == pytest.approx([-0.125, 28.125, -0.125, 14.125])


def test_noise_has_no_field_lines(tmp_path):
    """Field lines and points are for fields that smoothing leaves as they are."""
    random = np.random.default_rng(1).standard_normal((3, 32, 32))
    synthetic_runs.start(tmp_path, "thermal")
    for step, smooth in enumerate((0.0, 10.0)):
        B = 1e-5 * (random + smooth * np.sin(2 * np.pi * np.arange(32) / 32))
        path = write_fields(tmp_path, step=step, time=0.0, dt=0.1, spacing=(0.1, 0.1), fields={
            "B": Mesh(B, "centre", "magnetic_field"), "E": Mesh(0 * B, "node", "electric_field")})
        drawing = fields.draw(Run(tmp_path), path)
        panel = drawing.axes[0]
        assert bool(panel.collections) == bool(smooth)
        assert panel.get_title() == rf"$B_z$  $[10^{{{-4 if smooth else -5}}}\,m_i\,\omega_{{pi}}/e]$"
        assert np.abs(panel.images[0].get_clim()).max() < 20


def test_plane_of_three_dimensions_is_the_one_across_the_current(tmp_path):
    synthetic_runs.double_harris(tmp_path, cells=(28, 14, 6))
    drawing = fields.draw(Run(tmp_path), Run(tmp_path).snapshots[0])
    assert "z = 7" in drawing.get_suptitle()
    assert drawing.axes[0].get_title().startswith("$J_z$")


@pytest.mark.parametrize("cells, label", [((16, 1, 1), "x"), ((1, 16, 1), "y"), ((1, 1, 16), "z"), ((16,), "x")])
def test_lines_along_the_only_wide_axis(tmp_path, cells, label):
    size = [1.0] * len(cells)
    synthetic_runs.start(tmp_path, "thermal", grid__cells=list(cells), grid__size=size)
    wave = np.sin(2 * np.pi * np.arange(16) / 16).reshape(cells)
    E = np.stack([wave, 0 * wave, 1e-14 * wave])
    spacing = [length / n for length, n in zip(size, cells, strict=True)]
    path = write_fields(tmp_path, step=0, time=0.0, dt=0.1, spacing=spacing, fields={
        "E": Mesh(E, "node", "electric_field"), "B": Mesh(0 * E, "centre", "magnetic_field"),
        "rho_ions": Mesh(1 + 0.1 * wave, "node", "charge_density")})
    drawing = fields.draw(Run(tmp_path), path)
    assert drawing.axes[-1].get_xlabel().startswith(f"${label}")
    assert [[line.get_label() for line in axes.lines] for axes in drawing.axes] == [["$E_x$"], ["ions"]]
    x, values = drawing.axes[0].lines[0].get_data()
    np.testing.assert_allclose(values, np.sin(2 * np.pi * x), atol=1e-12)


@pytest.mark.parametrize("cells, size", [((112, 56), (28.0, 14.0)), ((40, 40, 4), (28.0, 14.0, 14.0))])
def test_closed_flux_is_that_of_the_perturbation(tmp_path, cells, size):
    """The pinch a B₀λ of the double Harris sheet closes that much flux; it is drawn in units of B₀d_i."""
    changes = dict(grid__cells=list(cells), grid__size=list(size))
    for step, perturbation in enumerate((0.3, 0.5)):
        deck = synthetic_runs.start(tmp_path / "one", "double_harris", problem__perturbation=perturbation, **changes)
        block = Block(Grid(cells, size))
        _, B = Run(tmp_path / "one").problem.fields(block, deck)
        write_fields(tmp_path / "both", step=step, time=10.0 * step, dt=0.1, spacing=block.spacing,
                     fields={"B": Mesh(B, "centre", "magnetic_field")})
    (tmp_path / "both" / "deck.toml").write_text((tmp_path / "one" / "deck.toml").read_text())
    found = reconnection.history(Run(tmp_path / "both"))
    p = deck.problem.params
    expected = np.outer((0.3, 0.5), (1, 1)) * p.magnetic_field * p.half_thickness
    np.testing.assert_allclose(found.flux, expected, rtol=1e-3)
    np.testing.assert_allclose(sorted(found.place), (3.5, 10.5))
    closed, rate = drawn(reconnection, tmp_path / "both").axes
    assert closed.lines[0].get_ydata() == pytest.approx([0.15, 0.25], rel=1e-3)
    assert rate.lines[0].get_ydata() == pytest.approx([0.01 / p.magnetic_field], rel=1e-3)


def test_growth_beside_its_theory(tmp_path):
    synthetic_runs.growing(tmp_path)
    found = legend(drawn(growth, tmp_path))
    assert number(found["continuum"]) == pytest.approx(0.3536, abs=1e-4)
    assert number(found["scheme"]) == pytest.approx(0.349, abs=1e-3)
    assert number(found["fit"]) == pytest.approx(number(found["scheme"]), abs=2e-3)


def test_slopes_over_windows():
    time = np.arange(0, 10, 0.1)
    centres, rates = growth.slopes(time, 3.0 + 0.7 * time, 1.0)
    np.testing.assert_allclose(rates, 0.7, atol=1e-12)
    np.testing.assert_allclose(centres[[0, -1]], [0.5, 9.4], atol=1e-12)
    assert growth.slopes(time[:2], 0.7 * time[:2], 0.0)[1] == pytest.approx([0.7])
    assert all(len(found) == 0 for found in growth.slopes(time[:1], time[:1], 0.0))


def test_oscillation_beside_its_theory(tmp_path):
    synthetic_runs.beating(tmp_path)
    found = legend(drawn(growth, tmp_path))
    measured = next(value for name, value in found.items() if name.startswith("measured"))
    assert number(measured) == pytest.approx(0.88684, abs=1e-5)
    assert number(next(value for name, value in found.items() if name.startswith("scheme"))) == 0.88684


def test_phase_of_a_travelling_wave(tmp_path):
    deck = synthetic_runs.travelling(tmp_path)
    omega = Run(tmp_path).problem.theory(deck)[-1].frequency
    found = legend(drawn(growth, tmp_path))
    assert number(found["measured"]) == pytest.approx(omega, abs=1e-5)
    assert omega / (2 * np.pi * 4 / 64) == pytest.approx(0.9813, abs=1e-4)


def test_nothing_to_draw_is_said(tmp_path):
    with pytest.raises(PlotError, match="no run directory"):
        plot_run(tmp_path / "nowhere")
    deck = synthetic_runs.start(tmp_path, "thermal")
    with pytest.raises(PlotError, match="nothing to draw. energy: no time series .*fields_every.*; growth:"):
        plot_run(tmp_path)
    EnergyFile(tmp_path / "energies.h5", species=[s.name for s in deck.species], attributes={}).close()
    with pytest.raises(PlotError, match="has no rows yet"):
        plot_run(tmp_path, ["energy"])
    with pytest.raises(PlotError, match="the problem thermal has no theory"):
        plot_run(tmp_path, ["growth"])
    write_fields(tmp_path, step=0, time=0.0, dt=0.1, spacing=(1.0, 1.0),
                 fields={"E": Mesh(np.zeros((3, 1, 1)), "node", "electric_field")})
    with pytest.raises(PlotError, match="has a single cell"):
        plot_run(tmp_path, ["fields"])
    assert not (tmp_path / "figures").exists()


def test_unknown_kind_and_format_are_said(tmp_path):
    with pytest.raises(PlotError, match="kind of figure energies; one of energy, fields, growth, reconnection"):
        plot_run(tmp_path, ["energies"])
    with pytest.raises(PlotError, match="format of figure svg; one of png, pdf"):
        plot_run(tmp_path, format="svg")


def test_without_matplotlib_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    synthetic_runs.beating(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PlotError, match=r"pip install 'ecsim\[plot\]'"):
        plot_run(tmp_path)


def test_an_unwritable_place_is_said(tmp_path):
    synthetic_runs.beating(tmp_path)
    (tmp_path / "figures").write_text("in the way")
    with pytest.raises(PlotError, match="cannot write .*energy.png"):
        plot_run(tmp_path)
