"""From a plasma to a checkpoint and back: which arrays hold its state, and how they find their new ranks.

Between cycles the state is E^n, B^n, E^{n−1} where the first guess is extrapolated, E^{n−1+θ} for whoever looks, and
the particles in their order within each cell. That order is kept exactly on any number of ranks, since a cell has one
owner.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ecsim.grid import Block
from ecsim.output.checkpoint import Checkpoint, write_checkpoint
from ecsim.plasma import Plasma

CHUNK = 1 << 21
FIELDS = ("E", "B", "E_theta")


def state_of(p: Plasma) -> dict:
    """What the manifest says of the plasma: clock and geometry."""
    topology = p.domain.topology
    blocks = [topology.block(rank) for rank in range(topology.size)]
    return {"time": p.time, "cells": list(p.block.grid.cells),
            "blocks": [[list(b.origin), list(b.cells)] for b in blocks],
            "species": [s.name for s in p.species], "backend": p.backend.describe()}


def arrays_of(p: Plasma) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of this rank, one at a time."""
    host = p.backend.to_host
    for name in FIELDS:
        yield name, host(getattr(p, name)[p.owned])
    if p.previous_E is not None:
        yield "previous_E", host(p.previous_E)
    for s in p.species:
        for column, array in s.store.columns():
            yield f"{s.name}/{column}", array


class Reader:
    """What a rank that owns ``block`` takes from a checkpoint."""

    def __init__(self, checkpoint: Checkpoint, block: Block) -> None:
        self.checkpoint, self.block = checkpoint, block
        self.blocks = [Block(block.grid, tuple(o), tuple(n)) for o, n in checkpoint.manifest["blocks"]]

    def load(self, store, name: str) -> None:
        """Append the particles of species ``name`` to an empty store and sort it."""
        for rank, theirs in enumerate(self.blocks):
            if self._overlap(theirs) is not None:
                self._load_rank(store, rank, theirs, name)
        store.sort()

    def field(self, name: str) -> np.ndarray | None:
        """A field (3, *cells) on this block; None where the checkpoint has none."""
        if name not in self.checkpoint.names(0):
            return None
        out = np.empty((3, *self.block.cells))
        for rank, theirs in enumerate(self.blocks):
            overlap = self._overlap(theirs)
            if overlap is not None:
                there, here = (tuple(slice(a - o, b - o) for (a, b), o in zip(overlap, block.origin, strict=True))
                               for block in (theirs, self.block))
                out[(slice(None), *here)] = self.checkpoint.array(rank, name)[(slice(None), *there)]
        return out

    def _overlap(self, theirs: Block) -> list[tuple[int, int]] | None:
        """Global cells [a, b) along each dimension that both blocks have; None if there are none."""
        spans = [(max(o, p), min(o + n, p + m)) for o, n, p, m in
                 zip(theirs.origin, theirs.cells, self.block.origin, self.block.cells, strict=True)]
        return spans if all(a < b for a, b in spans) else None

    def _load_rank(self, store, rank: int, theirs: Block, name: str) -> None:
        columns = {column.partition("/")[2]: self.checkpoint.array(rank, column)
                   for column in self.checkpoint.names(rank) if column.startswith(f"{name}/")}
        start = np.concatenate([[0], np.cumsum(columns.pop("count"), dtype=np.int64)])
        local = self._local_cells(theirs)
        for begin in range(0, int(start[-1]), CHUNK):
            end = min(begin + CHUNK, int(start[-1]))
            first, last = np.searchsorted(start, [begin, end - 1], side="right") - 1
            counts = np.diff(np.clip(start[first:last + 2], begin, end))
            cell = np.repeat(local[first:last + 1], counts)
            mine = cell >= 0
            part = {column: values[begin:end][mine] for column, values in columns.items()}
            store.append(cell[mine], np.stack([part[f"s{k}"] for k in range(theirs.d)]),
                         np.stack([part[f"v{k}"] for k in range(3)]), part.get("weight"), part.get("id"))

    def _local_cells(self, theirs: Block) -> np.ndarray:
        """For each cell of another block its number in ours, −1 where it is not ours."""
        index = np.indices(theirs.cells).reshape(theirs.d, -1)
        flat, mine = np.zeros(index.shape[1], np.int64), np.ones(index.shape[1], bool)
        for k, n in enumerate(self.block.cells):
            own = index[k] + theirs.origin[k] - self.block.origin[k]
            mine &= (own >= 0) & (own < n)
            flat = flat * n + own
        return np.where(mine, flat, -1)


class Checkpointer:
    """Writes checkpoints of one run on a schedule.

    directory : run directory.  every : steps between checkpoints, 0 for none.  wall_minutes : time between them, 0 for
    none.  keep : how many stay.  attributes : stored with each (deck, versions, …).
    """

    def __init__(self, plasma: Plasma, directory, attributes: Mapping[str, Any], *, every: int = 0,
                 wall_minutes: float = 0.0, keep: int = 2) -> None:
        self.plasma, self.directory, self.attributes = plasma, directory, dict(attributes)
        self.every, self.seconds, self.keep = every, 60.0 * wall_minutes, keep
        self._written, self._step = time.monotonic(), plasma.step

    @property
    def scheduled(self) -> bool:
        """Whether the deck asks for checkpoints."""
        return bool(self.every or self.seconds)

    @property
    def due(self) -> bool:
        """Whether this step is to be kept: the same answer on all ranks (collective where time decides)."""
        step = self.plasma.step
        if self.every and step % self.every == 0:
            return True
        late = bool(self.seconds) and time.monotonic() - self._written >= self.seconds
        return bool(self.seconds) and self.plasma.halo.max(float(late)) > 0

    def write(self, state: Mapping[str, Any]) -> Path | None:
        """Write a checkpoint, with ``state`` beside the plasma's; None if this step has one already (collective)."""
        p = self.plasma
        if self._step == p.step:
            return None
        with p.backend.timer.phase("output"):
            path = write_checkpoint(self.directory, p.step, {**self.attributes, **state, **state_of(p)}, arrays_of(p),
                                    keep=self.keep, world=p.domain.world)
        self._written, self._step = time.monotonic(), p.step
        return path
