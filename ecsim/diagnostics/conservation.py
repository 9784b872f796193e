"""What the scheme keeps, and what it only nearly keeps, as single numbers.

Both take what `fields.operators` makes of E and B, owned values of one block; ``reduce_sum`` and
``reduce_max`` combine the numbers of all blocks (one block: the identity).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np


def divergence_B(divergence: np.ndarray, reduce_max: Callable[[float], float] = float) -> float:
    """Largest |∇·B| over the nodes; ``divergence`` is ∇·B at the nodes (*cells). Zero to rounding in ECSIM."""
    return reduce_max(float(np.max(np.abs(divergence))))


def gauss_residual(divergence: np.ndarray, charge: np.ndarray,
                   reduce_sum: Callable[[np.ndarray], np.ndarray] = np.asarray) -> float:
    """Root mean square of ∇·E − (ρ − ⟨ρ⟩) over the cell centres.

    divergence : ∇·E at the centres (*cells).  charge : ρ deposited at the centres with CIC, likewise.

    The mean charge belongs to a neutralising background that needs no particles. Standard ECSIM does not keep Gauss's
    law exactly: the residual stays small, at the level of the particles' noise.
    """
    count, total = reduce_sum(np.array([charge.size, charge.sum()]))
    squares = np.sum((divergence - (charge - total / count)) ** 2)
    return math.sqrt(float(reduce_sum(np.array([squares]))[0]) / count)
