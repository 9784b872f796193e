"""Products with the stencil, threads, and the kernel cache of the CPU backend."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from itertools import product

import numpy as np
import pytest
from cpu_cases import assert_near, case_name, draw, fill, make_block, pair_offsets

from ecsim.backend import BackendError, select
from ecsim.backend.cpu import CpuBackend, matvec, threads
from ecsim.backend.cpu.threads import Threads, cut
from ecsim.fields.operators import FieldOperators

MATRICES = [((7,), 1), ((300,), 2), ((5, 3), 1), ((4, 30), 2), ((3, 270), 1), ((3, 4, 9), 1), ((2, 3, 5), 2),
            ((1, 1, 1), 1)]


@pytest.mark.parametrize("components", [1, 9])
@pytest.mark.parametrize("case", MATRICES, ids=case_name)
def test_matvec(case, components):
    backend, block, rng = CpuBackend(1), make_block(*case), np.random.default_rng(1)
    g, d = block.ghosts, block.d
    many = 3 if components == 9 else 2
    stencil = rng.normal(size=(len(pair_offsets(block)), components, *block.padded))
    x = rng.normal(size=(many, *block.padded))
    expected = np.zeros((many, *block.cells))

    def owned(a, offset):
        return a[(..., *(slice(g + o, g + o + n) for o, n in zip(offset, block.cells, strict=True)))]

    for step in product(range(-block.order, block.order + 1), repeat=d):
        m = owned(stencil[pair_offsets(block).index(tuple(map(abs, step)))], np.minimum(step, 0))
        m = m.reshape(3, 3, *block.cells) if components == 9 else m
        expected += np.einsum("ij...,j...->i..." if components == 9 else "k...,i...->i...", m, owned(x, step))
    out = np.full(expected.shape, np.nan)
    backend.matvec(stencil, x, out)
    assert_near(out, expected)
    strided = np.full((*expected.shape, 2), np.nan)[..., 0]
    backend.matvec(stencil, x, strided)
    np.testing.assert_array_equal(strided, out)
    threaded = np.full(expected.shape, np.nan)
    CpuBackend(3).matvec(stencil, x, threaded)
    np.testing.assert_array_equal(threaded, out)


@pytest.mark.parametrize("case", MATRICES, ids=case_name)
def test_field_operator(case):
    """I + (θΔt)² ∇×∇× + θΔt M, against the three one after the other."""
    backend, block, rng = CpuBackend(2), make_block(*case), np.random.default_rng(3)
    stencil = rng.normal(size=(len(pair_offsets(block)), 9, *block.padded))
    x, theta_dt = rng.normal(size=(3, *block.padded)), 0.8
    product, out = np.empty((3, *block.cells)), np.full((3, *block.cells), np.nan)
    backend.matvec(stencil, x, product)
    backend.field_operator(stencil, x, out, block.spacing, theta_dt)
    assert_near(out, x[block.interior] + theta_dt**2 * FieldOperators(block).curl_curl(x) + theta_dt * product)


def run_with(count: int, case) -> list[np.ndarray]:
    """Everything a store and its assembly give after some moves."""
    backend, block, rng = CpuBackend(count), make_block(*case), np.random.default_rng(2)
    store = fill(backend, block, draw(block, 3000, rng))
    E, B = rng.normal(size=(3, *block.padded)), rng.normal(size=(3, *block.padded))
    results = [store.move(0.3, 0.2, E, B) for _ in range(3)]
    for method in ("pair", "direct"):
        stencil, moments = np.zeros((len(pair_offsets(block)), 9, *block.padded)), np.zeros((4, *block.padded))
        backend.assemble([store], [0.3], method=method, B_nodes=B, stencil=stencil, moments=moments)
        results += [stencil, moments]
    columns = np.zeros((len(pair_offsets(block)), 1, *block.padded))
    h = store.to_host()
    backend.assemble_columns(block, h["cell"], h["s"], h["v"][:1], columns)
    charge = np.zeros(block.padded)
    store.deposit_centre_charge(charge)
    return [*results, columns, charge, store.deposit_moments(), store.sums(), h["cell"], h["s"], h["v"], h["id"]]


@pytest.mark.parametrize("case", [((90,), 1), ((70,), 2), ((70, 1), 1), ((12, 9), 2), ((9, 4, 11), 1), ((10, 3, 5), 2)],
                         ids=case_name)
def test_the_number_of_threads_changes_no_bit(case, monkeypatch):
    monkeypatch.setattr(threads, "FEWEST_CELLS", 16)
    monkeypatch.setattr(matvec, "FEWEST_NODES", 1)
    results = [run_with(count, case) for count in (1, 2, 5)]
    assert len(cut(case[0][0], int(np.prod(case[0][1:])), case[1])) > 2
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("planes", "cells", "order"), [*product((1, 2, 7, 160, 5000), (1, 3, 100, 6400), (1, 2))])
def test_slabs(planes, cells, order):
    slabs = cut(planes, cells, order)
    assert slabs[0][0] == 0 and slabs[-1][1] == planes and len(slabs) <= 256
    for (_, end), (first, _) in zip(slabs, slabs[1:], strict=False):
        assert end == first
    if len(slabs) > 1:
        thickness = {b - a for a, b in slabs[:-1]}
        assert len(thickness) == 1 and min(thickness) > order and min(thickness) * cells >= 256


def test_a_failing_call_is_raised_whoever_ran_it():
    def fail(k):
        if k == 7:
            raise RuntimeError("seven")

    for count in (1, 3):
        with pytest.raises(RuntimeError, match="seven"):
            Threads(count).run(fail, [(k,) for k in range(20)])
    with pytest.raises(ValueError, match="threads = 0"):
        Threads(0)


def test_threads_that_the_system_refuses_leave_none_waiting(monkeypatch):
    before, start, asked = set(threading.enumerate()), threading.Thread.start, []

    def refuse_the_third(thread):
        asked.append(thread)
        if len(asked) == 3:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_the_third)
    with pytest.raises(OSError, match="6 threads are more than this system"):
        Threads(6)
    for thread in asked[:2]:
        thread.join(5.0)
    assert set(threading.enumerate()) <= before


def test_helpers_end_with_their_owner():
    before = set(threading.enumerate())
    group = Threads(4)
    helpers = set(threading.enumerate()) - before
    assert len(helpers) == 3
    del group
    for helper in helpers:
        helper.join(5.0)
    assert not any(helper.is_alive() for helper in helpers)


def test_every_call_is_made_once_and_finished_when_run_returns():
    group, made = Threads(3), []

    def slow(k):
        time.sleep(1e-4 * (k % 3))
        made.append(k)

    for _ in range(200):
        made.clear()
        group.run(slow, [(k,) for k in range(5)])
        assert sorted(made) == list(range(5))


def test_select():
    assert select("cpu", threads=2).threads.count == 2
    assert "2 threads" in select("cpu", threads=2).describe()
    with pytest.raises(ValueError, match="device = 'gpu'; one of auto, cpu, cuda"):
        select("gpu")


def test_cuda_that_is_missing_is_an_error_and_auto_says_why(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BackendError, match="needs CuPy, which is not installed"):
        select("cuda")
    backend = select("auto")
    assert backend.name == "cpu" and "no usable NVIDIA GPU: device 'cuda' needs CuPy" in backend.describe()


CACHE = """
from ecsim.backend.cpu import compiling_first_time, on_compile
from ecsim.backend.cpu.compilation import cache_directory
import numpy as np
from ecsim.backend.cpu.sort import gather
compiled = []
on_compile(compiled.append)
first = compiling_first_time()
gather(0, 2, np.ones(2), np.zeros(2, np.int32), np.ones(2))
print(first, compiled, cache_directory())
"""


def test_kernels_are_compiled_once(tmp_path):
    """The second process finds the machine code of the first; what no run has used for long is gone."""
    old, recent = (tmp_path / "ecsim" / f"kernels-{name}" for name in ("old", "recent"))
    for directory, days in ((old, 31), (recent, 29)):
        directory.mkdir(parents=True)
        os.utime(directory, (0, time.time() - 86400 * days))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    outputs = []
    for _ in range(2):
        text = subprocess.check_output([sys.executable, "-c", CACHE], env=environment, text=True)
        outputs.append(text.split(maxsplit=2))
    assert outputs[0][:2] == ["True", "['gather']"] and outputs[1][:2] == ["False", "[]"]
    assert recent.exists() and not old.exists()
    assert outputs[0][2] == outputs[1][2] and outputs[0][2].startswith(str(tmp_path / "ecsim" / "kernels-"))
