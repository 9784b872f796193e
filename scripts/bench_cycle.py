"""Whole cycles of a deck on one device: time per cycle, per stage and per particle, memory, iterations, energy drift.

    python scripts/bench_cycle.py double_harris --device cuda --cycles 20 --json cycle.json
    python scripts/bench_cycle.py thermal --device cpu --threads 1 --set 'grid.cells=[32,32,32]' …

The first half of the cycles is timed as a whole; in the second half the device is synchronised at every change of stage
so that the stages can be told apart (which costs a little, also because nothing is recorded then: both numbers are
printed). All times are medians over the cycles.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from ecsim import Simulation, load_deck
from ecsim.output.provenance import provenance


def timed(run, cycles: int) -> tuple[float, dict[str, float]]:
    """Median seconds of ``cycles`` cycles and of each of their stages."""
    backend = run.plasma.backend
    seconds, stages = [], []
    for _ in range(cycles):
        backend.timer.reset()
        start = time.perf_counter()
        run.step()
        backend.synchronize()
        seconds.append(time.perf_counter() - start)
        stages.append(dict(backend.timer.seconds))
    names = dict.fromkeys(name for each in stages for name in each)
    medians = {name: float(np.median([each.get(name, 0.0) for each in stages])) for name in names}
    return float(np.median(seconds)) if seconds else 0.0, medians


def measure(deck, cycles: int, warm_up: int) -> dict:
    """Run a deck and return what was measured, plain numbers."""
    start = time.perf_counter()
    run = Simulation.from_deck(deck)
    backend = run.plasma.backend
    backend.synchronize()
    load = time.perf_counter() - start
    timed(run, warm_up)
    whole, _ = timed(run, cycles)
    backend.timer.exact = True
    staged, stages = timed(run, cycles)
    particles = sum(len(s) for s in run.species)
    return {
        **provenance(), "device": backend.describe(), "deck": Path(deck.source).name, "cells": deck.grid.cells,
        "shape": deck.grid.shape, "method": deck.assembly.method, "precision": deck.assembly.precision,
        "position": deck.particles.position, "tolerance": deck.solver.tolerance,
        "particles": particles, "cycles": run.plasma.step, "load_seconds": load,
        "cycle_seconds": whole, "cycle_seconds_staged": staged,
        "stage_seconds": stages, "iterations": float(np.mean(run.iterations[warm_up:])), "worst_drift": run.worst_drift,
        "particle_bytes": sum(sum(s.store.nbytes.values()) for s in run.species) / max(particles, 1),
        "memory": getattr(backend, "memory", {}),
    }


def show(result: dict) -> None:
    """Print the table of one measurement."""
    per = 1e9 / max(result["particles"], 1)
    cells = "×".join(map(str, result["cells"]))
    print(f"{result['device']}\n{result['deck']}: {cells} cells, {result['particles']:,} particles, "
          f"{result['method']} {result['precision']}, positions {result['position']}")
    print(f"loaded in {result['load_seconds']:.1f} s; stores of {result['particle_bytes']:.1f} bytes per particle")
    for name, value in result["memory"].items():
        print(f"memory {name:<8}{value / 2**30:8.2f} GiB")
    for name, seconds in sorted(result["stage_seconds"].items(), key=lambda item: -item[1]):
        print(f"{name:<12}{seconds * 1e3:10.3f} ms {seconds * per:10.4f} ns per particle")
    whole, staged = result["cycle_seconds"], result["cycle_seconds_staged"]
    print(f"{'cycle':<12}{whole * 1e3:10.3f} ms {whole * per:10.4f} ns per particle "
          f"(with stages told apart: {staged * 1e3:.3f} ms)")
    print(f"{result['iterations']:.1f} GMRES iterations; worst relative energy drift {result['worst_drift']:.1e} "
          f"over {result['cycles']} cycles")


def main() -> None:
    """Parse the command line, measure, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("deck")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", default="0")
    parser.add_argument("--cycles", type=int, default=10, help="cycles of each half")
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", help="file to write the numbers to")
    options = parser.parse_args()
    changes = [*options.set, f'backend.device="{options.device}"', f"backend.threads={options.threads}"]
    result = measure(load_deck(options.deck, changes), options.cycles, options.warm_up)
    show(result)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
