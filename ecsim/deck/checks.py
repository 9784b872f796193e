"""Faults that lie between keys, each of them valid alone."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from typing import Any

from ecsim.deck import schema
from ecsim.deck.faults import Fault, show
from ecsim.deck.schema import Assembly, Backend, Deck, Grid, Mpi, Particles, Species, Time, Units
from ecsim.deck.values import convert
from ecsim.keys import keys_of, rule_of
from ecsim.units import LARGEST

MOST_STEPS = 10**12
OPTIONAL_SPECIES_KEYS = ("density", "thermal_velocity", "drift")


def grid_faults(grid: Grid) -> Iterator[Fault]:
    """Cells and size must have the same number of entries, and a cell a volume that a float can hold."""
    if len(grid.size) != len(grid.cells):
        need = f"must have {len(grid.cells)} entries, as many as grid.cells, not {len(grid.size)}"
        yield Fault("grid.size", show(grid.size), need)
    elif min(grid.spacing) < 1 / LARGEST:
        yield Fault("grid.size", show(grid.size), "gives cells too small to compute with")


def time_faults(time: Time) -> Iterator[Fault]:
    """Exactly one of steps and end_time, and a number of steps that can be counted."""
    if (time.steps is None) == (time.end_time is None):
        what = "neither is given" if time.steps is None else "both are given"
        yield Fault("time.steps", "", f"give either time.steps or time.end_time; {what}")
    elif time.end_time is not None and time.end_time / time.dt > MOST_STEPS:
        yield Fault("time.end_time", show(time.end_time), f"is more than {MOST_STEPS:g} steps of {time.dt:g}")


def species_faults(path: str, species: Species, grid: Grid) -> Iterator[Fault]:
    """A list of particles per cell has one entry a dimension."""
    count = species.particles_per_cell
    if isinstance(count, tuple) and len(count) != grid.dimension:
        need = f"must be one number, or one for each of the {grid.dimension} dimensions"
        yield Fault(f"{path}.particles_per_cell", show(count), need)


def device_faults(deck: Deck, device: str) -> list[Fault]:
    """What the device that was taken, "cpu" or "cuda", cannot do of a deck that asks for it or for "auto"."""
    return list(backend_faults(deck.particles, deck.assembly, Backend(device=device)))


def backend_faults(particles: Particles, assembly: Assembly, backend: Backend) -> Iterator[Fault]:
    """Methods and number types that the device has not; nothing is known to be wrong while it is "auto"."""
    device = backend.device
    methods = {"cpu": schema.CPU_METHODS, "cuda": schema.CUDA_METHODS}.get(device)
    if methods and assembly.method not in methods:
        need = f"must be one of {', '.join(methods)} when the device is {device}"
        yield Fault("assembly.method", show(assembly.method), need)
    if particles.velocity != "float64" and device == "cuda":
        yield Fault("particles.velocity", show(particles.velocity), "must be float64 when the device is cuda")
    if assembly.precision == "tf32" and device == "cpu":
        yield Fault("assembly.precision", show("tf32"), "needs a GPU: must be fp64 when the device is cpu")
    elif assembly.precision == "tf32" and assembly.method not in schema.TF32_METHODS:
        need = f"needs assembly.method to be one of {', '.join(schema.TF32_METHODS)}, not {assembly.method}"
        yield Fault("assembly.precision", show("tf32"), need)


def shape_faults(grid: Any, assembly: Assembly, backend: Backend) -> Iterator[Fault]:
    """The tiles of mma are of one number type for each shape.  grid : anything with an ``order``."""
    needed, shape = ("fp64", "cic") if grid.order == 1 else ("tf32", "tsc")
    if assembly.method == "mma" and assembly.precision != needed and backend.device != "cpu":
        need = f"must be {needed} when assembly.method is mma and grid.shape is {shape}"
        yield Fault("assembly.precision", show(assembly.precision), need)


def option_faults(options: Mapping[str, Any]) -> list[Fault]:
    """What a deck would be told of these keys without their sections, each alone."""
    faults: list[Fault] = []
    for section in (schema.Grid, schema.Time, schema.Particles, schema.Assembly, schema.Solver, schema.Backend,
                    schema.Mpi):
        hints = typing.get_type_hints(section)
        for name, field in keys_of(section).items():
            if name in options and not (options[name] is None and field.default is None):
                convert(name, hints[name], rule_of(field), options[name], faults)
    return faults


def mpi_faults(grid: Grid, mpi: Mpi) -> Iterator[Fault]:
    """Ranks that are given must cut the grid into blocks at least as thick as the ghost layers."""
    if mpi.ranks is None:
        return
    if len(mpi.ranks) != grid.dimension:
        yield Fault("mpi.ranks", show(mpi.ranks), f"must have {grid.dimension} entries, as many as grid.cells")
        return
    most = [max(1, count // grid.order) for count in grid.cells]
    if any(ranks > limit for ranks, limit in zip(mpi.ranks, most, strict=True)):
        need = f"must be at most {show(most)}: a block is at least {grid.order} thick"
        yield Fault("mpi.ranks", show(mpi.ranks), need)


def problem_faults(deck: Deck, problem: Any) -> Iterator[Fault]:
    """What the problem cannot start from: its own `faults`, and species keys that it would ignore."""
    honoured = getattr(problem, "species_keys", ())
    for species in deck.species:
        for name in OPTIONAL_SPECIES_KEYS:
            value = getattr(species, name)
            if value is not None and name not in honoured:
                message = f"is not used by the problem {deck.problem.name}, which sets it; leave it out"
                yield Fault(f"species.{species.name}.{name}", show(value), message)
    if hasattr(problem, "faults"):
        yield from (Fault(where, value_at(deck, where), message) for where, message in problem.faults(deck))


def diagnostic_faults(deck: Deck) -> Iterator[Fault]:
    """What a diagnostic cannot measure in this box, and files that two of them would write."""
    if not deck.diagnostic:
        return
    from ecsim.diagnostics import registry
    from ecsim.diagnostics.base import Scene

    scene = Scene(deck.grid.cells, deck.grid.size, tuple(s.name for s in deck.species), deck.particles.ids)
    taken = {"fields": "output.fields_every"} if deck.output.fields_every else {}
    for index, entry in enumerate(deck.diagnostic):
        path = f"diagnostic.{index}"
        for name, message in registry()[entry.kind].faults(entry.params, scene):
            value = entry.kind if name == "kind" else getattr(entry.params, name)
            yield Fault(f"{path}.{name}", "" if value is None else show(value), message)
        if entry.name in taken:
            yield Fault(f"{path}.name", show(entry.name), f"its files have the name of {taken[entry.name]} already")
        taken.setdefault(entry.name, path)


def units_faults(units: Units) -> Iterator[Fault]:
    """One reference is enough."""
    if units.omega_pi is not None and units.density is not None:
        yield Fault("units.density", show(units.density), "give either units.omega_pi or units.density, not both")


def value_at(deck: Deck, path: str) -> str:
    """The value of a dotted key as text, or nothing when the path leads to no single value."""
    section, *inner = path.split(".")
    node = getattr(deck, section, None)
    if section == "problem" and inner != ["name"]:
        node = deck.problem.params
    if section == "species" and len(inner) == 2:
        names = [species.name for species in deck.species]
        node = deck.species[names.index(inner[0])] if inner[0] in names else None
    value = getattr(node, inner[-1], None) if inner else None
    return "" if value is None else show(value)
