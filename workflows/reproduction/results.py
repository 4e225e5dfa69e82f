"""What an experiment measured, as one Parquet file: a row for each trial, and where and when it was run."""

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from workflows.errors import DataError, one_line
from workflows.reproduction.lab import Row

FACTS = b"mmbsgd.reproduction"


@dataclass(frozen=True)
class Results:
    rows: list[Row]
    facts: dict[str, str]
    """Size, machine, versions, day."""


@dataclass(frozen=True)
class Mean:
    value: float
    deviation: float
    """Standard deviation over the runs; 0 for a single one."""
    count: int

    @property
    def error(self) -> float:
        """Of the mean itself."""
        return self.deviation / math.sqrt(self.count)


def write(folder: Path, name: str, results: Results) -> None:
    """Aside first: a file that is there is whole."""
    names = list(dict.fromkeys(key for row in results.rows for key in row))
    table = pa.Table.from_pylist([{key: row.get(key) for key in names} for row in results.rows])
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.parquet"
    aside = target.with_suffix(".part")
    try:
        pq.write_table(table.replace_schema_metadata({FACTS: json.dumps(results.facts)}), aside, compression="zstd")
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


def read(folder: Path, name: str) -> Results | None:
    """None: not measured yet."""
    path = folder / f"{name}.parquet"
    if not path.is_file():
        return None
    try:
        table = pq.read_table(path)
        facts = json.loads((table.schema.metadata or {})[FACTS])
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        said = f"{path} is not what 'mmbsgd reproduce' wrote: {one_line(error)}"
        raise DataError(f"{said}; delete it and run 'mmbsgd reproduce {name}' again") from None
    rows = [{key: value for key, value in row.items() if value is not None} for row in table.to_pylist()]
    return Results(rows, facts)


def only(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Those that have these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def values(rows: Iterable[Row], name: str) -> list[Any]:
    """The different ones, in rising order."""
    return sorted({row[name] for row in rows if name in row})


def grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """By their values of these names, in the order of their first rows."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in names), []).append(row)
    return groups


def level(one: Mean, other: Mean) -> bool:
    """Whether they differ by no more than two standard errors."""
    return abs(one.value - other.value) <= 2 * error_of(one, other)


def error_of(*means: Mean) -> float:
    """The standard error of a difference of means."""
    return float(sum(one.error**2 for one in means) ** 0.5)


def mean(rows: Sequence[Row], name: str) -> Mean:
    return mean_of([row[name] for row in rows])


def mean_of(numbers: Sequence[float]) -> Mean:
    """Of those that have a value."""
    known = [number for number in numbers if math.isfinite(number)]
    if not known:
        return Mean(math.nan, math.nan, 1)
    deviation = statistics.stdev(known) if len(known) > 1 else 0.0
    return Mean(statistics.fmean(known), deviation, len(known))
