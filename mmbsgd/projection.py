"""Projection: the removed support vector's share is spread over the others, O(B^2) a call.

    K      kernel matrix of the support vectors, plus RIDGE on its diagonal against near-duplicates
    L      lower triangular, K = L L^T, rows in the order of `members`
    k      kernel values between the removed vector and the others
    a      K^-1 k: the projection of phi(s_i) onto the others is sum_j a_j phi(s_j), beta_j grows by beta_i a_j

The factor is kept from call to call: a new vector appends a row (one triangular solve), a removed one takes its row
out and rotations make the rest triangular again. Both are backward stable: rounding adds up, it is never amplified
(updates of the inverse itself would amplify it, and with close vectors let coefficients explode).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmbsgd._compile import kernel
from mmbsgd.paper import point_distance
from mmbsgd.support import Support, release, set_beta

RIDGE = 1e-6
_KEPT = np.float32(1e-30)  # stands for a coefficient that the projection happens to cancel


class Factor(NamedTuple):
    lower: NDArray[np.float64]  # (slots, slots) L
    members: NDArray[np.int64]  # (slots,) the slot that each row belongs to
    size: NDArray[np.int64]  # (1,) how many rows are in use
    column: NDArray[np.float64]  # (slots,) scratch


def empty_factor(slots: int) -> Factor:
    return Factor(np.zeros((slots, slots)), np.zeros(slots, np.int64), np.zeros(1, np.int64), np.zeros(slots))


@kernel
def _similarities(support: Support, slot: int, factor: Factor) -> None:
    """column = k"""
    for row in range(factor.size[0]):
        distance = point_distance(support.points[slot], support.points[factor.members[row]])
        factor.column[row] = math.exp(-support.gamma * distance)


@kernel
def _solve_lower(factor: Factor) -> float:
    """column = L^-1 column; its squared length."""
    lower, column = factor.lower, factor.column
    squares = 0.0
    for row in range(factor.size[0]):
        rest = column[row]
        for k in range(row):
            rest -= lower[row, k] * column[k]
        column[row] = rest / lower[row, row]
        squares += column[row] * column[row]
    return squares


@kernel
def _solve_upper(factor: Factor) -> float:
    """column = L^-T column; its squared length."""
    lower, column = factor.lower, factor.column
    squares = 0.0
    for row in range(factor.size[0] - 1, -1, -1):
        column[row] /= lower[row, row]
        for k in range(row):
            column[k] -= lower[row, k] * column[row]
        squares += column[row] * column[row]
    return squares


@kernel
def append(support: Support, slot: int, factor: Factor) -> None:
    """Takes a newly inserted vector in."""
    _similarities(support, slot, factor)
    squares = _solve_lower(factor)
    last = factor.size[0]
    for k in range(last):
        factor.lower[last, k] = factor.column[k]
    factor.lower[last, last] = math.sqrt(max(1.0 + RIDGE - squares, 0.5 * RIDGE))
    factor.members[last] = slot
    factor.size[0] += 1


@kernel
def drop(slot: int, factor: Factor) -> None:
    """Takes a vector out."""
    lower, members = factor.lower, factor.members
    count = factor.size[0]
    place = 0
    while members[place] != slot:
        place += 1
    for row in range(place, count - 1):
        members[row] = members[row + 1]
        for k in range(row + 2):
            lower[row, k] = lower[row + 1, k]
    factor.size[0] -= 1
    for k in range(place, count - 1):
        length = math.hypot(lower[k, k], lower[k, k + 1])
        cosine, sine = lower[k, k] / length, lower[k, k + 1] / length
        for row in range(k, count - 1):
            left, right = lower[row, k], lower[row, k + 1]
            lower[row, k] = cosine * left + sine * right
            lower[row, k + 1] = cosine * right - sine * left


@kernel
def project(support: Support, slot: int, factor: Factor) -> float:
    """Removes a slot in favour of the others; the weight degradation."""
    beta = np.float64(support.beta[slot])
    drop(slot, factor)
    release(support, slot)
    _similarities(support, slot, factor)
    explained = _solve_lower(factor)
    squares = _solve_upper(factor)
    for row in range(factor.size[0]):
        other = factor.members[row]
        changed = np.float32(support.beta[other] + beta * factor.column[row])
        set_beta(support, other, changed if changed != 0.0 else _KEPT)
    return np.float64(beta * beta * max(1.0 - explained - RIDGE * squares, 0.0))
