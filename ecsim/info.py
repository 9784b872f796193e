"""``ecsim info``: what this installation is and what it can run on."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from pathlib import Path

from ecsim.backend import BackendError, select
from ecsim.backend.cuda import device_report
from ecsim.output.provenance import git_revision, processor, version_of
from ecsim.parallel.domain import connect, missing
from ecsim.parallel.launch import world

PACKAGES = ("numpy", "scipy", "numba", "h5py", "matplotlib")
OPTIONAL = (("cupy", ("cupy-cuda12x", "cupy-cuda13x", "cupy")), ("mpi4py", ("mpi4py",)))


def info_text() -> str:
    """Versions, processor, devices with the reason where one is missing, threads and MPI, a line each."""
    table = {
        "ecsim": f"{version_of('ecsim')} (source revision {git_revision()})",
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        **{name: version_of(name) for name in PACKAGES},
        **{module: _optional(module, names) for module, names in OPTIONAL},
        "processor": f"{processor()}, {os.cpu_count()} logical",
        "cpu": select("cpu").describe(),
        **_cuda(),
        **_mpi(),
    }
    return "\n".join(f"{name:<16}{text}" for name, text in table.items())


def _optional(module: str, distributions: tuple[str, ...]) -> str:
    """Version of a package that goes by several names, or that it is missing."""
    if importlib.util.find_spec(module) is None:
        return "not installed"
    versions = (version_of(name) for name in distributions)
    return next((version for version in versions if version != "unknown"), "installed")


def _cuda() -> dict[str, str]:
    """The GPU, its driver and its tensor-core modes, or why there is none to use."""
    try:
        report = device_report()
    except BackendError as error:
        return {"cuda": f"not usable: {error}"}
    return {"cuda": report.pop("device"), **{f"  {name}": text for name, text in report.items()}}


def _mpi() -> dict[str, str]:
    """The MPI that mpi4py uses, the ranks of this job and the transport between them (collective)."""
    here = world()
    if here.comm is None:
        beside = Path(sys.executable).with_name("mpiexec")
        launcher = beside if beside.exists() else "the mpiexec of mpi4py's MPI"
        return {"ranks": f"1; start more with {launcher} -n N ecsim run DECK"}
    backend = select(local_rank=here.local_rank)
    transport = connect(here, backend)
    against = "; ".join(f"{name}: {why}" for name, why in missing(here, backend).items() if why)
    return {
        "mpi": here.mpi,
        "ranks": f"{here.size}, {here.local_size} on this host, {here.threads} threads each",
        "transport": f"{transport.name} for {backend.name}" + (f" ({against})" if against else ""),
        **({"warning": here.tied_down} if backend.name == "cuda" and here.tied_down else {}),
    }
