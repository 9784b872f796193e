"""Strong and weak scaling of a deck over ranks, with the time of a cycle split into compute, exchange and reduce.

    python scripts/bench_scaling.py thermal --ranks 1 2 4 --cycles 5 --json scaling.json --figure scaling.png
    python scripts/bench_scaling.py double_harris --ranks 1 2 --modes weak --device cuda --set mpi.transport='"nccl"'

Strong: the deck's grid, whatever the ranks. Weak: that grid for each rank, repeated along the dimensions where the
ranks then exchange least. Loop: the deck's grid on one rank, alone and then sending to itself along the first
dimension: what exchanges cost, on one GPU.
Starts the ranks itself, with the mpiexec beside this Python unless --mpiexec names another.
Half of the cycles are timed as wholes (median and best); the other half, with the device synchronised at each change of
stage, gives the split. "exchange" is ghosts and travelling particles, "reduce" global sums; both include the wait for
slower ranks. On a machine that others use too, --turns N measures everything N times in turn and shows the runs of
median time and the efficiency of each turn.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ecsim import Simulation, builder, load_deck
from ecsim.grid import Grid
from ecsim.output.provenance import provenance
from ecsim.parallel.domain import Domain, connect
from ecsim.parallel.launch import World, world
from ecsim.parallel.topology import arrangements, cost, fits
from ecsim.plot.style import COLOURS, figure

STAGES = ("compute", "exchange", "reduce")


def weak_changes(deck, ranks: int) -> list[str]:
    """Deck keys that give every rank the deck's grid."""
    cells, size, order = deck.grid.cells, deck.grid.size, deck.grid.order

    def grid(shape) -> Grid:
        return Grid([n * p for n, p in zip(cells, shape, strict=True)], size, order)

    fitting = (s for s in arrangements(ranks, len(cells)) if fits(grid(s), s))
    shape = min(fitting, key=lambda s: (cost(grid(s), s), s[::-1]))
    longer = [length * p for length, p in zip(size, shape, strict=True)]
    return [f"grid.cells={list(grid(shape).cells)}", f"grid.size={longer}", f"mpi.ranks={list(shape)}"]


def looped(grid, transport: str = "auto", **options):
    """In place of ecsim.builder.place: one rank that sends to itself."""
    from mpi4py import MPI

    _, backend = place(grid, **options)
    return Domain.looped(grid, connect(World(comm=MPI.COMM_SELF), backend, transport), backend), backend


place = builder.place


def seconds_of(run, cycles: int) -> list[float]:
    """Wall-clock seconds of each cycle, from a common start to the slowest rank's end."""
    p, seconds = run.plasma, []
    for _ in range(cycles):
        p.halo.max(0.0)
        begin = time.perf_counter()
        run.step()
        p.backend.synchronize()
        seconds.append(p.halo.max(time.perf_counter() - begin))
    return seconds


def measure(options) -> None:
    """On every rank: run the deck; rank 0 writes what was measured."""
    if options.looped:
        builder.place = looped
    run = Simulation.from_deck(load_deck(options.deck, options.set))
    p, timer, transport = run.plasma, run.plasma.backend.timer, run.plasma.domain.transport
    seconds_of(run, options.warm_up)
    whole = seconds_of(run, options.cycles)
    timer.exact = True
    timer.reset()
    before = dict(getattr(transport, "traffic", {}))
    staged = float(np.mean(seconds_of(run, options.cycles)))
    spent = timer.seconds
    mine = {"exchange": spent.get("exchange", 0.0) + spent.get("migrate", 0.0), "reduce": spent.get("reduce", 0.0)}
    mean = {name: float(p.halo.sum(np.array([s]))[0]) / transport.size / options.cycles for name, s in mine.items()} \
        if transport.xp is np else {name: s / options.cycles for name, s in mine.items()}
    traffic = {name: (n - before[name]) / options.cycles for name, n in getattr(transport, "traffic", {}).items()}
    if world().is_root:
        result = {
            "ranks": transport.size, "topology": p.domain.topology.ranks, "cells": p.block.grid.cells,
            "particles": p.n_particles, "seconds": float(np.median(whole)), "seconds_best": min(whole),
            "seconds_staged": staged, "stages": {name: t / options.cycles for name, t in spent.items()},
            "split": {"compute": staged - sum(mean.values()), **mean}, "per_rank_and_cycle": traffic,
            "iterations": float(np.mean(run.iterations[-options.cycles:])), "worst_drift": run.worst_drift,
            "device": p.backend.describe(), "transport": transport.name, "mpi": world().mpi}
        Path(options.worker).write_text(json.dumps(result))


def launch(options, ranks: int, changes: list[str], *flags: str) -> dict:
    """Run this script on so many ranks and return what it measured."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        command = [*([options.mpiexec, *options.mpiexec_options.split(), "-n", str(ranks)] if ranks > 1 else []),
                   sys.executable, str(Path(__file__).resolve()), options.deck, "--worker", str(out), *flags,
                   "--cycles", str(options.cycles),
                   "--warm-up", str(options.warm_up), *(x for change in changes for x in ("--set", change))]
        subprocess.run(command, check=True)
        return json.loads(out.read_text())


def one_turn(options, mode: str, deck, common: list[str], alone: dict | None) -> list[dict]:
    """All runs of one mode, one after the other; ``alone``: the run on one rank, if another mode has measured it."""
    alone = alone or launch(options, 1, common) if mode == "loop" or 1 in options.ranks else None
    if mode == "loop":
        return [alone, launch(options, 1, common, "--looped")]
    return [alone if n == 1 else launch(options, n, common + (weak_changes(deck, n) if mode == "weak" else []))
            for n in sorted(options.ranks)]


def median_run(runs: list[dict]) -> dict:
    """The run with the (lower) median time."""
    return sorted(runs, key=lambda run: run["seconds"])[(len(runs) - 1) // 2]


def show(mode: str, turns: list[list[dict]], results: list[dict]) -> None:
    """A table of one mode."""
    base = results[0]
    print(f"\n{mode} scaling, {base['device']}")
    print(f"{'ranks':>5} {'topology':>12} {'particles':>14} {'ms a cycle':>11} {'best':>9} {'ns particle':>12} "
          f"{'efficiency':>11} {'of best':>8}"
          f"{'compute':>9}{'exchange':>9}{'reduce':>8} {'MB sent':>8} {'iterations':>10}")
    for r in results:
        share = [r["split"][stage] / r["seconds_staged"] for stage in STAGES]
        topology = "×".join(map(str, r["topology"]))
        print(f"{r['ranks']:5} {topology:>12} {r['particles']:14,} {1e3 * r['seconds']:11.2f} "
              f"{1e3 * r['seconds_best']:9.2f} {1e9 * r['seconds'] / r['particles']:12.3f} {efficiency(r, base):11.3f} "
              f"{efficiency(r, base, 'seconds_best'):8.3f}"
              + "".join(f"{100 * s:8.1f}%" for s in share)
              + f" {r['per_rank_and_cycle'].get('bytes', 0) / 1e6:8.2f} {r['iterations']:10.1f}")
    for k, result in enumerate(results[1:], 1) if len(turns) > 1 else ():
        each = " ".join(f"{efficiency(turn[k], turn[0]):.3f}" for turn in turns)
        print(f"efficiency on {result['ranks']} ranks, turn by turn: {each}")


def efficiency(result: dict, base: dict, which: str = "seconds") -> float:
    """Particles per second and rank, relative to the first measurement."""
    rate = [r["particles"] / r[which] / r["ranks"] for r in (result, base)]
    return rate[0] / rate[1]


def draw(path: str, modes: dict[str, list[dict]]) -> None:
    """Efficiency over ranks, and how a cycle's time is split."""
    with figure(2.8) as page:
        left, right = page.subplots(1, 2)
        for colour, (mode, results) in zip(COLOURS, modes.items(), strict=False):
            left.plot([r["ranks"] for r in results], [efficiency(r, results[0]) for r in results], "o-", color=colour,
                      label=mode)
        left.set(xlabel="ranks", ylabel="parallel efficiency", ylim=(0, 1.1), xscale="log")
        ranks = sorted({r["ranks"] for results in modes.values() for r in results})
        left.set_xticks(ranks, labels=map(str, ranks))
        left.minorticks_off()
        left.legend()
        bars = [(f"{mode} {r['ranks']}", r) for mode, results in modes.items() for r in results]
        base = np.zeros(len(bars))
        for colour, stage in zip(COLOURS, STAGES, strict=False):
            share = np.array([r["split"][stage] / r["seconds_staged"] for _, r in bars])
            right.bar([name for name, _ in bars], share, bottom=base, color=colour, label=stage)
            base += share
        right.set(ylabel="share of a cycle", ylim=(0, 1.25))
        right.tick_params(axis="x", rotation=45)
        right.legend(ncols=3, loc="upper center")
        page.savefig(path, dpi=200)


def main() -> None:
    """Parse the command line, measure, print, write JSON and figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("deck")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--modes", nargs="+", choices=("strong", "weak", "loop"), default=["strong", "weak"])
    parser.add_argument("--cycles", type=int, default=5, help="cycles of each half")
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--turns", type=int, default=1, help="times that everything is measured")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", default="1", help="CPU threads of a rank")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--mpiexec", default=str(Path(sys.executable).with_name("mpiexec")))
    parser.add_argument("--mpiexec-options", default="", help="in one word, as '-bind-to core'")
    parser.add_argument("--json")
    parser.add_argument("--figure")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--looped", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        measure(options)
        return
    common = [*options.set, f'backend.device="{options.device}"', f"backend.threads={options.threads}"]
    deck = load_deck(options.deck, common)
    turns: dict[str, list] = {mode: [] for mode in options.modes}
    for _ in range(options.turns):
        alone = None
        for mode in options.modes:
            turns[mode].append(one_turn(options, mode, deck, common, alone))
            alone = turns[mode][-1][0] if turns[mode][-1][0]["ranks"] == 1 else None
    modes = {mode: [median_run(list(runs)) for runs in zip(*of_mode, strict=True)] for mode, of_mode in turns.items()}
    for mode, of_mode in turns.items():
        show(mode, of_mode, modes[mode])
    if options.json:
        Path(options.json).write_text(json.dumps({**provenance(), "modes": modes, "turns": turns}, indent=1))
    if options.figure:
        draw(options.figure, modes)


if __name__ == "__main__":
    main()
