"""What a run will be, told before anything is allocated: sizes, memory, disk, and what the step resolves."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from ecsim.deck.schema import Deck, Species
from ecsim.grid import Grid
from ecsim.memory import arrays, disk
from ecsim.parallel.topology import Topology
from ecsim.particles.recipe import speeds
from ecsim.problems import registry
from ecsim.units import gyrofrequency, plasma_frequency

COLD_BEAM_LIMIT, COLD_BEAM_SPREAD = 0.18, 0.8


@dataclasses.dataclass(frozen=True)
class Finding:
    """A dimensionless number of a run, with its verdict.

    `of` is the species it belongs to or empty; `values` are one, or one for each active dimension.
    """

    name: str
    of: str
    values: tuple[float, ...]
    verdict: str
    warning: bool = False


@dataclasses.dataclass(frozen=True)
class Plan:
    """The resolved plan of a run on ``device``; bytes by array in ``memory`` and by file in ``disk``.

    With a ``topology``, memory is that of the rank that has most.
    """

    deck: Deck
    device: str
    particles: dict[str, int]
    memory: dict[str, int]
    disk: dict[str, int]
    findings: tuple[Finding, ...]
    topology: Topology | None = None

    @property
    def n_particles(self) -> int:
        """Macro-particles of all species."""
        return sum(self.particles.values())

    @property
    def bytes(self) -> int:
        """Peak memory of all arrays."""
        return sum(self.memory.values())


def make_plan(deck: Deck, device: str = "cpu", size: int | None = None) -> Plan:
    """The plan of a run of `deck` on ``"cpu"`` or ``"cuda"``; allocates nothing and imports no backend.

    size : number of ranks; None takes what the deck says. Raises TopologyError if the grid cannot be cut for them.
    """
    counts = {species.name: species.per_cell * deck.grid.n_cells for species in deck.species}
    ranks = deck.mpi.ranks
    grid = Grid(deck.grid.cells, deck.grid.size, deck.grid.order)
    topology = Topology.choose(grid, size or math.prod(ranks or (1,)), ranks)
    memory = arrays(deck, device, topology.largest_block())
    return Plan(deck, device, counts, memory, disk(deck), tuple(findings(deck)), topology if topology.split else None)


def findings(deck: Deck) -> Iterator[Finding]:
    """The numbers that say what the time step and the cells resolve, each with its verdict.

    A drift is judged for the species that react fastest only: they shield the slow ones.
    """
    problem = registry()[deck.problem.name]
    reference, field = problem.reference(deck), problem.magnetic_field(deck)
    spacing, dt = deck.grid.spacing, deck.time.dt
    plasma = [plasma_frequency(reference[s.name]["density"], s.charge_to_mass) for s in deck.species]
    for species, recipe, omega_p in zip(deck.species, problem.recipes(deck), plasma, strict=True):
        thermal, drift = speeds(recipe, deck.grid.size)
        yield frequency("ω_p Δt", species, omega_p * dt)
        if field:
            yield frequency("Ω Δt", species, gyrofrequency(field, species.charge_to_mass) * dt)
        yield travel(species, *([v * dt / h for v, h in zip(s, spacing, strict=True)] for s in (thermal, drift)))
        yield debye(species, [omega_p * h / v if v else math.inf for v, h in zip(thermal, spacing, strict=True)])
        if any(drift) and omega_p > 0.5 * max(plasma):
            yield beam(species, omega_p, thermal, drift, spacing, dt * deck.time.n_steps)
    yield light([dt / h for h in spacing])


def frequency(name: str, species: Species, value: float) -> Finding:
    """ωΔt of an oscillation; the implicit midpoint rule advances it by 2 atan(ωΔt/2): stable, but slow."""
    slow = 100 * (1 - 2 * math.atan(value / 2) / value) if value else 0.0
    if value <= 0.3:
        verdict = "resolved"
    elif value <= 2:
        verdict = f"stable, {slow:.0f} % slow"
    else:
        verdict = f"stable, not resolved ({slow:.0f} % slow)"
    return Finding(name, species.name, (value,), verdict)


def travel(species: Species, values: Sequence[float], drifts: Sequence[float]) -> Finding:
    """v_th Δt/Δx: how many cells a thermal particle crosses in a step, from whose middle alone it sees the field."""
    largest = max(values)
    if largest < 1 < max(drifts):
        verdict = f"mind the drift: it crosses {max(drifts):.1f} cells a step, and cold beams may alias in time"
    elif largest <= 0.3:
        verdict = "good: particles see the cells that they cross"
    elif largest <= 1:
        verdict = "fair: fast particles skip cells"
    else:
        verdict = "too far: thermal particles skip cells; lower time.dt"
    return Finding("v_th Δt/Δx", species.name, tuple(values), verdict, warning=largest > 1)


def debye(species: Species, values: Sequence[float]) -> Finding:
    """Δx/λ_D. Not resolving it heats a momentum-conserving code; this one keeps the energy."""
    largest = max(values)
    if math.isinf(largest):
        verdict = "cold: there is no Debye length"
    elif largest <= 1:
        verdict = "Debye length resolved"
    else:
        verdict = "Debye length not resolved; energy is conserved all the same"
    return Finding("Δx/λ_D", species.name, tuple(values), verdict)


def beam(
    species: Species,
    omega_p: float,
    thermal: Sequence[float],
    drift: Sequence[float],
    spacing: Sequence[float],
    duration: float,
) -> Finding:
    """drift/(ω_p Δx): a slow cold beam on coarse cells is unstable by aliasing, energy-conserving or not.

    The dispersion relation of a beam with this coupling, 1 = ω_p² Σ_p S_p²/(ω − k_p v)² with k_p = k + 2πp/Δx and
    S = sinc² (CIC), has growing roots for u = v/(ω_p Δx) < 0.18, with γ up to about min(3u, 0.2) ω_p, unless a
    thermal spread v_th > 0.8 v damps them. See also Adams, Werner & Cary 2025, arXiv 2503.13697.
    """
    values = [v / (omega_p * h) for v, h in zip(drift, spacing, strict=True)]
    cold = [u for u, v, spread in zip(values, drift, thermal, strict=True) if spread < COLD_BEAM_SPREAD * v]
    growth = max((min(3 * u, 0.2) for u in cold if u < COLD_BEAM_LIMIT), default=0.0) * omega_p * duration
    if growth > 3:
        verdict = f"cold beam below {COLD_BEAM_LIMIT}: aliasing may grow it {growth:.0f} e-folds; use smaller cells"
    elif growth:
        verdict = f"good: aliasing grows a cold beam by {growth:.1g} e-folds only"
    elif cold:
        verdict = "good: the beam is fast enough for these cells"
    else:
        verdict = "good: the drift is within the thermal spread"
    return Finding("drift/(ω_p Δx)", species.name, tuple(values), verdict, warning=growth > 3)


def light(values: Sequence[float]) -> Finding:
    """c Δt/Δx: not limited by stability; a wave of N cells has ωΔt = 2π c Δt/(N Δx) and is slow above 1."""
    largest = max(values)
    if largest <= 1 / math.pi:
        verdict = "light waves are resolved in time"
    else:
        verdict = f"stable; light waves shorter than {math.ceil(2 * math.pi * largest)} cells run slow"
    return Finding("c Δt/Δx", "", tuple(values), verdict)
