"""What the CUDA backend must keep, checked on this GPU: agreement with the CPU, energy, repeatability, precision.

    python scripts/validate_gpu.py --json validate.json          # everything, a few minutes
    python scripts/validate_gpu.py --only agreement repeat

agreement : CPU and GPU from the same deck, the same initial particles; fields and energies after 20 cycles.
drift     : relative energy drift over 500 cycles of the 3D double Harris with every FP64 method.
repeat    : two runs with `pair` are the same bits.
precision : error of M and drift over 1000 cycles of each precision mode.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from ecsim import Simulation

HARRIS = {"grid.cells": [40, 20, 20], "grid.size": [14.0, 7.0, 7.0], "species.ions.particles_per_cell": 16,
          "species.electrons.particles_per_cell": 16, "solver.tolerance": 1e-14, "particles.position": "float64"}
METHODS = {"cic": ("pair", "conventional", "mma", "flat"), "tsc": ("pair", "conventional", "flat")}


def harris(**changes) -> Simulation:
    """A small 3D double Harris sheet with changes of the deck; keys as in `HARRIS`."""
    return Simulation.from_deck("double_harris", **{**HARRIS, **changes})


def relative(a, b) -> float:
    """Largest difference over the largest value."""
    return float(np.abs(np.asarray(a) - b).max() / np.abs(b).max())


def agreement() -> dict:
    """CPU against GPU: initial particles, then fields and energies after 20 cycles."""
    result = {}
    for shape in ("cic", "tsc"):
        cpu, gpu = (harris(device=device, shape=shape) for device in ("cpu", "cuda"))
        for mine, theirs in zip(gpu.species, cpu.species, strict=True):
            for name in ("x", "v", "q"):
                result[f"{shape} initial {mine.name} {name}"] = float(
                    np.abs(getattr(mine, name) - getattr(theirs, name)).max())
        cpu.step(20)
        gpu.step(20)
        for name in ("E", "B", "rho", "J_hat"):
            result[f"{shape} {name}"] = relative(getattr(gpu, name), getattr(cpu, name))
        result[f"{shape} total energy"] = relative(gpu.energies()["total"], cpu.energies()["total"])
    return result


def drift(cycles: int = 500) -> dict:
    """Worst relative energy drift over ``cycles`` cycles by shape and method."""
    result = {}
    for shape, methods in METHODS.items():
        for method in methods:
            run = harris(device="cuda", shape=shape, method=method)
            run.step(cycles)
            result[f"{shape} {method}"] = run.worst_drift
    return result


def repeat() -> dict:
    """0 where two runs of 30 cycles give the same bits."""
    result = {}
    for shape in ("cic", "tsc"):
        one, two = (harris(device="cuda", shape=shape) for _ in range(2))
        one.step(30)
        two.step(30)
        result[shape] = float(sum((getattr(one, name) != getattr(two, name)).sum() for name in ("E", "B")))
    return result


def precision(cycles: int = 1000) -> dict:
    """Relative error of M after one cycle and energy drift over ``cycles`` cycles, FP64 and TF32."""
    result = {}
    for shape in ("cic", "tsc"):
        exact = harris(device="cuda", shape=shape)
        exact.step()
        reference = exact.plasma.backend.to_host(exact.mass_matrix.values)
        for mode in ("fp64", "tf32"):
            run = harris(device="cuda", shape=shape, precision=mode)
            run.step()
            error = relative(run.plasma.backend.to_host(run.mass_matrix.values), reference)
            run.step(cycles - 1)
            result[f"{shape} {mode} error of M"] = error
            result[f"{shape} {mode} drift"] = run.worst_drift
    return result


CHECKS = {"agreement": agreement, "drift": drift, "repeat": repeat, "precision": precision}


def main() -> None:
    """Run the checks that are asked for, print and store what they gave."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=CHECKS, default=list(CHECKS))
    parser.add_argument("--json")
    options = parser.parse_args()
    results = {}
    for name in options.only:
        start = time.perf_counter()
        results[name] = CHECKS[name]()
        print(f"{name} ({time.perf_counter() - start:.1f} s)")
        for key, value in results[name].items():
            print(f"  {key:<40}{value:.2e}", flush=True)
        if options.json:
            with open(options.json, "w") as file:
                json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
