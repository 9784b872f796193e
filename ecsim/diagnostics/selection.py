"""Some of the particles of a species: all, every k-th by number, those of a list, those in a box."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ecsim.diagnostics.base import inside
from ecsim.diagnostics.sample import Sample
from ecsim.particles.species import positions


def select(sample: Sample, name: str, *, region: Sequence[float] | None = None, every_id: int = 1,
           ids: np.ndarray | None = None, back: float = 1.0) -> dict[str, np.ndarray]:
    """Those of this rank: ``x`` (d, k), ``v`` (3, k), ``weight`` (k,) of real particles, and ``id`` (k,) where kept.

    back : how many steps the positions are moved back along the velocities, once there has been a cycle; 1 gives
    x^{n−1/2} exactly, ½ the position at the time of the velocities to second order.
    """
    p, host = sample.plasma, sample.particles(name)
    block, chosen = p.block, np.ones(len(host["cell"]), bool)
    if every_id > 1:
        chosen &= host["id"] % np.uint64(every_id) == 0
    if ids is not None:
        chosen &= np.isin(host["id"], ids)
    chosen = np.flatnonzero(chosen)
    v = host["v"][:, chosen]
    width = np.asarray(block.spacing)[:, None]
    shift = None if sample.step == 0 else back * p.dt * v[: block.d] / width
    x = positions(block, host["cell"][chosen], host["s"][:, chosen].astype(np.float64), shift)
    if region is not None:
        here = inside(x, region)
        x, v, chosen = x[here], v[:, here], chosen[here]
    weight = np.abs(np.broadcast_to(np.asarray(host["weight"], np.float64), (len(host["cell"]),))[chosen])
    found = {"x": np.ascontiguousarray(x.T), "v": v, "weight": weight}
    return {**found, "id": host["id"][chosen]} if host["id"] is not None else found
