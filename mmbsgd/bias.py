"""The intercept, found after the passes: the threshold of least training error, or of least hinge loss.

SGD's last steps are large (C at the end of the first epoch), so that the scores of its last iterate are shifted by
noise. With the scores f(x_i) of all training rows sorted once, every threshold's weighted error is known; the best
one lies between two neighbouring scores. Among equally good gaps the one nearest to zero wins. The hinge loss is
piecewise linear in the bias: one sort finds where its slope changes its sign.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def calibrated_bias(scores: NDArray[Any], signed_weights: NDArray[Any], tolerated: float = 0.0) -> float:
    """b that minimises sum_i w_i [sign(f(x_i) + b) != y_i]; signed_weights[i] = w_i y_i. tolerated: the part of all
    weights that a b nearer to zero may cost."""
    order = np.argsort(scores)
    ranked = scores[order]
    # errors[i]: the threshold lies below ranked[i], above ranked[i - 1]. Raising it past a row of weight w loses w if
    # the row is positive and gains it if it is negative.
    errors = np.zeros(len(ranked) + 1)
    np.cumsum(signed_weights[order], out=errors[1:])
    errors[1:-1][ranked[1:] == ranked[:-1]] = np.inf
    allowed = tolerated * float(np.abs(signed_weights, dtype=np.float64).sum()) if tolerated else 0.0
    best = np.flatnonzero(errors <= errors.min() + allowed)
    last = len(ranked) - 1
    below = np.where(best > 0, ranked[np.maximum(best - 1, 0)], -np.inf).astype(np.float64)
    above = np.where(best <= last, ranked[np.minimum(best, last)], np.inf).astype(np.float64)
    gap = int(np.argmin(np.maximum(np.maximum(below, -above), 0.0)))
    return -_inside(float(below[gap]), float(above[gap]))


def optimal_bias(scores: NDArray[Any], signed_weights: NDArray[Any]) -> float:
    """b that minimises sum_i w_i max(0, 1 - y_i (f(x_i) + b)); the middle, where several do."""
    corners = np.where(signed_weights > 0, 1.0, -1.0) - scores
    order = np.argsort(corners)
    slopes = np.cumsum(np.abs(signed_weights[order], dtype=np.float64))
    slopes -= slopes[-1] - float(np.abs(signed_weights[signed_weights < 0], dtype=np.float64).sum())
    tiny = 1e-12 * max(float(slopes[-1] - slopes[0]), 1e-300)
    first, last = np.searchsorted(slopes, [-tiny, tiny])
    ends = corners[order[np.minimum([first, last], len(order) - 1)]]
    return float(ends.mean())


def _inside(below: float, above: float) -> float:
    """A threshold in the gap: zero if it lies there, so that a model that needs no shift keeps none."""
    if below < 0.0 < above:
        return 0.0
    if np.isinf(below):
        return above - 1.0
    if np.isinf(above):
        return below + 1.0
    return 0.5 * (below + above)
