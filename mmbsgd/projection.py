"""Projection: the removed support vector's share is spread over the others, O(B^2) a call.

    K        kernel matrix of the support vectors, plus RIDGE on its diagonal against near-duplicates
    inverse  K^-1, rows and columns by slot, zero where a slot is empty

With the inverse at hand the projection of phi(s_i) onto the others is -inverse[:, i] / inverse[i, i]. Inserting and
removing a vector are rank-one updates. Rounding accumulates over them: after every B removals the inverse is made
afresh, which adds O(B^2) a call on average (a Cholesky factor for every call would be O(B^3)).
"""

import math

import numpy as np
from numpy.typing import NDArray

from mmbsgd._compile import allocating_kernel, kernel
from mmbsgd.paper import point_distance
from mmbsgd.support import Support, release, set_beta

RIDGE = 1e-6
_KEPT = np.float32(1e-30)  # stands for a coefficient that the projection happens to cancel


@kernel
def extend_inverse(support: Support, slot: int, inverse: NDArray[np.float64], column: NDArray[np.float64]) -> None:
    """Takes a newly inserted vector in; `support.distances` are its distances. column: (slots,) scratch."""
    slots = inverse.shape[0]
    for i in range(slots):
        column[i] = 0.0
    rest = 1.0 + RIDGE
    for j in range(slots):
        if j != slot and support.beta[j] != 0.0:
            similarity = math.exp(-support.gamma * support.distances[j])
            for i in range(slots):
                column[i] += similarity * inverse[j, i]
    for j in range(slots):
        if j != slot and support.beta[j] != 0.0:
            rest -= math.exp(-support.gamma * support.distances[j]) * column[j]
    column[slot] = -1.0
    _rank_one(inverse, column, 1.0 / max(rest, 0.5 * RIDGE))


@kernel
def shrink_inverse(slot: int, inverse: NDArray[np.float64], column: NDArray[np.float64]) -> None:
    slots = inverse.shape[0]
    for i in range(slots):
        column[i] = inverse[i, slot]
    _rank_one(inverse, column, -1.0 / column[slot])
    for i in range(slots):
        inverse[slot, i] = inverse[i, slot] = 0.0


@kernel
def _rank_one(inverse: NDArray[np.float64], column: NDArray[np.float64], factor: float) -> None:
    for i in range(inverse.shape[0]):
        scaled = factor * column[i]
        for j in range(inverse.shape[0]):
            inverse[i, j] += scaled * column[j]


@kernel
def project(support: Support, slot: int, inverse: NDArray[np.float64], column: NDArray[np.float64]) -> float:
    """Removes a slot in favour of the others; the weight degradation."""
    beta = float(support.beta[slot])
    pivot = inverse[slot, slot]
    squares = 0.0
    for j in range(inverse.shape[0]):
        if j != slot and support.beta[j] != 0.0:
            share = -inverse[j, slot] / pivot
            squares += share * share
            changed = np.float32(support.beta[j] + beta * share)
            set_beta(support, j, changed if changed != 0.0 else _KEPT)
    release(support, slot)
    shrink_inverse(slot, inverse, column)
    return float(beta * beta * max(1.0 / pivot - RIDGE - RIDGE * squares, 0.0))


@allocating_kernel
def refresh_inverse(support: Support, inverse: NDArray[np.float64]) -> None:
    occupied = np.flatnonzero(support.beta[: inverse.shape[0]])
    count = occupied.shape[0]
    kernels = np.eye(count) * (1.0 + RIDGE)
    for i in range(count):
        for j in range(i):
            distance = point_distance(support.points[occupied[i]], support.points[occupied[j]])
            kernels[i, j] = kernels[j, i] = math.exp(-support.gamma * distance)
    fresh = np.linalg.inv(kernels)
    inverse[:, :] = 0.0
    for i in range(count):
        for j in range(count):
            inverse[occupied[i], occupied[j]] = fresh[i, j]
