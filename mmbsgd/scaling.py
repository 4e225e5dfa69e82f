"""Scaling of raw rows before the kernel sees them: x' = (x - shift) * factor, or rows of unit length.

What was learnt from sparse rows has no shift: it would fill them up, and the Gaussian kernel sees differences of rows,
from which it drops out. Sparse rows that meet a shift all the same become dense.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mmbsgd.errors import InputError
from mmbsgd.rows import is_sparse

Method = Literal["none", "minmax", "standard", "unit"]
METHODS: tuple[Method, ...] = get_args(Method)
_FEW, _MOST = 4096, 1 << 20


@dataclass(frozen=True, eq=False)
class Scaling:
    method: Method = "none"
    shift: NDArray[np.float64] | None = None
    factor: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(f"scaling {self.method!r} is none of {', '.join(METHODS)}")
        affine = self.method in ("minmax", "standard")
        if (self.shift is not None, self.factor is not None) != (affine, affine):
            raise InputError(f"the scaling {self.method!r} {'needs' if affine else 'has no'} shift and factor")
        for name in ("shift", "factor"):
            if affine:
                numbers = np.array(getattr(self, name), np.float64)
                if numbers.ndim != 1 or not np.isfinite(numbers).all():
                    raise InputError(f"the scaling's {name} must be finite numbers, one per feature")
                numbers.flags.writeable = False
                object.__setattr__(self, name, numbers)

    @property
    def shifts(self) -> bool:
        return self.shift is not None and bool(self.shift.any())

    @property
    def width(self) -> int | None:
        """Of the rows that it is for; None: any."""
        return None if self.shift is None else len(self.shift)

    def as_dict(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "shift": None if self.shift is None else self.shift.tolist(),
            "factor": None if self.factor is None else self.factor.tolist(),
        }

    def apply(self, matrix: Any) -> Any:
        """The scaled rows as float32; too large a result is infinite."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            if self.method == "unit":
                return _unit(matrix)
            if self.factor is None or self.shift is None:
                return matrix.astype(np.float32, copy=False)
            if is_sparse(matrix) and self.shifts:
                matrix = matrix.toarray()
            if is_sparse(matrix):
                return _with_values(matrix, matrix.data * self.factor[matrix.indices])
            scaled = np.empty(matrix.shape, np.float32)
            for part in parts(len(matrix)):
                scaled[part] = (matrix[part] - self.shift) * self.factor
            return scaled

    def undo(self, matrix: Any) -> Any:
        """Raw rows, in float64, that the scaling makes these of; of unit length, they stay as they are."""
        if self.factor is None or self.shift is None:
            return matrix
        if is_sparse(matrix):  # of sparse data, whose scaling has no shift
            values = matrix.data / self.factor[matrix.indices]
            return type(matrix)((values, matrix.indices, matrix.indptr), shape=matrix.shape)
        return matrix / self.factor + self.shift


def parts(rows: int, width: int = 1) -> Iterator[slice]:
    """Few rows at a time, and fewer of very wide ones: what is computed in between stays small."""
    few = max(min(_FEW, _MOST // width), 1)
    return (slice(begin, begin + few) for begin in range(0, rows, few))


def _unit(matrix: Any) -> Any:
    if not is_sparse(matrix):
        wide = matrix.astype(np.float64)
        lengths = np.linalg.norm(wide, axis=1, keepdims=True)
        return (wide / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
    values = matrix.data.astype(np.float64)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    lengths = np.sqrt(np.bincount(rows, values**2, minlength=matrix.shape[0]))
    return _with_values(matrix, values / np.where(lengths > 0, lengths, 1.0)[rows])


def _with_values(matrix: Any, values: NDArray[np.float64]) -> Any:
    return type(matrix)((values.astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)
