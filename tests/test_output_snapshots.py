"""Field snapshots: what goes in comes back, files appear complete or not at all."""

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from ecsim.output.quantities import QUANTITIES
from ecsim.output.snapshots import Mesh, list_snapshots, read_fields, write_fields


def meshes(cells, seed=1) -> dict[str, Mesh]:
    random = np.random.default_rng(seed).standard_normal
    return {
        "E": Mesh(random((3, *cells)), "node", "electric_field"),
        "B": Mesh(random((3, *cells)), "centre", "magnetic_field"),
        "J": Mesh(random((3, *cells)), "node", "current_density", time_offset=0.05),
        "rho": Mesh(random(cells), "node", "charge_density"),
        "P_ions": Mesh(random((6, *cells)), "node", "pressure"),
    }


def write(run, step=12, cells=(4, 3, 5), spacing=(0.5, 1.0, 0.25), **more):
    more = dict(fields=meshes(cells)) | more
    return write_fields(run, step=step, time=0.1 * step, dt=0.1, spacing=spacing, **more)


@pytest.mark.parametrize("cells", [(6,), (4, 3), (4, 3, 5), (6, 1), (1, 1, 1)])
def test_records_come_back(tmp_path, cells):
    spacing = (0.5, 1.0, 0.25)[: len(cells)]
    path = write(tmp_path, cells=cells, spacing=spacing, attributes={"deck": "θ = 0.5", "seed": 4})
    assert path == tmp_path / "fields" / "fields_000012.h5"
    back = read_fields(path)
    assert (back.step, back.cells, back.spacing) == (12, cells, spacing)
    assert (back.time, back.dt) == (0.1 * 12, 0.1)
    assert back.attributes["deck"] == "θ = 0.5" and back.attributes["seed"] == 4
    assert set(back.meshes) == set(meshes(cells))
    for name, mesh in meshes(cells).items():
        np.testing.assert_array_equal(back.meshes[name].values, mesh.values, err_msg=name)
        assert back.meshes[name][1:] == mesh[1:]


def test_single_precision_and_selection(tmp_path):
    back = read_fields(write(tmp_path, precision="float32"), ["B"])
    expected = meshes((4, 3, 5))["B"].values
    assert list(back.meshes) == ["B"]
    np.testing.assert_array_equal(back.meshes["B"].values, expected.astype(np.float32))
    with pytest.raises(KeyError, match="has no Q; it holds B, E, J, P_ions, rho"):
        read_fields(tmp_path / "fields" / "fields_000012.h5", ["B", "Q"])


def test_layout_is_that_of_openpmd(tmp_path):
    with h5py.File(write(tmp_path)) as file:
        assert file.attrs["openPMD"] == b"1.1.0" and file.attrs["openPMDextension"] == 1
        ex = file["data/12/meshes/E/x"]
        bz = file["data/12/meshes/B/z"]
        assert ex.shape == (4, 3, 5)
        np.testing.assert_array_equal(ex.attrs["position"], [0, 0, 0])
        np.testing.assert_array_equal(bz.attrs["position"], [0.5, 0.5, 0.5])
        record = file["data/12/meshes/E"].attrs
        assert record["axisLabels"].tolist() == [b"x", b"y", b"z"]
        np.testing.assert_array_equal(record["gridSpacing"], [0.5, 1.0, 0.25])
        assert file["data/12/meshes/rho"].attrs["geometry"] == b"cartesian"
        assert file["data/12"].attrs["time"] == 1.2000000000000002


def test_si_units_from_a_reference_frequency(tmp_path):
    """At n0 = 1e6 /m³ of protons: ω_pi = 1316 rad/s, d_i = 228 km, and the field units follow."""
    omega = 1316.6
    si = {name: quantity.unit_si(omega) for name, quantity in QUANTITIES.items()}
    assert si["number_density"] == pytest.approx(1e6, rel=1e-3)
    assert si["length"] == pytest.approx(2.277e5, rel=1e-3)
    assert si["magnetic_field"] == pytest.approx(1.374e-5, rel=1e-3)
    assert si["electric_field"] == pytest.approx(si["magnetic_field"] * 2.998e8, rel=1e-3)
    assert si["current_density"] == pytest.approx(si["charge_density"] * 2.998e8, rel=1e-3)
    assert si["pressure"] == pytest.approx(si["number_density"] * si["temperature"], rel=1e-12)
    path = write(tmp_path, omega_pi=omega)
    with h5py.File(path) as file:
        assert file["data/12/meshes/E/y"].attrs["unitSI"] == si["electric_field"]
    np.testing.assert_array_equal(read_fields(path).meshes["E"].values, meshes((4, 3, 5))["E"].values)


def test_listed_in_order_of_step(tmp_path):
    for step in (1_000_000, 20, 3):
        write(tmp_path, step)
    assert [read_fields(path).step for path in list_snapshots(tmp_path)] == [3, 20, 1_000_000]
    for name in (".fields_000099.h5.part", "fields_mine.h5"):
        (tmp_path / "fields" / name).write_bytes(b"half written")
    assert len(list_snapshots(tmp_path)) == 3
    assert list_snapshots(tmp_path / "nowhere") == []


FULL = """
import resource, signal, sys
sys.path.insert(0, {tests!r})
from test_output_snapshots import write
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
write({run!r}, 1)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
try:
    write({run!r}, 2, cells=(20, 20, 20))
except OSError as error:
    print(error)
    sys.exit(3)
"""


def test_full_disk_leaves_earlier_files_and_no_part(tmp_path):
    code = FULL.format(tests=str(Path(__file__).parent), run=str(tmp_path))
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 3, result.stderr
    assert "fields_000002.h5: File too large" in result.stdout
    assert [path.name for path in (tmp_path / "fields").iterdir()] == ["fields_000001.h5"]
    assert read_fields(tmp_path / "fields" / "fields_000001.h5").step == 1


def test_faults_are_named(tmp_path):
    def attempt(mesh):
        write_fields(tmp_path, step=0, time=0.0, dt=0.1, spacing=(1.0, 1.0), fields={"Q": mesh})

    with pytest.raises(ValueError, match=r"record Q has shape \(4, 4, 4\)"):
        attempt(Mesh(np.zeros((4, 4, 4)), "node", "pressure"))
    with pytest.raises(ValueError, match="centring = 'edge'; one of node, centre is"):
        attempt(Mesh(np.zeros((4, 4)), "edge", "pressure"))
    with pytest.raises(ValueError, match="quantity = 'volts'; one of length"):
        attempt(Mesh(np.zeros((4, 4)), "node", "volts"))
    assert not (tmp_path / "fields").exists()
    (tmp_path / "fields").write_text("a file in the way")
    with pytest.raises(OSError, match="cannot write the snapshot .*fields_000000.h5"):
        attempt(Mesh(np.zeros((4, 4)), "node", "pressure"))
    with pytest.raises(FileNotFoundError, match="no snapshot"):
        read_fields(tmp_path / "fields_000000.h5")
    with pytest.raises(OSError, match="not a readable snapshot"):
        read_fields(tmp_path / "fields")
