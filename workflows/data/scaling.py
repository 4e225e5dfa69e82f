"""How a scaling is learnt: from the moments of the training rows alone, part by part."""

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from mmbsgd.scaling import Method, Scaling, parts
from workflows.errors import DataError

FARTHEST = 1e5
"""Spreads from zero: beyond it float32 keeps less than two digits of a difference."""


@dataclass(frozen=True)
class Moments:
    """Per feature: what a scaling needs to know of some rows."""

    rows: int
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]  # sum of squared deviations from the mean

    @classmethod
    def of(cls, matrix: Any) -> "Moments":
        rows = matrix.shape[0]
        if issparse(matrix):
            from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

            mean, variance = mean_variance_axis(matrix, axis=0)
            low, high = min_max_axis(matrix, axis=0)
            return cls(rows, low.astype(np.float64), high.astype(np.float64), mean, variance * rows)
        with np.errstate(over="ignore", invalid="ignore"):
            return reduce(operator.add, (cls._of_few(matrix[part]) for part in parts(rows)))

    @classmethod
    def _of_few(cls, matrix: NDArray[Any]) -> "Moments":
        wide = matrix.astype(np.float64, copy=False)
        mean = wide.mean(axis=0)
        return cls(len(wide), wide.min(axis=0), wide.max(axis=0), mean, ((wide - mean) ** 2).sum(axis=0))

    def __add__(self, other: "Moments") -> "Moments":
        rows = self.rows + other.rows
        apart = other.mean - self.mean
        return Moments(
            rows,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.mean + apart * (other.rows / rows),
            self.squares + other.squares + apart**2 * (self.rows * other.rows / rows),
        )


def learn(method: Method, pieces: Iterable[Moments], *, sparse: bool) -> Scaling:
    """From the moments of the training rows, part by part."""
    if not needs_moments(method):
        return Scaling(method)
    with np.errstate(over="ignore", invalid="ignore"):
        moments = reduce(operator.add, pieces)
        if method == "minmax":
            shift, spread = moments.low, moments.high - moments.low
        else:
            shift, spread = moments.mean, np.sqrt(moments.squares / moments.rows)
    if not (np.isfinite(shift).all() and np.isfinite(spread).all()):
        feature = int(np.flatnonzero(~np.isfinite(shift + spread))[0])
        raise DataError(f"feature {feature + 1} (from 1) has values too large to be scaled: remove or divide them")
    # A feature that never changes, but for rounding, stays as it is.
    flat = spread <= np.abs(shift) * 1e-12
    factor = 1.0 / np.where(flat, 1.0, spread)
    if sparse:
        far = np.maximum(np.abs(moments.low), np.abs(moments.high)) * factor > FARTHEST
        if far.any():
            raise DataError(
                f"feature {int(np.flatnonzero(far)[0]) + 1} (from 1) lies far from zero compared with its spread; "
                "float32 would lose its differences, and sparse rows cannot be shifted: say --layout dense"
            )
        shift = np.zeros_like(shift)
    return Scaling(method, shift, factor)


def needs_moments(method: Method) -> bool:
    return method in ("minmax", "standard")
