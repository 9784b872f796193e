"""Run the shipped decks and write the gallery of the manual: docs/gallery.md, a page a deck, and their figures.

    python scripts/make_gallery.py [NAME ...]

Without names all decks but the production case are run, a few minutes on two cores; with names only these are, and
the index is left as it is. Needs the extra ``plot``.
"""

from __future__ import annotations

import datetime
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from ecsim import Simulation
from ecsim.deck import shipped_decks
from ecsim.plot import plot_run

DOCS = Path(__file__).parents[1] / "docs"
PRODUCTION = "double_harris"
INDEX = [
    "# Gallery", "",
    "Every shipped deck, run as shipped: `ecsim run NAME`. `scripts/make_gallery.py` makes the pages and figures.",
    "Wall times include the making of the particles and all output, but not the first compilation of the kernels.", "",
]
ALT = {
    "growth": "Measured and theoretical growth or oscillation",
    "fields": "The fields of the last snapshot",
    "reconnection": "Closed flux of the two sheets over time, and its rate of change",
    "energy": "Energies over time, their changes, and the relative drift of the total",
}


def main(names: list[str]) -> None:
    """Write the pages of ``names``, or all pages and the index."""
    unknown = set(names) - set(shipped_decks())
    if unknown:
        sys.exit(f"no such deck: {', '.join(sorted(unknown))}; there are {', '.join(shipped_decks())}")
    for name in names or shipped_decks():
        print(name, flush=True)
        body = f"{production_text()}\n" if name == PRODUCTION else measured(name)
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


def production_text() -> str:
    """What stands in place of a run of the production case."""
    return (f"This case is not run for the manual: `ecsim check {PRODUCTION}` prints its plan, and "
            "[Performance](../performance.md) has what was measured of it. Its little sister, which runs in about a "
            "minute, is [double_harris_2d](double_harris_2d.md).")


def measured(name: str) -> str:
    """Run a deck, draw its figures and say what it cost."""
    Simulation.from_deck(name).step()
    with tempfile.TemporaryDirectory() as scratch:
        begin = time.perf_counter()
        simulation = Simulation.from_deck(name, output=Path(scratch) / name)
        simulation.run()
        seconds = time.perf_counter() - begin
        drawn = plot_run(Path(scratch) / name, output=scratch)
        shown = [path for path in drawn if kind(path) in ALT]
        figures = [keep(path, name) for path in sorted(shown, key=order)]
    return "\n".join(figures) + cost(simulation, seconds)


def kind(path: Path) -> str:
    """Which of the kinds of figure a file is."""
    return path.stem.partition("_")[0]


def order(path: Path) -> int:
    """Theory first, the ledger last, as in ALT."""
    return list(ALT).index(kind(path))


def keep(path: Path, name: str) -> str:
    """Put a figure into the manual, line drawings with a palette to keep them small; returns the line that shows it."""
    target = DOCS / "images" / f"{name}-{kind(path)}.png"
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
    return f"\n## Cost\n\n| | |\n|---|---|\n{table}\n"


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
