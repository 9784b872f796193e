"""Particles as openPMD files: all of them, every k-th by number, or those in a box."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ecsim.diagnostics import base
from ecsim.diagnostics.sample import Sample
from ecsim.diagnostics.selection import select
from ecsim.keys import key
from ecsim.output.particles import Population, write_particles
from ecsim.output.rundir import openpmd_directory
from ecsim.parallel.rows import Rows


@dataclasses.dataclass(frozen=True, kw_only=True)
class Params(base.Params):
    """Which species, and which of their particles."""

    species: tuple[str, ...] | None = key(None, min_length=1, help="Names of species; left out, all")
    every_id: int = key(1, low=1,
                        help="Only numbers that this divides: always the same particles (needs particles.ids)")
    region: tuple[float, ...] | None = key(None, unit="d_i", min_length=2, max_length=6,
                                           help="Low and high along each dimension")
    precision: str = key("float32", choices=("float32", "float64"), help="Number type in the file")


def faults(params: Params, scene: base.Scene) -> Iterator[tuple[str, str]]:
    """Unknown species, a region outside, a choice by number without numbers."""
    for name in params.species or ():
        if name not in scene.species:
            yield "species", f"has no species {name}; there are {', '.join(scene.species) or 'none'}"
    yield from base.region_faults(params.region, scene)
    if params.every_id > 1 and not scene.ids:
        yield "every_id", "needs particles.ids = true"


class Diagnostic(base.Diagnostic):
    """Writes ``<name>_<step>.h5``."""

    def record(self, sample: Sample) -> None:
        """Gather species after species and write them."""
        populations = self._populations(sample)
        if not self.world.is_root:
            for population in populations:
                for _ in population.pieces:
                    pass
            return
        path = openpmd_directory(self.setting.directory, self.name) / f"{self.name}_{sample.step:06d}.h5"
        block = self.plasma.block
        write_particles(path, self.setting.moment(sample), populations, block.grid.size, order=block.order,
                        precision=self.params.precision)

    def _populations(self, sample: Sample) -> Iterator[Population]:
        for s in self.plasma.species:
            if self.params.species is not None and s.name not in self.params.species:
                continue
            rows = Rows(select(sample, s.name, region=self.params.region, every_id=self.params.every_id),
                        self.world.comm)
            sign = 1.0 if s.charge_to_mass > 0 else -1.0
            yield Population(s.name, sign, 1.0 / abs(s.charge_to_mass), rows.n, rows.pieces(), "id" in rows.columns,
                             sample.position_offset)
