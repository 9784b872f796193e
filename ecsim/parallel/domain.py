"""What this rank owns of the grid, and how it deals with the ranks that own the rest."""

from __future__ import annotations

import numpy as np

from ecsim.grid import Grid
from ecsim.parallel.gather import Spread
from ecsim.parallel.halo import Halo
from ecsim.parallel.launch import World
from ecsim.parallel.migrate import Migration
from ecsim.parallel.topology import Topology
from ecsim.parallel.transport import Alone, HostTransport, TransportError
from ecsim.parallel.transport_cuda import connect_devices, obstacles


class Domain:
    """Block, ghost exchange and migration of one rank; with one rank, the whole box.

    ``topology``, ``world``, ``transport`` : see there.  ``block`` : what this rank owns.  ``halo`` : its ghosts.
    ``migration`` : of particles, None where no dimension is cut.  backend : see `Halo`.
    """

    def __init__(self, topology: Topology, world: World | None = None, transport=None, backend=None) -> None:
        self.topology, self.world = topology, world or World()
        self.transport = transport or Alone()
        self.block = topology.block(self.world.rank)
        self.halo = Halo(self.block, topology.neighbours(self.world.rank), self.transport, backend)
        self.migration = Migration(topology, self.transport) if topology.split else None

    @classmethod
    def whole(cls, grid: Grid) -> Domain:
        """The domain of a process that owns the whole box."""
        return cls(Topology(grid, (1,) * grid.d))

    @classmethod
    def looped(cls, grid: Grid, transport, backend=None, loops: tuple[int, ...] = (0,)) -> Domain:
        """The whole box on one rank that sends to itself along some dimensions: to test an exchange, and to time it."""
        return cls(Topology(grid, (1,) * grid.d, loops), None, transport, backend)

    def spread(self, local: np.ndarray) -> Spread:
        """Owned host values (..., *cells) of every rank as one array of the whole grid."""
        return Spread(local, self.topology, self.world.comm)

    def describe(self, wanted: str = "auto") -> str:
        """Ranks, blocks and transport in one line; for one rank empty unless a transport is ``wanted``."""
        if self.world.size == 1:
            return "" if wanted == "auto" else f"one, which sends to nobody: mpi.transport = {wanted} is not used"
        line = f"{self.topology.describe()}, transport {self.transport.name} ({self.world.mpi})"
        warning = "" if self.transport.xp is np else self.world.tied_down
        return f"{line}; {warning}" if warning else line


def connect(world: World, backend, wanted: str = "auto"):
    """The transport between the ranks of ``world`` for the arrays of ``backend`` (collective).

    wanted : "auto", "host", "nccl" or "cuda-aware". Raises TransportError if it is not to be had.
    """
    if world.comm is None:
        return Alone()
    if backend.xp is np:
        if wanted not in ("auto", "host"):
            raise TransportError(f"mpi.transport = '{wanted}' is for GPUs; on the CPU 'auto' or 'host' is allowed")
        return HostTransport(world.comm, backend.timer)
    return connect_devices(world.comm, backend.timer, backend.xp, backend.device, wanted)


def missing(world: World, backend) -> dict[str, str]:
    """What stands against each transport for GPUs, by name; nothing for arrays on the host (collective)."""
    return {} if backend.xp is np else obstacles(world.comm, backend.xp, backend.device)
