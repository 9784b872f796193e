"""Power spectra: the last one over wavenumber and how the modes went in time, or a map in two dimensions."""

from __future__ import annotations

import numpy as np

from ecsim.plot.source import Run
from ecsim.plot.style import BLACK, COLOURS, POSITIVE, TIME, WIDTH, NothingToDraw, figure, span, unit_label

MODES = 5
LEAST = 1e-8


def draw(run: Run, series):
    """Returns the figure of one spectrum diagnostic."""
    axes = series.axes("power")
    wave = [name for name in axes if name != "component"]
    total = series["power"].sum(axis=1)
    if len(wave) == 1:
        return _lines(series, wave[0], axes[wave[0]], total)
    return _map(run, series, axes, wave, total)


def _lines(series, name: str, k, total):
    """Power over one wavenumber, first and last; and the strongest modes over time."""
    time, total = series["time"], np.where(total > 0, total, np.nan)
    filled = np.flatnonzero(np.isfinite(total[:, 1:]).any(axis=1))
    if not filled.size:
        raise NothingToDraw(f"the spectrum in {series.path} has no power")
    top, least = np.nanmax(total[:, 1:]), np.nanmin(total[:, 1:])
    limits = (max(top * LEAST, least) / 2, 3 * top)
    with figure(2.9) as drawing:
        now, history = drawing.subplots(1, 2, sharey=True)
        for row, colour in ((filled[0], "#BBBBBB"), (filled[-1], BLACK))[-len(filled):]:
            now.plot(k[1:], total[row, 1:], color=colour, label=rf"$\omega_{{pi}}t = {time[row]:.4g}$")
        now.set(yscale="log", ylim=limits, ylabel=_label(series), xlabel=rf"${name[0]}_{name[1]}\,d_i$",
                xlim=(0, k[-1]))
        now.legend()
        strongest = np.argsort(np.nan_to_num(total[:, 1:]).max(axis=0))[::-1][:MODES] + 1
        for colour, mode in zip(COLOURS, sorted(strongest), strict=False):
            history.plot(time, total[:, mode], color=colour, label=f"{mode}")
        history.set(xlabel=TIME, xlim=span(time))
        history.legend(title="waves in the box", title_fontsize=8, ncols=2)
    return drawing


def _map(run: Run, series, axes, wave, total):
    """The last power over two wavenumbers, as a map."""
    first, last = (axes[name] for name in wave)
    values = np.log10(np.fft.fftshift(np.maximum(total[-1], total[-1].max() * 1e-12 + 1e-300), axes=0))
    with figure(3.2, width=0.75 * WIDTH) as drawing:
        panel = drawing.subplots()
        image = panel.pcolormesh(np.fft.fftshift(first), last, values.T, cmap=POSITIVE, shading="nearest",
                                 rasterized=True,
                                 vmin=np.percentile(values, 5), vmax=np.percentile(values, 99.9))
        bar = drawing.colorbar(image, ax=panel)
        bar.set_label(r"$\log_{10}$ " + _label(series))
        panel.set(xlabel=rf"$k_{wave[0][1]}\,d_i$", ylabel=rf"$k_{wave[1][1]}\,d_i$")
        drawing.suptitle(_title(run, series), fontsize=9)
    return drawing


def _label(series) -> str:
    """The axis label of the power."""
    return f"power of {series.attributes['key_record']}  {unit_label(series.unit('power'))}"


def _title(run: Run, series) -> str:
    """The time of the last row."""
    return run.clock(float(series["time"][-1]))
