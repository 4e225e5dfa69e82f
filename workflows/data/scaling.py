"""Scaling, learnt from the training rows alone and applied to all: x' = (x - shift) * factor, or rows of unit length.

Sparse rows are multiplied only, with the same factors: a shift would fill them up, and the Gaussian kernel sees
differences of rows, from which it drops out.
"""

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from workflows.errors import DataError

Method = Literal["none", "minmax", "standard", "unit"]
FARTHEST = 1e5
"""Spreads from zero: beyond it float32 keeps less than two digits of a difference."""
_FEW = 4096
METHODS: tuple[Method, ...] = get_args(Method)


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
            return reduce(operator.add, (cls._of_few(matrix[part]) for part in _parts(rows)))

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


@dataclass(frozen=True)
class Scaling:
    method: Method
    shift: NDArray[np.float64] | None = None
    factor: NDArray[np.float64] | None = None

    @classmethod
    def learn(cls, method: Method, parts: Iterable[Moments], *, sparse: bool) -> "Scaling":
        if not needs_moments(method):
            return cls(method)
        with np.errstate(over="ignore", invalid="ignore"):
            moments = reduce(operator.add, parts)
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
        return cls(method, shift, factor)

    def apply(self, matrix: Any) -> Any:
        """The scaled rows as float32; too large a result is infinite."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            if self.method == "unit":
                return _unit(matrix)
            if self.factor is None or self.shift is None:
                return matrix.astype(np.float32, copy=False)
            if issparse(matrix):
                values = matrix.data * self.factor[matrix.indices]
                return csr_array((values.astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)
            scaled = np.empty(matrix.shape, np.float32)
            for part in _parts(len(matrix)):
                scaled[part] = (matrix[part] - self.shift) * self.factor
            return scaled


def _parts(rows: int) -> Iterator[slice]:
    """Few rows at a time: what is computed in between stays small."""
    return (slice(begin, begin + _FEW) for begin in range(0, rows, _FEW))


def needs_moments(method: Method) -> bool:
    return method in ("minmax", "standard")


def _unit(matrix: Any) -> Any:
    if not issparse(matrix):
        wide = matrix.astype(np.float64)
        lengths = np.linalg.norm(wide, axis=1, keepdims=True)
        return (wide / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
    values = matrix.data.astype(np.float64)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    lengths = np.sqrt(np.bincount(rows, values**2, minlength=matrix.shape[0]))
    scaled = (values / np.where(lengths > 0, lengths, 1.0)[rows]).astype(np.float32)
    return csr_array((scaled, matrix.indices, matrix.indptr), shape=matrix.shape)
