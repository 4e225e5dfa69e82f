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
    ranked = scores[order].astype(np.float64)
    # Raising the threshold past a row of weight w loses w if the row is positive and gains it if it is negative.
    errors = np.concatenate(([0.0], np.cumsum(signed_weights[order], dtype=np.float64)))
    distinct = np.concatenate(([True], ranked[1:] > ranked[:-1], [True]))
    errors = np.where(distinct, errors, np.inf)
    below = np.concatenate(([ranked[0] - 1.0], ranked))
    above = np.concatenate((ranked, [ranked[-1] + 1.0]))
    thresholds = 0.5 * (below + above)
    best = np.flatnonzero(errors <= errors.min())
    gap = best[np.argmin(_from_zero(below[best], above[best]))]
    return -_between(thresholds[gap], below[gap], above[gap])


def _from_zero(below: NDArray[np.float64], above: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far the gap (below, above) is from zero; 0 if it contains it."""
    return np.maximum(np.maximum(below, -above), 0.0)


def _between(middle: float, below: float, above: float) -> float:
    """Zero if the gap contains it, so that a model without error at b = 0 keeps b = 0; its middle otherwise."""
    return 0.0 if below < 0.0 < above else float(middle)
