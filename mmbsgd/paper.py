"""The paper's cost model, written plainly: kernel values afresh, a golden section search for every candidate.

The `"paper"` engine follows the same algorithm as the `"fast"` one and chooses the same partners, ties and rounding
aside. It exists to be measured: how the share of maintenance falls with M shows only at the cost the paper analyses.
"""

import math

import numpy as np

from mmbsgd._compile import kernel, summing_kernel
from mmbsgd.gaussian import scatter
from mmbsgd.lanes import Scalar, Values
from mmbsgd.merging import golden_section, weight_degradation
from mmbsgd.rows import Rows, Span
from mmbsgd.support import PRECISE, Support


@kernel
def paper_margin(rows: Rows, row: Span, norm: Scalar, support: Support) -> float:
    """sum_j beta_j k(s_j, x), one support vector after the other; leaves the distances behind.

    Products are summed in feature order, as the row's norm is: a row's distance to itself is then exactly zero.
    """
    points, distances = support.points, support.distances
    precise = support.state[PRECISE] != 0
    if precise:
        scatter(rows, row, support.dense_row)
    result = 0.0
    for slot in range(points.shape[0]):
        if support.beta[slot] == 0.0:
            distances[slot] = np.float32(np.inf)
            continue
        if precise:
            distance = point_distance(support.dense_row, points[slot])
        else:
            product = np.float32(0.0)
            for k in range(row.length):
                product += rows.values[row.value + k] * points[slot, rows.features[row.feature + k]]
            distance = max(np.float32(norm + support.norms[slot] - product - product), np.float32(0.0))
        distances[slot] = distance
        result += support.beta[slot] * math.exp(-support.gamma * distance)
    return result


@summing_kernel
def point_distance(left: Values, right: Values) -> np.float32:
    """||left - right||^2 of two dense points."""
    squares = np.float32(0.0)
    for feature in range(left.shape[0]):
        difference = left[feature] - right[feature]
        squares += difference * difference
    return squares


@summing_kernel
def point_norm(point: Values) -> np.float32:
    squares = np.float32(0.0)
    for feature in range(point.shape[0]):
        squares += point[feature] * point[feature]
    return squares


@kernel
def searched_degradation(support: Support, first: int, partner: int) -> float:
    """The least weight degradation of merging two slots, by golden section on a fresh kernel value."""
    reach = np.float64(support.gamma * point_distance(support.points[first], support.points[partner]))
    a, b = np.float64(support.beta[first]), np.float64(support.beta[partner])
    if abs(a) > abs(b):
        a, b = b, a
    return weight_degradation(a, b, reach, golden_section(a / b, reach))
