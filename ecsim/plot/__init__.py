"""Figures from the files of a run, drawn by a process of its own: `plot_run`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ecsim.output.rundir import FIGURES
from ecsim.plot import energy, fields, growth, reconnection
from ecsim.plot.source import Run
from ecsim.plot.style import NothingToDraw, PlotError, figure, save

__all__ = ["FORMATS", "KINDS", "PlotError", "plot_run"]

KINDS = ("energy", "fields", "growth", "reconnection")
FORMATS = ("png", "pdf")


def plot_run(run_directory: str | os.PathLike[str], kinds: Sequence[str] | None = None,
             output: str | os.PathLike[str] | None = None, *, format: str = "png",
             every_snapshot: bool = False) -> list[Path]:
    """Draw the figures of a run, finished or still going on.

    Parameters
    ----------
    run_directory : what ``ecsim run`` wrote.
    kinds : some of `KINDS`: "energy" (ledger and drift), "fields" (maps or profiles of the last snapshot), "growth"
        (beside the problem's theory), "reconnection" (closed flux of current sheets, and its rate). None draws those
        that the run has something for.
    output : directory for the figures; None is ``figures`` in the run directory.
    format : "png" (200 dpi) or "pdf".
    every_snapshot : draw every field snapshot instead of the last.

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
    if not written:
        raise NothingToDraw("nothing to draw. " + "; ".join(reasons))
    return written


def _drawings(run: Run, kind: str, every_snapshot: bool) -> Iterator[tuple[str, object]]:
    """Names (without suffix) and figures of one kind."""
    if kind == "fields":
        for path in run.snapshots if every_snapshot else run.snapshots[-1:]:
            yield path.stem, fields.draw(run, path)
        return
    module = {"energy": energy, "growth": growth, "reconnection": reconnection}[kind]
    with figure(module.HEIGHT) as drawing:
        module.draw(run, drawing)
        yield kind, drawing
