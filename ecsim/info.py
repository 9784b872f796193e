"""``ecsim info``: what this installation is and what it can run on."""

from __future__ import annotations

import importlib.util
import os
import platform

from ecsim.backend import BackendError, select
from ecsim.backend.cuda import device_report
from ecsim.output.provenance import git_revision, processor, version_of

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
