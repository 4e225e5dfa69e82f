"""Parquet, a file or a folder of files, read by pyarrow one row group at a time."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from workflows.data.labelled import LabelledRows
from workflows.data.places import Place
from workflows.data.tables import Columns, labelled
from workflows.errors import DataError

BATCH_BYTES = 16 << 20
ENDINGS = (".parquet", ".pq")


@dataclass(frozen=True)
class ParquetTask:
    """One row group of one file."""

    name: str
    fragment: Any
    schema: Any
    columns: Columns
    first_row: int
    bytes: int


def dataset(source: Place) -> Any:
    """A file or a folder of files, with columns from folder names such as `year=2026`."""
    whole = source.is_file()
    chosen = [source] if whole else [file for file in source.files() if file.path.lower().endswith(ENDINGS)]
    if not chosen:
        raise DataError(f"no .parquet file in {source.name}")
    open_as = partial(
        ds.dataset,
        [file.path for file in chosen],
        format=ds.ParquetFileFormat(
            default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
        ),
        filesystem=source.filesystem,
        partitioning="hive",
        partition_base_dir=source.path.rpartition("/")[0] if whole else source.path,
    )
    try:
        found = open_as()
        return found if whole else open_as(schema=_promoted(found))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _unreadable(source.name, error) from None


def _promoted(found: Any) -> pa.Schema:
    """The first file's columns, with types that hold the numbers of all files: 1 in one and 1.5 in another."""
    schema = found.schema
    for fragment in found.get_fragments():
        physical = fragment.physical_schema
        shared = pa.schema([physical.field(name) for name in physical.names if name in schema.names])
        with suppress(pa.ArrowException):  # types that do not go together are found when that file is read
            schema = pa.unify_schemas([schema, shared], promote_options="permissive")
    return schema


def names(source: Place, found: Any) -> list[str]:
    try:
        return list(found.schema.names)
    except UnicodeDecodeError as error:
        raise _unreadable(source.name, error) from None


def tasks(source: Place, found: Any, columns: Columns) -> Iterator[ParquetTask]:
    for fragment in found.get_fragments():
        name, row = source.name if source.is_file() else fragment.path, 0
        try:
            pieces = fragment.split_by_row_group()
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(name, error) from None
        for piece in pieces:
            groups = piece.row_groups
            yield ParquetTask(name, piece, found.schema, columns, row, sum(group.total_byte_size for group in groups))
            row += sum(group.num_rows for group in groups)


def parse(task: ParquetTask, dtype: Any = np.float32) -> Iterator[LabelledRows]:
    columns = task.columns
    wanted = [columns.label, *columns.features]
    size = max(BATCH_BYTES // (8 * len(wanted)), 1024)
    row = task.first_row
    try:
        for batch in task.fragment.to_batches(
            schema=task.schema, columns=wanted, batch_size=size, batch_readahead=1, fragment_readahead=0
        ):
            if len(batch):
                yield labelled(pa.table(batch), columns, dtype, partial(_row_of, task.name, row))
            row += len(batch)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{task.name}, after row {row}: {_one_line(error)}; the file may be damaged") from None


def _row_of(name: str, first: int, row: int) -> str:
    return f"{name}, row {first + row + 1}"


def _unreadable(name: str, error: BaseException) -> DataError:
    return DataError(f"{name} is not readable Parquet: {_one_line(error)}")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
