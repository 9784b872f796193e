"""Particles as they are loaded, for tests."""

from __future__ import annotations

import numpy as np

from ecsim.particles.loading import load

NAMES = ("cell", "s", "v", "weight", "id")


def batches(recipe, block, **how) -> list[dict[str, np.ndarray]]:
    """Copies of all batches, each a dict of the arrays that there are."""
    found = []

    def append(*arrays):
        found.append({n: a.copy() for n, a in zip(NAMES, arrays, strict=True) if a is not None})

    load(append, recipe, block, **how)
    return found


def loaded(recipe, block, **how) -> dict[str, np.ndarray]:
    """All particles, in the order of their ids where they have any."""
    found = batches(recipe, block, **how)
    whole = {n: np.concatenate([b[n] for b in found], axis=-1) for n in found[0]}
    order = np.argsort(whole["id"], kind="stable") if "id" in whole else slice(None)
    return {n: a[..., order] for n, a in whole.items()}
