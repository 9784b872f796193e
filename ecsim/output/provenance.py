"""Where a result came from: versions, source revision, kind of machine, date."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime
from importlib import metadata
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]


def version_of(package: str) -> str:
    """Version of an installed package, or ``"unknown"``."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def git_revision(source: Path = SOURCE) -> str:
    """Commit of the source tree, with ``-dirty`` where files differ; ``"unknown"`` if it is not a checkout.

    Only a repository whose root is ``source`` itself counts: a package installed somewhere inside another
    project's checkout must not report that project's commit.
    """
    if not (source / ".git").exists():
        return "unknown"
    command = ["git", "-C", str(source), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return result.stdout.strip() or "unknown"


def processor() -> str:
    """Model name of the processor, as far as the platform tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def timestamp() -> str:
    """Now, as ``YYYY-MM-DD HH:MM:SS +ZZZZ`` (the form that openPMD wants)."""
    return datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %z")


def provenance() -> dict[str, str | int]:
    """What is stored with every result; names no host and no user.

    Returns a dict with ``software``, ``version``, ``git_hash``, ``platform``, ``processor``, ``processors``
    (how many), ``python``, ``numpy``, ``numba``, ``h5py`` (their versions) and ``date``.
    """
    return {
        "software": "ecsim",
        "version": version_of("ecsim"),
        "git_hash": git_revision(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": processor(),
        "processors": os.cpu_count() or 0,
        "python": platform.python_version(),
        "numpy": version_of("numpy"),
        "numba": version_of("numba"),
        "h5py": version_of("h5py"),
        "date": timestamp(),
    }
