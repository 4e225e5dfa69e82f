"""CSV and TSV with a header, read by pyarrow; what it refuses is traced to line and column."""

import csv as python_csv
import io
import re
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from workflows.data.labelled import LabelledRows
from workflows.data.tables import Columns, labelled, not_a_number
from workflows.data.text import TextChunk
from workflows.errors import DataError

_BLOCK = 1 << 20  # what Arrow parses at a time: measured, larger ones leave the cache
_LAST, _LAST_NUMBER = "\x1athe last row\x1a", -1.7976931348623157e308


@dataclass(frozen=True)
class CsvFormat:
    columns: Columns
    delimiter: str


def header(chunk: TextChunk, delimiter: str | None) -> tuple[tuple[str, ...], str, TextChunk]:
    """The names in the first line, the delimiter, and the chunk without that line."""
    ending = re.search(rb"\r\n|\r|\n", chunk.data)
    end = ending.end() if ending else len(chunk.data)
    line = chunk.data[:end].rstrip(b"\r\n") + b"\n"
    if delimiter is None:
        bare = re.sub(rb'"[^"]*"', b"", line)
        delimiter = max(",;\t", key=lambda letter: bare.count(letter.encode()))
    try:
        table = csv.read_csv(
            pa.BufferReader(line),
            read_options=csv.ReadOptions(block_size=len(line) + 1),
            parse_options=csv.ParseOptions(delimiter=delimiter),
        )
        names = tuple(table.column_names)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else " ".join(str(error).split())
        raise DataError(f"{chunk.name}, line 1: no header with the names of the columns ({reason})") from None
    lines = chunk.data.count(b"\n", 0, end)
    return names, delimiter, TextChunk(chunk.name, chunk.first_line + lines, chunk.data[end:], chunk.position)


def parse(chunk: TextChunk, layout: CsvFormat, dtype: Any = np.float32, *, needed: bool = True) -> LabelledRows:
    """needed: every row must have a label."""
    columns = layout.columns
    types = dict.fromkeys(columns.features, pa.float64()) | dict.fromkeys(_labels(columns), pa.string())
    try:
        table = _read(chunk, layout, types)
    except pa.ArrowException as error:
        raise _mistake(chunk, layout, str(error)) from None

    def where(row: int) -> str:
        return f"{chunk.name}, line {_line_of(chunk, layout, row)}"

    return labelled(table, columns, dtype, where, needed=needed)


def _labels(columns: Columns) -> list[str]:
    return [] if columns.label is None else [columns.label]


def _read(chunk: TextChunk, layout: CsvFormat, types: dict[str, pa.DataType]) -> pa.Table:
    data = chunk.data
    quoted = b'"' in data  # looking for line breaks between quotation marks costs a fifth of the reading
    if not (quoted and data.count(b'"') % 2):
        return _parse(data, layout, types, quoted)
    # An odd number of marks: one of them is a letter like others (5" pipe), or one is never closed and swallows all
    # that follows. A last row of our own tells.
    columns = layout.columns
    mark, telling = (_LAST, columns.label) if columns.label is not None else (repr(_LAST_NUMBER), columns.features[0])
    last = layout.delimiter.join(mark if name == telling else "0" for name in columns.names)
    ended = data if data.endswith((b"\n", b"\r")) else data + b"\n"
    table = _parse(ended + last.encode() + b"\n", layout, types, quoted)
    if len(table) == 0 or table[telling][-1].as_py() not in (mark, mark.encode(), _LAST_NUMBER):
        raise pa.ArrowInvalid("a quotation mark is opened and never closed")
    return table[:-1]


def _parse(
    data: bytes, layout: CsvFormat, types: dict[str, pa.DataType], quoted: bool, block: int = _BLOCK
) -> pa.Table:
    try:
        return csv.read_csv(
            pa.BufferReader(data),
            read_options=csv.ReadOptions(column_names=layout.columns.names, block_size=block, use_threads=False),
            parse_options=csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=quoted),
            convert_options=csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[]),
        )
    except pa.ArrowInvalid as error:
        if "straddling" not in str(error) or block > len(data):
            raise
        return _parse(data, layout, types, quoted, len(data) + 1)  # a row longer than a block


def _mistake(chunk: TextChunk, layout: CsvFormat, reason: str) -> DataError:
    """Reads everything as it stands to find the line and the column that are wrong."""
    columns = layout.columns
    try:
        table = _read(chunk, layout, dict.fromkeys((*columns.features, *_labels(columns)), pa.binary()))
    except pa.ArrowException as error:
        return _broken_line(chunk, layout, " ".join(str(error).split()))
    found = [(_first_failure(table[name], pa.float64()), name) for name in columns.features]
    found += [(_first_failure(table[name], pa.string()), name) for name in _labels(columns)]
    failures = [(row, name) for row, name in found if row is not None]
    if not failures:
        return _broken_line(chunk, layout, " ".join(reason.split()))
    row, name = min(failures)
    where, value = f"{chunk.name}, line {_line_of(chunk, layout, row)}", table[name][row].as_py()
    try:
        return not_a_number(where, name, value.decode())
    except UnicodeDecodeError:
        return DataError(f"{where}, column {name!r}: {value[:60]!r} is not UTF-8 text: save the file as UTF-8")


def _broken_line(chunk: TextChunk, layout: CsvFormat, reason: str) -> DataError:
    wide = len(layout.columns.names)
    for number, line in enumerate(chunk.data.split(b"\n")):
        if line.strip() and b'"' not in line and line.count(layout.delimiter.encode()) != wide - 1:
            values = line.count(layout.delimiter.encode()) + 1
            return DataError(
                f"{chunk.name}, line {chunk.first_line + number}: {values} values where the header names {wide} columns"
            )
    last = chunk.first_line + chunk.data.rstrip(b"\n").count(b"\n")
    return DataError(f"{chunk.name}, between lines {chunk.first_line} and {last}: {reason}")


def _line_of(chunk: TextChunk, layout: CsvFormat, row: int) -> int:
    """The line that a row begins on: blank lines are no rows, and a quoted line break ends none."""
    reader = python_csv.reader(io.StringIO(chunk.data.decode(errors="replace"), newline=""), delimiter=layout.delimiter)
    begins, before = [], 0
    for record in islice(reader, None):
        if record:
            begins.append(before + 1)
        before = reader.line_num
        if len(begins) > row:
            break
    return chunk.first_line + begins[min(row, len(begins) - 1)] - 1


def _first_failure(column: pa.ChunkedArray, kind: pa.DataType) -> int | None:
    """The first row that cannot be read as this type, by halving."""
    if _readable(column, kind):
        return None
    begin, end = 0, len(column)
    while end - begin > 1:
        middle = (begin + end) // 2
        begin, end = (middle, end) if _readable(column[begin:middle], kind) else (begin, middle)
    return begin


def _readable(column: pa.ChunkedArray, kind: pa.DataType) -> bool:
    try:
        text = pc.cast(column, pa.string())
        if kind != pa.string():
            pc.cast(pc.utf8_trim(text, " \t"), kind)
    except pa.ArrowException:
        return False
    return True
