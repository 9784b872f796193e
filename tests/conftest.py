"""How a run of the tests is spread over processes, and the compiled host kernels that these share."""

import os
import shutil
from glob import glob
from tempfile import mkdtemp

import pytest

from ecsim.backend import GPU_FILES


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """One process where there is a GPU, which it then has for itself; elsewhere as many as pytest-xdist says."""
    return 0 if any(map(glob, GPU_FILES)) else None


def pytest_configure(config):
    """Workers of pytest-xdist and child processes inherit the directory."""
    if not hasattr(config, "workerinput"):
        config.host_kernels = os.environ["ECSIM_HOST_KERNELS"] = mkdtemp(prefix="ecsim-host-kernels-")


def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        shutil.rmtree(config.host_kernels, ignore_errors=True)
