"""What output costs: field dumps of the production grid, checkpoint and restart, and the ledger of every step.

    python scripts/bench_output.py --device cuda --json output.json
    python scripts/bench_output.py --device cpu --per-cell 4 --directory /scratch

Dumps and checkpoints are those of the deck ``double_harris`` with fewer particles (``--per-cell`` of each species),
synced to disk, in a directory that is removed afterwards. The ledger is that of ``--ledger-deck``: whole cycles with a
row and without one, in turn.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from ecsim import Simulation, load_deck
from ecsim.deck.write import resolved
from ecsim.output.checkpoint import list_checkpoints
from ecsim.output.provenance import provenance
from ecsim.output.snapshots import list_snapshots

NEVER = 10**9
DUMPS = {
    "fields": {"records": ["E", "B", "rho", "J"], "precision": "float64"},
    "all": {"precision": "float64"},
    "all_single": {"precision": "float32"},
}


def seconds(run: Simulation, work) -> float:
    """Time of a call, with all that the device still has to do."""
    run.plasma.backend.synchronize()
    start = time.perf_counter()
    work()
    run.plasma.backend.synchronize()
    return time.perf_counter() - start


def size_of(folder: Path) -> int:
    """Bytes of the files below a directory."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def dumps(run: Simulation, folder: Path, repeats: int) -> dict:
    """Best and median seconds of a dump, by kind, and the bytes of one."""
    found = {}
    for diagnostic in run.recorder.diagnostics:
        times = []
        for _ in range(repeats):
            run.recorder.sample.forget()
            times.append(seconds(run, lambda d=diagnostic: d.record(run.recorder.sample)))
        size = list_snapshots(folder, diagnostic.name)[-1].stat().st_size
        found[diagnostic.name] = {"best": min(times), "median": float(np.median(times)), "bytes": size}
    return found


def checkpoints(run: Simulation, folder: Path, repeats: int) -> dict:
    """Best and median seconds to write one, its bytes, and the particles in it."""
    written = []
    for _ in range(repeats):
        run.step()
        written.append(seconds(run, run.save))
    return {"particles": run.plasma.n_particles, "bytes": size_of(list_checkpoints(folder)[-1]), "write": min(written),
            "write_median": float(np.median(written))}


def restart(deck, folder: Path) -> float:
    """Seconds to go on from the newest checkpoint, with the check of all its sums."""
    start = time.perf_counter()
    Simulation.from_deck(deck, restart_from=folder).plasma.backend.synchronize()
    return time.perf_counter() - start


def ledger(deck, folder: Path, cycles: int) -> dict:
    """Best seconds of a cycle with a row of the ledger and without, and the share of the stage "output"."""
    run = Simulation.from_deck(deck, output=folder, energies_every=1, gauss_every=0, fields_every=0)
    run.step(3)
    times: dict[int, list[float]] = {1: [], NEVER: []}
    for turn in range(2 * cycles):
        run.recorder.energies_every = (1, NEVER)[turn % 2]
        times[run.recorder.energies_every].append(seconds(run, run.step))
    timer = run.plasma.backend.timer
    timer.reset()
    timer.exact, run.recorder.energies_every = True, 1
    whole = seconds(run, lambda: run.step(cycles))
    run.close()
    return {"deck": deck.source, "particles": run.plasma.n_particles, "with": min(times[1]),
            "without": min(times[NEVER]), "share_of_output": timer.seconds["output"] / whole}


def measure(options) -> dict:
    """All three, in a temporary directory."""
    common = {"backend.device": options.device, "backend.threads": options.threads}
    few = {f"species.{name}.particles_per_cell": options.per_cell for name in ("ions", "electrons")}
    entries = [{"kind": "fields", "name": name, "every": NEVER, **keys} for name, keys in DUMPS.items()]
    deck = load_deck("double_harris", {**common, **few, "output.fields_every": 0})
    deck = load_deck({**resolved(deck), "diagnostic": entries})
    with tempfile.TemporaryDirectory(dir=options.directory) as scratch:
        folder = Path(scratch) / "run"
        run = Simulation.from_deck(deck, output=folder)
        run.step()
        result = {**provenance(), "device": run.plasma.backend.describe(), "cells": deck.grid.cells,
                  "dumps": dumps(run, folder, options.repeats),
                  "checkpoint": checkpoints(run, folder, options.repeats)}
        run.close()
        del run
        result["checkpoint"]["restart"] = restart(deck, folder)
        result["ledger"] = ledger(load_deck(options.ledger_deck, common), Path(scratch) / "ledger", options.cycles)
    return result


def show(result: dict) -> None:
    """Print the tables."""
    print(f"{result['device']}, {result['date']}; {' × '.join(map(str, result['cells']))} cells")
    for name, one in result["dumps"].items():
        print(f"dump of {name:<12}{one['best']:8.2f} s best {one['median']:8.2f} s median "
              f"{one['bytes'] / 1e6:10.1f} MB {one['bytes'] / one['best'] / 1e9:8.2f} GB/s")
    one = result["checkpoint"]
    print(f"checkpoint of {one['particles']:,} particles, {one['bytes'] / 1e9:.2f} GB: written in {one['write']:.2f} s "
          f"({one['bytes'] / one['write'] / 1e9:.2f} GB/s), gone on from in {one['restart']:.2f} s "
          f"({one['bytes'] / one['restart'] / 1e9:.2f} GB/s)")
    one = result["ledger"]
    print(f"cycle of {one['particles']:,} particles: {one['with'] * 1e3:.3f} ms with a row of the ledger, "
          f"{one['without'] * 1e3:.3f} ms without ({one['with'] / one['without'] - 1:+.2%}); stage output "
          f"{one['share_of_output']:.2%}")


def main() -> None:
    """Parse the command line, measure, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--per-cell", type=int, default=4, help="particles per cell and species")
    parser.add_argument("--repeats", type=int, default=3, help="dumps of each kind, and checkpoints")
    parser.add_argument("--ledger-deck", default="double_harris_2d")
    parser.add_argument("--cycles", type=int, default=40, help="with a row, and as many without")
    parser.add_argument("--directory", help="where to write (default: the system's place for temporary files)")
    parser.add_argument("--json", help="file to write the numbers to")
    options = parser.parse_args()
    result = measure(options)
    show(result)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
