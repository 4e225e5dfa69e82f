"""Sources: what a user has, as a stream of tasks that each read some of its rows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, get_args

import numpy as np

from workflows.data import csv_files, libsvm, tables, text
from workflows.data.demo import checkerboard
from workflows.data.labelled import LabelledRows
from workflows.data.manifest import SourceRecord
from workflows.data.places import Place, place
from workflows.errors import DataError

Kind = Literal["libsvm", "csv", "tsv", "parquet", "demo"]
KINDS: tuple[Kind, ...] = get_args(Kind)
DEMO = "demo"
DEMO_ROWS = 100_000
DEMO_CHUNK = 1 << 18
_COMPRESSED = (".gz", ".bz2", ".xz")


@dataclass(frozen=True)
class DemoTask:
    rows: int
    seed: int
    number: int


class TableTask(Protocol):
    """A row group of a Parquet file. Its module takes half a second to import: only who reads Parquet waits for it."""

    @property
    def bytes(self) -> int: ...


Task = text.TextChunk | DemoTask | TableTask


@dataclass(frozen=True)
class Source:
    """One input. `tasks` may be walked once; `read` runs anywhere."""

    record: SourceRecord
    tasks: Iterable[Task]
    columns: tables.Columns | None = None  # of a table
    delimiter: str = ","
    inputs: tables.Inputs | None = None  # of a model that is asked about the rows

    def read(self, task: Task, dtype: Any) -> Iterator[LabelledRows]:
        return read(task, self.columns, self.delimiter, dtype, self.inputs)


def read(
    task: Task, columns: tables.Columns | None, delimiter: str, dtype: Any, inputs: tables.Inputs | None = None
) -> Iterator[LabelledRows]:
    needed = inputs is None
    if isinstance(task, DemoTask):
        points, labels = checkerboard(task.rows, np.random.SeedSequence([task.seed, task.number]))
        yield LabelledRows(points.astype(dtype, copy=False), (labels > 0).astype(np.intp), (-1, 1))
    elif not isinstance(task, text.TextChunk):
        from workflows.data import parquet_files

        yield from parquet_files.parse(task, dtype, needed=needed)  # type: ignore[arg-type]
    elif columns is not None:
        yield csv_files.parse(task, csv_files.CsvFormat(columns, delimiter), dtype, needed=needed)
    else:
        yield libsvm.parse(task, dtype, width=None if inputs is None else inputs.width)


def position(task: Task, before: int) -> int:
    """How far reading has come after this task, in the unit of `SourceRecord.bytes`."""
    if isinstance(task, text.TextChunk):
        return task.position
    return before + (task.rows * 8 if isinstance(task, DemoTask) else task.bytes)


def open_source(
    name: str,
    *,
    kind: Kind | None = None,
    label: str | None = None,
    dropped: tuple[str, ...] = (),
    rows: int = DEMO_ROWS,
    seed: int = 0,
    like: tables.Columns | None = None,
    inputs: tables.Inputs | None = None,
) -> Source:
    """like: the columns of the training file, for a test file that goes with it; inputs: of a model to be asked."""
    if kind == DEMO or (kind is None and name == DEMO):
        numbers = range(-(-rows // DEMO_CHUNK))
        tasks = [DemoTask(min(DEMO_CHUNK, rows - number * DEMO_CHUNK), seed, number) for number in numbers]
        return Source(SourceRecord(name=DEMO, kind=DEMO, bytes=rows * 8), tasks, inputs=inputs)
    where = place(name)
    if not where.exists():
        raise DataError(f"{where.name} does not exist; 'demo' is generated data, 'mmbsgd data list' names known sets")
    kind = kind or kind_of(where)
    choose = partial(_choose, label=label, dropped=dropped, like=like, inputs=inputs)
    if kind == "parquet":
        return _parquet(where, choose, inputs)
    if not (where.is_file() or where.is_folder()):
        raise DataError(f"{where.name} is neither a file nor a folder: save what it gives to a file first")
    if not where.is_file():
        raise DataError(f"{where.name} is a folder; only Parquet is read from folders, other formats from files")
    if where.size() == 0:
        raise DataError(f"{where.name} is empty")
    record = SourceRecord(name=where.name, kind=kind, bytes=where.size())
    if kind in ("csv", "tsv"):
        return _csv(where, record, choose, inputs)
    if label is not None or dropped:
        raise DataError(
            f"{where.name} is read as LIBSVM text, which has no named columns: leave out --label and --drop, or say "
            "--format csv"
        )
    return Source(record, text.chunks(where, quoted=False), inputs=inputs)


def _choose(
    names: Sequence[str],
    source: str,
    *,
    label: str | None,
    dropped: tuple[str, ...],
    like: tables.Columns | None,
    inputs: tables.Inputs | None,
) -> tables.Columns:
    if inputs is not None:
        return tables.choose_for(inputs, names, label, dropped, source)
    columns = tables.choose(names, label, dropped, source)
    return columns if like is None else columns.sorted_as(like, source)


def kind_of(where: Place) -> Kind:
    name = where.base_name.lower()
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    if name.endswith(tables.PARQUET_ENDINGS) or where.is_folder():
        return "parquet"
    if where.is_file() and where.begins_with(b"PAR1"):
        return "parquet"
    return "csv" if name.endswith(".csv") else "tsv" if name.endswith((".tsv", ".tab")) else "libsvm"


def _csv(where: Place, record: SourceRecord, choose: tables.Choice, inputs: tables.Inputs | None) -> Source:
    stream = text.chunks(where, quoted=True)
    first = next(stream, None)
    if first is None:
        raise DataError(f"{where.name} is empty")
    names, delimiter, rest = csv_files.header(first, "\t" if record.kind == "tsv" else None)
    columns = choose(names, where.name)

    def all_chunks() -> Iterator[text.TextChunk]:
        if rest.data.strip():
            yield rest
        yield from stream

    return Source(record, all_chunks(), columns, delimiter, inputs)


def _parquet(where: Place, choose: tables.Choice, inputs: tables.Inputs | None) -> Source:
    from workflows.data import parquet_files

    tasks = parquet_files.tasks(where, choose)
    columns = tasks[0].columns if tasks else None
    record = SourceRecord(name=where.name, kind="parquet", bytes=sum(task.bytes for task in tasks))
    return Source(record, tasks, columns, inputs=inputs)
