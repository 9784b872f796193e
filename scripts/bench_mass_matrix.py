"""Mass-matrix assembly in isolation: ``python scripts/bench_mass_matrix.py [--quick] [--json FILE] [--figure FILE]``.

The published study (Pennati & Markidis 2026, arXiv 2604.19286): (a) 1 … 1024 particles per cell on 16³ cells, (b) grids
of 8³ … 64³ at 128 per cell; scalar (one given coefficient a particle) and tensorial (3×3 with moments, as the cycle
needs them); CIC and TSC; every method. And (c) the large cases that the targets name. Particles are sorted by support
cell, for "flat" in random order; "mma groups" is TSC as published, for particles sorted by the cells of the grid: eight
support groups share a support cell, each padded for itself. Counts are Poisson distributed, positions float32.
Medians over replays of graphs of launches, by CUDA events, after a warm-up, through several sets of inputs, the methods
in turn. ``sum_ps`` is the work per particle alone, ``total_ps`` with what ends in the stencil. Errors are relative to
the largest entry, against the CPU's direct sum in float64.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial

import numpy as np

from ecsim.backend.cpu import CpuBackend
from ecsim.backend.cuda import CudaBackend
from ecsim.backend.cuda import assembly as cuda
from ecsim.grid import Block, Grid
from ecsim.massmatrix import pair_offsets

SHAPES = {"cic": 1, "tsc": 2}
METHODS = {"pair": ("pair", "fp64"), "pair tf32": ("pair", "tf32"), "conventional": ("conventional", "fp64"),
           "mma": ("mma", None), "mma groups": ("mma", None), "flat": ("flat", "fp64")}
SUMMING = ("pair", "conventional")      # methods that sum by cell and then expand
PER_CELL = [2**k for k in range(11)]
GRIDS = [8, 16, 32, 64]
LARGE = [("cic", 64, 8), ("cic", 64, 64), ("cic", 64, 512), ("tsc", 40, 512)]
L2_BYTES, MOST_SETS = 60e6, 6
BETA = 0.3
GROUPS_OF_CIC = "mma groups", "cic"     # a CIC particle's cell is its support cell


class Problem:
    """One block with several sets of random particles on the device, and the arrays that assembly fills."""

    def __init__(self, backend, shape: str, cells: int, per_cell: int, kind: str, sets: int | None = None) -> None:
        self.backend, self.kind, xp = backend, kind, backend.xp
        self.block = block = Block(Grid((cells,) * 3, (float(cells),) * 3, SHAPES[shape]))
        self.columns = 1 if kind == "scalar" else 0
        bytes_of_a_set = block.n_cells * per_cell * (20 if self.columns else 44)
        sets = sets or int(np.clip(np.ceil(2 * L2_BYTES / bytes_of_a_set), 1, MOST_SETS))
        self.sets = [self._particles(per_cell) for _ in range(sets)]
        self.B = 0.5 * xp.random.standard_normal((3, *block.padded))
        self.stencil = xp.zeros((len(pair_offsets(3, block.order)), 1 if self.columns else 9, *block.padded))
        self.moments = None if self.columns else xp.zeros((4, *block.padded))
        self.D = xp.empty((block.n_cells, cuda.cell_size(backend, block, self.columns)))
        self.turn, self.unsorted, self.groups = 0, [], {}

    def _particles(self, per_cell: int) -> cuda.Particles:
        xp, n = self.backend.xp, self.block.n_cells
        count = xp.random.poisson(per_cell, n).astype(xp.int32)
        first = xp.zeros(n + 1, dtype=xp.int64)
        xp.cumsum(count, out=first[1:])
        number = int(first[-1])
        slots = -(-max(number, 1) // 32) * 32
        s = xp.random.random((3, slots), dtype=xp.float32) - xp.float32(0.5)
        values = xp.empty((self.columns or 3, slots))
        for row in values:
            row[...] = 0.09 * xp.random.standard_normal(slots)
        w = None if self.columns else xp.random.random(slots) + 0.5
        return cuda.Particles(self.block, s, values, w, 1.0, first, count, number, self.columns)

    def next(self) -> cuda.Particles:
        """The sets in turn."""
        self.turn += 1
        return self.sets[self.turn % len(self.sets)]

    def sum_cells(self, method: str, precision: str) -> None:
        """The work per particle of a method that sums by cell."""
        cuda.sum_cells(self.backend, self.next(), self.D, method=method, precision=precision, beta=BETA, B_nodes=self.B,
                       mass=1.0, moment=1.0)

    def expand(self) -> None:
        """From those sums to stencil and moments."""
        cuda.expand(self.backend, self.block, self.D, self.stencil, self.moments, fresh=self.moments is not None)

    def prepare(self, name: str) -> None:
        """What a method needs besides the sorted particles, made before anything is timed."""
        xp = self.backend.xp
        for p in self.sets:
            if name == "flat":
                order = xp.random.permutation(p.s.shape[1])
                loose = replace(p, s=xp.ascontiguousarray(p.s[:, order]), w=None if p.w is None else p.w[order],
                                values=xp.ascontiguousarray(p.values[:, order]))
                self.unsorted.append((loose, p.cell_of_slot(xp)[order]))
            elif name == "mma groups":
                count = (p.count[:, None] + xp.arange(8)) // 8
                first = p.first[:-1, None] + xp.cumsum(count, axis=1) - count
                cell = xp.repeat(xp.arange(len(count), dtype=xp.int32), 8)
                self.groups[id(p)] = first.ravel(), count.ravel().astype(xp.int32), cell

    def add(self, name: str) -> None:
        """A method that adds to the stencil itself."""
        particles, cell = self.next(), None
        groups = self.groups[id(particles)] if name == "mma groups" else None
        if name == "flat":
            particles, cell = self.unsorted[self.turn % len(self.sets)]
        cuda.add_with_atomics(self.backend, particles, method=METHODS[name][0], beta=BETA, B_nodes=self.B, mass=1.0,
                              moment=1.0, stencil=self.stencil, moments=self.moments, groups=groups, cell=cell)


class Timed:
    """A graph of ``times`` calls of ``work``, so that the host's part of a launch is left out."""

    def __init__(self, backend, work, times: int) -> None:
        self.xp, self.times, self.samples = backend.xp, times, []
        work()
        backend.synchronize()
        self.stream = self.xp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.stream.begin_capture()
            for _ in range(times):
                work()
            self.graph = self.stream.end_capture()

    def replay(self) -> float:
        """Milliseconds of one replay; kept as a sample per call."""
        begin, end = self.xp.cuda.Event(), self.xp.cuda.Event()
        begin.record(self.stream)
        self.graph.launch(self.stream)
        end.record(self.stream)
        end.synchronize()
        elapsed = self.xp.cuda.get_elapsed_time(begin, end)
        self.samples.append(elapsed / self.times)
        return elapsed


def medians_ms(backend, works: dict, times: int = 1, budget_ms: float = 400.0) -> dict[str, float]:
    """Median milliseconds of each work, their samples taken in turn, so that all meet the same clocks of the GPU.

    3 to 30 samples of each after a warm-up, as many as the budget for all of them allows.
    """
    timed = {name: Timed(backend, work, times) for name, work in works.items()}
    for one in timed.values():
        one.replay()
    round_ms = sum(one.replay() for one in timed.values())
    for one in timed.values():
        one.samples.clear()
    for _ in range(int(np.clip(budget_ms / max(round_ms, 1e-3), 3, 30))):
        for one in timed.values():
            one.replay()
    return {name: float(np.median(one.samples)) for name, one in timed.items()}


def measure(problem: Problem, names) -> list[dict]:
    """Times of the methods in ms and in ps per particle."""
    backend, works = problem.backend, {}
    for name in names:
        problem.prepare(name)
        by_cell = METHODS[name][0] in SUMMING
        works[name] = partial(problem.sum_cells, *METHODS[name]) if by_cell else partial(problem.add, name)
    summing = medians_ms(backend, works, len(problem.sets))
    expanding = medians_ms(backend, {"expand": problem.expand}, budget_ms=40.0)["expand"]
    particles, rows = float(np.mean([p.number for p in problem.sets])), []
    for name in names:
        total = summing[name] + (expanding if METHODS[name][0] in SUMMING else 0.0)
        rows.append({"method": name, "particles": particles, "sum_ms": summing[name], "total_ms": total,
                     "sum_ps": 1e9 * summing[name] / particles, "total_ps": 1e9 * total / particles})
    return rows


def study(backend, which: str, cases, kinds, methods) -> list[dict]:
    """Rows of all methods for (shape, cells, per_cell) cases; ``speedup`` over "conventional", expansions included."""
    rows = []
    for shape, cells, per_cell in cases:
        for kind in kinds:
            problem = Problem(backend, shape, cells, per_cell, kind)
            case = {"study": which, "shape": shape, "kind": kind, "cells": cells, "per_cell": per_cell}
            found = [{**case, **row} for row in measure(problem, [m for m in methods if (m, shape) != GROUPS_OF_CIC])]
            usual = {row["method"]: row for row in found}["conventional"]
            for row in found:
                row["speedup"] = usual["total_ms"] / row["total_ms"]
                row["sum_speedup"] = usual["sum_ms"] / row["sum_ms"]
            rows += found
            report(found)
            del problem
            backend.xp.get_default_memory_pool().free_all_blocks()
    return rows


def report(rows: list[dict]) -> None:
    """One line a method."""
    for r in rows:
        print(f"{r['study']} {r['shape']} {r['kind']:9s} {r['cells']:3d}³ × {r['per_cell']:4d}  {r['method']:13s}"
              f"{r['sum_ps']:10.1f} ps {r['total_ps']:10.1f} ps with expansion {r['speedup']:7.2f}x", flush=True)


def errors(backend) -> list[dict]:
    """Error of every method on 8³ cells, 40 particles each, for both kinds, against the CPU's direct sum."""
    rng, rows, cpu = np.random.default_rng(), [], CpuBackend()
    for shape, order in SHAPES.items():
        block = Block(Grid((8, 8, 8), (1.0, 1.0, 1.0), order))
        n = 40 * block.n_cells
        cell, s = rng.integers(0, block.n_cells, n).astype(np.int32), rng.random((3, n)) - 0.5
        for kind, components in (("scalar", 1), ("tensorial", 9)):
            columns = rng.standard_normal((components, n))
            exact = np.zeros((len(pair_offsets(3, order)), components, *block.padded))
            cpu.assemble_columns(block, cell, s, columns, exact, "direct")
            for name, (method, precision) in METHODS.items():
                if name == "mma groups":
                    continue            # the same products as those of "mma"
                got = backend.xp.zeros(exact.shape)
                cuda.assemble_columns(backend, block, cell, s, columns, got, method, precision)
                error = float(np.abs(backend.to_host(got) - exact).max() / np.abs(exact).max())
                rows.append({"shape": shape, "kind": kind, "method": name, "error": error})
                print(f"error {shape} {kind:9s} {name:13s} {error:.1e}", flush=True)
    return rows


def expansion(backend) -> dict:
    """Time of the expansion on the published grid of 160×80×80 cells, moments included."""
    xp, block = backend.xp, Block(Grid((160, 80, 80), (1.0, 1.0, 1.0), 1))
    D = xp.random.random((block.n_cells, cuda.cell_size(backend, block)))
    stencil = xp.zeros((len(pair_offsets(3, 1)), 9, *block.padded))
    moments = xp.zeros((4, *block.padded))
    work = partial(cuda.expand, backend, block, D, stencil, moments, fresh=True)
    ms = medians_ms(backend, {"expand": work})["expand"]
    print(f"expansion of 160×80×80 cells: {ms:.2f} ms", flush=True)
    return {"cells": [160, 80, 80], "ms": ms}


def draw(result: dict, path: str) -> None:
    """Time and speed-up over "conventional" (expansion included), a row of panels for each shape and kind."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    groups = [(shape, kind) for shape in SHAPES for kind in ("scalar", "tensorial")]
    fig, axes = plt.subplots(len(groups), 4, figsize=(15, 12), constrained_layout=True)
    fig.suptitle(f"Mass-matrix assembly, {result['device']}, {result['date']}")
    for panels, (shape, kind) in zip(axes, groups, strict=True):
        for k, (which, axis, label) in enumerate((("a", "per_cell", "particles per cell, 16³ cells"),
                                                  ("b", "cells", "cells per side, 128 per cell"))):
            for name in METHODS:
                line = [r for r in result["rows"]
                        if (r["study"], r["shape"], r["kind"], r["method"]) == (which, shape, kind, name)]
                x = [r[axis] for r in line]
                panels[2 * k].loglog(x, [r["total_ps"] for r in line], "o-", ms=3, label=name)
                panels[2 * k + 1].plot(x, [r["speedup"] for r in line], "o-", ms=3, label=name)
            for panel in panels[2 * k:2 * k + 2]:
                panel.set_xscale("log", base=2)
                panel.xaxis.set_major_formatter(plt.FormatStrFormatter("%d"))
            panels[2 * k].set(xlabel=label, ylabel="ps per particle", title=f"{shape.upper()}, {kind}")
            panels[2 * k + 1].set(xlabel=label, ylabel="speed-up over conventional", ylim=(0, None))
    fig.legend(*axes[-1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(METHODS))
    fig.savefig(path, dpi=120)


def main() -> None:
    """Run the study and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer sizes, without the large cases")
    parser.add_argument("--json", metavar="FILE", help="write all numbers")
    parser.add_argument("--figure", metavar="FILE", help="draw time and speed-up")
    parser.add_argument("--redraw", metavar="JSON", help="measure nothing, draw the figure of an earlier study")
    options = parser.parse_args()
    if options.redraw:
        with open(options.redraw) as file:
            draw(json.load(file), options.figure or "mass_matrix.png")
        return
    backend = CudaBackend()
    made = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    print(f"{backend.describe()}, {made}")
    per_cell, grids = (PER_CELL[::3], GRIDS[:3]) if options.quick else (PER_CELL, GRIDS)
    kinds = ("scalar", "tensorial")
    rows = study(backend, "a", [(shape, 16, n) for shape in SHAPES for n in per_cell], kinds, METHODS)
    rows += study(backend, "b", [(shape, n, 128) for shape in SHAPES for n in grids], kinds, METHODS)
    if not options.quick:
        large = [name for name in METHODS if name != "flat"]
        rows += study(backend, "c", LARGE, ("tensorial",), large)
    result = {"device": backend.describe(), "date": made, "command": " ".join(["python", *sys.argv]), "rows": rows,
              "errors": errors(backend), "expansion": expansion(backend)}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)
    if options.figure:
        draw(result, options.figure)


if __name__ == "__main__":
    main()
