"""What happens when the budget is exceeded: removal, projection, or a multi-merge.

The first candidate is the vector of smallest |beta| that has a partner. Unless merging across signs is allowed, a
partner is a vector of the same sign. The other mergees are the M - 1 partners of least pairwise weight degradation,
merged in that order; where fewer exist, all of them. Where no vector has a partner (B = 1 with both signs), the
smallest |beta| is removed.

Among equal |beta| the oldest vector goes first. Ties are the rule, not the exception: every vector enters with
beta = +-1 and no merge within a sign makes a coefficient smaller. The newest would be cheaper (its distances are
known from its margin), but then one class can use up the budget of the other, and accuracy falls for M > 2.

The first candidate's distances are computed afresh. It is nearly always a training row that was never merged, with a
row's few non-zeros, so that this costs less than a margin. A cache of all B^2 distances would have to be written in
rows and columns at every insertion and merge: by estimate, not by measurement, that costs more; it also needs B^2
memory and drifts.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmbsgd._compile import kernel
from mmbsgd.gaussian import squared_distances
from mmbsgd.lanes import (
    LANES,
    Values,
    aligned,
    choose,
    item,
    least,
    load,
    maximum,
    minimum,
    padded,
    splat,
    store,
    total,
)
from mmbsgd.merging import (
    BOUND_SLACK,
    DEGRADATION_TABLE,
    best_h,
    beyond,
    degradation_bounds,
    table_degradation,
    weight_degradation,
)
from mmbsgd.multimerge import cascade, gradient
from mmbsgd.paper import point_distance, point_norm, searched_degradation
from mmbsgd.projection import Factor, empty_factor, project
from mmbsgd.rows import Rows, Span
from mmbsgd.support import BLOCKS, COUNT, POSITIVE, Support, place, release, runs, set_beta, set_norm

CASCADE, GRADIENT, PROJECTION, REMOVAL = range(4)
STRATEGIES = {"cascade": CASCADE, "gradient": GRADIENT, "projection": PROJECTION, "removal": REMOVAL}


# The bounds are float32 and touch the loss where reach is small.
_SAFETY = 0.999
FLOAT32_MAX = np.float64(np.finfo(np.float32).max)


class Policy(NamedTuple):
    strategy: int
    budget: int
    mergees: int  # M
    across_signs: bool
    paper: bool  # the engine


class Bench(NamedTuple):
    """Room to work in, made once per training."""

    mergees: NDArray[np.int64]  # (M,)
    scores: NDArray[np.float64]  # (M,)
    betas: NDArray[np.float64]  # (M,)
    pairs: NDArray[np.float64]  # (M, M)
    shares: NDArray[np.float64]  # (M,)
    kernels: NDArray[np.float64]  # (M,)
    trial: NDArray[np.float64]  # (M,)
    bounds: NDArray[np.float32]  # (blocks * LANES,)
    lowest: NDArray[np.float32]  # (LANES,)
    ranked: NDArray[np.float32]  # (LANES,)
    table: NDArray[np.float32]
    factor: Factor  # for projection; else empty


def bench_for(policy: Policy) -> Bench:
    size = min(policy.mergees, policy.budget + 1)
    return Bench(
        mergees=np.zeros(size, np.int64),
        scores=np.zeros(size),
        betas=np.zeros(size),
        pairs=np.zeros((size, size)),
        shares=np.zeros(size),
        kernels=np.zeros(size),
        trial=np.zeros(size),
        bounds=aligned(padded(policy.budget + 1)),
        lowest=aligned(LANES),
        ranked=aligned(LANES),
        table=DEGRADATION_TABLE,
        factor=empty_factor(policy.budget + 1 if policy.strategy == PROJECTION else 0),
    )


@kernel
def maintain(support: Support, policy: Policy, bench: Bench) -> tuple[float, int]:
    """Brings the number of vectors back within the budget; (weight degradation, merges)."""
    if policy.strategy == PROJECTION:
        return project(support, smallest(support, 0.0), bench.factor), 0

    sign = 0.0
    if policy.strategy != REMOVAL and not policy.across_signs:
        positive, negative = support.state[POSITIVE], support.state[COUNT] - support.state[POSITIVE]
        if positive < 2:
            sign = -1.0
        elif negative < 2:
            sign = 1.0
        if positive < 2 and negative < 2:
            sign = 0.0
    first = smallest(support, sign)
    count = 1 if policy.strategy == REMOVAL else select(support, first, policy, bench)
    if count == 1:
        beta = np.float64(support.beta[first])
        release(support, first)
        return beta * beta, 0
    return merge(support, policy, bench, count), count - 1


@kernel
def smallest(support: Support, sign: float) -> int:
    """The slot of smallest |beta| among those of a sign (0: any), the oldest among equals."""
    zero, infinite = splat(np.float32(0.0)), splat(np.float32(np.inf))
    direction = splat(np.float32(sign))
    blocks = support.state[BLOCKS]
    sizes, ages = infinite, infinite
    for block in range(blocks):
        beta, born = load(support.beta, block * LANES), load(support.born, block * LANES)
        magnitude = maximum(beta, zero - beta)
        size = choose(magnitude if sign == 0.0 else beta * direction, zero, magnitude, infinite)
        # Lane by lane the smaller size wins, and the older vector among equal ones.
        ages = choose(sizes, size, born, choose(size, sizes, ages, minimum(ages, born)))
        sizes = minimum(sizes, size)
    lane_sizes, lane_ages = support.lane_sizes, support.lane_ages
    store(lane_sizes, 0, sizes)
    store(lane_ages, 0, ages)
    lane = 0
    for other in range(1, LANES):
        smaller = item(lane_sizes, other) < item(lane_sizes, lane)
        equal = item(lane_sizes, other) == item(lane_sizes, lane)
        if smaller or (equal and item(lane_ages, other) < item(lane_ages, lane)):
            lane = other
    for slot in range(lane, blocks * LANES, LANES):
        if item(support.born, slot) == lane_ages[lane] and abs(item(support.beta, slot)) == lane_sizes[lane]:
            return slot
    return lane


@kernel
def _distances_of(support: Support, slot: int) -> None:
    """support.distances = squared distances of a slot's point; most points still have a row's few non-zeros."""
    width = support.points.shape[1]
    point = support.points[slot]
    whole = runs(width)
    length = 0
    zero = splat(np.float32(0.0))
    for start in range(0, whole, LANES):
        run = load(point, start)
        if total(maximum(run, zero - run)) > 0.0:
            length = _gather_nonzeros(support, point, start, start + LANES, length)
    length = _gather_nonzeros(support, point, whole, width, length)
    rows = Rows(support.values, support.features, support.free[:0], width)
    squared_distances(rows, Span(0, 0, length), support.norms[slot], support, support.distances)


@kernel
def _gather_nonzeros(support: Support, point: Values, start: int, stop: int, length: int) -> int:
    for feature in range(start, stop):
        support.values[length] = point[feature]
        support.features[length] = feature
        length += point[feature] != 0.0
    return length


@kernel
def select(support: Support, first: int, policy: Policy, bench: Bench) -> int:
    """Fills bench.mergees: the first candidate, then its partners by rising degradation; how many in all."""
    wanted = bench.mergees.shape[0] - 1
    sign = np.float32(1.0) if support.beta[first] > 0.0 else np.float32(-1.0)
    found = 0
    if policy.paper:
        for slot in range(support.points.shape[0]):
            beta = support.beta[slot]
            if slot != first and beta != 0.0 and (policy.across_signs or beta * sign > 0.0):
                found = _keep(searched_degradation(support, first, slot), slot, found, wanted, bench)
    else:
        _distances_of(support, first)
        limit, farthest = _bound_candidates(support, first, policy.across_signs, wanted, bench)
        a = np.float64(support.beta[first])
        for lane in range(LANES):
            if item(bench.lowest, lane) > limit:
                continue
            for slot in range(lane, support.state[BLOCKS] * LANES, LANES):
                if item(bench.bounds, slot) > limit or item(support.distances, slot) > farthest:
                    continue
                b, reach = np.float64(support.beta[slot]), support.gamma * np.float64(support.distances[slot])
                if (a > 0.0) == (b > 0.0):
                    loss = table_degradation(a, b, reach, bench.table)
                else:
                    loss = weight_degradation(a, b, reach, best_h(a / b, reach))
                found = _keep(loss, slot, found, wanted, bench)
                if found == wanted:
                    limit = min(limit, np.float32(bench.scores[wanted] / (a * a * _SAFETY)))
    bench.mergees[0] = first
    return found + 1


@kernel
def _bound_candidates(
    support: Support, first: int, across_signs: bool, wanted: int, bench: Bench
) -> tuple[np.float32, np.float32]:
    """bench.bounds[j] = at most the degradation of merging j into the first candidate, over a^2; infinite for no
    partner. Returns the largest bound and the largest squared distance that a wanted partner can have.

    The loss is at most BOUND_SLACK times its bound, and it is never less at `beyond(reach)` than at reach. The least
    bounds of the lanes belong to different candidates, so that the `wanted`-th smallest of them, times the slack, is
    above the loss of at least that many candidates; the same holds for their distances.
    """
    zero, infinite, remote = splat(np.float32(0.0)), splat(np.float32(np.inf)), splat(np.float32(1e4))
    a, gamma = splat(support.beta[first]), splat(np.float32(support.gamma))
    direction = splat(np.float32(1.0 if support.beta[first] > 0.0 else -1.0))
    lowest, nearest = infinite, infinite
    support.distances[first] = np.float32(np.inf)
    for block in range(support.state[BLOCKS]):
        b, distances = load(support.beta, block * LANES), load(support.distances, block * LANES)
        known = degradation_bounds(a, b, minimum(distances * gamma, remote))
        other = choose(maximum(b, zero - b), zero, zero, infinite) if across_signs else infinite
        bounds = choose(b * direction, zero, known, other)
        store(bench.bounds, block * LANES, bounds)
        lowest = minimum(lowest, bounds)
        nearest = minimum(nearest, choose(b * direction, zero, distances, infinite))
    bench.bounds[first] = np.float32(np.inf)
    store(bench.lowest, 0, lowest)
    largest = np.float32(FLOAT32_MAX)
    if across_signs or wanted > LANES:
        return largest, largest
    if wanted == 1:
        # The first candidate's own bound, if it is the least of its lane, only loosens the limit.
        enough, near = least(lowest), least(nearest)
    else:
        store(bench.ranked, 0, lowest)
        enough = _rank(bench.ranked, wanted)
        store(bench.ranked, 0, nearest)
        near = _rank(bench.ranked, wanted)
    farthest = np.float32(1.001 * beyond(np.float64(near) * support.gamma) / support.gamma)
    return min(np.float32(BOUND_SLACK) * enough, largest), min(farthest, largest)


@kernel
def _rank(values: Values, rank: int) -> np.float32:
    """The rank-th smallest value; reorders its argument."""
    for at in range(rank):
        lowest = at
        for i in range(at + 1, values.shape[0]):
            if item(values, i) < item(values, lowest):
                lowest = i
        values[at], values[lowest] = values[lowest], values[at]
    return np.float32(values[rank - 1])


@kernel
def _keep(loss: float, slot: int, found: int, wanted: int, bench: Bench) -> int:
    """Inserts a candidate into the sorted list of the best so far; how many there are now."""
    scores, mergees = bench.scores, bench.mergees
    if found == wanted:
        if loss >= scores[found]:
            return found
        found -= 1
    at = found + 1
    while at > 1 and scores[at - 1] > loss:
        scores[at] = scores[at - 1]
        mergees[at] = mergees[at - 1]
        at -= 1
    scores[at] = loss
    mergees[at] = slot
    return found + 1


@kernel
def merge(support: Support, policy: Policy, bench: Bench, count: int) -> float:
    """Replaces the selected vectors by one, in the first candidate's slot; the weight degradation."""
    points, mergees = support.points, bench.mergees
    for i in range(count):
        bench.betas[i] = support.beta[mergees[i]]
        bench.pairs[i, i] = 0.0
        for k in range(i):
            distance = point_distance(points[mergees[i]], points[mergees[k]])
            bench.pairs[i, k] = distance
            bench.pairs[k, i] = distance
    betas = bench.betas[:count]
    if policy.strategy == GRADIENT:
        beta, loss = gradient(betas, bench.pairs, bench.shares, support.gamma, bench.kernels, bench.trial)
    else:
        beta, loss = cascade(betas, bench.pairs, bench.shares, support.gamma, policy.paper)

    slot = mergees[0]
    combine(points, mergees, bench.shares, count, support.dense_row)
    place(support, slot, support.dense_row)
    set_norm(support, slot, point_norm(support.dense_row))
    for i in range(1, count):
        release(support, mergees[i])
    set_beta(support, slot, beta)
    return loss


@kernel
def combine(points: Values, mergees: NDArray[np.int64], shares: NDArray[np.float64], count: int, out: Values) -> None:
    """out = sum_i c_i x_i"""
    for feature in range(out.shape[0]):
        out[feature] = np.float32(0.0)
    for i in range(count):
        share = np.float32(shares[i])
        mergee = points[mergees[i]]
        for feature in range(out.shape[0]):
            out[feature] += share * mergee[feature]
