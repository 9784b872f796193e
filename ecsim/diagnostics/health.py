"""Whether a run is sound: values that are not finite, particles too fast for the grid, temperatures that creep."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from ecsim.diagnostics import base
from ecsim.diagnostics.sample import Sample
from ecsim.output.series import Axis, Column


@dataclasses.dataclass(frozen=True, kw_only=True)
class Params(base.Params):
    """Nothing but when."""


def faults(params: Params, scene: base.Scene) -> Iterator[tuple[str, str]]:
    """None."""
    return iter(())


class Diagnostic(base.SeriesDiagnostic):
    """Rows of counts and temperatures, one of each per species."""

    def layout(self, sample: Sample) -> tuple[dict[str, Column], dict[str, Axis]]:
        """One entry a species, in the order of the deck."""
        each = ((len(self.plasma.species),), ("species",))
        return {
            "not_finite": Column("i8", (), "", "values of E and B that are NaN or infinite"),
            "fastest": Column("f8", each[0], "cells", "largest |v_k| Δt/Δ_k of a particle", each[1]),
            "skipping": Column("f8", each[0], "", "share of particles that cross more than a cell in a step", each[1]),
            "temperature": Column("f8", each[0], "m_i c²", "m ⟨(v − ⟨v⟩)²⟩/3 over the whole box", each[1]),
        }, {"species": Axis(np.array([s.name.encode() for s in self.plasma.species], dtype="S"))}

    def row(self, sample: Sample) -> dict[str, Any]:
        """Look at all values."""
        p = self.plasma
        xp = p.backend.xp
        bad = sum(int((~xp.isfinite(a[p.owned])).sum()) for a in (p.E, p.B))
        speeds = [self._speeds(s, sample) for s in p.species]
        counts = base.sum_over_ranks(p, np.array([bad, *(count for _, count in speeds)], dtype=np.float64))
        fastest = [p.halo.max(float(value)) for value, _ in speeds]
        numbers = np.array([max(1.0, number) for number in p.numbers])
        return {"not_finite": int(counts[0]), "fastest": fastest, "skipping": counts[1:] / numbers,
                "temperature": p.temperatures()}

    def _speeds(self, s, sample: Sample) -> tuple[float, int]:
        """Cells that the fastest particle of this rank crosses in a step, and how many cross more than one."""
        fastest, crossing = 0.0, None
        steps = self.plasma.dt / np.array(self.plasma.block.spacing)
        for name, column in s.store.columns():
            if name[0] == "v" and name[1:].isdigit() and int(name[1:]) < len(steps):
                cells = np.abs(column) * steps[int(name[1:])]
                fastest = max(fastest, float(cells.max(initial=0.0)))
                crossing = cells > 1 if crossing is None else crossing | (cells > 1)
        return fastest, int(crossing.sum())
