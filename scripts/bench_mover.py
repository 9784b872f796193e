"""Time the particle and field kernels of the CUDA backend: ``python scripts/bench_mover.py [--json FILE] [--quick]``.

A uniform Maxwellian plasma, about 8 % of the particles changing cell a step, float32 positions and a weight per
particle. Medians over repeated moves of the same plasma after a warm-up, with CUDA events; ps per particle and step,
against the bytes that must travel. The products run on the published grid of 160×80×80 cells.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from contextlib import contextmanager, nullcontext
from functools import partial

import numpy as np

from ecsim.backend.cuda import CudaBackend
from ecsim.backend.cuda.move import LEAVERS
from ecsim.backend.cuda.store import SLACK
from ecsim.grid import Block, Grid, Part, pair_offsets

DT, SPEED = 1.0, 0.0343          # cells a step: 8 % leave their cell
VARIANTS = [{"OCCUPANCY": occupancy, "MOST": batch} for occupancy, batch in ((4, 64), (3, 64), (5, 32))]


class TimedBackend(CudaBackend):
    """The CUDA backend with a stopwatch around every launch (if ``each``), and macros per kernel for experiments."""

    def _begin(self) -> None:
        super()._begin()
        self.tuning: dict[str, dict] = {}
        self.each = True
        self.spans: dict[str, list] = defaultdict(list)

    def launch(self, file, name, grid, threads, arguments, **macros) -> None:
        with self.span(name) if self.each else nullcontext():
            super().launch(file, name, grid, threads, arguments, **macros, **self.tuning.get(name, {}))

    def resident_blocks(self, file, name, threads, shared, **macros) -> int:
        return super().resident_blocks(file, name, threads, shared, **macros, **self.tuning.get(name, {}))

    def launch_sizes(self, file, **macros):
        return super().launch_sizes(file, **macros, **(self.tuning.get("move_cells", {}) if file == "move.cu" else {}))

    @contextmanager
    def span(self, name: str):
        events = self.xp.cuda.Event(), self.xp.cuda.Event()
        events[0].record()
        yield
        events[1].record()
        self.spans[name].append(events)

    def medians(self) -> dict[str, float]:
        """Median milliseconds by name since the last call."""
        self.synchronize()
        found = {name: float(np.median([self.xp.cuda.get_elapsed_time(*e) for e in events]))
                 for name, events in self.spans.items()}
        self.spans.clear()
        return found


def maxwellian(backend, cells, per_cell: int, order: int, **options):
    """A store of ``per_cell`` particles in every cell, made on the device."""
    block = Block(Grid(cells, tuple(float(n) for n in cells), order))
    xp, rng = backend.xp, backend.xp.random.default_rng(1)
    store = backend.new_store(block, capacity=per_cell * block.n_cells, **options)
    for rows, draw in ((store.s, lambda n: rng.random(n, dtype=store.s.dtype) - store.s.dtype.type(0.5)),
                       (store.v, lambda n: SPEED * rng.standard_normal(n))):
        for row in rows:
            row[...] = draw(row.size)
    if store.w is not None:
        store.w[...] = 1.0 / per_cell
    store.count[...] = per_cell
    store.n_inserted = per_cell * block.n_cells
    fields = [size * xp.random.default_rng(2).standard_normal((3, *block.padded)) for size in (1e-4, 0.1)]
    return store, fields


def bytes_per_move(store, leaving: float) -> float:
    """Least traffic of one particle: read and written once, those that leave twice and their record twice."""
    each = store.s.dtype.itemsize * len(store.s) + 24 + 8 * (store.w is not None)
    return 2 * each + leaving * 2 * 8 * store.record_words


def time_moves(backend, cells, per_cell, order=1, repeats=7, **options) -> dict:
    store, (E, B) = maxwellian(backend, cells, per_cell, order, **options)
    for _ in range(3):
        store.move(1.0, DT, E, B)
    backend.each = False             # the stopwatches of the kernels take time between them
    backend.medians()
    for _ in range(repeats):
        with backend.span("move"):
            store.move(1.0, DT, E, B)
    backend.each = True
    for _ in range(repeats):
        store.move(1.0, DT, E, B)
    spans, ps = backend.medians(), 1e9 / store.n
    leaving = int(backend.to_host(backend.outbox.status)[LEAVERS]) / store.n
    return {"cells": list(cells), "per_cell": per_cell, "order": order, **options, "leaving": leaving,
            "move_ps": ps * spans["move"], "cells_ps": ps * spans["move_cells"],
            "append_ps": ps * spans["append_arrivals"], "bytes": sum(store.nbytes.values()),
            "TB_per_s": bytes_per_move(store, leaving) / (ps * spans["move"])}


def show_moves(row: dict) -> None:
    kinds = f"{row.get('position_dtype', 'float64')} B {row.get('gather_dtype', 'float64')}"
    print(f"{'x'.join(map(str, row['cells'])):>11} {row['per_cell']:>5} order {row['order']} {kinds:<18}"
          f"{row['move_ps']:7.2f} ps (cells {row['cells_ps']:6.2f}, arrivals {row['append_ps']:5.2f})  "
          f"{row['TB_per_s']:5.2f} TB/s, {100 * row['leaving']:.1f} % leave", flush=True)


def time_products(backend, cells, order, repeats=15) -> dict:
    """Milliseconds of the stencil product, the field operator, the ghosts and the Krylov steps."""
    xp, block = backend.xp, Block(Grid(cells, tuple(float(n) for n in cells), order))
    shape = len(pair_offsets(block.d, order)), 9, *block.padded
    stencil, x = xp.random.default_rng(4).standard_normal(shape), xp.ones((3, *block.padded))
    out, ghosts = xp.empty((3, *block.cells)), backend.periodic_ghosts(block)
    basis, h, w, next_one = xp.full((30, out.size), 1e-3), xp.full(30, 1e-3), xp.ones(out.size), xp.empty(out.size)
    pad, ends, column = backend.padding(block, ()), xp.full(31, 1e-3), backend.krylov.column(30)
    verbs = {"matvec": lambda: backend.matvec(stencil, x, out),
             "field operator": lambda: backend.field_operator(stencil, x, out, block.spacing, 0.1),
             "fill 3 components": lambda: ghosts.fill(x), "fill stencil": lambda: ghosts.fill(stencil),
             "add stencil": lambda: ghosts.add(stencil), "pad 3 components": lambda: pad(out, x),
             "Krylov dots, 30": lambda: backend.krylov.dots(basis, w),
             "Krylov dots, 3": lambda: backend.krylov.dots(basis[:3], w),
             "Krylov project out, 30": lambda: backend.krylov.project_out(basis, h, w),
             "Krylov close, 30": lambda: backend.krylov.close(basis, h, ends, w, next_one, column)}
    for k in range(block.d):
        low = tuple(order * (axis == k) for axis in range(block.d))
        inner = Part(low, tuple(n - layers for n, layers in zip(cells, low, strict=True)))
        for name, part in (("inner", inner), ("outer", inner._replace(outside=True))):
            verbs[f"{name} nodes, axis {k} cut"] = partial(
                backend.field_operator, stencil, x, out, block.spacing, 0.1, part)
    for k in range(2 + repeats):
        if k == 2:
            backend.medians()
        for name, verb in verbs.items():
            with backend.span(name):
                verb()
    spans = backend.medians()
    return {name: spans[name] for name in verbs} | {"stencil_bytes": stencil.nbytes, "basis_bytes": basis.nbytes}


def copy_rate(backend) -> float:
    """TB/s of a device-to-device copy, bytes read and written."""
    source = backend.xp.ones(1 << 28)
    target = backend.xp.empty_like(source)
    for _ in range(10):
        with backend.span("copy"):
            target[...] = source
    return 2e-9 * source.nbytes / backend.medians()["copy"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="write all numbers to this file")
    parser.add_argument("--quick", action="store_true", help="one size, no products")
    parser.add_argument("--variants", action="store_true", help="also time the mover's tuning variants")
    options = parser.parse_args()
    backend = TimedBackend()
    print(backend.describe())
    rows = {"device": backend.describe(), "slack": SLACK, "copy_TB_per_s": copy_rate(backend), "moves": [],
            "products": {}}
    print(f"copy {rows['copy_TB_per_s']:.2f} TB/s", flush=True)
    light = {"position_dtype": "float32"}
    if options.variants:
        for tuning in VARIANTS:
            backend.tuning["move_cells"] = tuning
            for gather in ("float64", "float32"):
                rows["moves"].append(time_moves(backend, (64, 64, 64), 256, gather_dtype=gather, **light) | tuning)
                print(" ".join(f"{k}={v}" for k, v in tuning.items()), end=" ")
                show_moves(rows["moves"][-1])
        backend.tuning.clear()
    sizes = [((64, 64, 64), n, 1, light) for n in (512, 256, 64, 8)]
    sizes += [((64, 64, 64), 512, 1, {**light, "gather_dtype": "float32"}), ((64, 64, 64), 256, 1, {}),
              ((40, 40, 40), 512, 2, light), ((1024, 256), 256, 1, light), ((262144,), 256, 1, light)]
    for cells, per_cell, order, extra in sizes[:1] if options.quick else sizes:
        rows["moves"].append(time_moves(backend, cells, per_cell, order, **extra))
        show_moves(rows["moves"][-1])
    for cells, order in () if options.quick else (((160, 80, 80), 1), ((80, 80, 80), 1), ((80, 80, 80), 2)):
        found = rows["products"]["x".join(map(str, cells)) + f" order {order}"] = time_products(backend, cells, order)
        print(f"{cells} order {order}: " + ", ".join(f"{name} {ms:.3f} ms" for name, ms in found.items() if " " in name
                                                    or name == "matvec"), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
