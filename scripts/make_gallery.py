"""Run the shipped decks and write the gallery of the manual: docs/gallery.md, a page a deck, and their figures.

    python scripts/make_gallery.py [NAME ...]

Without names all decks are run, the production case in two smaller versions: about ten minutes on two cores. With
names only these are, and the index is left as it is. Needs the extra ``plot``.
"""

from __future__ import annotations

import datetime
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from ecsim import Simulation
from ecsim.deck import load_deck, shipped_decks
from ecsim.plot import plot_run

DOCS = Path(__file__).parents[1] / "docs"
PRODUCTION = "double_harris"
INDEX = [
    "# Gallery", "",
    "Every shipped deck, run as shipped: `ecsim run NAME`. The production case is too large for that: its page has",
    "smaller versions, and what was measured of it as it is. `scripts/make_gallery.py` makes the pages and figures.",
    "Wall times include the making of the particles and all output, but not the first compilation of the kernels.", "",
]
ALT = {
    "growth": "Measured and theoretical growth or oscillation",
    "histogram": "Velocity distribution at the start and at the end, beside the one that it was drawn from",
    "equilibrium": "Field, densities, current and pressures at the start, beside those of the equilibrium",
    "fields": "The fields of the last snapshot",
    "reconnection": "Closed flux of the two sheets over time, and its rate of change",
    "health": "Temperatures over time relative to the start, and how far the fastest particles go in a step",
    "energy": "Energies over time, their changes, and the relative drift of the total",
}


class Smaller(NamedTuple):
    """A run of the production case that fits this machine: a heading, what it is, changed keys, and what to show."""

    heading: str
    text: str
    label: str
    changes: Mapping[str, Any]
    kinds: tuple[str, ...]


FEWER = {"species.ions.particles_per_cell": 36, "species.electrons.particles_per_cell": 36}
SMALLER = (
    Smaller("The start", "Three dimensions, with the cells of the deck across the sheets and a quarter of them along x "
            "and z, 36 particles per cell and species, and 8 cycles. Moments are means over x and z; B is that halfway "
            "between the pinches. The total pressure is up to 3 % low in the sheets: cells a third as wide as the "
            "half-thickness smooth both of its parts.", "start",
            {"grid.cells": [40, 80, 20], **FEWER, "time.end_time": 1.0}, ("equilibrium", "fields")),
    Smaller("A plane of it", "The x–y plane alone, at full length and resolution, with 36 particles per cell and "
            "species. What the third dimension adds is missing: the sheets cannot kink.", "plane",
            {"grid.cells": [160, 80], "grid.size": [28.0, 14.0], **FEWER}, ("fields", "reconnection", "energy")),
)


def main(names: list[str]) -> None:
    """Write the pages of ``names``, or all pages and the index."""
    unknown = set(names) - set(shipped_decks())
    if unknown:
        sys.exit(f"no such deck: {', '.join(sorted(unknown))}; there are {', '.join(shipped_decks())}")
    for name in names or shipped_decks():
        print(name, flush=True)
        body = production() if name == PRODUCTION else measured(name)
        write(DOCS / "gallery" / f"{name}.md", page(name, body))
    if not names:
        write(DOCS / "gallery.md", index())


def write(path: Path, text: str) -> None:
    """Write a page, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def comments(name: str) -> tuple[str, str]:
    """First line of a deck's comments, and what its closing comment says is to be seen."""
    text = shipped_decks()[name].read_text(encoding="utf-8")
    closing = " ".join(line.lstrip("# ") for line in text.partition("# What to see:")[2].splitlines())
    return text.splitlines()[0].lstrip("# "), closing.partition("Cost:")[0].strip()


def page(name: str, body: str) -> str:
    """One page of the gallery."""
    title, seen = comments(name)
    seen = seen[:1].upper() + seen[1:]
    deck = f"## The deck\n\n```{{literalinclude}} ../../decks/{name}.toml\n:language: toml\n```\n"
    return f"# {name}\n\n{title}\n\n{seen}\n\n{body}\n{deck}"


def production() -> str:
    """The smaller runs of the production case, and what was measured of it as it is."""
    parts = [f"`ecsim check {PRODUCTION}` prints the plan of the full case. The figures here are of smaller versions; "
             "[double_harris_2d](double_harris_2d.md) is a lighter relative.\n"]
    for run in SMALLER:
        changes = " ".join(f"--set '{key}={value}'" for key, value in run.changes.items()).replace(", ", ",")
        parts += [f"## {run.heading}\n\n{run.text}\n\n```sh\necsim run {PRODUCTION} {changes}\n```\n",
                  measured(PRODUCTION, run)]
    return "\n".join([*parts, f"## Cost of the full case\n\n{full_cost()}\n"])


def full_cost() -> str:
    """The measured time of a cycle of the production case, taken from the page on performance."""
    text = (DOCS / "performance.md").read_text(encoding="utf-8")
    found = re.search(r"\*\*whole cycle\*\* \| \*\*([\d.]+)\*\*", text)
    if found is None:
        sys.exit("docs/performance.md no longer has the whole cycle of the production run in a table")
    cycles = load_deck(PRODUCTION).time.n_steps
    return (f"One NVIDIA H200 takes {found[1]} ms per cycle, {float(found[1]) * cycles / 60e3:.0f} minutes for the "
            f"{cycles:,} cycles of the run; [Performance](../performance.md) says how that was measured and where the "
            "time goes.")


def measured(name: str, smaller: Smaller | None = None) -> str:
    """Run a deck, as shipped or smaller, draw its figures and say what it cost."""
    changes, kinds = ({}, list(ALT)) if smaller is None else (dict(smaller.changes), list(smaller.kinds))
    Simulation.from_deck(name, **changes).step()
    with tempfile.TemporaryDirectory() as scratch:
        begin = time.perf_counter()
        simulation = Simulation.from_deck(name, output=Path(scratch) / name, **changes)
        simulation.run()
        seconds = time.perf_counter() - begin
        drawn = plot_run(Path(scratch) / name, output=scratch)
        shown = sorted((path for path in drawn if kind(path) in kinds), key=lambda path: kinds.index(kind(path)))
        figures = [keep(path, f"{name}-{smaller.label}" if smaller else name) for path in shown]
    return "\n".join([*figures, f"{'###' if smaller else '##'} Cost\n\n{cost(simulation, seconds)}"])


def kind(path: Path) -> str:
    """Which of the kinds of figure a file is."""
    return path.stem.partition("_")[0]


def keep(path: Path, name: str) -> str:
    """Put a figure into the manual, line drawings with a palette to keep them small; returns the line that shows it."""
    target = DOCS / "images" / f"{name}-{re.sub(r'_[0-9]+$', '', path.stem)}.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.open(path).convert("RGB")
    lines_only = kind(path) != "fields"
    (picture.quantize(256, dither=Image.Dither.NONE) if lines_only else picture).save(target, optimize=True)
    return f"![{ALT[kind(path)]}](../images/{target.name})\n"


def cost(simulation: Simulation, seconds: float) -> str:
    """A table of what the run was and took."""
    deck, steps = simulation.deck, simulation.plasma.step
    particles = sum(len(s) for s in simulation.species)
    rows = {
        "grid": f"{' × '.join(map(str, deck.grid.cells))} cells, {deck.grid.shape}",
        "particles": f"{particles:,}",
        "cycles": f"{steps:,}",
        "GMRES iterations a cycle": f"{np.mean(simulation.iterations):.1f}",
        "worst relative energy drift": f"{simulation.worst_drift:.1e}",
        "wall time": f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s",
        "machine": f"{machine()}, {datetime.date.today():%d %B %Y}",
    }
    table = "\n".join(f"| {label} | {value} |" for label, value in rows.items())
    return f"| | |\n|---|---|\n{table}\n"


def machine() -> str:
    """The processor, and how many of its threads this process may use."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{threads} threads of {model}"


def index() -> str:
    """The page that lists the others."""
    entries = [f"- [{name}](gallery/{name}.md): {comments(name)[0]}" for name in shipped_decks()]
    tree = ["```{toctree}", ":hidden:", "", *(f"gallery/{name}" for name in shipped_decks()), "```"]
    return "\n".join([*INDEX, *entries, "", *tree, ""])


if __name__ == "__main__":
    main(sys.argv[1:])
