"""The `demo` data: a checkerboard with noise, generated, so that nothing needs a network or a file."""

import numpy as np
from numpy.typing import NDArray

FIELDS = 4
NOISE = 0.05


def checkerboard(
    rows: int, seed: int | np.random.SeedSequence, *, noise: float = NOISE
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Points of the unit square, labelled +1 and -1 like the fields of a board; some labels are flipped."""
    generator = np.random.default_rng(seed)
    points = generator.random((rows, 2), dtype=np.float32)
    fields = np.floor(points * FIELDS).astype(np.int64).sum(axis=1)
    labels = np.where(fields % 2 == 0, 1, -1)
    flipped = generator.random(rows) < noise
    return points, np.where(flipped, -labels, labels)
