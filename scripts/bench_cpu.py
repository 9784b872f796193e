"""Time the particle and field kernels of the CPU backend: ``python scripts/bench_cpu.py [--json FILE] [options]``.

A uniform Maxwellian plasma, about 8 % of the particles changing cell a step, float64 throughout, one weight for all.
Best and median of repeated calls after a warm-up, in ns per particle, once on one thread and once on all, beside the
project's targets; then the arithmetic of the small matrix product and the bytes that must travel, against what a copy
reaches. "cycle" is whole cycles of the deck ``thermal`` on the same grid, to a tolerance of 1e-12; "load" is making its
particles and putting them into a store, once.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time

import numpy as np

from ecsim import Simulation
from ecsim.backend.cpu import CpuBackend
from ecsim.backend.cpu.threads import available_threads
from ecsim.deck import load_deck
from ecsim.grid import SHAPE_ORDERS, Block, Grid
from ecsim.massmatrix import pair_offsets
from ecsim.particles import loading
from ecsim.problems import registry

DT, SPEED, BETA = 1.0, 0.0343, 0.05         # cells a step: 8 % leave their cell in 3D
TARGETS = {"pair": 60, "mover": 30, "sort": 15, "cycle": 130}       # ns per particle, one thread, CIC in 3D
WIDTH = 0.06                                # of a cell of ``thermal``


class Plasma:
    """A store of ``per_cell`` particles a cell on average, its fields, and the arrays that it is assembled into."""

    def __init__(self, backend: CpuBackend, cells: tuple[int, ...], per_cell: int, order: int) -> None:
        self.backend, self.block = backend, Block(Grid(cells, tuple(float(n) for n in cells), order))
        rng, n = np.random.default_rng(1), per_cell * self.block.n_cells
        self.store = backend.new_store(self.block, weight=1.0 / per_cell)
        self.store.append(rng.integers(0, self.block.n_cells, n), rng.uniform(-0.5, 0.5, (len(cells), n)),
                          rng.normal(0.0, SPEED, (3, n)))
        self.store.sort()
        self.E, self.B = np.zeros((3, *self.block.padded)), rng.normal(0.0, 0.1, (3, *self.block.padded))
        self.stencil = np.zeros((len(pair_offsets(self.block.d, order)), 9, *self.block.padded))
        self.moments = np.zeros((4, *self.block.padded))
        self.x, self.y = rng.normal(size=(3, *self.block.padded)), np.empty((3, *cells))

    def assemble(self, method: str) -> None:
        self.backend.assemble([self.store], [BETA], method=method, B_nodes=self.B, stencil=self.stencil,
                              moments=self.moments)

    def move(self) -> None:
        self.store.move(BETA, DT, self.E, self.B)

    def multiply(self) -> None:
        self.backend.matvec(self.stencil, self.x, self.y)


def spans(plasma: Plasma, repeats: int) -> dict[str, list[float]]:
    """Seconds of each call, by kernel; the first one, which may compile, is not counted."""
    timer, found = plasma.backend.timer, {}
    calls = {"pair": lambda: plasma.assemble("pair"), "direct": lambda: plasma.assemble("direct"), "mover": plasma.move,
             "product": plasma.multiply}
    for name, call in calls.items():
        for turn in range(repeats + 1):
            timer.reset()
            with timer.phase(name):
                call()
            for phase, seconds in timer.seconds.items():
                if turn:
                    found.setdefault(phase, []).append(seconds)
    return found


def thermal(cells: tuple[int, ...], shape: str, per_cell: int) -> dict:
    """Changes to the deck ``thermal``: ``per_cell`` particles of each species on these cells."""
    return {"grid.cells": list(cells), "grid.size": [WIDTH * n for n in cells], "grid.shape": shape,
            "solver.tolerance": 1e-12,
            "species.ions.particles_per_cell": per_cell, "species.electrons.particles_per_cell": per_cell}


def cycles(changes: dict, threads: int, repeats: int) -> list[float]:
    """Nanoseconds per particle of whole cycles of ``thermal``."""
    run = Simulation.from_deck("thermal", device="cpu", threads=threads, **changes)
    found = []
    for turn in range(repeats + 2):
        begin = time.perf_counter()
        run.step()
        if turn > 1:
            found.append(1e9 * (time.perf_counter() - begin) / run.plasma.n_particles)
    return found


def loads(changes: dict, backend: CpuBackend, repeats: int) -> list[float]:
    """Nanoseconds per particle to load the ions of ``thermal``."""
    deck, found = load_deck("thermal", changes), []
    block = Block(Grid(deck.grid.cells, deck.grid.size, deck.grid.order))
    recipe, per_cell = registry()["thermal"].recipes(deck)[0], deck.species[0].per_cell
    for turn in range(repeats + 1):
        store = backend.new_store(block, weight=recipe.uniform_weight(block.volume, per_cell),
                                  capacity=per_cell * block.n_cells)
        begin = time.perf_counter()
        loading.load(store.append, recipe, block, species=0, particles_per_cell=per_cell,
                     threads=backend.threads.count)
        store.sort()
        if turn:
            found.append(1e9 * (time.perf_counter() - begin) / store.n)
    return found


def copy_rate(repeats: int) -> float:
    """Bytes per second that a single-threaded copy of 128 MB reads and writes."""
    a = np.ones(2**24)
    b, best = np.empty_like(a), np.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        np.copyto(b, a)
        best = min(best, time.perf_counter() - begin)
    return 2 * a.nbytes / best


def work(d: int, order: int) -> dict[str, tuple[float, float]]:
    """(arithmetic operations, bytes) per particle: of the products alone, and of the particle's own numbers."""
    nodes, vectors = (order + 1) ** d, 8 * (d + 3)
    sums, pairs = (2 * order + 1) ** d, ((order + 1) * (order + 2) // 2) ** d
    return {"pair": (2 * (9 * sums + 4 * nodes), vectors), "direct": (2 * (9 * pairs + 4 * nodes), vectors),
            "mover": (0, 2 * vectors + 4), "sort": (0, 2 * vectors + 4), "cycle": (0, 0), "load": (0, 0)}


def report(rows: dict, per_particle: dict, stencil_bytes: int, copy: float) -> None:
    """The table for people."""
    many = max(rows)
    print(f"{'':10s}{'1 thread':>10s}{'median':>10s}{'target':>9s}{f'{many} threads':>12s}{'gain':>7s}{'GFLOP/s':>9s}"
          f"{'GB/s':>7s}{'of a copy':>11s}")
    for name, (operations, volume) in per_particle.items():
        one, median, other = rows[1][name]["best"], rows[1][name]["median"], rows[many][name]["best"]
        rate = f"{operations / one:.1f}" if operations else "-"
        bytes_rate = f"{volume / one:7.1f}{1e9 * volume / one / copy:10.0%}" if volume else ""
        print(f"{name:10s}{one:10.2f}{median:10.2f}{TARGETS.get(name, '-'):>9}{other:12.2f}{one / other:7.2f}{rate:>9s}"
              f"{bytes_rate}")
    for threads, row in rows.items():
        seconds = row["product"]["best"] * 1e-9
        rate = 1e-9 * stencil_bytes / seconds
        print(f"product with the stencil, {threads} threads: {1e3 * seconds:.3f} ms, {rate:.1f} GB/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, nargs="+", default=[32, 32, 32], help="1 to 3 numbers (default 32 32 32)")
    parser.add_argument("--per-cell", type=int, default=64, help="particles per cell (default 64)")
    parser.add_argument("--shape", choices=list(SHAPE_ORDERS), default="cic")
    parser.add_argument("--threads", type=int, default=available_threads(), help="beside 1 (default: all)")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", help="file for the numbers")
    options = parser.parse_args()
    cells, order = tuple(options.cells), SHAPE_ORDERS[options.shape]
    copy, rows = copy_rate(options.repeats), {}
    for threads in sorted({1, options.threads}):
        changes = thermal(cells, options.shape, options.per_cell)
        whole = {"cycle": cycles(changes, threads, options.repeats),
                 "load": loads(changes, CpuBackend(threads), options.repeats)}
        plasma = Plasma(CpuBackend(threads), cells, options.per_cell, order)
        rows[threads] = {name: {"best": 1e9 * min(s) / (1 if name == "product" else plasma.store.n),
                                "median": 1e9 * statistics.median(s) / (1 if name == "product" else plasma.store.n)}
                         for name, s in spans(plasma, options.repeats).items()}
        rows[threads] |= {name: {"best": min(ns), "median": statistics.median(ns)} for name, ns in whole.items()}
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    sizes, n = plasma.store.nbytes, plasma.store.n
    print(f"{plasma.backend.describe()}; {(sum(sizes.values()) - sizes['start']) / n:.1f} bytes per particle and "
          f"{sizes['start'] / plasma.store.n_cells:.1f} per cell; work arrays of the sort "
          f"{plasma.backend.scratch.nbytes / n:.1f} per particle")
    print(f"{cells} cells, {options.shape}, {plasma.store.n:,} particles, {options.per_cell} per cell; "
          f"ns per particle; copy {1e-9 * copy:.1f} GB/s; load {load:.1f}")
    report(rows, work(len(cells), order), plasma.stencil.nbytes, copy)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": plasma.backend.describe(), "processor": platform.processor(), "cells": cells,
                       "shape": options.shape, "per_cell": options.per_cell, "load": load, "copy_bytes_per_s": copy,
                       "ns": rows, "stencil_bytes": plasma.stencil.nbytes,
                       "bytes_per_particle": sum(plasma.store.nbytes.values()) / plasma.store.n}, file, indent=1)


if __name__ == "__main__":
    main()
