"""From a checked deck to the objects of a run. This file and simulation.py are the only readers of the deck."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ecsim.backend import BackendError, select
from ecsim.deck import Deck, dump, load_deck
from ecsim.deck.compare import differences
from ecsim.deck.source import read_toml_text
from ecsim.diagnostics.base import Setting
from ecsim.diagnostics.fields import Params as FieldParams
from ecsim.grid import Grid
from ecsim.output.checkpoint import Checkpoint, CheckpointError, belongs_to, find_checkpoint, tidy
from ecsim.output.hold import Hold
from ecsim.output.provenance import provenance
from ecsim.output.rundir import continue_run_directory
from ecsim.parallel.domain import Domain, connect
from ecsim.parallel.launch import world
from ecsim.parallel.topology import Topology
from ecsim.particles.loading import load
from ecsim.particles.species import Species
from ecsim.plasma import Plasma
from ecsim.problems import registry
from ecsim.recorder import Recorder, check_earlier
from ecsim.resume import Checkpointer, Reader
from ecsim.units import reference_frequency


def place(grid: Grid, *, device: str, threads: int, ranks=None, transport: str = "auto"):
    """Cut the grid for the ranks of this job; returns this one's domain and the backend that computes there
    (collective).

    Raises TopologyError, BackendError or TransportError before anything is allocated.
    """
    here = world()
    topology = Topology.choose(grid, here.size, ranks)
    backend = select(device, threads=threads or here.threads, local_rank=here.local_rank)
    taken = here.comm.allgather(backend.name) if here.comm else [backend.name]
    if len(set(taken)) > 1:
        raise BackendError(f"device = '{device}' is {' and '.join(sorted(set(taken)))} on different ranks; name one")
    return Domain(topology, here, connect(here, backend, transport), backend), backend


@dataclass
class Parts:
    """What a run is made of. ``checkpoint`` : where it goes on from. ``passed_over`` : why from no newer one."""

    plasma: Plasma
    recorder: Recorder | None = None
    checkpointer: Checkpointer | None = None
    checkpoint: Checkpoint | None = None
    passed_over: Sequence[str] = ()


def build(deck: Deck, directory=None, restart=None, hold: Hold | None = None) -> Parts:
    """Plasma of a deck, with its recorder and checkpointer where a run directory is given.

    restart : a checkpoint, or a run directory whose newest valid one is meant; None starts at step 0.  hold : on the
    directory, taken here; the caller's to release or, after an exception, to abandon.
    Raises LaunchError, BackendError, ValueError, CheckpointError or RunDirectoryError before anything is allocated.
    """
    world().same("decks, directories or checkpoints", f"{directory}\n{restart}\n{dump(deck)}")
    grid = Grid(deck.grid.cells, deck.grid.size, deck.grid.order)
    domain, backend = place(grid, device=deck.backend.device, threads=deck.backend.threads, ranks=deck.mpi.ranks,
                            transport=deck.mpi.transport)
    hold = hold or Hold()
    goes_on = domain.world.on_root(lambda: None not in (directory, restart) and belongs_to(restart, directory))
    if directory is not None:
        taken = domain.world.on_root(lambda: hold.take(directory, deck.output.overwrite, goes_on))
        if not domain.world.is_root:
            hold.stand_by(directory, taken, wrote=False)
    checkpoint, passed_over = (None, ()) if restart is None else find_checkpoint(restart, domain.world)
    if checkpoint is not None:
        check_same_run(checkpoint, deck)
    if goes_on:
        names = [species.name for species in deck.species]
        domain.world.on_root(lambda: check_earlier(Path(directory), names, _entries(deck)))
    parts = Parts(_plasma(deck, domain, backend, checkpoint), checkpoint=checkpoint, passed_over=passed_over)
    if directory is not None:
        domain.world.on_root(lambda: _prepare(deck, directory, hold, checkpoint if goes_on else None))
        if not domain.world.is_root:
            hold.stand_by(directory, taken, wrote=not goes_on)
        attributes = {**provenance(), "seed": deck.particles.seed, "backend": backend.describe()}
        parts.recorder = _recorder(deck, parts.plasma, directory, attributes, goes_on)
        parts.checkpointer = Checkpointer(
            parts.plasma, directory, {**attributes, "deck": dump(deck)}, every=deck.checkpoint.every,
            wall_minutes=deck.checkpoint.wall_minutes, keep=deck.checkpoint.keep)
    return parts


def _prepare(deck: Deck, directory, hold: Hold, checkpoint: Checkpoint | None) -> None:
    """Make the directory of a new run, or of one that goes on from ``checkpoint``, ready to be written into."""
    if checkpoint is None:
        hold.create(dump(deck), deck.output.overwrite)
    else:
        tidy(directory, checkpoint.step, deck.checkpoint.keep)
        continue_run_directory(directory, dump(deck), checkpoint.step)


def check_same_run(checkpoint: Checkpoint, deck: Deck) -> None:
    """Raise CheckpointError saying why a deck cannot go on from a checkpoint: another version, or another plasma."""
    written, here = checkpoint.manifest["version"], provenance()["version"]
    if written != here:
        raise CheckpointError(f"{checkpoint.path} was written by ecsim {written}; this is {here}, which may compute "
                              "otherwise: go on with the version that started the run")
    changed = differences(deck_of(checkpoint), deck)
    if changed:
        raise CheckpointError(f"{checkpoint.path} belongs to another deck: " + "; ".join(changed))


def deck_of(checkpoint: Checkpoint, changes=()) -> Deck:
    """The deck that a checkpoint was written under, with changes as `load_deck` takes them."""
    return load_deck(read_toml_text(checkpoint.manifest["deck"]), changes)


def _plasma(deck: Deck, domain: Domain, backend, checkpoint: Checkpoint | None) -> Plasma:
    """Fields and particles, from the problem or from a checkpoint."""
    block, problem = domain.block, registry()[deck.problem.name]
    reader = None if checkpoint is None else Reader(checkpoint, block)
    species = []
    for k, (entry, recipe) in enumerate(zip(deck.species, problem.recipes(deck), strict=True)):
        store = backend.new_store(block, position_dtype=deck.particles.position,
                                  velocity_dtype=deck.particles.velocity,
                                  weight=recipe.uniform_weight(block.volume, entry.per_cell), ids=deck.particles.ids,
                                  capacity=entry.per_cell * block.n_cells, sort_every=deck.particles.sort_every,
                                  migration=domain.migration)
        if reader is not None:
            reader.load(store, entry.name)
        else:
            load(store.append, recipe, block, species=k, particles_per_cell=entry.particles_per_cell, start=entry.start,
                 seed=deck.particles.seed, ids=deck.particles.ids, position_dtype=deck.particles.position,
                 velocity_dtype=deck.particles.velocity,
                 threads=min(backend.threads.count, domain.world.threads or backend.threads.count))
            store.sort()
        species.append(Species(entry.name, entry.charge_to_mass, store))
    E, B = problem.fields(block, deck) if reader is None else (reader.field("E"), reader.field("B"))
    plasma = Plasma(domain, backend, species, E, B, dt=deck.time.dt, theta=deck.time.theta,
                    tolerance=deck.solver.tolerance, restart=deck.solver.restart,
                    max_iterations=deck.solver.max_iterations, guess=deck.solver.guess,
                    method=deck.assembly.method, precision=deck.assembly.precision,
                    graphs=deck.backend.graphs)
    if reader is not None:
        plasma.resume(checkpoint.step, reader.field("E_theta"), reader.field("previous_E"))
    return plasma


def _entries(deck: Deck) -> list:
    """Its diagnostics; output.fields_every is short for one of all fields in double precision."""
    entries = [(entry.kind, entry.params) for entry in deck.diagnostic]
    if deck.output.fields_every:
        entries.insert(0, ("fields", FieldParams(every=deck.output.fields_every, precision="float64")))
    return entries


def _recorder(deck: Deck, plasma: Plasma, directory, attributes, goes_on: bool) -> Recorder:
    output = deck.output
    setting = Setting(Path(directory), attributes, reference_frequency(deck.units.omega_pi, deck.units.density),
                      output.author, plasma.step if goes_on else None)
    return Recorder(plasma, setting, deck_text=dump(deck), entries=_entries(deck), energies_every=output.energies_every,
                    gauss_every=output.gauss_every)
