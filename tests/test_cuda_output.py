"""Output and restarts of CUDA runs: on a GPU, or with the kernels run on the host."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_devices import DEVICES, simulate_on
from restart_cases import EVERYTHING, assert_same, run, state

from ecsim.output.series import read_series

TOLERANCE = 1e-11


@pytest.fixture(params=DEVICES)
def cuda(request, monkeypatch):
    """Runs with device "cuda" take this device's backend."""
    simulate_on(request.param, monkeypatch)
    return {"device": "cuda", "checkpoint.every": 100}


def by_id(found: dict) -> dict:
    """The state with the particles of each species in the order of their ids."""
    ordered = {name: a for name, a in found.items() if "/" not in name}
    for species in ("ions", "electrons"):
        order = np.argsort(found[f"{species}/id"])
        ordered.update({name: a[order] for name, a in found.items()
                        if name.startswith(f"{species}/") and not name.endswith("count")})
    return ordered


def test_pieces_are_the_whole_bit_for_bit(tmp_path, cuda):
    expected = state(run(tmp_path / "whole", 5, **cuda))
    run(tmp_path / "run", 2, **cuda)
    assert_same(state(run(tmp_path / "run", 5, restart_from=tmp_path / "run", **cuda)), expected)


def test_from_cpu_to_gpu_and_back(tmp_path, cuda):
    host = {"checkpoint.every": 100}
    expected = by_id(state(run(tmp_path / "whole", 6, **host)))
    for steps, more in ((2, host), (4, cuda), (6, host)):
        last = run(tmp_path / "run", steps, restart_from=tmp_path / "run" if steps > 2 else None, **more)
    for name, a in by_id(state(last)).items():
        np.testing.assert_allclose(a, expected[name], rtol=0, atol=TOLERANCE * max(1.0, np.abs(expected[name]).max()),
                                   err_msg=name)


def test_diagnostics_are_those_of_the_cpu(tmp_path, cuda):
    run(tmp_path / "cpu", 3, EVERYTHING)
    run(tmp_path / "cuda", 3, EVERYTHING, **cuda)
    for path in sorted((tmp_path / "cpu" / "diagnostics").glob("*.h5")):
        expected, found = read_series(path), read_series(tmp_path / "cuda" / "diagnostics" / path.name)
        for name in expected:
            if name not in ("attributes", "axes"):
                scale = max(np.abs(np.nan_to_num(expected[name])).max(initial=0), 1e-3)
                np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=TOLERANCE * scale,
                                           err_msg=f"{path.stem} {name}")
