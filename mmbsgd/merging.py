"""Two weighted support vectors become one: where it lies, its coefficient, and what the merge loses.

    a, b    coefficients of the lighter and the heavier vector, |a| <= |b|;  ratio = a / b in [-1, 1]
    reach   gamma * ||x_a - x_b||^2, so that k(x_a, x_b) = exp(-reach)
    z       h x_a + (1 - h) x_b
    alpha_z a exp(-reach (1 - h)^2) + b exp(-reach h^2), the best coefficient for that z
    loss    weight degradation ||a phi(x_a) + b phi(x_b) - alpha_z phi(z)||^2
            = a^2 + b^2 + 2 a b exp(-reach) - alpha_z^2

The best z maximises |alpha_z|. For equal signs it lies on the heavier vector's half of the line, 0 <= h <= 1/2; for
opposite signs beyond the heavier vector, h <= 0. On either range the maximum is the only stationary point:

    slope(h) = ratio exp(-reach (1 - 2h)) (1 - h) - h = 0

and with r = reach, for equal signs,

    loss >= a^2 * 2 r^2 (1 + 2 r^2)^2 / ((1 + 4/3 r + 2 r^2) (1 + ratio + 2 r^2)^2) >= loss / 1.5

(checked numerically over all ratios and reaches): vectorised, this bound tells which candidates are worth a closer
look. `golden_section` searches it as the paper does, `best_h` by a safeguarded Newton iteration; they agree within
H_ERROR. loss / a^2 is a smooth function of (ratio, reach); `DEGRADATION_TABLE` holds it for equal signs.
"""

import math

import numpy as np
from numpy.typing import NDArray

from mmbsgd._compile import kernel
from mmbsgd.lanes import Lanes, splat

FARTHEST = 500.0
"""A larger reach is taken for this one: exp(-500) is nothing beside 1, and its powers do not overflow."""
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
GOLDEN_STEPS = 32
NEWTON_STEPS = 40
H_ERROR = 1e-5
"""How far the searches differ in h (relative where |h| > 1), where the loss depends on h: reach above 1e-5, away from
ratio 1 at reach 2."""


@kernel
def bracket(ratio: float, reach: float) -> tuple[float, float]:
    """An interval that holds the best h and no other stationary point."""
    if ratio >= 0.0:
        return 0.0, 0.5
    return -max(0.6, 0.9 / math.sqrt(max(reach, 1e-30))), 0.0


@kernel
def merged_coefficient(a: float, b: float, reach: float, h: float) -> float:
    return a * math.exp(-reach * (1.0 - h) ** 2) + b * math.exp(-reach * h * h)


@kernel
def weight_degradation(a: float, b: float, reach: float, h: float) -> float:
    """The loss at h, written so that nearby points do not cancel."""
    reach = min(reach, FARTHEST)
    loss = (
        -b * b * math.expm1(-2.0 * reach * h * h)
        - a * a * math.expm1(-2.0 * reach * (1.0 - h) ** 2)
        - 2.0 * a * b * math.exp(-reach) * math.expm1(2.0 * reach * h * (1.0 - h))
    )
    return max(loss, 0.0)


@kernel
def golden_section(ratio: float, reach: float) -> float:
    reach = min(reach, FARTHEST)
    low, high = bracket(ratio, reach)
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left = merged_coefficient(ratio, 1.0, reach, left)
    at_right = merged_coefficient(ratio, 1.0, reach, right)
    for _ in range(GOLDEN_STEPS):
        if at_left > at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = merged_coefficient(ratio, 1.0, reach, left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = merged_coefficient(ratio, 1.0, reach, right)
    return 0.5 * (low + high)


@kernel
def best_h(ratio: float, reach: float) -> float:
    reach = min(reach, FARTHEST)
    low, high = bracket(ratio, reach)
    # Start from the solution for coinciding points or, left of h = 1/2 (stationary too where ratio = 1), distant ones.
    h = max(low, ratio / max(1.0 + ratio, 1e-9)) if reach < 1.0 else ratio * math.exp(-reach)
    for _ in range(NEWTON_STEPS):
        pull = ratio * math.exp(-reach * (1.0 - 2.0 * h))
        slope = pull * (1.0 - h) - h
        if slope > 0.0:
            low = h
        else:
            high = h
        step = -slope / (pull * (2.0 * reach * (1.0 - h) - 1.0) - 1.0)
        following = h + step
        if not low <= following <= high:
            following = 0.5 * (low + high)
        if abs(following - h) <= 1e-7 * (1.0 + abs(h)):
            return following
        h = following
    return h


BOUND_SLACK = 1.5

TABLE_SIZE = 96
TABLE_ERROR = 2e-3
"""Bound on the relative error of `table_degradation`; the worst place is ratio 1 at reach 2, where h forks."""


def _degradation_table(size: int = TABLE_SIZE) -> NDArray[np.float32]:
    """loss / a^2 / u^2 on a grid of (ratio, u) in [0, 1]^2, where u = reach / (1 + reach).

    Divided by u^2 the function stays between 1/2 and 2.5, so that interpolation keeps its relative accuracy down to
    coinciding points. Solved on the whole grid at once by bisection of slope(h).
    """
    ratio = np.linspace(0.0, 1.0, size + 1)[:, None]
    u = np.linspace(0.0, 1.0, size + 1)[None, :]
    reach = np.minimum(u, 1.0 - 1e-9) / (1.0 - np.minimum(u, 1.0 - 1e-9))
    low, high = np.zeros((size + 1, size + 1)), np.full((size + 1, size + 1), 0.5)
    for _ in range(60):
        h = 0.5 * (low + high)
        rising = ratio * np.exp(-reach * (1 - 2 * h)) * (1 - h) > h
        low, high = np.where(rising, h, low), np.where(rising, high, h)
    a, b = np.maximum(ratio, 1e-3), 1.0
    h = np.where(ratio < 1e-3, 0.0, h)
    loss = (
        -b * np.expm1(-2 * reach * h * h)
        - a * a * np.expm1(-2 * reach * (1 - h) ** 2)
        - 2 * a * np.exp(-reach) * np.expm1(2 * reach * h * (1 - h))
    ) / (a * a)
    weightless = 1.0 - np.exp(-2 * reach) * (1 + 2 * reach)  # the limit of ratio -> 0
    table = np.where(ratio < 1e-3, weightless, loss)
    with np.errstate(divide="ignore", invalid="ignore"):
        table = table / (u * u)
    table[:, 0] = 2.0 / (1.0 + ratio[:, 0]) ** 2  # the limit of reach -> 0
    return np.ascontiguousarray(table, dtype=np.float32)


DEGRADATION_TABLE = _degradation_table()


@kernel
def table_degradation(a: float, b: float, reach: float, table: NDArray[np.float32]) -> float:
    """The least loss of merging a and b, |a| <= |b| of equal signs, by bilinear interpolation."""
    size = table.shape[0] - 1
    u = reach / (1.0 + reach)
    row, column = a / b * size, u * size
    i, j = min(int(row), size - 1), min(int(column), size - 1)
    y, x = row - i, column - j
    upper = table[i, j] * (1.0 - x) + table[i, j + 1] * x
    lower = table[i + 1, j] * (1.0 - x) + table[i + 1, j + 1] * x
    return np.float64(a * a * u * u * (upper * (1.0 - y) + lower * y))


@kernel
def degradation_bounds(a: Lanes, b: Lanes, reach: Lanes) -> Lanes:
    """For each lane of b a lower bound on loss / a^2, at most a third below it. Equal signs, reach up to 1e4."""
    one, two = splat(np.float32(1.0)), splat(np.float32(2.0))
    squares = reach * reach
    twice = squares + squares
    bend = (one + twice) / (one + a / b + twice)
    bounds: Lanes = two * squares * bend * bend / (one + splat(np.float32(4.0 / 3.0)) * reach + twice)
    return bounds


@kernel
def beyond(reach: float) -> float:
    """At equal reach the loss over a^2 is least for ratio 1 and largest for ratio 0; here its least value has grown
    above its largest at `reach`, so that whatever lies farther loses more than anything at `reach`."""
    return min(2.0 * reach, reach + 0.6)
