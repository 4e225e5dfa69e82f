"""The support vectors while they are being learnt: slots that are filled, moved and freed.

    B            budget; there are B + 1 slots, because maintenance starts when the budget is exceeded by one
    d            features
    beta_j       lambda * t * alpha_j: constant between changes, so that no step rescales anything
    points       (slots, d)             row by row, for merging
    columns      (blocks, d, LANES)     the same values feature by feature, for margins; flat
    norms        (blocks * LANES,)      squared norms
    distances    (blocks * LANES,)      squared distances of the latest row to every slot

An empty slot has beta = 0 and therefore adds nothing to a margin.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmbsgd._compile import kernel
from mmbsgd.lanes import LANES, Scalar, Values, aligned, load, maximum, padded, splat, total

# Places in `state`.
COUNT, POSITIVE, BLOCKS, FREE, PRECISE, BORN = range(6)

PRECISE_FROM = 1024.0
"""Where gamma * ||x||^2 exceeds this, ||x||^2 + ||s||^2 - 2<x, s> loses too many digits of float32: its error in the
exponent is about gamma * ||x||^2 * 2^-23. From then on distances are sums of squared differences."""


MANY_FEATURES = 512


class Support(NamedTuple):
    points: NDArray[np.float32]
    columns: NDArray[np.float32]
    norms: NDArray[np.float32]
    beta: NDArray[np.float32]
    born: NDArray[np.float32]  # (blocks * LANES,) how many vectors were inserted before; exact up to 2^24
    distances: NDArray[np.float32]
    free: NDArray[np.int64]  # (slots,) a stack of empty slots
    state: NDArray[np.int64]
    dense_row: NDArray[np.float32]  # (d,) scratch
    values: NDArray[np.float32]  # (d + 1,) scratch: the non-zeros of a point
    features: NDArray[np.int32]  # (d + 1,) scratch: and where they are
    lane_sizes: NDArray[np.float32]  # (LANES,) scratch
    lane_ages: NDArray[np.float32]  # (LANES,) scratch
    gamma: float


def empty_support(budget: int, width: int, gamma: float) -> Support:
    slots = budget + 1
    lanes = padded(slots)
    state = np.zeros(6, np.int64)
    state[FREE] = slots
    return Support(
        points=np.zeros((slots, width), np.float32),
        columns=aligned(lanes * width),
        norms=aligned(lanes),
        beta=aligned(lanes),
        born=aligned(lanes),
        distances=aligned(lanes),
        free=np.arange(slots, dtype=np.int64)[::-1].copy(),
        state=state,
        dense_row=np.zeros(width, np.float32),
        values=np.zeros(width + 1, np.float32),
        features=np.zeros(width + 1, np.int32),
        lane_sizes=aligned(LANES),
        lane_ages=aligned(LANES),
        gamma=gamma,
    )


@kernel
def occupy(support: Support, beta: Scalar) -> int:
    """Takes an empty slot; its point, norm and column are the caller's to write."""
    state = support.state
    state[FREE] -= 1
    slot = int(support.free[state[FREE]])
    support.beta[slot] = beta
    support.born[slot] = state[BORN]
    state[BORN] += 1
    state[COUNT] += 1
    state[POSITIVE] += beta > 0.0
    state[BLOCKS] = max(state[BLOCKS], slot // LANES + 1)
    return slot


@kernel
def release(support: Support, slot: int) -> None:
    state = support.state
    state[POSITIVE] -= support.beta[slot] > 0.0
    state[COUNT] -= 1
    support.beta[slot] = np.float32(0.0)
    support.free[state[FREE]] = slot
    state[FREE] += 1


@kernel
def set_beta(support: Support, slot: int, beta: Scalar) -> None:
    """Changes a coefficient; a vector whose coefficient vanishes frees its slot."""
    rounded = np.float32(beta)
    if rounded == 0.0:
        release(support, slot)
    else:
        support.state[POSITIVE] += int(rounded > 0.0) - int(support.beta[slot] > 0.0)
        support.beta[slot] = rounded


@kernel
def set_norm(support: Support, slot: int, norm: Scalar) -> None:
    support.norms[slot] = norm
    if support.gamma * norm > PRECISE_FROM:
        support.state[PRECISE] = 1


@kernel
def runs(width: int) -> int:
    """How many features are looked at in runs of LANES before each on its own: none if that would not pay."""
    return width - width % LANES if width >= MANY_FEATURES else 0


@kernel
def place(support: Support, slot: int, point: Values) -> None:
    """Makes `point` the slot's vector. Where there are many features, runs of them that stay as they are cost only a
    comparison: sparse points have mostly zeros before and after."""
    width = support.points.shape[1]
    points = support.points.reshape(-1)
    whole = runs(width)
    zero = splat(np.float32(0.0))
    for start in range(0, whole, LANES):
        change = load(point, start) - load(points, slot * width + start)
        if total(maximum(change, zero - change)) > 0.0:
            _write(support, slot, point, start, start + LANES)
    _write(support, slot, point, whole, width)


@kernel
def _write(support: Support, slot: int, point: Values, start: int, stop: int) -> None:
    points, columns = support.points, support.columns
    lane = (slot // LANES) * points.shape[1] * LANES + slot % LANES
    for feature in range(start, stop):
        points[slot, feature] = point[feature]
        columns[lane + feature * LANES] = point[feature]
