"""Plasmas that are run on several numbers of ranks; every case returns arrays that must not depend on that number."""

from __future__ import annotations

import math

import numpy as np

from ecsim.parallel.launch import world
from ecsim.simulation import Simulation

CYCLES = 10
CUBES = {1: (1, 1, 1), 2: (1, 2, 1), 3: (1, 1, 3), 4: (1, 2, 2), 6: (3, 1, 2), 8: (2, 2, 2)}
PLANES = {1: (1, 1), 2: (1, 2), 3: (1, 3), 4: (2, 2), 6: (3, 2), 8: (2, 4)}


def random_plasma(cells, seed, per_cell=4):
    """Arguments of from_arrays: two species of unequal weights, some so fast that they cross several ranks in a cycle,
    one whose particles share a charge, and an empty one."""
    rng = np.random.default_rng(seed)
    d, n = len(cells), per_cell * math.prod(cells)
    size = tuple(0.5 * c for c in cells)
    species = []
    for name, qm, spread, count in (("ions", 1.0, 0.02, n), ("electrons", -25.0, 0.1, n), ("beam", -25.0, 0.3, n // 9),
                                    ("none", 2.0, 1.0, 0)):
        v = spread * rng.standard_normal((count, 3))
        v[rng.random(count) < 0.02] *= 30
        q = np.sign(qm) * math.prod(size) / n * (0.5 + rng.random(count))
        species.append(dict(name=name, charge_to_mass=qm, x=rng.random((count, d)) * size, v=v,
                            q=-0.01 if name == "beam" else q))
    return dict(cells=cells, size=size, species=species, E=0.01 * rng.standard_normal((3, *cells)),
                B=0.1 + 0.01 * rng.standard_normal((3, *cells)), dt=0.2, threads=1)


def gathered(species):
    """x, v, q of all ranks' particles in the order of their ids, on rank 0 (empty arrays elsewhere)."""
    columns = (species.id, species.x, species.v, species.q)
    comm = world().comm
    parts = comm.gather(columns, root=0) if comm else [columns]
    if not world().is_root:
        return ()
    ids, *rest = (np.concatenate(c) for c in zip(*parts, strict=True))
    order = np.argsort(ids)
    assert (np.diff(ids[order].astype(np.int64)) > 0).all(), "a particle is there twice"
    return tuple(a[order] for a in rest)


def current_misfit(run, before):
    """|V Σ J̄ − Σ q (v^n + v^{n+1})/2| of the last cycle, relative to Σ |q v| over all particles and ranks."""
    p = run.plasma
    mine = [p.total_current().reshape(3, -1).sum(axis=1) * p.block.volume,
            sum(np.abs(s.q[:, None] * s.v).sum(axis=0) for s in run.species)]
    current, scale = p.halo.sum(np.concatenate(mine)).reshape(2, 3)
    return np.abs(current - 0.5 * (before + charge_flow(p))).max() / scale.max()


def charge_flow(p):
    """Σ q v over all particles and ranks."""
    return p.halo.sum(sum(sums[1:4] for sums in p.sums))


def cycles(arguments, count=CYCLES, **how):
    """So many cycles: fields, energies, momentum, charge; how well energy and current are kept."""
    run = Simulation.from_arrays(**arguments, **how)
    run.step(count - 1)
    flow = charge_flow(run.plasma)
    run.step()
    energies = run.energies()
    return {"E": run.E, "B": run.B, "rho": run.rho, "J_hat": run.J_hat, "charge": np.array([run.plasma.charge()]),
            "energies": np.array([energies["electric"], energies["magnetic"], *energies["kinetic"].values()]),
            "momentum": run.plasma.momentum(), "check_drift": np.array([run.worst_drift]),
            "check_current": np.array([current_misfit(run, flow)])}


def box(shape, method, cut=None):
    """24×16×8 cells."""
    return cycles(random_plasma((24, 16, 8), 1), shape=shape, method=method, ranks=cut and cut[world().size])


def plane(shape, method, cut=None):
    """97×25 cells, which no number of ranks divides."""
    return cycles(random_plasma((97, 25), 2, per_cell=8), shape=shape, method=method, ranks=cut and cut[world().size])


def line(shape, method):
    """255 cells."""
    return cycles(random_plasma((255,), 3, per_cell=30), shape=shape, method=method)


def thin():
    """Blocks as thin as the ghosts on eight ranks, beside a dimension of one cell."""
    return cycles(random_plasma((16, 1), 4, per_cell=40), shape="tsc", ranks=(world().size, 1))


def small(method="pair"):
    """Few cells, for kernels that are run slowly."""
    return cycles(random_plasma((9, 4), 5, per_cell=5), count=3, method=method, ranks=(world().size, 1))


def shower(shape):
    """Particles that feel nothing, one for each step of −7 … 7 cells along both dimensions, from a cell's corner."""
    cells, dt = (24, 12), 0.5
    steps = np.stack(np.meshgrid(np.arange(-7, 8), np.arange(-7, 8), indexing="ij"), axis=-1).reshape(-1, 2)
    places = np.concatenate([np.full((len(steps), 2), 0.125), np.full((len(steps), 2), 0.875) + [11, 5]])
    v = np.zeros((2 * len(steps), 3))
    v[:, :2] = np.concatenate([steps, steps]) / dt
    nothing = np.zeros((3, *cells))
    run = Simulation.from_arrays(cells=cells, size=cells, shape=shape, dt=dt, E=nothing, B=nothing, threads=1,
                                 ranks=PLANES[world().size],
                                 species=[dict(name="rain", charge_to_mass=1e-30, x=places, v=v, q=1e-30)])
    run.step(3)
    (found,) = ([a[0]] if (a := gathered(run.species[0])) else [np.zeros((0, 2))])
    wanted = (places + np.concatenate([steps, steps]) * 2.5) % cells
    misplaced = np.abs(found - wanted[: len(found)]).max(initial=0.0)
    return {"check_places": np.array([misplaced]), "exact_x": found}


def deck(cells, size, shape, start, problem):
    """The particles that a deck loads, bit for bit, and its energies ten cycles later."""
    species = [dict(name="ions", charge_to_mass=1.0, particles_per_cell=8),
               dict(name="electrons", charge_to_mass=-25.0, particles_per_cell=8)]
    if problem["name"] == "thermal":
        species = [{**s, "density": 1.0, "thermal_velocity": 0.1 * (k + 1)} for k, s in enumerate(species)]
    run = Simulation.from_deck({
        "grid": {"cells": cells, "size": size, "shape": shape}, "time": {"dt": 0.2, "steps": CYCLES},
        "problem": problem, "species": [{**s, "start": start} for s in species], "particles": {"ids": True, "seed": 7},
        "backend": {"device": "cpu", "threads": 1}})
    loaded = {f"exact_{s.name}_{name}": a for s in run.species
              for name, a in zip(("x", "v", "q"), gathered(s), strict=False)}
    run.run()
    energies = run.energies()
    return {**loaded, "energies": np.array([energies["electric"], energies["magnetic"], *energies["kinetic"].values()]),
            "E": run.E, "B": run.B, "check_drift": np.array([run.worst_drift])}


HARRIS = {"name": "double_harris", "magnetic_field": 0.1, "half_thickness": 0.5, "background": 0.2,
          "temperature_ratio": 5.0, "perturbation": 0.4, "perturbation_length": 2.0, "perturbation_width": 1.0}
CASES = {
    "box-cic-pair": lambda: box("cic", "pair"),
    "box-tsc-direct": lambda: box("tsc", "direct", CUBES),
    "plane-tsc-pair": lambda: plane("tsc", "pair"),
    "plane-cic-direct": lambda: plane("cic", "direct", PLANES),
    "line-cic-direct": lambda: line("cic", "direct"),
    "line-tsc-pair": lambda: line("tsc", "pair"),
    "thin": thin,
    "small": small,
    "shower-cic": lambda: shower("cic"),
    "shower-tsc": lambda: shower("tsc"),
    "deck-box": lambda: deck([24, 16, 8], [12.0, 8.0, 4.0], "cic", "quiet", HARRIS),
    "deck-plane": lambda: deck([97, 25], [48.5, 12.5], "tsc", "random", HARRIS),
    "deck-line": lambda: deck([255], [64.0], "tsc", "random", {"name": "thermal"}),
}
