"""``ecsim watch``: how a run is doing, from its files, in a terminal."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from datetime import datetime

import numpy as np

from ecsim.output.marked import has_writer
from ecsim.output.rundir import ENERGIES
from ecsim.reader import Run, open_run
from ecsim.report import duration

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 32
QUIET_SECONDS = 120.0


def watch(directory: str | os.PathLike[str], pause: float = 2.0, once: bool = False) -> None:
    """Show the state of a run every ``pause`` seconds until it is finished, or once. Raises OSError if it is none."""
    before = None
    while True:
        text, done, before = view(open_run(directory), before)
        if sys.stdout.isatty() and not once:
            text = f"\x1b[2J\x1b[H{text}"
        print(text, flush=True)
        if once or done:
            return
        time.sleep(pause)


def view(run: Run, before: tuple[int, float] | None = None) -> tuple[str, bool, tuple[int, float]]:
    """The state as text, whether the run is finished, and the step and wall-clock time of this look.

    before : those of the last look; the rate is taken since then, or else since the start of the run.
    """
    ledger, path = run.energies, run.directory / ENERGIES
    steps, last = ledger["step"], run.deck.time.n_steps
    if not len(steps):
        return f"{run.directory}: no rows yet", False, (0, time.time())
    step, written = int(steps[-1]), path.stat().st_mtime
    begun = before or (int(steps[0]), _start(ledger.attributes, written))
    seconds = max(written - begun[1], 1e-9)
    rate = (step - begun[0]) / seconds
    left = duration((last - step) / rate) if rate > 0 else "–"
    closed, age = not has_writer(path), time.time() - written
    done = closed and step >= last - last % run.deck.output.energies_every
    state = ("finished" if done else "stopped" if closed else
             f"no news for {duration(age)}" if age > QUIET_SECONDS else "running")
    lines = [f"{run.directory}  {run.deck.problem.name}, {state}",
             f"step {step} of {last}  ({100 * step / last:.1f} %)   t = {ledger['time'][-1]:.6g}   "
             f"{rate:.3g} steps/s   {'took' if done else 'left'} {duration(seconds) if done else left}", ""]
    lines += [*_energies(run), "",
              f"drift of the total   now {ledger['drift'][-1]:+.1e}   worst {np.abs(ledger['drift']).max():.1e}",
              f"GMRES iterations     now {ledger['iterations'][-1]}   most {ledger['iterations'].max()}"]
    lines += [*_health(run), *_files(run)]
    return "\n".join(lines), done, begun if step == begun[0] and not done else (step, written)


def _start(attributes, otherwise: float) -> float:
    """When the run began, as its files say."""
    try:
        return datetime.strptime(attributes["date"], "%Y-%m-%d %H:%M:%S %z").timestamp()
    except (KeyError, ValueError):
        return otherwise


def _energies(run: Run) -> list[str]:
    ledger = run.energies
    kinetic = {f"kinetic, {name}": ledger["kinetic"][:, k] for k, name in enumerate(run.species)}
    parts = {"electric": ledger["electric"], "magnetic": ledger["magnetic"], **kinetic, "total": ledger["total"]}
    return [f"{name:<22}{values[-1]:>12.5e}  {sparkline(values)}" for name, values in parts.items()]


def sparkline(values: np.ndarray, width: int = WIDTH) -> str:
    """A history as a row of bars between its smallest and largest value."""
    values = values[np.linspace(0, len(values) - 1, min(width, len(values))).round().astype(int)]
    low, span = values.min(), np.ptp(values)
    if not np.isfinite(span):
        return "not finite"
    return "".join(BARS[int((len(BARS) - 1) * (v - low) / span)] if span else BARS[0] for v in values)


def _health(run: Run) -> list[str]:
    """The last row of health diagnostics, with a mark where something is wrong."""
    lines = []
    for name in run.series_names:
        series = run.series(name)
        if series.attributes.get("kind") == "health" and len(series):
            fastest, T, bad = series["fastest"], series["temperature"], int(series["not_finite"][-1])
            for k, species in enumerate(run.species):
                mark = "!" if fastest[-1, k] > 1 else " "
                drift = T[-1, k] / T[0, k] - 1 if T[0, k] else 0.0
                lines.append(f"{mark} {species:<19} fastest {fastest[-1, k]:.2f} cells/step   temperature {drift:+.1%}")
            if bad:
                lines.append(f"! {bad} values of the fields are not finite")
    return lines


def _files(run: Run) -> list[str]:
    checkpoints = run.checkpoints
    newest = checkpoints[-1].name if checkpoints else "none"
    size = 0
    for folder, _, files in os.walk(run.directory):
        for name in files:
            with suppress(OSError):                     # a run that goes on renames and removes files
                size += os.stat(os.path.join(folder, name)).st_size
    return [f"newest checkpoint    {newest}", f"on disk              {size / 2**20:.1f} MiB"]
