"""A study as tables: all ended trials, and the front."""

import csv
import json
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from workflows.study.snapshot import Ended, Snapshot

MOMENT = pa.timestamp("us", tz="UTC")


def trials_table(snapshot: Snapshot) -> pa.Table:
    """One row per ended trial, in the order of their ends."""
    trials, names = snapshot.trials, snapshot.settings.names
    front = {member.number for member in snapshot.front}
    columns: dict[str, pa.Array] = {
        "number": _whole(trial.number for trial in trials),
        "state": pa.array([trial.state for trial in trials], pa.string()),
        "pareto": pa.array([trial.number in front for trial in trials], pa.bool_()),
    }
    columns |= _parameters([trial.parameters for trial in trials])
    for place, name in enumerate(names):
        columns[f"objective.{name}"] = _real(_at(trial.values, place) for trial in trials)
    columns["score"] = _real(trial.result.score for trial in trials)
    columns["spread"] = _real(trial.result.spread for trial in trials)
    for prefix, records in (
        ("cost", [trial.result.costs for trial in trials]),
        ("counter", [trial.result.counters for trial in trials]),
    ):
        for name in _names(records):
            columns[f"{prefix}.{name}"] = _real(record.get(name, math.nan) for record in records)
    columns |= {
        "seconds": _real(trial.result.seconds for trial in trials),
        "node": pa.array([trial.result.node for trial in trials], pa.string()),
        "attempt": _whole(trial.attempt for trial in trials),
        "origin": _whole(trial.origin for trial in trials),
        "reason": pa.array([trial.result.reason for trial in trials], pa.string()),
        "model": pa.array([trial.result.model for trial in trials], pa.string()),
        "began": _moments(trials, "began"),
        "ended": _moments(trials, "ended"),
    }
    return pa.table(columns)


def front_table(snapshot: Snapshot) -> pa.Table:
    """One row per member, by falling score: means, deviations and what the search had found."""
    front, names = snapshot.front, snapshot.settings.names
    columns: dict[str, pa.Array] = {"number": _whole(member.number for member in front)}
    for place, name in enumerate(names):
        columns[name] = _real(_at(member.values, place) for member in front)
        columns[f"{name}.deviation"] = _real(_at(member.deviations, place) for member in front)
        columns[f"{name}.found"] = _real(_at(member.found, place) for member in front)
    columns["runs"] = _whole(member.runs for member in front)
    columns |= _parameters([member.parameters for member in front])
    counters = [member.counters or {} for member in front]
    for name in _names(counters):
        columns[f"counter.{name}"] = _real(record.get(name, math.nan) for record in counters)
    return pa.table(columns)


def write_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path)


def write_csv(table: pa.Table, path: Path) -> None:
    """With every digit of the numbers; what is not there is empty."""
    columns = [column.to_pylist() for column in table.columns]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.column_names)
        writer.writerows([_cell(value) for value in row] for row in zip(*columns, strict=True))


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat()
    return "" if value is None else str(value)


def _parameters(records: Sequence[dict[str, Any]]) -> dict[str, pa.Array]:
    return {f"parameter.{name}": _column([record.get(name) for record in records]) for name in _names(records)}


def _column(values: list[Any]) -> pa.Array:
    """Whole numbers, numbers or texts: the first of them that holds all values."""
    known = [value for value in values if value is not None]
    kinds = {type(value) for value in known}
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds <= {int} and all(abs(value) < 2**63 for value in known):
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        return _real(math.nan if value is None else value for value in values)
    return pa.array([_as_text(value) for value in values], pa.string())


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=str)


def _names(records: Iterable[dict[str, Any]]) -> list[str]:
    return sorted({name for record in records for name in record})


def _real(values: Iterable[float]) -> pa.Array:
    """What is not a number is missing."""
    numbers = [float(value) for value in values]
    return pa.array([None if math.isnan(value) else value for value in numbers], pa.float64())


def _whole(values: Iterable[int]) -> pa.Array:
    return pa.array(list(values), pa.int64())


def _moments(trials: Sequence[Ended], which: str) -> pa.Array:
    return pa.array([datetime.fromtimestamp(getattr(trial, which), UTC) for trial in trials], MOMENT)


def _at(values: Sequence[float], place: int) -> float:
    return values[place] if len(values) > place else math.nan
