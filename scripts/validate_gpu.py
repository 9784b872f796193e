"""What the CUDA backend must keep, checked on this GPU: agreement with the CPU, energy, repeatability, precision.

    python scripts/validate_gpu.py --json validate.json          # everything, a few minutes
    python scripts/validate_gpu.py --only agreement repeat

agreement : CPU and GPU from the same deck, the same initial particles; fields and energies after 20 cycles.
drift     : relative energy drift over 500 cycles of the 3D double Harris with every FP64 method.
repeat    : two runs with `pair` are the same bits.
precision : error of M and drift over 1000 cycles of each precision mode.

Every number has a limit; the exit code is 1 if one is exceeded or is not a number.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import numpy as np

from ecsim import Simulation

HARRIS = {"grid.cells": [40, 20, 20], "grid.size": [14.0, 7.0, 7.0], "species.ions.particles_per_cell": 16,
          "species.electrons.particles_per_cell": 16, "solver.tolerance": 1e-14, "particles.position": "float64"}
BITS, ROUNDING, AGREEMENT, DRIFT = 0.0, 1e-15, 1e-11, 1e-13     # the limits of FP64
TF32_ERROR, TF32_DRIFT = 1e-3, 1e-5
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
    for shape in METHODS:
        cpu, gpu = (harris(device=device, shape=shape) for device in ("cpu", "cuda"))
        for mine, theirs in zip(gpu.species, cpu.species, strict=True):
            for name in ("x", "v", "q"):
                result[f"{shape} initial {mine.name} {name}"] = (
                    float(np.abs(getattr(mine, name) - getattr(theirs, name)).max()), ROUNDING if name == "v" else BITS)
        cpu.step(20)
        gpu.step(20)
        for name in ("E", "B", "rho", "J_hat"):
            result[f"{shape} {name}"] = relative(getattr(gpu, name), getattr(cpu, name)), AGREEMENT
        energies = [[e["electric"], e["magnetic"], *e["kinetic"].values()] for e in (gpu.energies(), cpu.energies())]
        result[f"{shape} energies"] = relative(*energies), AGREEMENT
    return result


def drift(cycles: int = 500) -> dict:
    """Worst relative energy drift over ``cycles`` cycles by shape and method."""
    result = {}
    for shape, methods in METHODS.items():
        for method in methods:
            run = harris(device="cuda", shape=shape, method=method)
            run.step(cycles)
            result[f"{shape} {method}"] = run.worst_drift, DRIFT
    return result


def repeat() -> dict:
    """How many values of fields and particles differ between two runs of 30 cycles."""
    result = {}
    for shape in METHODS:
        one, two = (harris(device="cuda", shape=shape) for _ in range(2))
        one.step(30)
        two.step(30)
        pairs = [(getattr(one, name), getattr(two, name)) for name in ("E", "B", "E_theta", "rho", "J_hat")]
        for mine, theirs in zip(one.species, two.species, strict=True):
            pairs += [(getattr(mine, name), getattr(theirs, name)) for name in ("x", "v", "q")]
        result[shape] = float(sum((a != b).sum() for a, b in pairs)), BITS
    return result


def precision(cycles: int = 1000) -> dict:
    """Relative error of M after one cycle and energy drift over ``cycles`` cycles, FP64 and TF32."""
    result = {}
    for shape, method, mode in (("cic", "pair", "fp64"), ("cic", "pair", "tf32"), ("tsc", "pair", "fp64"),
                                ("tsc", "pair", "tf32"), ("tsc", "mma", "tf32")):
        exact = harris(device="cuda", shape=shape)
        exact.step()
        reference = exact.plasma.backend.to_host(exact.mass_matrix.values)
        run = harris(device="cuda", shape=shape, method=method, precision=mode)
        run.step()
        error = relative(run.plasma.backend.to_host(run.mass_matrix.values), reference)
        run.step(cycles - 1)
        result[f"{shape} {method} {mode} error of M"] = error, BITS if mode == "fp64" else TF32_ERROR
        result[f"{shape} {method} {mode} drift"] = run.worst_drift, DRIFT if mode == "fp64" else TF32_DRIFT
    return result


CHECKS = {"agreement": agreement, "drift": drift, "repeat": repeat, "precision": precision}


def main() -> None:
    """Run the checks that are asked for, print and store what they gave."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=CHECKS, default=list(CHECKS))
    parser.add_argument("--json")
    options = parser.parse_args()
    results: dict = {}
    failed = False
    for name in options.only:
        start = time.perf_counter()
        found = CHECKS[name]()
        results[name] = {key: {"value": value, "limit": limit} for key, (value, limit) in found.items()}
        print(f"{name} ({time.perf_counter() - start:.1f} s)")
        for key, (value, limit) in found.items():
            wrong = not value <= limit
            failed |= wrong
            print(f"  {key:<40}{value:.2e}   at most {limit:.0e}{'   FAILED' * wrong}", flush=True)
        if options.json:
            with open(options.json, "w") as file:
                json.dump(results, file, indent=1)
    if failed:
        sys.exit("a limit is exceeded")


if __name__ == "__main__":
    main()
