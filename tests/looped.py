"""A block that is its own neighbour along some dimensions, through a transport: all of an exchange, on one rank."""

from __future__ import annotations

from ecsim.parallel.domain import Domain
from ecsim.parallel.launch import World
from ecsim.parallel.topology import Topology
from ecsim.parallel.transport import HostTransport
from ecsim.parallel.transport_cuda import NcclTransport, StagedTransport


def looped_domain(grid, backend, loops=(0,), kind: str = "nccl") -> Domain:
    """The whole box on one rank, with every message along ``loops`` sent to itself."""
    from mpi4py import MPI

    kinds = {"nccl": NcclTransport, "host": StagedTransport, "mpi": HostTransport}
    transport = kinds[kind](MPI.COMM_SELF, backend.timer, *([] if kind == "mpi" else [backend.xp]))
    return Domain(Topology(grid, (1,) * grid.d, loops), World(), transport, backend)
