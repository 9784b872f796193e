"""The order of particles within a cell after the fused push and sort, against a plain account of it.

Those that stay come first, as they were; then those that arrive, by the direction in which they have left their cell,
each direction as they were in the cell they come from. However many runs of the outbox they came in, and whoever did
the work.
"""

from __future__ import annotations

import numpy as np
import pytest
from cuda_devices import DEVICES, backend_on, fresh_random

from ecsim.backend.cuda import move as mover
from ecsim.grid import Block, Grid

DT, SIZES = 0.1, (0, 1, 5, 100, 180, 400, 700)


def expected_order(before: dict, block: Block) -> np.ndarray:
    """The ids, cell after cell, after a push of particles that go at most one cell far."""
    d, cells = block.d, np.array(block.cells)
    new = before["s"] + DT / np.array(block.spacing)[:, None] * before["v"][:d]
    step = (new >= 0.5).astype(int) - (new < -0.5)
    assert (np.abs(new) < 1.5).all()
    at = np.array(np.unravel_index(before["cell"], block.cells))
    to = np.ravel_multi_index(tuple((at + step) % cells[:, None]), block.cells)
    stays = (step == 0).all(axis=0)
    direction = np.where(stays, -1, sum(3 ** (d - 1 - k) * (step[k] + 1) for k in range(d)))
    return before["id"][np.lexsort((np.arange(len(to)), direction, to))]


@pytest.mark.parametrize("cells", [(3, 4, 4), (6, 8), (45,)])
@pytest.mark.parametrize(("records", "ahead"), [(None, 1), (None, 2), (512, 1), (1024, 2)])
@pytest.mark.parametrize("device", DEVICES)
def test_order_within_a_cell(device, cells, records, ahead, monkeypatch):
    """One block of warps, so that cells are drawn; with an outbox that fills up, drawn again after it has grown."""
    backend, rng = backend_on(device), fresh_random()
    monkeypatch.setattr(backend, "resident_blocks", lambda *a, **k: 1)
    monkeypatch.setattr(mover, "MANY_LEAVERS", {1: 10**9, 2: -1}[ahead])
    grown, grow = [], mover.Outbox.grow
    monkeypatch.setattr(mover.Outbox, "grow", lambda *a: (grown.append(1), grow(*a)))
    small = {"FRACTION": 0.0, "LEAST_RECORDS": records, "POOL": 0}
    for name, value in (small if records else {"FRACTION": 1.0}).items():
        monkeypatch.setattr(mover, name, value)
    block = Block(Grid(cells, tuple(0.5 * n for n in cells), 1))
    count = rng.choice(SIZES, block.n_cells)
    count[rng.integers(block.n_cells)] = 700      # five runs or more
    n = count.sum()
    store = backend.new_store(block, weight=1.0, ids=True)
    v = rng.uniform(-0.99, 0.99, (3, n)) * 0.5 / DT
    store.append(np.repeat(np.arange(block.n_cells), count).astype(np.int32), rng.random((block.d, n)) - 0.5, v, None,
                 rng.permutation(n).astype(np.uint64))
    store.sort()
    E, B = (backend.from_host(np.zeros((3, *block.padded))) for _ in range(2))
    for _ in range(2):
        before = store.to_host()
        store.move(0.3, DT, E, B)
        after = store.to_host()
        np.testing.assert_array_equal(after["id"], expected_order(before, block))
        np.testing.assert_array_equal(after["v"][:, np.argsort(after["id"])], before["v"][:, np.argsort(before["id"])])
    assert bool(grown) == bool(records)
