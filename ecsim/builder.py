"""From a checked deck to the objects of a run. This file and simulation.py are the only readers of the deck."""

from __future__ import annotations

from ecsim.backend import select
from ecsim.deck import Deck, dump
from ecsim.grid import Grid
from ecsim.output.provenance import provenance
from ecsim.output.rundir import check_run_directory
from ecsim.parallel.domain import Domain
from ecsim.particles.loading import load
from ecsim.particles.species import Species
from ecsim.plasma import Plasma
from ecsim.problems import registry
from ecsim.recorder import Recorder


def build(deck: Deck, directory=None) -> tuple[Plasma, Recorder | None]:
    """Plasma of a deck at step 0, and its recorder where a run directory is given.

    Raises BackendError, ValueError or RunDirectoryError before anything is allocated.
    """
    overwrite = deck.output.overwrite
    if directory is not None:
        check_run_directory(directory, overwrite)
    backend = select(deck.backend.device, threads=deck.backend.threads)
    grid = Grid(deck.grid.cells, deck.grid.size, deck.grid.order)
    domain = Domain.whole(grid)
    block = domain.block
    problem = registry()[deck.problem.name]
    recipes = problem.recipes(deck)
    species = []
    for k, (entry, recipe) in enumerate(zip(deck.species, recipes, strict=True)):
        store = backend.new_store(block, position_dtype=deck.particles.position,
                                  weight=recipe.uniform_weight(grid.volume, entry.per_cell), ids=deck.particles.ids,
                                  capacity=entry.per_cell * block.n_cells, sort_every=deck.particles.sort_every)
        for chunk in load(recipe, block, species=k, particles_per_cell=entry.particles_per_cell, start=entry.start,
                          seed=deck.particles.seed, ids=deck.particles.ids, threads=backend.threads.count):
            store.append(chunk.cell, chunk.s, chunk.v, chunk.weight, chunk.id)
        store.sort()
        species.append(Species(entry.name, entry.charge_to_mass, store))
    E, B = problem.fields(block, deck)
    plasma = Plasma(domain, backend, species, E, B, dt=deck.time.dt, theta=deck.time.theta,
                    tolerance=deck.solver.tolerance, restart=deck.solver.restart,
                    max_iterations=deck.solver.max_iterations, guess=deck.solver.guess,
                    method=deck.assembly.method, precision=deck.assembly.precision)
    if directory is None:
        return plasma, None
    output = deck.output
    recorder = Recorder(plasma, directory, deck_text=dump(deck), overwrite=overwrite,
                        attributes={**provenance(), "seed": deck.particles.seed, "backend": backend.describe()},
                        energies_every=output.energies_every, gauss_every=output.gauss_every,
                        fields_every=output.fields_every)
    return plasma, recorder
