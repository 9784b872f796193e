"""formulas.cuh, compiled for the host, against the Numba formulas of the CPU."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from ecsim.backend.cpu import formulas
from ecsim.backend.cuda.compile import kernel_directory

EXPORTS = """
#include "formulas.cuh"
extern "C" {
double twin_shape(int node, double s) { return shape(node, s); }
double twin_shape_power(int node, int k) { return shape_power(node, k); }
int twin_pair_index(int a, int b) { return pair_index(a, b); }
void twin_nodes_to_powers(double* f) { nodes_to_powers(f, 1); }
void twin_pair_products(const double* m, double* q) { pair_products(m, q); }
void twin_field_at(const double* c, const double* t, double* out) { field_at(c, t, out); }
void twin_rotation(const double* b, double w, double* a) { rotation(b, w, a); }
void twin_rotate(const double* b, const double* v, double* out) { rotate(b, v, out); }
}
"""
NEAR = dict(rtol=0, atol=4e-16)


@pytest.fixture(scope="module", params=[(d, order) for d in (1, 2, 3) for order in (1, 2)],
                ids=lambda p: f"{p[0]}d order {p[1]}")
def twin(request, tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    d, order = request.param
    folder = tmp_path_factory.mktemp("twin")
    (folder / "twin.cpp").write_text(EXPORTS)
    subprocess.run(["g++", "-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-Wno-unknown-pragmas",
                    f"-DDIM={d}", f"-DORDER={order}", f"-I{kernel_directory()}", str(folder / "twin.cpp"), "-o",
                    str(folder / "twin.so")], check=True)
    library = ctypes.CDLL(str(folder / "twin.so"))
    library.twin_shape.restype = library.twin_shape_power.restype = ctypes.c_double
    return d, order, library


def pointer(a):
    return a.ctypes.data_as(ctypes.c_void_p)


def test_shapes(twin):
    _, order, library = twin
    for s in [-0.5, 0.0, np.nextafter(0.5, 0.0), *np.random.default_rng().uniform(-0.5, 0.5, 20)]:
        ours = [library.twin_shape(a, ctypes.c_double(s)) for a in range(order + 1)]
        np.testing.assert_allclose(ours, [formulas.shape(order, a, s) for a in range(order + 1)], **NEAR)
        powers = [[library.twin_shape_power(a, k) for k in range(order + 1)] for a in range(order + 1)]
        np.testing.assert_allclose(powers @ (2 * s) ** np.arange(order + 1), ours, **NEAR)


def test_nodes_to_powers(twin):
    _, order, library = twin
    f = np.random.default_rng().normal(size=3)
    ours = f[:order + 1].copy()
    library.twin_nodes_to_powers(pointer(ours))
    np.testing.assert_allclose(ours, formulas.nodes_to_powers(order, *f)[:order + 1], rtol=1e-14, atol=1e-15)


def test_pair_products(twin):
    _, order, library = twin
    m = np.random.default_rng().normal(size=2 * order + 1)
    ours = np.empty((order + 1) * (order + 2) // 2)
    library.twin_pair_products(pointer(m), pointer(ours))
    theirs = formulas.pair_products_cic(*m) if order == 1 else formulas.pair_products_tsc(*m)
    np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-15)
    numbers = [library.twin_pair_index(a, b) for a in range(order + 1) for b in range(a, order + 1)]
    assert numbers == list(range(len(ours)))


def test_fields_at_a_particle(twin):
    d, order, library = twin
    rng = np.random.default_rng()
    nodes = (order + 1) ** d
    c, t, ours = rng.normal(size=(3, nodes)), rng.uniform(-1, 1, 3), np.empty(3)
    library.twin_field_at(pointer(c), pointer(t), pointer(ours))
    theirs = [formulas.evaluate(d, order, np.ascontiguousarray(c.reshape(-1, 1)), k * nodes, 0, *t) for k in range(3)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-14)


def test_rotation(twin):
    _, _, library = twin
    rng = np.random.default_rng()
    for scale in (1e-8, 1.0, 1e4):
        b, v, w = scale * rng.normal(size=3), rng.normal(size=3), rng.normal()
        alpha, turned = np.empty(9), np.empty(3)
        library.twin_rotation(pointer(b), ctypes.c_double(w), pointer(alpha))
        library.twin_rotate(pointer(b), pointer(v), pointer(turned))
        theirs = np.array(formulas.rotation(*b))
        np.testing.assert_allclose(alpha, w * theirs, rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(turned, theirs.reshape(3, 3) @ v, rtol=1e-13, atol=1e-14)
