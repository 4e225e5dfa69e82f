"""Parquet, a file or a folder of files, read by pyarrow a batch at a time, however large the row groups are."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from workflows.data.labelled import LabelledRows, listed
from workflows.data.places import Place
from workflows.data.tables import PARQUET_ENDINGS, Choice, Columns, labelled
from workflows.errors import DataError

BATCH_BYTES = 8 << 20
# Columns are read piece by piece: pyarrow would otherwise hold whole row groups.
_STREAMED = {"pre_buffer": False, "buffer_size": 1 << 16, "page_checksum_verification": True}


@dataclass(frozen=True)
class ParquetTask:
    """One row group of one file."""

    file: Place
    group: int
    columns: Columns
    first_row: int
    bytes: int
    keys: dict[str, Any] = field(default_factory=dict)
    """Columns that the names of folders give, such as `year=2026`."""


def tasks(source: Place, choose: Choice) -> list[ParquetTask]:
    """Every row group of a file, or of all files in a folder, which must have the same columns."""
    files = (
        [source]
        if source.is_file()
        else [file for file in source.files() if file.path.lower().endswith(PARQUET_ENDINGS)]
    )
    if not files:
        raise DataError(f"no .parquet file in {source.name}")
    found: list[ParquetTask] = []
    first: Columns | None = None
    for file in files:
        keys = _keys(source, file)
        try:
            with file.reader() as stream, pq.ParquetFile(stream) as parquet:
                names = [*parquet.schema_arrow.names, *keys]
                groups = [parquet.metadata.row_group(number) for number in range(parquet.metadata.num_row_groups)]
                sizes = [(group.num_rows, group.total_byte_size) for group in groups]
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataError(f"{file.name} is not readable Parquet: {_one_line(error)}") from None
        columns = choose(names, source.name if first is None else file.name)
        first = first or columns
        if missing := set(columns.features) ^ set(first.features):
            raise DataError(
                f"{file.name} and {files[0].name} differ in the columns {listed(sorted(missing))}: all files of a "
                "folder need the same, or leave them out: --drop COLUMN"
            )
        columns = Columns(columns.names, columns.label, first.features)
        row = 0
        for number, (rows, size) in enumerate(sizes):
            found.append(ParquetTask(file, number, columns, row, size, keys))
            row += rows
    return found


def parse(task: ParquetTask, dtype: Any = np.float32, *, needed: bool = True) -> Iterator[LabelledRows]:
    """needed: every row must have a label."""
    columns = task.columns
    labels = [] if columns.label is None else [columns.label]
    wanted = [name for name in (*labels, *columns.features) if name not in task.keys]
    size = max(BATCH_BYTES // (8 * (len(columns.features) + 1)), 1024)
    row = task.first_row
    try:
        with task.file.reader() as stream, pq.ParquetFile(stream, **_STREAMED) as parquet:
            for batch in parquet.iter_batches(size, row_groups=[task.group], columns=wanted, use_threads=False):
                if len(batch):
                    table = pa.table(batch)
                    for name, value in task.keys.items():
                        table = table.append_column(name, pa.repeat(value, len(batch)))
                    yield labelled(table, columns, dtype, partial(_row_of, task.file.name, row), needed=needed)
                row += len(batch)
    except (pa.ArrowException, OSError) as error:
        name = task.file.name
        raise DataError(f"{name}, after row {row}: {_one_line(error)}; the file may be damaged") from None


def _keys(source: Place, file: Place) -> dict[str, Any]:
    folder = file.path[len(source.path) :].rpartition("/")[0]
    if "=" not in folder:
        return {}
    import pyarrow.dataset as ds  # takes half a second, and only such folders need it

    hive = ds.HivePartitioning.discover(infer_dictionary=False)
    factory = ds.FileSystemDatasetFactory(
        file.filesystem,
        [file.path],
        ds.ParquetFileFormat(),
        ds.FileSystemFactoryOptions(partitioning=hive, partition_base_dir=source.path),
    )
    fragment = next(iter(factory.finish().get_fragments()))
    return dict(ds.get_partition_keys(fragment.partition_expression))


def _row_of(name: str, first: int, row: int) -> str:
    return f"{name}, row {first + row + 1}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
