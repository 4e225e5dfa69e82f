"""M support vectors become one: the cascade of binary merges (MM-BSGD) and gradient descent (MM-GD).

Both work in coordinates: z = sum_i c_i x_i with sum_i c_i = 1, so that with the pairwise squared distances P

    ||z - x_j||^2 = sum_i c_i P_ij - 1/2 sum_ik c_i c_k P_ik

and nothing depends on the number of features until z itself is written.

    betas    (M,)    coefficients of the mergees, the first candidate first, then its partners in merging order
    pairs    (M, M)  P
    shares   (M,)    c, the result
"""

import math

import numpy as np
from numpy.typing import NDArray

from mmbsgd._compile import kernel
from mmbsgd.merging import best_h, golden_section, merged_coefficient, weight_degradation

DESCENT_STEPS = 100
DESCENT_TOLERANCE = 1e-7
"""MM-GD stops when alpha_z^2 grows by less than this share of itself."""

Vector = NDArray[np.float64]


@kernel
def spread(shares: Vector, pairs: Vector, count: int) -> float:
    """1/2 sum_ik c_i c_k P_ik"""
    result = 0.0
    for i in range(count):
        for k in range(i):
            result += shares[i] * shares[k] * pairs[i, k]
    return result


@kernel
def distance_to(j: int, shares: Vector, pairs: Vector, count: int, spread_of_z: float) -> float:
    result = -spread_of_z
    for i in range(count):
        result += shares[i] * pairs[i, j]
    return max(result, 0.0)


@kernel
def cascade(betas: Vector, pairs: Vector, shares: Vector, gamma: float, by_golden_section: bool) -> tuple[float, float]:
    """Merges the second into the first, the third into the result, and so on; (beta_z, weight degradation)."""
    count = betas.shape[0]
    _stand_on(0, shares, count)
    beta = betas[0]
    loss = 0.0
    for j in range(1, count):
        reach = gamma * distance_to(j, shares, pairs, j, spread(shares, pairs, j))
        lighter, heavier = beta, betas[j]
        merged_is_lighter = abs(lighter) <= abs(heavier)
        if not merged_is_lighter:
            lighter, heavier = heavier, lighter
        ratio = lighter / heavier if heavier != 0.0 else 0.0
        h = golden_section(ratio, reach) if by_golden_section else best_h(ratio, reach)
        share = h if merged_is_lighter else 1.0 - h
        for i in range(j):
            shares[i] *= share
        shares[j] = 1.0 - share
        beta = merged_coefficient(lighter, heavier, reach, h)
        if count == 2:
            loss = weight_degradation(lighter, heavier, reach, h)
    if count > 2:
        loss = joint_degradation(betas, pairs, shares, gamma, beta)
    return beta, loss


@kernel
def gradient(
    betas: Vector, pairs: Vector, shares: Vector, gamma: float, kernels: Vector, trial: Vector
) -> tuple[float, float]:
    """Climbs alpha_z^2, which falls short of ||sum_i beta_i phi(x_i)||^2 by the weight degradation.

    A step of length 1 / (2 gamma alpha_z) along the gradient 2 gamma sum_i beta_i k_i (x_i - z) lands on
    sum_i beta_i k_i x_i / alpha_z; for one sign it always climbs, across signs it is halved until it does.
    """
    count = betas.shape[0]
    start(betas, pairs, shares, gamma, kernels)
    beta = coefficient(betas, pairs, shares, gamma, kernels)
    for _ in range(DESCENT_STEPS):
        if beta == 0.0:
            break
        for i in range(count):
            trial[i] = betas[i] * kernels[i] / beta
        climbed = 0.0
        for _halving in range(20):
            climbed = coefficient(betas, pairs, trial, gamma, kernels)
            if abs(climbed) >= abs(beta):
                break
            for i in range(count):
                trial[i] = 0.5 * (trial[i] + shares[i])
        if abs(climbed) < abs(beta):
            break
        gain = climbed * climbed - beta * beta
        for i in range(count):
            shares[i] = trial[i]
        beta = climbed
        if gain <= DESCENT_TOLERANCE * beta * beta:
            break
    return beta, joint_degradation(betas, pairs, shares, gamma, beta)


@kernel
def start(betas: Vector, pairs: Vector, shares: Vector, gamma: float, kernels: Vector) -> None:
    """The paper's sum_i beta_i x_i / sum_i beta_i, unless some mergee itself is a better z."""
    count = betas.shape[0]
    weight = size = best = 0.0
    for i in range(count):
        weight += betas[i]
        size += abs(betas[i])
    if abs(weight) > 1e-9 * size:
        for i in range(count):
            shares[i] = betas[i] / weight
        best = abs(coefficient(betas, pairs, shares, gamma, kernels))
    for j in range(count):
        at_mergee = 0.0
        for i in range(count):
            at_mergee += betas[i] * math.exp(-gamma * pairs[i, j])
        if abs(at_mergee) > best or best == 0.0:
            best = abs(at_mergee)
            _stand_on(j, shares, count)


@kernel
def _stand_on(mergee: int, shares: Vector, count: int) -> None:
    for i in range(count):
        shares[i] = 0.0
    shares[mergee] = 1.0


@kernel
def coefficient(betas: Vector, pairs: Vector, shares: Vector, gamma: float, kernels: Vector) -> float:
    """alpha_z = sum_i beta_i k(x_i, z), leaving the kernel values behind."""
    count = betas.shape[0]
    spread_of_z = spread(shares, pairs, count)
    result = 0.0
    for i in range(count):
        kernels[i] = math.exp(-gamma * distance_to(i, shares, pairs, count, spread_of_z))
        result += betas[i] * kernels[i]
    return result


@kernel
def joint_degradation(betas: Vector, pairs: Vector, shares: Vector, gamma: float, beta: float) -> float:
    """||sum_i beta_i phi(x_i) - beta phi(z)||^2"""
    count = betas.shape[0]
    spread_of_z = spread(shares, pairs, count)
    loss = beta * beta
    for i in range(count):
        to_z = math.exp(-gamma * distance_to(i, shares, pairs, count, spread_of_z))
        loss += betas[i] * (betas[i] - 2.0 * beta * to_z)
        for k in range(i):
            loss += 2.0 * betas[i] * betas[k] * math.exp(-gamma * pairs[i, k])
    return max(loss, 0.0)
