"""Arrow arrays of numbers as NumPy views of the same memory.

pyarrow's own `to_numpy` imports pandas where it is installed, which takes longer than most of what is done here.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_TYPES = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.uint8(): np.uint8,
    pa.uint16(): np.uint16,
    pa.uint32(): np.uint32,
    pa.uint64(): np.uint64,
    pa.float16(): np.float16,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
}


def view(array: pa.Array) -> NDArray[Any]:
    """An array of numbers without nulls, read-only; no copy."""
    if array.type not in _TYPES or array.null_count:
        raise ValueError(f"{array.type} with {array.null_count} nulls is not an array of numbers")
    dtype: np.dtype[Any] = np.dtype(_TYPES[array.type])
    if len(array) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def joined(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column of numbers without nulls; a copy only where it comes in several chunks."""
    parts = [view(chunk) for chunk in column.chunks]
    return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, np.dtype(_TYPES[column.type]))])
