"""Bytes that a run will take, array by array and file by file, counted from the deck alone."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ecsim.backend.cuda.assembly import ATOMIC
from ecsim.backend.cuda.move import FRACTION, GROWTH, HEAD_BYTES, LEAST_IN_FULL_RUN, LEAST_RECORDS, POOL, WARPS
from ecsim.backend.cuda.store import slots_for, slots_of_store
from ecsim.deck.schema import Deck, Diagnostic
from ecsim.diagnostics.base import cells_of
from ecsim.diagnostics.fields import MOMENTS
from ecsim.grid import Block, Grid, pair_offsets, roomy
from ecsim.output.energies import CHUNK, COLUMNS
from ecsim.particles.recipe import Recipe, speeds
from ecsim.problems import registry

DOUBLE, INDEX = 8, 4
SOLVE_TEMPORARIES = 8
COLUMN_INDEX = 1_500
PER_CELL, OUTBOX_PER_CELL = 12, 52
MEAN_SPEED = math.sqrt(2.0 / math.pi)   # ⟨|v|⟩ along one dimension of a Maxwellian with v_th = 1
RESIDENT = 528                          # blocks of the mover at a time on an H200; others have room for fewer
WASTE = 1.06                            # of the outbox, by warps that take records in lots
SPECIES_COMPONENTS, COMMON_COMPONENTS = 12, 10
DATASET_OVERHEAD = 1400
RECORD_COMPONENTS = {"E": 3, "B": 3, "rho": 1, "J": 3, "JE": 1, "n": 1, "u": 3, "P": 6, "T": 1}


def arrays(deck: Deck, device: str, block: Block | None = None) -> dict[str, int]:
    """Bytes of the large arrays at the peak of a cycle on ``"cpu"`` or ``"cuda"``, by name; block: of one rank."""
    block = block or Block(Grid(deck.grid.cells, deck.grid.size, deck.grid.order))
    particles = {"cpu": cpu_particles, "cuda": cuda_particles}[device]
    return {**particles(deck, block), **fields(deck, block)}


def cpu_particles(deck: Deck, block: Block) -> dict[str, int]:
    """The particle stores, and what the sort needs: two arrays for the largest species, one for each size and type."""
    found = {}
    for species, weights in zip(deck.species, weighted(deck, block), strict=True):
        each = particle_bytes(deck, weights) + (INDEX if deck.particles.sort_every > 1 else 0)
        count = species.per_cell * block.n_cells
        found[f"particles: {species.name}"] = count * each + DOUBLE * (block.n_cells + 1)
    sizes = {species.per_cell for species in deck.species}
    kinds = {np.dtype(deck.particles.position).itemsize, np.dtype(deck.particles.velocity).itemsize}
    if deck.particles.ids or any(weighted(deck, block)):
        kinds.add(DOUBLE)
    work = 2 * INDEX * max(sizes, default=0) + sum(kinds) * sum(sizes)
    found["work arrays of the sort"] = (work + DOUBLE) * block.n_cells
    return found


def cuda_particles(deck: Deck, block: Block) -> dict[str, int]:
    """The particle stores with the slack of their cells, what their moves need, and the sums of the assembly.

    When a cell runs full, a store is laid out anew, one component after the other through a buffer that stays.
    """
    found, words, records, most_slots = {}, 0, LEAST_RECORDS, 0
    recipes = registry()[deck.problem.name].recipes(deck)
    for species, recipe, weights in zip(deck.species, recipes, weighted(deck, block), strict=True):
        slots = slots_of_store(int(slots_for(np.array([species.per_cell]), np)[0]) * block.n_cells)
        found[f"particles: {species.name}"] = slots * particle_bytes(deck, weights) + PER_CELL * block.n_cells
        half_words = (block.d + 1) // 2 if deck.particles.position == "float32" else block.d
        words = max(words, half_words + 3 + weights + deck.particles.ids)
        share = WASTE * leaving(deck, recipe)  # an outbox that is too small grows by a share of what it is to hold
        share = max(FRACTION, share * (1 + GROWTH) if share > FRACTION else 0.0)
        records, most_slots = max(records, int(share * species.per_cell * block.n_cells)), max(most_slots, slots)
    records = roomy(records + POOL * WARPS * min(-(-block.n_cells // WARPS), RESIDENT))
    heads = HEAD_BYTES * (block.n_cells + records // LEAST_IN_FULL_RUN + 1)
    found["outbox of the mover"] = DOUBLE * words * records + heads + OUTBOX_PER_CELL * block.n_cells
    found["buffer for a new layout"] = DOUBLE * most_slots
    if deck.assembly.method not in ATOMIC:
        numbers = 9 * (2 * block.order + 1) ** block.d + 4 * (block.order + 1) ** block.d
        found["sums of the assembly"] = DOUBLE * numbers * block.n_cells
    return found


def leaving(deck: Deck, recipe: Recipe) -> float:
    """Share of a species that leaves its cell in a step: ⟨|v|⟩ Δt/Δ summed over the dimensions."""
    thermal, drift = speeds(recipe, deck.grid.size)
    cells = (deck.time.dt / h * (MEAN_SPEED * t + d) for h, t, d in zip(deck.grid.spacing, thermal, drift, strict=True))
    return min(1.0, sum(cells))


def particle_bytes(deck: Deck, weights: bool) -> int:
    """Bytes that stay with a particle: position in its cell, velocity, and weight and number where it has them."""
    position = np.dtype(deck.particles.position).itemsize * deck.grid.dimension
    velocity = np.dtype(deck.particles.velocity).itemsize * 3
    return position + velocity + DOUBLE * weights + DOUBLE * deck.particles.ids


def weighted(deck: Deck, block: Block) -> Iterator[bool]:
    """Whether each species has a weight for every particle (its density varies) or one for all."""
    recipes = registry()[deck.problem.name].recipes(deck)
    for species, recipe in zip(deck.species, recipes, strict=True):
        yield recipe.uniform_weight(block.volume, species.per_cell) is None


def fields(deck: Deck, block: Block) -> dict[str, int]:
    """Fields, moments, the stored stencil and the vectors of the solve: the same arrays on every backend."""
    padded, owned = DOUBLE * math.prod(block.padded), DOUBLE * block.n_cells
    extrapolated = deck.solver.guess == "extrapolated"
    matrix = padded * 9 * len(pair_offsets(block.d, block.order))
    return {
        "fields and moments": padded * (5 * 3 + 4) + owned * 3 * extrapolated,
        "mass matrix": matrix,
        "Krylov vectors": owned * 3 * (deck.solver.restart + 1),
        "work arrays of solve and ghosts":
            3 * (padded + owned) + max(3 * owned * SOLVE_TEMPORARIES, faces(block, matrix)),
    }


def faces(block: Block, matrix: int) -> int:
    """Most bytes of ghosts of a ``matrix`` of so many that are on their way at a time, sent and received.

    Those of CIC lie on one side. A dimension that is not cut has no more than a copy of a face.
    """
    sides = 2 * block.order
    return max(matrix * block.ghosts // padded * (sides if own < all_cells else 1)
               for padded, own, all_cells in zip(block.padded, block.cells, block.grid.cells, strict=True))


def disk(deck: Deck) -> dict[str, int]:
    """Bytes of the files that a run writes, by name."""
    output, steps, n_species = deck.output, deck.time.n_steps, len(deck.species)
    rows = math.ceil((steps // output.energies_every + 1) / CHUNK) * CHUNK
    found = {"energies.h5": sum(rows * _column_bytes(name, n_species) + COLUMN_INDEX for name in COLUMNS)}
    if output.fields_every:
        count = steps // output.fields_every + 1
        components = COMMON_COMPONENTS + SPECIES_COMPONENTS * n_species
        found[f"fields/: {count:,} snapshots"] = count * components * DOUBLE * deck.grid.n_cells
    for entry in deck.diagnostic:
        found |= openpmd_bytes(deck, entry)
    if deck.checkpoint.every or deck.checkpoint.wall_minutes:
        found[f"checkpoints/: {deck.checkpoint.keep} kept"] = deck.checkpoint.keep * checkpoint_bytes(deck)
    return found


def openpmd_bytes(deck: Deck, entry: Diagnostic) -> dict[str, int]:
    """Of the openPMD files of a diagnostic: fields or particles; nothing for the others, which are small."""
    params, cells, d = entry.params, deck.grid.cells, deck.grid.dimension
    count = deck.time.n_steps // params.every + 1
    if entry.kind == "fields":
        strides = params.stride if isinstance(params.stride, tuple) else (params.stride,) * d
        spans = cells_of(params.region, cells, deck.grid.spacing)
        points = math.prod(-(-(b - a) // k) for (a, b), k in zip(spans, strides, strict=True))
        every_moment = [f"{kind}_" for kind in MOMENTS] * len(deck.species)
        names = [n for name in params.records for n in (every_moment if name == "moments" else [name])]
        datasets = sum(RECORD_COMPONENTS[name.partition("_")[0]] for name in names)
        size: float = points * datasets
    elif entry.kind == "particles":
        chosen = [s for s in deck.species if params.species is None or s.name in params.species]
        share = 1.0 / params.every_id
        for low, high, length in zip(*((params.region or ())[k::2] for k in (0, 1)), deck.grid.size, strict=False):
            share *= (high - low) / length
        datasets = len(chosen) * (d + 4)
        size = sum(share * s.per_cell for s in chosen) * deck.grid.n_cells * (d + 4)
    else:
        return {}
    each = round(size * np.dtype(params.precision).itemsize) + DATASET_OVERHEAD * datasets
    return {f"diagnostics/{entry.name}/: {count:,} files": count * each}


def checkpoint_bytes(deck: Deck) -> int:
    """Of one checkpoint: the particles with a count a cell, and E, B, E^{n+θ} and the history of E."""
    block = Block(Grid(deck.grid.cells, deck.grid.size, deck.grid.order))
    particles = sum(species.per_cell * block.n_cells * particle_bytes(deck, weights) + DOUBLE * block.n_cells
                    for species, weights in zip(deck.species, weighted(deck, block), strict=True))
    return particles + 3 * DOUBLE * block.n_cells * (3 + (deck.solver.guess == "extrapolated"))


def _column_bytes(name: str, n_species: int) -> int:
    dtype, width = COLUMNS[name][:2]
    length = n_species if width == "species" else max(int(width), 1)
    return np.dtype(dtype).itemsize * length


def available(device: str) -> int | None:
    """Most memory that a run can have: of the machine or its control group on ``"cpu"``, else None."""
    if device != "cpu":
        return None
    try:
        limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (OSError, ValueError):
        return None
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limits.append(int(Path(file).read_text()))
        except (OSError, ValueError):
            continue
    return min(limits)
