"""Training and test rows as compiled kernels see them: dense and CSR input in one form, without a copy.

Row r is a run of values and the features they belong to. For CSR these are slices of the matrix's own arrays. For
a dense matrix every row has all features, so one list of feature numbers serves them all: `starts` is empty and row
r begins at r * width. Kernels are therefore compiled once, and dense and CSR input give the same bits.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmbsgd._compile import kernel
from mmbsgd.errors import InputError
from mmbsgd.lanes import item

LARGEST_VALUE = 1e15


class Rows(NamedTuple):
    values: NDArray[np.float32]  # (n * width,) dense, (non-zeros,) CSR
    features: NDArray[np.int32]  # (width,) dense, (non-zeros,) CSR
    starts: NDArray[np.int64]  # () dense, (n + 1,) CSR
    width: int  # d


class Span(NamedTuple):
    """Where one row lies: values[value : value + length], features[feature : feature + length]."""

    value: int
    feature: int
    length: int


def is_sparse(matrix: Any) -> bool:
    """Whether it is one of SciPy's CSR matrices, without SciPy: a deployed model may do without."""
    return hasattr(matrix, "indptr")


def rows_of(matrix: Any) -> Rows:
    """A view of a C-ordered dense or a canonical CSR float32 matrix.

    Values are never copied. 64-bit feature numbers, as scikit-learn's LIBSVM reader makes them, are narrowed: that is
    sooner done than compiling every kernel a second time.
    """
    if is_sparse(matrix):
        starts = matrix.indptr.astype(np.int64, copy=False)
        features = matrix.indices.astype(np.int32, copy=False)
        return Rows(_frozen(matrix.data), _frozen(features), _frozen(starts), matrix.shape[1])
    width = matrix.shape[1]
    features = np.arange(width, dtype=np.int32)
    return Rows(_frozen(matrix.reshape(-1)), _frozen(features), _frozen(np.empty(0, np.int64)), width)


def checked(matrix: Any) -> Any:
    """The same matrix, CSR with ascending features and none twice (a copy only where it is not so); values in range."""
    if is_sparse(matrix) and not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    values = matrix.data if is_sparse(matrix) else matrix
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))  # NaN if one is NaN
    if not largest <= LARGEST_VALUE:
        raise InputError(
            f"the largest value of X is {largest:.3g}; only numbers up to {LARGEST_VALUE:.0e} have distances that "
            "float32 can hold: scale the data first, for example with sklearn.preprocessing.MinMaxScaler"
        )
    return matrix


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    # Read-only arrays are another type to Numba: data mapped from disk or shared memory is read-only, so that all is.
    view = array.view()
    view.flags.writeable = False
    return view


@kernel
def span(rows: Rows, row: int) -> Span:
    if rows.starts.shape[0] == 0:
        return Span(row * rows.width, 0, rows.width)
    start = item(rows.starts, row)
    return Span(start, start, item(rows.starts, row + 1) - start)


@kernel
def squared_norm(rows: Rows, row: Span) -> np.float32:
    # One fused sum in feature order, as the margins take it: a row's distance to itself is then exactly zero.
    norm = np.float32(0.0)
    for k in range(row.length):
        value = item(rows.values, row.value + k)
        norm = np.float32(value * value + norm)
    return norm


@kernel
def moments(values: NDArray[np.float32]) -> tuple[float, float]:
    """Sum and sum of squares, term after term: the zeros of a dense matrix change neither's bits."""
    total = squares = 0.0
    for i in range(values.shape[0]):
        value = np.float64(item(values, i))  # float() would leave it float32 once compiled
        total += value
        squares += value * value
    return total, squares
