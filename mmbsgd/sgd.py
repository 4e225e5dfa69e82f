"""One pass of budgeted stochastic gradient descent.

    lambda  1 / (n C);  step t uses eta_t = 1 / (lambda t)
    beta_j  lambda t alpha_j. The step multiplies every alpha by 1 - lambda eta_t = (t - 1) / t, which leaves beta as
            it is; a new support vector starts at alpha = eta_t w y, that is beta = w y
    margin  sum_j beta_j k(s_j, x); "y f(x) < 1" reads y * margin < lambda t

A row that coincides with a support vector adds to that vector's coefficient: the same function, and no place of the
budget is spent on duplicates.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmbsgd._compile import kernel
from mmbsgd.gaussian import margin, scatter, squared_distances
from mmbsgd.lanes import LANES, Scalar, choose, least, load, maximum, minimum, prefetch, splat, ticks
from mmbsgd.maintenance import PROJECTION, Bench, Policy, maintain
from mmbsgd.paper import paper_margin
from mmbsgd.projection import append, drop
from mmbsgd.rows import Rows, Span, span, squared_norm
from mmbsgd.support import BLOCKS, COUNT, Support, occupy, place, set_beta, set_norm

# Places in the counters of a training.
STEPS, VIOLATIONS, MAINTENANCE_CALLS, MERGES, KERNEL_EVALUATIONS, PASS_TICKS, MAINTENANCE_TICKS = range(7)


class Tally(NamedTuple):
    counters: NDArray[np.int64]  # by the places above
    errors: NDArray[np.float64]  # (2,) sum and largest of the gradient errors ||E_t|| = ||Delta_t|| / eta_t


def empty_tally() -> Tally:
    return Tally(np.zeros(7, np.int64), np.zeros(2))


@kernel
def run_pass(
    rows: Rows,
    signed_weights: NDArray[np.float32],
    order: NDArray[np.int64],
    regularization: float,
    support: Support,
    policy: Policy,
    bench: Bench,
    tally: Tally,
) -> None:
    """Visits the rows in the given order. signed_weights[i] = w_i y_i."""
    counters = tally.counters
    began = ticks()
    last = order.shape[0] - 1
    for visit in range(order.shape[0]):
        _fetch_ahead(rows, order, min(visit + 1, last), min(visit + 2, last))
        counters[STEPS] += 1
        row = span(rows, order[visit])
        weight = signed_weights[order[visit]]
        norm = squared_norm(rows, row)
        if policy.paper:
            score = np.float64(paper_margin(rows, row, norm, support))
        else:
            squared_distances(rows, row, norm, support, support.distances)
            score = np.float64(margin(support))
        counters[KERNEL_EVALUATIONS] += support.state[COUNT]
        direction = 1.0 if weight > 0.0 else -1.0
        if direction * score < regularization * counters[STEPS] and weight != 0.0:
            counters[VIOLATIONS] += 1
            _step(rows, row, norm, weight, support, policy, bench, tally)
    counters[PASS_TICKS] += ticks() - began


@kernel
def _step(
    rows: Rows, row: Span, norm: Scalar, weight: Scalar, support: Support, policy: Policy, bench: Bench, tally: Tally
) -> None:
    counters = tally.counters
    twin = _coincident(support)
    if twin >= 0:
        if policy.strategy == PROJECTION and support.beta[twin] + weight == 0.0:
            drop(twin, bench.factor)
        set_beta(support, twin, support.beta[twin] + weight)
        return
    newest = occupy(support, weight)
    scatter(rows, row, support.dense_row)
    place(support, newest, support.dense_row)
    set_norm(support, newest, norm)
    if policy.strategy == PROJECTION:
        append(support, newest, bench.factor)
    if support.state[COUNT] <= policy.budget:
        return
    began = ticks()
    loss, merges = maintain(support, policy, bench)
    counters[MAINTENANCE_TICKS] += ticks() - began
    counters[MAINTENANCE_CALLS] += 1
    counters[MERGES] += merges
    error = np.sqrt(loss)
    tally.errors[0] += error
    tally.errors[1] = max(tally.errors[1], error)


@kernel
def _coincident(support: Support) -> int:
    """The slot whose vector equals the row whose distances were computed last, or -1."""
    beta, distances = support.beta, support.distances
    zero, infinite = splat(np.float32(0.0)), splat(np.float32(np.inf))
    closest = infinite
    for block in range(support.state[BLOCKS]):
        betas = load(beta, block * LANES)
        size = maximum(betas, zero - betas)
        closest = minimum(closest, choose(size, zero, load(distances, block * LANES), infinite))
    if least(closest) > 0.0:
        return -1
    for slot in range(support.points.shape[0]):
        if beta[slot] != 0.0 and distances[slot] <= 0.0:
            return slot
    return -1


@kernel
def _fetch_ahead(rows: Rows, order: NDArray[np.int64], following: int, second: int) -> None:
    """Rows come in random order: ask for the next one while this one is worked on."""
    row = span(rows, order[following])
    prefetch(rows.values, row.value)
    prefetch(rows.values, row.value + row.length - 1)
    if rows.starts.shape[0] > 0:
        prefetch(rows.features, row.feature)
        prefetch(rows.features, row.feature + row.length - 1)
        prefetch(rows.starts, order[second])
