"""CSV, TSV and Parquet: tables with named columns, one of them the label, read by pyarrow."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray
from pyarrow import csv

from workflows.data.labelled import LabelledRows, first_unusable, listed, plain_label, usable, why_unusable
from workflows.data.places import Place
from workflows.data.text import TextChunk
from workflows.errors import DataError

BATCH_BYTES = 16 << 20
_BLOCK = 1 << 20  # what Arrow parses at a time: measured, larger ones leave the cache
MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}


@dataclass(frozen=True)
class Columns:
    """The columns of a file and what each is for."""

    names: tuple[str, ...]  # as they stand in the file
    label: str
    features: tuple[str, ...]  # in the order of the matrix

    def sorted_as(self, first: "Columns", name: str) -> "Columns":
        """The same columns in the order of another file, for a test file that goes with it."""
        missing = [column for column in first.features if column not in self.features]
        extra = [column for column in self.features if column not in first.features]
        if missing or extra:
            said = [f"lacks {listed(missing)}" if missing else "", f"has {listed(extra)} besides" if extra else ""]
            raise DataError(f"{name} {' and '.join(filter(None, said))}: training and test data need the same columns")
        return Columns(self.names, self.label, first.features)


def choose(names: Sequence[str], label: str | None, dropped: Sequence[str], source: str) -> Columns:
    """Which column is the label and which are features."""
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if list(names).count(name) > 1})
        raise DataError(f"{source} has more than one column {listed(twice)}: rename them")
    if label is None:
        if "label" not in names:
            raise DataError(f"which column of {source} is the label? say --label COLUMN; columns are: {_few(names)}")
        label = "label"
    for column in (label, *dropped):
        if column not in names:
            what = "label column" if column == label else "column to drop"
            raise DataError(f"{what} {column!r} not found in {source}; columns are: {_few(names)}")
    features = tuple(name for name in names if name != label and name not in dropped)
    if not features:
        raise DataError(f"{source} has no column besides the label {label!r} and what is dropped: no features are left")
    return Columns(tuple(names), label, features)


@dataclass(frozen=True)
class CsvFormat:
    columns: Columns
    delimiter: str


def csv_header(chunk: TextChunk, delimiter: str | None) -> tuple[tuple[str, ...], str, TextChunk]:
    """The names in the first line, the delimiter, and the chunk without that line."""
    line, _, rest = chunk.data.partition(b"\n")
    if delimiter is None:
        delimiter = max(",;\t", key=lambda letter: line.count(letter.encode()))
    try:
        table = csv.read_csv(pa.BufferReader(line + b"\n"), parse_options=csv.ParseOptions(delimiter=delimiter))
    except pa.ArrowException as error:
        raise DataError(f"{chunk.name}, line 1: no header with the names of the columns ({error})") from None
    return (
        tuple(table.column_names),
        delimiter,
        TextChunk(chunk.name, chunk.first_line + 1, rest, chunk.position),
    )


def parse_csv(chunk: TextChunk, layout: CsvFormat, dtype: Any = np.float32) -> LabelledRows:
    columns = layout.columns
    types = {name: pa.float64() for name in columns.features} | {columns.label: pa.string()}
    try:
        table = _read_csv(chunk, layout, types)
    except (pa.ArrowException, UnicodeDecodeError):
        raise _csv_mistake(chunk, layout) from None
    first = chunk.first_line
    return _labelled(table, columns, dtype, lambda row: f"{chunk.name}, line {first + row}")


def _read_csv(chunk: TextChunk, layout: CsvFormat, types: dict[str, pa.DataType]) -> pa.Table:
    quoted = b'"' in chunk.data  # looking for line breaks between quotation marks costs a fifth of the reading
    return csv.read_csv(
        pa.BufferReader(chunk.data),
        read_options=csv.ReadOptions(column_names=layout.columns.names, block_size=_BLOCK, use_threads=False),
        parse_options=csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=quoted),
        convert_options=csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[]),
    )


def _csv_mistake(chunk: TextChunk, layout: CsvFormat) -> DataError:
    """Reads everything as text to find the line and the column that are wrong."""
    try:
        table = _read_csv(chunk, layout, dict.fromkeys(layout.columns.features, pa.string()))
    except (pa.ArrowException, UnicodeDecodeError) as error:
        return _broken_line(chunk, layout, str(error))
    found = [(_first_failure(table[name]), name) for name in layout.columns.features]
    row, name = min((row, name) for row, name in found if row is not None)
    where = f"{chunk.name}, line {chunk.first_line + row}, column {name!r}"
    return _not_a_number(where, name, table[name][row].as_py())


def _broken_line(chunk: TextChunk, layout: CsvFormat, reason: str) -> DataError:
    wide = len(layout.columns.names)
    for number, line in enumerate(chunk.data.split(b"\n")):
        if line.strip() and b'"' not in line and line.count(layout.delimiter.encode()) != wide - 1:
            values = line.count(layout.delimiter.encode()) + 1
            return DataError(
                f"{chunk.name}, line {chunk.first_line + number}: {values} values where the header names {wide} columns"
            )
    last = chunk.first_line + chunk.data.count(b"\n")
    return DataError(f"{chunk.name}, between lines {chunk.first_line} and {last}: {reason}")


def _first_failure(column: pa.ChunkedArray) -> int | None:
    """The first row that is no number, by halving."""
    if _is_numeric(column):
        return None
    begin, end = 0, len(column)
    while end - begin > 1:
        middle = (begin + end) // 2
        begin, end = (middle, end) if _is_numeric(column[begin:middle]) else (begin, middle)
    return begin


def _is_numeric(column: pa.ChunkedArray) -> bool:
    try:
        pc.cast(column, pa.float64())
    except pa.ArrowException:
        return False
    return True


def _not_a_number(where: str, name: str, value: Any) -> DataError:
    if str(value).strip().lower() in MISSING:
        return DataError(f"{where}: the value is missing ({value!r}): fill it, or leave the column out: --drop {name}")
    return DataError(
        f"{where}: {value!r} is text, not a number: encode the column as numbers, or leave it out: --drop {name}"
    )


@dataclass(frozen=True)
class ParquetTask:
    """One row group of one file."""

    name: str
    fragment: Any
    schema: Any
    columns: Columns
    first_row: int
    bytes: int


def parquet_dataset(source: Place) -> Any:
    """A file or a folder of files, with columns from folder names such as `year=2026`."""
    chosen = [source] if source.is_file() else [file for file in source.files() if file.path.endswith(".parquet")]
    if not chosen:
        raise DataError(f"no .parquet file in {source.name}")
    root = source.path if source.is_folder() else source.path.rpartition("/")[0]
    try:
        return ds.dataset(
            [file.path for file in chosen],
            format="parquet",
            filesystem=source.filesystem,
            partitioning="hive",
            partition_base_dir=root,
        )
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{source.name} is not readable Parquet: {_one_line(error)}; get it again") from None


def parquet_tasks(source: Place, dataset: Any, columns: Columns) -> Iterator[ParquetTask]:
    for fragment in dataset.get_fragments():
        name, row = source.name if source.is_file() else fragment.path, 0
        try:
            pieces = fragment.split_by_row_group()
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{name} is not readable Parquet: {_one_line(error)}; get it again") from None
        for piece in pieces:
            groups = piece.row_groups
            yield ParquetTask(name, piece, dataset.schema, columns, row, sum(group.total_byte_size for group in groups))
            row += sum(group.num_rows for group in groups)


def parse_parquet(task: ParquetTask, dtype: Any = np.float32) -> Iterator[LabelledRows]:
    columns = task.columns
    wanted = [columns.label, *columns.features]
    size = max(BATCH_BYTES // (8 * len(wanted)), 1024)
    row = task.first_row
    try:
        for batch in task.fragment.to_batches(
            schema=task.schema, columns=wanted, batch_size=size, batch_readahead=1, fragment_readahead=0
        ):
            start = row
            if len(batch):
                yield _labelled(
                    pa.table(batch), columns, dtype, lambda at, start=start: f"{task.name}, row {start + at + 1}"
                )
            row += len(batch)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{task.name}, after row {row}: {_one_line(error)}; the file may be damaged") from None


def _labelled(table: pa.Table, columns: Columns, dtype: Any, where: Any) -> LabelledRows:
    matrix = np.empty((len(table), len(columns.features)), dtype)
    with np.errstate(over="ignore"):
        for position, name in enumerate(columns.features):
            matrix[:, position] = _numbers(table[name], name, where)
    if not usable(matrix):
        row, position = divmod(first_unusable(matrix), matrix.shape[1])
        name = columns.features[position]
        value = float(table[name][row].as_py())
        raise DataError(f"{where(row)}, column {name!r}: {why_unusable(value)}, or leave the column out: --drop {name}")
    codes, classes = _codes(table[columns.label], columns.label, where)
    return LabelledRows(matrix, codes, classes)


def _numbers(column: pa.ChunkedArray, name: str, where: Any) -> NDArray[Any]:
    kind = column.type
    if column.null_count:
        row = int(np.flatnonzero(pc.is_null(column).to_numpy())[0])
        raise _not_a_number(f"{where(row)}, column {name!r}", name, None)
    if pa.types.is_boolean(kind):
        column = pc.cast(column, pa.uint8())
    elif pa.types.is_decimal(kind):
        column = pc.cast(column, pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise DataError(
            f"{where(0)}, column {name!r} holds {kind}, not numbers: encode it as numbers, or leave it out: "
            f"--drop {name}"
        )
    return column.to_numpy()  # type: ignore[no-any-return]


def _codes(column: pa.ChunkedArray, name: str, where: Any) -> tuple[NDArray[np.intp], tuple[Any, ...]]:
    encoded = pc.dictionary_encode(column).combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    values = encoded.dictionary.to_pylist()
    bad = [code for code, value in enumerate(values) if value is None or str(value).strip() in ("", "nan", "inf")]
    if encoded.null_count or bad:
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        row = int(np.flatnonzero(np.isin(codes, [-1, *bad]))[0])
        raise DataError(f"{where(row)}, label column {name!r}: the label is missing: fill it or remove the row")
    plain = [plain_label(value) for value in values]
    classes = tuple(dict.fromkeys(plain))
    remap = np.array([classes.index(label) for label in plain], np.intp)
    return remap[encoded.indices.to_numpy(zero_copy_only=False)], classes


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (", …" if len(names) > 20 else "")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
