"""LIBSVM text: `label index:value index:value …`, indices from 1 and ascending.

Arrow's CSV reader does the reading. A chunk becomes a table of two columns, index and value, by giving every label the
index 0 and every pair a line of its own: `+1 3:0.5` turns into `0:01`, `3:0.5`. It reads several times faster than
scikit-learn's loader and without Python's lock. Whatever it does not take at once (comments, blank lines, query ids,
mistakes) goes to scikit-learn's loader, which decides, and whose refusal is traced to the line.
"""

import io
import re
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv
from scipy.sparse import csr_array

from workflows.data.labelled import LabelledRows, first_unusable, plain_label, usable, why_unusable
from workflows.data.text import TextChunk
from workflows.data.views import joined
from workflows.errors import DataError

_SPACES = bytes.maketrans(b"\t\r\v\f", b"    ")
_COMMENT = re.compile(rb"[ \t]*#[^\n]*")
_PAIRS = {
    "parse_options": csv.ParseOptions(delimiter=":", quote_char=False),
    "convert_options": csv.ConvertOptions(column_types={"index": pa.int32(), "value": pa.float64()}, null_values=[]),
}


def parse(chunk: TextChunk, dtype: Any = np.float32, *, width: int | None = None) -> LabelledRows:
    """The rows of a chunk as CSR. width: of a model that is asked about them, which does without labels."""
    matrix, labels = _by_arrow(chunk.data) or _by_scikit_learn(chunk)
    with np.errstate(over="ignore"):
        values = matrix.data.astype(dtype, copy=False)
    if not usable(values):
        entry = first_unusable(values)
        row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        where = f"{chunk.name}, line {_line_of(chunk, row)}, feature {matrix.indices[entry] + 1}"
        raise DataError(f"{where}: {why_unusable(float(matrix.data[entry]))}")
    if width is not None and matrix.shape[1] > width:
        entry = int(np.flatnonzero(matrix.indices >= width)[0])
        row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        raise DataError(
            f"{chunk.name}, line {_line_of(chunk, row)}: feature {matrix.indices[entry] + 1}, and the model takes "
            f"{width}: do they belong together?"
        )
    known = np.isfinite(labels)
    if width is None and not known.all():
        row = int(np.flatnonzero(~known)[0])
        raise DataError(f"{chunk.name}, line {_line_of(chunk, row)}: the label is {labels[row]}")
    codes = np.full(len(labels), -1, np.intp)
    classes, codes[known] = np.unique(labels[known], return_inverse=True)
    kept = _csr(values, matrix.indices, matrix.indptr, width)
    if np.count_nonzero(values) < len(values):
        kept.eliminate_zeros()
    return LabelledRows(kept, codes, tuple(plain_label(value) for value in classes))


def _by_arrow(data: bytes) -> tuple[csr_array, NDArray[np.float64]] | None:
    """None: not plain enough."""
    text, lines = _as_pairs(data)
    options = csv.ReadOptions(column_names=["index", "value"], block_size=1 << 22, use_threads=False)
    try:
        table = csv.read_csv(pa.BufferReader(text), read_options=options, **_PAIRS)
    except pa.ArrowException:
        return None
    index, value = joined(table["index"]), joined(table["value"])
    pairs = index != 0
    heads = np.flatnonzero(~pairs)
    ascending = index[1:] > index[:-1]
    ascending[heads[1:] - 1] = True
    if len(heads) != lines or index.min() < 0 or not ascending.all():
        return None
    indices = index[pairs] - 1
    starts = np.append(heads - np.arange(lines), len(indices)).astype(np.int32)
    return _csr(value[pairs], indices, starts), value[heads]


def _as_pairs(data: bytes) -> tuple[bytes | bytearray, int]:
    """The two columns as text, empty if something in it is not plain, and the number of lines it came from."""
    if b"x" in data or b"X" in data:  # hexadecimal indices, which Arrow would take
        return b"", 0
    if b"#" in data:
        data = _COMMENT.sub(b"", data)
    if any(space in data for space in (b"\t", b"\r", b"\v", b"\f")):
        data = data.translate(_SPACES)
    text = bytearray(b"\n")
    text += data.rstrip(b"\n ")
    text += b"\n"
    letters = np.frombuffer(text, np.uint8)
    begins = np.flatnonzero(letters[:-1] == ord("\n")) + 1
    signs = begins[letters[begins] == ord("+")]
    # Arrow reads no leading plus: it becomes a zero, in place, where a number follows.
    first, second = letters[signs + 1], letters[np.minimum(signs + 2, len(letters) - 1)]
    if not (_digits(first) | ((first == ord(".")) & _digits(second))).all():
        return b"", 0
    letters[signs] = ord("0")
    del letters
    return b"0:" + text[1:].replace(b"\n", b"\n0:", len(begins) - 1).replace(b" ", b"\n"), len(begins)


def _digits(letters: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return (letters >= ord("0")) & (letters <= ord("9"))


def _by_scikit_learn(chunk: TextChunk) -> tuple[csr_array, NDArray[np.float64]]:
    try:
        matrix, labels = _load(chunk.data)
    except (ValueError, OverflowError):
        raise _mistake(chunk) from None
    return _csr(matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)), labels


def _mistake(chunk: TextChunk) -> DataError:
    """The first line that scikit-learn's loader refuses, by halving."""
    lines = [line + b"\n" for line in chunk.data.split(b"\n")]
    good, bad = 0, len(lines)  # the first `good` lines load, the first `bad` do not
    while bad - good > 1:
        middle = (good + bad) // 2
        if _refusal(b"".join(lines[good:middle])) is None:
            good = middle
        else:
            bad = middle
    shown = lines[good].decode(errors="replace").strip()
    shown = shown if len(shown) <= 80 else shown[:80] + "…"
    reason = _explained(_refusal(lines[good]) or "")
    return DataError(f"{chunk.name}, line {chunk.first_line + good}: {reason}: {shown!r}")


def _csr(
    values: NDArray[np.float64], indices: NDArray[np.int32], starts: NDArray[np.int32], width: int | None = None
) -> csr_array:
    wide = int(indices.max(initial=-1)) + 1 if width is None else width
    return csr_array((values, indices, starts), shape=(len(starts) - 1, wide))


def _load(data: bytes) -> tuple[Any, NDArray[np.float64]]:
    from sklearn.datasets import load_svmlight_file  # a second of imports, seldom needed

    return load_svmlight_file(io.BytesIO(data), zero_based=False)  # type: ignore[no-any-return]


def _refusal(data: bytes) -> str | None:
    try:
        _load(data)
    except (ValueError, OverflowError) as error:
        return str(error)
    return None


def _explained(refusal: str) -> str:
    if "Invalid index" in refusal:
        return "feature indices start at 1"
    if "sorted and unique" in refusal:
        return "feature indices must ascend, and none may come twice"
    if "too large" in refusal or "overflow" in refusal:
        return "a feature index is too large"
    return "not 'label index:value index:value …' (for a table say --format csv)"


def _line_of(chunk: TextChunk, row: int) -> int:
    """The line of a row: blank lines and comments are none."""
    lines = enumerate(chunk.data.split(b"\n"))
    rows = [number for number, line in lines if line.partition(b"#")[0].strip()]
    return chunk.first_line + rows[row]
