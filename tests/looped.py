"""A block that is its own neighbour along a dimension, through a transport: all of an exchange, on one rank."""

from __future__ import annotations

from dataclasses import dataclass

from ecsim.parallel.domain import Domain
from ecsim.parallel.launch import World
from ecsim.parallel.topology import Topology
from ecsim.parallel.transport import HostTransport
from ecsim.parallel.transport_cuda import NcclTransport, StagedTransport


@dataclass(frozen=True)
class Looped(Topology):
    """One rank, whose dimensions ``loops`` count as cut."""

    loops: tuple[int, ...] = (0,)

    @property
    def split(self):
        return self.loops

    def neighbours(self, rank):
        return [(0, 0) if k in self.loops else None for k in range(self.grid.d)]


def looped_domain(grid, backend, loops=(0,), kind: str = "nccl") -> Domain:
    """The whole box on one rank, with every message along ``loops`` sent to itself."""
    from mpi4py import MPI

    kinds = {"nccl": NcclTransport, "host": StagedTransport, "mpi": HostTransport}
    transport = kinds[kind](MPI.COMM_SELF, backend.timer, *([] if kind == "mpi" else [backend.xp]))
    return Domain(Looped(grid, (1,) * grid.d, loops), World(), transport, backend)
