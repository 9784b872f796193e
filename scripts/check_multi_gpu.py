"""Several GPUs against one: the same answers by every transport, and then the times.

    python scripts/check_multi_gpu.py --ranks 2 --json two_gpus.json
    python scripts/check_multi_gpu.py --ranks 2 --timing 'species.ions.particles_per_cell=256' …

First a double Harris sheet in two and three dimensions, both shapes, ten cycles: one GPU, then all ranks through NCCL,
with and without graphs, through the host's memory, and through MPI where that takes device pointers (where it does not,
that must be refused).
Fields and energies must agree to 1e-11, particles by number exactly. Then bench_scaling on the deck of the main run,
with the changes of --timing. Exit code 0 if everything agrees. Open MPI as root also wants OMPI_ALLOW_RUN_AS_ROOT=1
and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; --device cpu tries the script itself.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from ecsim import Simulation, load_deck
from ecsim.parallel.launch import world

HERE = Path(__file__).resolve()
CYCLES, TOLERANCE = 10, 1e-11
CASES = {
    "plane, tsc": ("double_harris_2d", ['grid.shape="tsc"', "grid.cells=[97,62]"]),
    "box, cic": ("double_harris", ["grid.cells=[40,20,18]", "species.ions.particles_per_cell=32",
                                   "species.electrons.particles_per_cell=32"]),
}


def work(deck: str, changes: list[str], out: str) -> None:
    """On every rank: ten cycles; rank 0 saves fields and energies."""
    run = Simulation.from_deck(load_deck(deck, changes))
    run.step(CYCLES)
    energies, E, B = run.energies(), run.E, run.B
    if world().is_root:
        np.savez(out, E=E, B=B, energies=[energies["electric"], energies["magnetic"], *energies["kinetic"].values()],
                 numbers=run.plasma.n_particles, drift=run.worst_drift, transport=run.plasma.domain.transport.name)


def launched(options, ranks: int, arguments: list[str]) -> subprocess.CompletedProcess:
    """This Python on so many ranks."""
    start = [options.mpiexec, *options.mpiexec_options.split(), "-n", str(ranks)] if ranks > 1 else []
    return subprocess.run([*start, sys.executable, *arguments], capture_output=True, text=True)


def result(options, ranks: int, deck: str, changes: list[str]) -> dict | str:
    """What a run gives, or the last line of what it complains about."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.npz"
        done = launched(options, ranks, [str(HERE), "--worker", deck, str(out), *changes])
        if not out.exists():
            complaints = re.findall(r"^[\w.]*Error: .*", done.stderr, re.MULTILINE)
            return complaints[0] if complaints else done.stderr[-300:]
        with np.load(out) as file:
            return {name: file[name] for name in file}


def compare(one: dict, many: dict) -> tuple[float, bool]:
    """Largest relative difference, and whether that and the number of particles are fine."""
    worst = max(np.abs(one[name] - many[name]).max() / np.abs(one[name]).max() for name in ("E", "B", "energies"))
    return worst, worst <= TOLERANCE and int(one["numbers"]) == int(many["numbers"])


def check(options) -> bool:
    """All cases by all transports; prints a line for each."""
    good = True
    for name, (deck, changes) in CASES.items():
        changes = [*changes, f'backend.device="{options.device}"', "backend.threads=1"]
        one = result(options, 1, deck, changes)
        if isinstance(one, str):
            print(f"FAILED  {name}: one rank: {one}")
            return False
        for transport, graphs in (("auto", True), ("nccl", True), ("nccl", False), ("host", True),
                                  ("cuda-aware", True)):
            many = result(options, options.ranks, deck, [*changes, f'mpi.transport="{transport}"',
                                                         f"backend.graphs={str(graphs).lower()}"])
            what = f"{name}, {options.ranks} ranks, transport {transport}{'' if graphs else ', no graphs'}"
            if isinstance(many, str):
                refused = "is not to be had" in many or "is for GPUs" in many
                fine = refused and transport in ("cuda-aware", *(["nccl"] if options.device == "cpu" else []))
                print(f"{'refused' if fine else 'FAILED '} {what}: {many}")
            else:
                worst, fine = compare(one, many)
                print(f"{'ok     ' if fine else 'FAILED '} {what} ({many['transport']}): difference {worst:.1e}, "
                      f"drift {float(many['drift']):.1e} (one rank {float(one['drift']):.1e})")
            good &= fine
    return good


def main() -> int:
    """Check, then time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--deck", default="double_harris", help="deck that is timed")
    parser.add_argument("--timing", nargs="*", default=[], metavar="KEY=VALUE", help="changes of that deck")
    parser.add_argument("--transports", nargs="*", default=["nccl", "host"], help="those that are timed")
    parser.add_argument("--cycles", type=int, default=10)
    beside = Path(sys.executable).with_name("mpiexec")
    parser.add_argument("--mpiexec", default=str(beside) if beside.exists() else shutil.which("mpiexec") or "mpiexec")
    parser.add_argument("--mpiexec-options", default="")
    parser.add_argument("--json", help="file for the times; the name of the transport is added")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker[0], options.worker[2:], options.worker[1])
        return 0
    print(launched(options, options.ranks, ["-m", "ecsim", "info"]).stdout)
    good = check(options)
    for transport in options.transports:
        print(f"\ntransport {transport}", flush=True)
        command = [sys.executable, str(HERE.with_name("bench_scaling.py")), options.deck, "--device", options.device,
                   "--ranks", "1", str(options.ranks), "--cycles", str(options.cycles), "--mpiexec", options.mpiexec,
                   f"--mpiexec-options={options.mpiexec_options}", "--set", f'mpi.transport="{transport}"',
                   *(x for change in options.timing for x in ("--set", change))]
        if options.json:
            path = Path(options.json)
            command += ["--json", str(path.with_stem(f"{path.stem}_{transport}"))]
        good &= subprocess.run(command).returncode == 0
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
