"""Figures from the files of a run, drawn by a process of its own: `plot_run`, `plot_comparison`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ecsim.output.rundir import FIGURES
from ecsim.plot import (
    compare,
    energy,
    equilibrium,
    fields,
    growth,
    health,
    histogram,
    probe,
    reconnection,
    spectrum,
    stages,
)
from ecsim.plot.movie import write_movie
from ecsim.plot.source import Run
from ecsim.plot.style import NothingToDraw, PlotError, figure, save

__all__ = ["FORMATS", "KINDS", "PlotError", "plot_comparison", "plot_run"]

SINGLE = {"energy": energy, "growth": growth, "reconnection": reconnection, "equilibrium": equilibrium,
          "stages": stages}
OF_SERIES = {"probe": probe, "spectrum": spectrum, "histogram": histogram, "health": health}
KINDS = ("energy", "fields", "growth", "reconnection", "equilibrium", *OF_SERIES, "stages")
FORMATS = ("png", "pdf")


def plot_run(run_directory: str | os.PathLike[str], kinds: Sequence[str] | None = None,
             output: str | os.PathLike[str] | None = None, *, format: str = "png",
             every_snapshot: bool = False, movie: bool = False) -> list[Path]:
    """Draw the figures of a run, finished or still going on.

    Parameters
    ----------
    run_directory : what ``ecsim run`` wrote.
    kinds : some of `KINDS`: "energy" (ledger and drift), "fields" (maps or profiles of the last snapshot), "growth"
        (beside the problem's theory), "reconnection" (closed flux of current sheets, and its rate), "equilibrium" (the
        start beside the problem's theory), "probe", "spectrum", "histogram" and "health" (of the diagnostics of these
        kinds), "stages" (where the time went). None draws those that the run has something for.
    output : directory for the figures; None is ``figures`` in the run directory.
    format : "png" (200 dpi) or "pdf".
    every_snapshot : draw every field snapshot instead of the last.
    movie : also make a film ``fields.mp4`` of all field snapshots, with fixed colours.

    Returns the paths of the written figures.

    Raises
    ------
    PlotError : if matplotlib is missing, a kind or format is unknown, a kind that was asked for has nothing to draw
        (or none has), or a figure cannot be written.
    """
    for what, given, allowed in (("kind", kinds or (), KINDS), ("format", (format,), FORMATS)):
        unknown = [name for name in given if name not in allowed]
        if unknown:
            raise PlotError(f"unknown {what} of figure {', '.join(unknown)}; one of {', '.join(allowed)} is allowed")
    run = Run(run_directory)
    target = Path(output) if output is not None else run.directory / FIGURES
    written, reasons = [], []
    for kind in kinds or KINDS:
        try:
            for name, drawing in _drawings(run, kind, every_snapshot):
                written.append(save(drawing, target / f"{name}.{format}"))
        except NothingToDraw as error:
            if kinds:
                raise
            reasons.append(f"{kind}: {error}")
    if movie:
        limits = fields.limits(run)
        written.append(write_movie(target / "fields.mp4", (fields.draw(run, path, limits) for path in run.snapshots)))
    if not written:
        raise NothingToDraw("nothing to draw. " + "; ".join(reasons))
    return written


def plot_comparison(run_directories: Sequence[str | os.PathLike[str]], output: str | os.PathLike[str],
                    format: str = "png") -> Path:
    """Draw the energies of several runs into one figure ``comparison`` in the directory ``output``; returns its path.

    Raises PlotError as `plot_run` does.
    """
    if format not in FORMATS:
        raise PlotError(f"unknown format of figure {format}; one of {', '.join(FORMATS)} is allowed")
    return save(compare.draw([Run(directory) for directory in run_directories]), Path(output) / f"comparison.{format}")


def _drawings(run: Run, kind: str, every_snapshot: bool) -> Iterator[tuple[str, object]]:
    """Names (without suffix) and figures of one kind."""
    if kind == "fields":
        for path in run.snapshots if every_snapshot else run.snapshots[-1:]:
            yield path.stem, fields.draw(run, path)
    elif kind in OF_SERIES:
        for name, series in run.series(kind):
            yield f"{kind}_{name}" if name != kind else kind, OF_SERIES[kind].draw(run, series)
    else:
        with figure(SINGLE[kind].HEIGHT) as drawing:
            SINGLE[kind].draw(run, drawing)
            yield kind, drawing
