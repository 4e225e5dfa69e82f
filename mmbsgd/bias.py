"""The intercept, found after the passes: the threshold of least training error.

SGD's last steps are large (C at the end of the first epoch), so that the scores of its last iterate are shifted by
noise. With the scores f(x_i) of all training rows sorted once, every threshold's weighted error is known; the best
one lies between two neighbouring scores. Among equally good gaps the one nearest to zero wins.
"""

import numpy as np
from numpy.typing import NDArray


def calibrated_bias(scores: NDArray[np.float32], signed_weights: NDArray[np.float32]) -> float:
    """b that minimises sum_i w_i [sign(f(x_i) + b) != y_i]; signed_weights[i] = w_i y_i."""
    order = np.argsort(scores)
    ranked = scores[order]
    # errors[i]: the threshold lies below ranked[i], above ranked[i - 1]. Raising it past a row of weight w loses w if
    # the row is positive and gains it if it is negative.
    errors = np.zeros(len(ranked) + 1)
    np.cumsum(signed_weights[order], out=errors[1:])
    errors[1:-1][ranked[1:] == ranked[:-1]] = np.inf
    best = np.flatnonzero(errors <= errors.min())
    last = len(ranked) - 1
    below = np.where(best > 0, ranked[np.maximum(best - 1, 0)], -np.inf).astype(np.float64)
    above = np.where(best <= last, ranked[np.minimum(best, last)], np.inf).astype(np.float64)
    gap = int(np.argmin(np.maximum(np.maximum(below, -above), 0.0)))
    return -_inside(float(below[gap]), float(above[gap]))


def _inside(below: float, above: float) -> float:
    """A threshold in the gap: zero if it lies there, so that a model that needs no shift keeps none."""
    if below < 0.0 < above:
        return 0.0
    if np.isinf(below):
        return above - 1.0
    if np.isinf(above):
        return below + 1.0
    return 0.5 * (below + above)
