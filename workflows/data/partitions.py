"""A partition: one Arrow IPC file of shuffled rows, read as views of its mapped memory.

label   dictionary<int8 → the user's own two labels>
row     dense:  fixed_size_list<float32>[d]
        sparse: list<struct<feature: int32, value: float32>>, whose offsets and children are CSR's three arrays
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from mmbsgd.rows import LARGEST_VALUE, Rows, rows_of
from workflows.data.labelled import Label, usable
from workflows.data.places import Place
from workflows.data.views import view
from workflows.errors import DataError

MOST_NONZEROS = 2**31 - 1


class Written(NamedTuple):
    bytes: int
    fingerprint: str


def write(target: Place, matrix: Any, codes: NDArray[np.int8], labels: tuple[Label, Label]) -> Written:
    """codes: 0 or 1 per row, positions in `labels`."""
    batch = pa.record_batch(
        [pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(_alike(labels))), _as_arrow(matrix)],
        names=["label", "row"],
    )
    with target.writer() as stream:
        sink = _Fingerprinting(stream)
        with pa.ipc.new_file(pa.PythonFile(sink, mode="w"), batch.schema) as writer:
            writer.write_batch(batch)
    return Written(sink.written, f"xxh3:{sink.digest.hexdigest()}")


class _Fingerprinting:
    """Passes on what is written and takes its fingerprint on the way, so that no second copy is in memory."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.digest = xxhash.xxh3_128()
        self.written = 0

    def write(self, data: Any) -> None:
        self._stream.write(data)
        self.digest.update(data)
        self.written += len(data)

    def tell(self) -> int:
        return self.written

    def flush(self) -> None:
        pass  # closing the stream below does

    def close(self) -> None:
        pass


def fingerprint(data: pa.Buffer | bytes) -> str:
    """Fast enough to check every partition that is read: a damaged one never reaches the solver."""
    return f"xxh3:{xxhash.xxh3_128_hexdigest(data)}"


@dataclass(frozen=True, eq=False)
class Partition:
    """The rows of one partition, read-only."""

    matrix: Any  # dense float32, or CSR of float32 with int32 indices; views, not copies
    codes: NDArray[np.int8]  # 0 or 1: the position of each row's label
    labels: tuple[Label, Label]

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def rows(self) -> Rows:
        return rows_of(self.matrix)

    @cached_property
    def signs(self) -> NDArray[np.float32]:
        """-1 and 1, as the solver takes labels."""
        return self.codes.astype(np.float32) * 2 - 1


def read(source: Place, expected: Written, width: int, labels: tuple[Label, Label], *, check: bool = True) -> Partition:
    """Maps the file; with `check` its content is compared with the fingerprint first."""
    data = source.buffer()
    damaged = f"partition {source.name} is damaged"
    if data.size != expected.bytes:
        raise DataError(f"{damaged}: {data.size:,} bytes instead of {expected.bytes:,}; prepare the data again")
    if check and fingerprint(data) != expected.fingerprint:
        raise DataError(f"{damaged}: its content does not match its fingerprint; prepare the data again")
    try:
        batch = pa.ipc.open_file(pa.BufferReader(data)).get_batch(0)
        if check:
            batch.validate(full=True)
        matrix = _as_matrix(batch.column("row"), width)
        codes = view(batch.column("label").indices)
    except (pa.ArrowException, KeyError, ValueError, TypeError, AttributeError, OSError) as error:
        raise DataError(f"{damaged}: {error}; prepare the data again") from None
    if check and not _sound(matrix, codes, width):
        raise DataError(f"{damaged}: features or labels are out of range; prepare the data again")
    return Partition(matrix, codes, labels)


def _as_arrow(matrix: Any) -> pa.Array:
    if not issparse(matrix):
        return pa.FixedSizeListArray.from_arrays(pa.array(matrix.reshape(-1)), matrix.shape[1])
    if matrix.nnz > MOST_NONZEROS:
        raise DataError(f"{matrix.nnz:,} non-zeros in one partition: ask for fewer --rows-per-partition")
    entries = pa.StructArray.from_arrays(
        [pa.array(matrix.indices.astype(np.int32, copy=False)), pa.array(matrix.data)], names=["feature", "value"]
    )
    return pa.ListArray.from_arrays(pa.array(matrix.indptr.astype(np.int32, copy=False)), entries)


def _as_matrix(column: pa.Array, width: int) -> Any:
    if pa.types.is_fixed_size_list(column.type):
        return view(column.values).reshape(len(column), column.type.list_size)
    entries = column.values
    parts = (view(entries.field("value")), view(entries.field("feature")), view(column.offsets))
    matrix = csr_array(parts, shape=(len(column), width))
    matrix.has_canonical_format = True
    return matrix


def _sound(matrix: Any, codes: NDArray[np.int8], width: int) -> bool:
    """Whether the solver can take it: a fingerprint says that a file is as it was written, not who wrote it."""
    if matrix.shape[1] != width or matrix.dtype != np.float32:
        return False
    if codes.size and not 0 <= codes.min() <= codes.max() <= 1:
        return False
    if not issparse(matrix):
        return _in_range(matrix.reshape(-1))
    features = matrix.indices
    ascending = features[1:] > features[:-1]
    firsts = matrix.indptr[1:-1]
    ascending[firsts[(firsts > 0) & (firsts < len(features))] - 1] = True
    if not ascending.all() or (features.size and (features.min() < 0 or features.max() >= width)):
        return False
    return _in_range(matrix.data)


def _in_range(values: NDArray[np.float32]) -> bool:
    # No value can be too large where the sum of squares is not: one pass, which hardly ever needs a second look.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.dot(values, values) <= LARGEST_VALUE**2) or usable(values)


def _alike(labels: tuple[Label, Label]) -> list[Label]:
    """Labels that one Arrow type can hold."""
    return list(labels) if len({type(label) for label in labels}) == 1 else [str(label) for label in labels]
