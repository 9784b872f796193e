"""The whole input language: one frozen dataclass per deck section, one field per key.

Units are those of the code: c = 1, lengths in ion skin depths d_i = c/ω_pi, times in 1/ω_pi at the reference
density n0 = 1, velocities in c. The deck reference in the manual is generated from this file.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from ecsim.keys import key, keys_of

CPU_METHODS = ("pair", "direct", "auto")
CUDA_METHODS = ("pair", "mma", "conventional", "flat", "auto")
TF32_METHODS = ("pair", "mma", "auto")


@dataclasses.dataclass(frozen=True)
class Grid:
    """The periodic box and its cells; the number of entries is the dimension of the run."""

    cells: tuple[int, ...] = key(low=1, min_length=1, max_length=3, help="Cells along each active dimension")
    size: tuple[float, ...] = key(
        unit="d_i",
        low=0,
        exclusive_low=True,
        min_length=1,
        max_length=3,
        help="Box length along each active dimension",
    )
    shape: str = key(
        "cic",
        choices=("cic", "tsc"),
        help="Particle shape: cic is linear (2 nodes a dimension), tsc quadratic (3)",
    )

    @property
    def dimension(self) -> int:
        """Number of active dimensions, 1 to 3."""
        return len(self.cells)

    @property
    def n_cells(self) -> int:
        """Cells of the whole grid."""
        return math.prod(self.cells)

    @property
    def spacing(self) -> tuple[float, ...]:
        """Cell widths Δ along each active dimension, in d_i."""
        return tuple(length / count for length, count in zip(self.size, self.cells, strict=True))

    @property
    def order(self) -> int:
        """Order of the particle shape: 1 for cic, 2 for tsc."""
        return {"cic": 1, "tsc": 2}[self.shape]


@dataclasses.dataclass(frozen=True)
class Time:
    """The time step and the length of the run: give either steps or end_time."""

    dt: float = key(unit="1/ω_pi", low=0, exclusive_low=True, help="Time step Δt")
    steps: int | None = key(None, low=1, help="Number of cycles to run (instead of end_time)")
    end_time: float | None = key(
        None,
        unit="1/ω_pi",
        low=0,
        exclusive_low=True,
        help="Time to run to, rounded up to whole steps (instead of steps)",
    )
    theta: float = key(
        0.5, low=0.5, high=1, help="Implicitness θ: 0.5 conserves energy exactly, more damps unresolved waves"
    )

    @property
    def n_steps(self) -> int:
        """Cycles to run; `end_time` is rounded up to whole steps, but not for a rounding error."""
        if self.steps is not None:
            return self.steps
        assert self.end_time is not None
        return max(1, math.ceil(self.end_time / self.dt * (1 - 1e-12)))


@dataclasses.dataclass(frozen=True)
class Problem:
    """Which plasma to start from, and that problem's own keys (listed with each problem)."""

    name: str = key(help="Name of the problem")
    params: Any = None


@dataclasses.dataclass(frozen=True)
class Species:
    """One kind of particle; write one [[species]] table for each, in the order that the problem asks for."""

    name: str = key(identifier=True, help="Name, used in output files and in --set species.NAME.key=value")
    charge_to_mass: float = key(
        nonzero=True,
        unit="ion charge / ion mass",
        help="Charge-to-mass ratio with its sign: 1 for ions, -256 for electrons",
    )
    particles_per_cell: int | tuple[int, ...] = key(
        low=1, min_length=1, max_length=3, help="Particles per cell, or their number along each dimension"
    )
    start: str = key("random", choices=("random", "quiet"), help="Positions in a cell: random, or quiet (on a lattice)")
    density: float | None = key(
        None,
        unit="n0",
        low=0,
        exclusive_low=True,
        help="Number density, if the problem leaves it to the deck",
    )
    thermal_velocity: float | tuple[float, float, float] | None = key(
        None,
        unit="c",
        low=0,
        help="Thermal speed sqrt(T/m), one or one per component, if the problem leaves it to the deck",
    )
    drift: tuple[float, float, float] | None = key(
        None, unit="c", help="Mean velocity, if the problem leaves it to the deck"
    )

    @property
    def per_cell(self) -> int:
        """Macro-particles per cell."""
        count = self.particles_per_cell
        return count if isinstance(count, int) else math.prod(count)


@dataclasses.dataclass(frozen=True)
class Particles:
    """How particles are made and stored."""

    position: str = key(
        "float64",
        choices=("float64", "float32"),
        help="Number type of the position in the cell (float32 saves 4 bytes a dimension)",
    )
    velocity: str = key(
        "float64",
        choices=("float64", "float32"),
        help="Number type of the velocity (float32 saves 12 bytes, costs energy its last 8 digits; on the CPU only)",
    )
    seed: int = key(0, low=0, high=2**63 - 1,
                    help="Seed of the random numbers: the same plasma on any number of ranks or threads")
    sort_every: int = key(1, low=1, help="Steps between sorts by cell")
    ids: bool = key(False, help="Give every particle a 64-bit number that it keeps (8 bytes a particle)")


@dataclasses.dataclass(frozen=True)
class Assembly:
    """How the mass matrix is assembled; all methods give the same matrix."""

    method: str = key(
        "pair",
        choices=("pair", "direct", "mma", "conventional", "flat", "auto"),
        help="cpu: pair or direct; cuda: pair, mma, conventional or flat; auto takes the fastest measured",
    )
    precision: str = key(
        "fp64",
        choices=("fp64", "tf32"),
        help="Arithmetic of the products; tf32 (cuda only) is fast and rough; mma has fp64 with cic and tf32 with tsc",
    )


@dataclasses.dataclass(frozen=True)
class Solver:
    """The GMRES solve for the electric field."""

    tolerance: float = key(
        1e-12,
        low=0,
        high=1,
        exclusive_low=True,
        exclusive_high=True,
        help="Residual to reach, relative to the right-hand side",
    )
    restart: int = key(30, low=1, high=10000, help="Krylov vectors kept before a restart (each the size of E)")
    max_iterations: int = key(500, low=1, help="Iterations after which a solve has failed and the run stops")
    guess: str = key(
        "extrapolated",
        choices=("extrapolated", "last"),
        help="First guess: E extrapolated in time, or the last E",
    )


@dataclasses.dataclass(frozen=True)
class Backend:
    """Where the run computes."""

    device: str = key(
        "auto",
        choices=("auto", "cpu", "cuda"),
        help="auto takes a usable NVIDIA GPU, else the CPU, and says so",
    )
    threads: int = key(0, low=0, high=4096, help="CPU threads; 0 takes all cores")
    graphs: bool = key(
        True,
        help="Record what the solve does on a GPU and replay it (CUDA graphs); false: kernel by kernel",
    )


@dataclasses.dataclass(frozen=True)
class Mpi:
    """How a run under mpiexec is shared by its ranks."""

    ranks: tuple[int, ...] | None = key(
        None,
        low=1,
        min_length=1,
        max_length=3,
        help="Ranks along each dimension; left out: cut where the least is exchanged",
    )
    transport: str = key(
        "auto",
        choices=("auto", "host", "nccl", "cuda-aware"),
        help="How arrays on GPUs travel; auto takes nccl, else a cuda-aware MPI, else the host's memory",
    )


@dataclasses.dataclass(frozen=True)
class Output:
    """What is written, how often (in steps), and where."""

    directory: str | None = key(None, help="Run directory; left out, it is runs/NAME, after the deck")
    energies_every: int = key(1, low=1, help="Steps between rows of energies.h5")
    gauss_every: int = key(10, low=0, help="Steps between evaluations of the Gauss residual; 0 is never")
    fields_every: int = key(0, low=0, help="Steps between field snapshots; 0 is never")
    overwrite: bool = key(False, help="Replace an earlier run in the run directory")
    author: str = key("unknown", help='Who is named in openPMD files, as "Name <mail address>"')


@dataclasses.dataclass(frozen=True)
class Diagnostic:
    """One thing that the run measures; write a [[diagnostic]] table for each, with the keys of its kind."""

    kind: str = key(help="What it measures")
    params: Any = None

    @property
    def name(self) -> str:
        """What its files are called."""
        return self.params.name or self.kind


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """When the whole state is written, to go on from; also when it is stopped (SIGTERM, Ctrl-C, --max-minutes)."""

    every: int = key(0, low=0, help="Steps between checkpoints; 0 is never")
    wall_minutes: float = key(0.0, unit="min", low=0, help="Time between checkpoints on the wall clock; 0 is never")
    keep: int = key(2, low=1, help="How many are kept, the newest ones")


@dataclasses.dataclass(frozen=True)
class Units:
    """The reference plasma in SI units, for files that other programs read; give one key or none."""

    omega_pi: float | None = key(
        None, unit="rad/s", low=0, exclusive_low=True, help="Ion plasma frequency at the density n0 (protons)"
    )
    density: float | None = key(None, unit="1/m³", low=0, exclusive_low=True, help="Number density n0 (protons)")


@dataclasses.dataclass(frozen=True)
class Deck:
    """A complete, checked input deck. Build it with `ecsim.load_deck`; `source` says where it came from."""

    grid: Grid
    time: Time
    problem: Problem
    species: tuple[Species, ...] = ()
    particles: Particles = Particles()
    assembly: Assembly = Assembly()
    solver: Solver = Solver()
    backend: Backend = Backend()
    mpi: Mpi = Mpi()
    output: Output = Output()
    diagnostic: tuple[Diagnostic, ...] = ()
    checkpoint: Checkpoint = Checkpoint()
    units: Units = Units()
    source: str = dataclasses.field(default="", compare=False)


SECTIONS: dict[str, Any] = {
    "grid": Grid,
    "time": Time,
    "problem": Problem,
    "species": Species,
    "particles": Particles,
    "assembly": Assembly,
    "solver": Solver,
    "backend": Backend,
    "mpi": Mpi,
    "output": Output,
    "diagnostic": Diagnostic,
    "checkpoint": Checkpoint,
    "units": Units,
}


def homes() -> dict[str, str]:
    """Where each key name belongs: ``section.key`` of the first section that has it."""
    found: dict[str, str] = {}
    for section, cls in SECTIONS.items():
        for name in keys_of(cls):
            found.setdefault(name, f"{section}.{name}")
    return found
