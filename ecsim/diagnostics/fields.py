"""Fields and moments as openPMD files of all or part of the grid, with an XDMF sidecar for ParaView."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from ecsim.diagnostics import base
from ecsim.diagnostics.sample import Sample, needs_moments, record_names
from ecsim.keys import key
from ecsim.output.rundir import openpmd_directory
from ecsim.output.snapshots import Lattice, Mesh, write_meshes
from ecsim.output.xdmf import write_xdmf

MOMENTS = ("rho", "n", "J", "P", "T")
DEFAULT = ("E", "B", "rho", "J", "moments")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Params(base.Params):
    """Which records, from where, how densely and in which number type."""

    records: tuple[str, ...] = key(
        DEFAULT, min_length=1,
        help="E, B, rho, J, JE (J·E′); of species S rho_S, n_S, J_S, u_S, P_S, T_S; `moments`: rho, n, J, P, T of all")
    region: tuple[float, ...] | None = key(None, unit="d_i", min_length=2, max_length=6,
                                           help="Low and high along each dimension")
    stride: int | tuple[int, ...] = key(1, low=1, min_length=1, max_length=3,
                                        help="Every so manieth cell, in all dimensions or each")
    precision: str = key("float32", choices=("float32", "float64"), help="Number type in the file")
    xdmf: bool = key(True, help="Keep a file NAME.xdmf that ParaView opens")


def faults(params: Params, scene: base.Scene) -> Iterator[tuple[str, str]]:
    """Unknown records, a region outside, a stride of the wrong length."""
    known = [*record_names(scene.species), "moments"]
    for name in params.records:
        if name not in known:
            yield "records", f"has no record {name}; known are {', '.join(known)}"
    yield from base.region_faults(params.region, scene)
    if isinstance(params.stride, tuple) and len(params.stride) != len(scene.cells):
        yield "stride", f"must be one number, or one for each of the {len(scene.cells)} dimensions"


class Diagnostic(base.Diagnostic):
    """Writes ``<name>_<step>.h5``."""

    def __init__(self, params: Params, kind: str, plasma, setting: base.Setting) -> None:
        super().__init__(params, kind, plasma, setting)
        species, block = [s.name for s in plasma.species], plasma.block
        every_moment = [f"{moment}_{name}" for name in species for moment in MOMENTS]
        self.records = list(dict.fromkeys(r for name in params.records
                                          for r in (every_moment if name == "moments" else [name])))
        self.moments = needs_moments(self.records)
        self.stride = params.stride if isinstance(params.stride, tuple) else (params.stride,) * block.d
        self.spans = base.cells_of(params.region, block.grid.cells, block.spacing)
        self.lattice = Lattice(block.spacing, tuple(a for a, _ in self.spans), self.stride)

    def record(self, sample: Sample) -> None:
        """Gather record after record and write them."""
        if not self.world.is_root:
            for _ in self._meshes(sample):
                pass
            return
        folder = openpmd_directory(self.setting.directory, self.name)
        path = folder / f"{self.name}_{sample.step:06d}.h5"
        write_meshes(path, self.setting.moment(sample), self._meshes(sample), self.lattice, self.params.precision)
        if self.params.xdmf:
            write_xdmf(self.setting.directory, self.name)

    def _meshes(self, sample: Sample) -> Iterator[tuple[str, Mesh]]:
        chosen = (..., *(slice(a, b, k) for (a, b), k in zip(self.spans, self.stride, strict=True)))
        for name in self.records:
            mesh = sample.field(name)
            whole = sample.gather(np.asarray(mesh.values))
            yield name, mesh._replace(values=whole[chosen] if self.world.is_root else whole)
