"""Slow and obvious versions of everything the package computes, in float64 NumPy; no code is shared with it."""

from dataclasses import dataclass, field
from itertools import pairwise, product

import numpy as np
from scipy.optimize import minimize

RIDGE = 1e-6
RIDGE_OF_POLISHING = 1e-5


def gaussian_kernel(left, right, gamma):
    """k[i, j] = exp(-gamma ||left_i - right_j||^2)"""
    left, right = np.atleast_2d(left).astype(np.float64), np.atleast_2d(right).astype(np.float64)
    differences = left[:, None, :] - right[None, :, :]
    return np.exp(-gamma * np.sum(differences**2, axis=2))


def margins(rows, points, betas, gamma):
    """sum_j beta_j k(s_j, x_i) of every row"""
    if len(betas) == 0:
        return np.zeros(len(rows))
    return gaussian_kernel(rows, points, gamma) @ np.asarray(betas, dtype=np.float64)


def degradation(points, betas, merged_points, merged_betas, gamma):
    """||sum_i beta_i phi(x_i) - sum_j beta'_j phi(z_j)||^2, through the kernel matrix of all points."""
    everything = np.vstack([np.atleast_2d(points), np.atleast_2d(merged_points)]).astype(np.float64)
    coefficients = np.concatenate([np.atleast_1d(betas), -np.atleast_1d(merged_betas)]).astype(np.float64)
    return max(float(coefficients @ gaussian_kernel(everything, everything, gamma) @ coefficients), 0.0)


def best_share(a, b, reach):
    """h of the best z = h x_a + (1 - h) x_b: a dense grid, then ever finer ones around its best point.

    For |a| = |b| a mirror image is as good: the half that lies nearer to b is searched.
    """
    if a * b >= 0.0:
        low, high = 0.0, 1.0
    else:
        outside = 1.0 + 2.0 / np.sqrt(max(reach, 1e-12))
        low, high = -outside, 1.0 + outside
    if abs(a) == abs(b):
        high = 0.5
    for _ in range(9):
        h = np.linspace(low, high, 2001)
        sizes = np.abs(a * np.exp(-reach * (1 - h) ** 2) + b * np.exp(-reach * h**2))
        best, step = h[np.argmax(sizes)], h[1] - h[0]
        low, high = max(low, best - 2 * step), min(high, best + 2 * step)
    return best


def merge_two(a, x_a, b, x_b, gamma):
    """The best single vector for a phi(x_a) + b phi(x_b): (coefficient, point)."""
    h = best_share(a, b, gamma * np.sum((x_a - x_b) ** 2))
    z = h * x_a + (1 - h) * x_b
    return float(margins(z[None], np.array([x_a, x_b]), [a, b], gamma)[0]), z


def pairwise_degradation(a, x_a, b, x_b, gamma):
    coefficient, z = merge_two(a, x_a, b, x_b, gamma)
    return degradation(np.array([x_a, x_b]), [a, b], z, coefficient, gamma)


def cascade(points, betas, gamma):
    """The second vector merged into the first, the third into the result, and so on: (coefficient, point)."""
    coefficient, z = float(betas[0]), np.asarray(points[0], dtype=np.float64)
    for beta, point in zip(betas[1:], points[1:], strict=True):
        coefficient, z = merge_two(coefficient, z, float(beta), np.asarray(point, dtype=np.float64), gamma)
    return coefficient, z


def best_point(points, betas, gamma, starts=()):
    """The z of largest |sum_i beta_i k(x_i, z)|, climbed to from every point, their mean and the given starts."""
    points = np.asarray(points, dtype=np.float64)

    def shortfall(z):
        return -(margins(z[None], points, betas, gamma)[0] ** 2)

    weights = np.abs(betas) / np.sum(np.abs(betas))
    climbs = [
        minimize(shortfall, start, method="BFGS", options={"gtol": 1e-10})
        for start in [*points, weights @ points, *starts]
    ]
    z = min(climbs, key=lambda climb: climb.fun).x
    return float(margins(z[None], points, betas, gamma)[0]), z


def projected(points, betas, removed, gamma):
    """The other coefficients after the removed vector's best replacement by the others (K + RIDGE on its diagonal)."""
    points = np.asarray(points, dtype=np.float64)
    others = np.delete(np.arange(len(betas)), removed)
    kernels = gaussian_kernel(points[others], points[others], gamma) + RIDGE * np.eye(len(others))
    shares = np.linalg.solve(kernels, gaussian_kernel(points[others], points[removed], gamma)[:, 0])
    return np.asarray(betas, dtype=np.float64)[others] + betas[removed] * shares


def smallest(betas, ages, eligible):
    """The index of the smallest |beta| among the eligible, the oldest of equals."""
    return min(eligible, key=lambda i: (abs(betas[i]), ages[i]))


def with_a_partner(betas, across_signs):
    """The indices of vectors that have a partner to merge with."""
    signs = np.sign(betas)
    return [i for i in range(len(betas)) if (len(betas) > 1 if across_signs else np.sum(signs == signs[i]) > 1)]


def ranked_partners(points, betas, first, gamma, across_signs):
    """All partners of the first candidate by rising pairwise degradation: (indices, degradations)."""
    partners = [j for j in range(len(betas)) if j != first and (across_signs or betas[j] * betas[first] > 0)]
    losses = [pairwise_degradation(betas[first], points[first], betas[j], points[j], gamma) for j in partners]
    order = np.argsort(losses, kind="stable")
    return [partners[k] for k in order], [losses[k] for k in order]


def mergees(points, betas, ages, count, gamma, across_signs=False):
    """Which vectors a multi-merge of `count` takes, in merging order; a single one is to be removed."""
    eligible = with_a_partner(betas, across_signs)
    if not eligible:
        return [smallest(betas, ages, range(len(betas)))]
    first = smallest(betas, ages, eligible)
    return [first, *ranked_partners(points, betas, first, gamma, across_signs)[0][: count - 1]]


@dataclass
class Run:
    """A training: its vectors at the end, and how close its decisions were."""

    points: list = field(default_factory=list)
    betas: list = field(default_factory=list)
    ages: list = field(default_factory=list)
    steps: int = 0
    violations: int = 0
    maintenance_calls: int = 0
    losses: list = field(default_factory=list)
    closest_margin: float = np.inf
    """The least |y * margin - lambda t|: less than rounding and another implementation may decide otherwise."""
    closest_choice: float = np.inf
    """The least relative difference between two candidates of which one was preferred."""


def train(
    rows, signed_weights, order, regularization, gamma, budget, count=2, maintenance="cascade", across_signs=False
):
    """Budgeted SGD over the rows in the given order; `order` may hold several epochs."""
    rows = np.asarray(rows, dtype=np.float64)
    run = Run()
    for i in order:
        run.steps += 1
        weight = float(signed_weights[i])
        if weight == 0.0:
            continue
        slack = np.sign(weight) * margins(rows[i][None], np.array(run.points), run.betas, gamma)[0]
        threshold = regularization * run.steps
        run.closest_margin = min(run.closest_margin, abs(slack - threshold))
        if slack >= threshold:
            continue
        run.violations += 1
        twins = [j for j, point in enumerate(run.points) if np.array_equal(point, rows[i])]
        if twins:
            run.betas[twins[0]] += weight
            if run.betas[twins[0]] == 0.0:
                _drop(run, [twins[0]])
            continue
        run.points.append(rows[i])
        run.betas.append(weight)
        run.ages.append(run.violations)
        if len(run.betas) > budget:
            _maintain(run, gamma, count, maintenance, across_signs)
    return run


def _maintain(run, gamma, count, maintenance, across_signs):
    run.maintenance_calls += 1
    points, betas = np.array(run.points), np.array(run.betas)
    everyone = range(len(betas))
    eligible = with_a_partner(betas, across_signs) if maintenance in ("cascade", "gradient") else everyone
    _note_closest(run, sorted({abs(betas[i]) for i in (eligible or everyone)}), 1)
    if maintenance == "projection":
        removed = smallest(betas, run.ages, everyone)
        _drop(run, [removed])
        run.betas = list(projected(points, betas, removed, gamma))
    elif maintenance == "removal" or not eligible:
        _drop(run, [smallest(betas, run.ages, everyone)])
    else:
        first = smallest(betas, run.ages, eligible)
        partners, losses = ranked_partners(points, betas, first, gamma, across_signs)
        _note_closest(run, losses, count - 1)
        chosen = [first, *partners[: count - 1]]
        if maintenance == "cascade":
            coefficient, z = cascade(points[chosen], betas[chosen], gamma)
        else:
            coefficient, z = best_point(points[chosen], betas[chosen], gamma)
        run.points[first], run.betas[first] = z, coefficient
        _drop(run, chosen[1:])
    run.losses.append(degradation(points, betas, np.array(run.points), np.array(run.betas), gamma))


def _note_closest(run, values, taken):
    for better, worse in pairwise(values[: taken + 1]):
        run.closest_choice = min(run.closest_choice, (worse - better) / max(worse, 1e-12))


def _drop(run, indices):
    for name in ("points", "betas", "ages"):
        setattr(run, name, [value for i, value in enumerate(getattr(run, name)) if i not in indices])


def pegasos(rows, labels, order, regularization, gamma):
    """Kernel Pegasos without a budget: how often each row violated the margin, alpha = count y / (lambda t)."""
    kernels = gaussian_kernel(rows, rows, gamma)
    counts = np.zeros(len(rows))
    for t, i in enumerate(order, start=1):
        score = (kernels[i] * counts * labels).sum() / (regularization * t)
        if labels[i] * score < 1.0:
            counts[i] += 1
    return counts


def weighted_error(scores, signed_weights, bias):
    """The weight of the rows whose class f(x) + b > 0 gets wrong."""
    positive = np.asarray(scores, dtype=np.float64) + bias > 0.0
    signed_weights = np.asarray(signed_weights, dtype=np.float64)
    return float(np.abs(signed_weights)[positive != (signed_weights > 0.0)].sum())


def least_error(scores, signed_weights):
    """The least weighted error of any threshold: one below all scores, one between any two, one above all."""
    distinct = np.unique(np.asarray(scores, dtype=np.float64))
    thresholds = [distinct[0] - 1.0, *(0.5 * (distinct[:-1] + distinct[1:])), distinct[-1] + 1.0]
    return min(weighted_error(scores, signed_weights, -threshold) for threshold in thresholds)


def objective(rows, signed_weights, points, coefficients, bias, gamma, cost):
    """1/2 ||w||^2 + C sum_i w_i max(0, 1 - y_i f(x_i)), with the ridge in ||w||^2"""
    kernel = gaussian_kernel(points, points, gamma) + RIDGE_OF_POLISHING * np.eye(len(points))
    values = np.sign(signed_weights) * (margins(rows, points, coefficients, gamma) + bias)
    losses = np.abs(signed_weights) * np.maximum(0.0, 1.0 - values)
    return 0.5 * coefficients @ kernel @ coefficients + cost * losses.sum()


def hinge_loss(scores, signed_weights, bias):
    return float(np.abs(signed_weights) @ np.maximum(0.0, 1.0 - np.sign(signed_weights) * (scores + bias)))


def dominates(one, other):
    """Points are (score, cost, …): nowhere worse and somewhere better."""
    nowhere_worse = one[0] >= other[0] and all(a <= b for a, b in zip(one[1:], other[1:], strict=True))
    return nowhere_worse and tuple(one) != tuple(other)


def pareto(points):
    """The values, each once, that no other point dominates."""
    return {tuple(point) for point in points if not any(dominates(other, point) for other in points)}


def dominated_volume(points, reference):
    """Space is cut at every coordinate that occurs; a cell counts if some point is at least as good everywhere."""
    flipped = [(-point[0], *point[1:]) for point in points]
    corner = (-reference[0], *reference[1:])
    cuts = [sorted({*(point[axis] for point in flipped), end}) for axis, end in enumerate(corner)]
    total = 0.0
    for cell in product(*(list(pairwise(axis)) for axis in cuts)):
        inside = all(high <= end for (_, high), end in zip(cell, corner, strict=True))
        if inside and any(all(x <= low for x, (low, _) in zip(point, cell, strict=True)) for point in flipped):
            total += float(np.prod([high - low for low, high in cell]))
    return total


def stops(curve, finished, slack):
    """Whether a finished (score, cost) is as cheap and as good as the (share, cost, score)s of a curve let hope for."""
    share, cost, _ = curve[-1]
    known = [part for step, part in slack if step <= share + 1e-9]
    best = max(score for _, _, score in curve)
    return bool(known) and any(other[1] <= cost and other[0] >= best + known[-1] * (1 - best) for other in finished)


def vanished(curves, share):
    """Which part of the least error known at this share every curve of (share, score) had lost at its end."""
    found = []
    for curve in curves:
        errors = [1 - score for at, score in curve if at <= share + 1e-9]
        if errors and curve[-1][0] == 1.0:
            found.append((min(errors) - (1 - curve[-1][1])) / min(errors) if min(errors) else 0.0)
    return found
