"""``ecsim report``: one HTML page of a run that needs no other file: deck, machine, cost, ledger and pictures."""

from __future__ import annotations

import base64
import html
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ecsim.output.rundir import ENERGIES, read_deck_text
from ecsim.output.storage import discard, part_of, reason
from ecsim.output.timings import read_timings
from ecsim.plot import plot_run
from ecsim.plot.style import NothingToDraw
from ecsim.reader import ReadError, Run, open_run
from ecsim.report import cost_table, duration

PAGE = "report.html"
MACHINE = ("software", "version", "git_hash", "date", "backend", "platform", "processor", "processors", "python",
           "numpy", "numba", "h5py", "seed")
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ddd; padding-bottom: .2rem; }
table { border-collapse: collapse; } td, th { padding: .15rem .8rem .15rem 0; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: #f5f5f5; padding: .8rem; overflow-x: auto; font-size: 13px; line-height: 1.35; }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; height: auto; } figcaption { color: #555; font-size: 13px; }
"""


def write_report(directory: str | os.PathLike[str], output: str | os.PathLike[str] | None = None) -> Path:
    """Write the page of a run into its directory, or to the file ``output``; returns its path.

    Raises OSError if there is no run or the page cannot be written, PlotError if figures cannot be drawn.
    """
    run = open_run(directory)
    if not len(run.energies):
        raise ReadError(f"{run.directory} has no rows in its {ENERGIES} yet")
    path = Path(output) if output is not None else run.directory / PAGE
    text = page(run)
    part = part_of(path)
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        discard(part)
        raise OSError(f"cannot write {path}: {reason(error)}") from error
    return path


def page(run: Run) -> str:
    """The page as text."""
    title = f"{run.deck.problem.name}: {run.directory.name}"
    sections = [("Summary", _table(summary(run))), ("Cost", _cost(run)), ("Pictures", "\n".join(_figures(run))),
                ("Machine", _table(_machine(run))),
                ("Deck", f"<pre>{html.escape(read_deck_text(run.directory))}</pre>")]
    body = "\n".join(f"<h2>{name}</h2>\n{content}" for name, content in sections if content)
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
            f"<style>{STYLE}</style></head>\n<body>\n<h1>{html.escape(title)}</h1>\n{body}\n</body></html>\n")


def summary(run: Run) -> dict[str, Any]:
    """Size, length and ledger in a few numbers."""
    deck, ledger = run.deck, run.energies
    total, parts = ledger["total"], {"electric": ledger["electric"], "magnetic": ledger["magnetic"]}
    parts.update({f"kinetic, {name}": ledger["kinetic"][:, k] for k, name in enumerate(run.species)})
    found = {
        "cells": " × ".join(map(str, deck.grid.cells)) + f" ({deck.grid.shape})",
        "particles": f"{sum(s.per_cell for s in deck.species) * deck.grid.n_cells:,}",
        "steps": f"{ledger['step'][-1]:,} of {deck.time.n_steps:,}, Δt = {deck.time.dt:g}/ω_pi",
        "worst relative drift of the energy": f"{np.abs(ledger['drift']).max():.1e}",
        "largest |∇·B|": f"{ledger['divergence_B'].max():.1e}",
        "GMRES iterations": f"last {ledger['iterations'][-1]}, most {ledger['iterations'].max()}",
    }
    gauss = ledger["gauss_residual"][np.isfinite(ledger["gauss_residual"])]
    if gauss.size:
        found["Gauss residual (rms)"] = f"first {gauss[0]:.1e}, last {gauss[-1]:.1e}"
    for name, values in parts.items():
        share = (values[-1] - values[0]) / abs(total[0]) if total[0] else 0.0
        found[f"energy, {name}"] = f"{values[0]:.4e} → {values[-1]:.4e} ({share:+.2%} of the total)"
    return found


def _cost(run: Run) -> str:
    blocks = []
    for session in read_timings(run.directory):
        steps = session["to_step"] - session["from_step"]
        iterations = run.energies["iterations"][(run.energies["step"] > session["from_step"])
                                                & (run.energies["step"] <= session["to_step"])]
        head = f"steps {session['from_step']} to {session['to_step']}: {duration(session['wall_seconds'])}"
        speed = 1e-6 * steps * session["particles"] / session["wall_seconds"]
        rate = f" on {session['device']}, {speed:.3g} M particle-steps/s"
        table = cost_table(session["seconds"], session["wall_seconds"], session["particles"],
                           [int(i) for i in iterations])
        blocks.append(f"<p>{html.escape(head + rate)}</p><pre>{html.escape(table)}</pre>")
    return "\n".join(blocks)


def _figures(run: Run) -> Iterable[str]:
    with TemporaryDirectory() as folder:
        try:
            written = plot_run(run.directory, output=folder)
        except NothingToDraw as error:
            yield f"<p>{html.escape(str(error))}</p>"
            return
        for path in written:
            data = base64.b64encode(path.read_bytes()).decode()
            yield (f'<figure><img alt="{path.stem}" src="data:image/png;base64,{data}">'
                   f"<figcaption>{html.escape(path.stem.replace('_', ' '))}</figcaption></figure>")


def _machine(run: Run) -> dict[str, Any]:
    attributes = run.energies.attributes
    return {name.replace("_", " "): attributes[name] for name in MACHINE if name in attributes}


def _table(rows: Mapping[str, Any]) -> str:
    lines = (f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>" for name, value in rows.items())
    return f"<table>{''.join(lines)}</table>"
