"""Predictions for data of any size: threads read and decide, and rows come out in the order of the input.

Readers and kernels do not hold Python's lock, so that all cores are used.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmbsgd import BudgetedModel
from mmbsgd.scaling import Scaling
from workflows.data import PreparedData, sources
from workflows.data.labelled import Label, listed, plain_label, same_label
from workflows.data.manifest import PartitionRecord
from workflows.data.prepare import Progress
from workflows.data.resolve import already_prepared
from workflows.data.tables import Inputs
from workflows.data.workers import Threads
from workflows.errors import DataError
from workflows.export.check import Predictor


@dataclass(frozen=True)
class Request:
    """Rows to predict."""

    data: str
    kind: sources.Kind | None = None
    label: str | None = None
    dropped: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    """Of a prepared folder; none: all of them."""
    rows: int = sources.DEMO_ROWS


@dataclass(frozen=True)
class Block:
    """Some rows, decided on."""

    scores: NDArray[np.float64]
    known: NDArray[np.int8]  # where each row's own label stands in the model's classes; -1: it has none of them


@dataclass(frozen=True)
class Feed:
    """All rows for a model, in tasks that any thread can do."""

    name: str
    size: float
    tasks: Iterable[Any]
    decide: Callable[[Any], list[Block]]
    position: Callable[[Any, int], int]
    """How far it has come after a task, of `size`."""
    notes: tuple[str, ...] = ()
    """What a user may want to know about how rows and model were matched."""


def open_feed(model: Predictor, request: Request, home: Path) -> Feed:
    """Checks that data and model belong together; rows are read later."""
    found = already_prepared(request.data, home)
    if found is None:
        return _raw(model, request)
    if request.kind or request.label or request.dropped:
        raise DataError(f"{found.folder.name} is prepared already: leave out --format, --label and --drop")
    return _prepared(model, found, request.splits)


def predictions(feed: Feed, report: Progress) -> Iterator[Block]:
    positions: list[int] = []

    def watched() -> Iterator[Any]:
        for task in feed.tasks:
            positions.append(feed.position(task, positions[-1] if positions else 0))
            yield task

    threads = Threads(Path())  # nothing is kept aside
    for number, blocks in enumerate(threads.run(feed.decide, watched())):
        yield from blocks
        report(f"predicting {feed.name}", positions[number], max(feed.size, 1))


def _raw(model: Predictor, request: Request) -> Feed:
    if request.splits:
        raise DataError(f"{request.data} is not a prepared folder, which alone has splits: leave out --split")
    source = sources.open_source(
        request.data,
        kind=request.kind,
        label=request.label,
        dropped=request.dropped,
        rows=request.rows,
        inputs=Inputs(model.width, model.features),
    )
    # A scaling needs digits that float32 would lose.
    dtype = np.float32 if isinstance(model, BudgetedModel) and model.scaling is None else np.float64

    def decide(task: sources.Task) -> list[Block]:
        return [
            Block(model.decision_function(rows.matrix), _known(model.classes, rows.codes, rows.classes))
            for rows in source.read(task, dtype)
            if len(rows)
        ]

    if source.record.kind == sources.DEMO and model.width != 2:
        raise DataError(f"the demo has 2 features, and the model takes {model.width}")
    return Feed(
        source.record.name, source.record.bytes, source.tasks, decide, sources.position, _notes(model, source, request)
    )


def _notes(model: Predictor, source: sources.Source, request: Request) -> tuple[str, ...]:
    columns = source.columns
    if columns is None:
        return ()
    if model.features is None:
        return ("The model file has no names of features: columns are taken in their order.",)
    used = {*columns.features, columns.label, *request.dropped}
    others = [name for name in columns.names if name not in used]
    return (f"Columns that the model does not know are ignored: {listed(others)}.",) if others else ()


def _prepared(model: Predictor, data: PreparedData, splits: tuple[str, ...]) -> Feed:
    manifest, name = data.manifest, data.folder.name
    if manifest.width != model.width:
        raise DataError(f"{name} has rows of {manifest.width} features, and the model takes {model.width}")
    names = model.features
    if names is not None and manifest.features is not None and names != tuple(manifest.features):
        other = [one for one in names if one not in manifest.features]
        raise DataError(
            f"the features of {name} are not those of the model: "
            + (f"it lacks {listed(other)}" if other else "their order differs; predict the file it was made of")
        )
    score = _for_scaled(model, data)
    split = data.split(*(splits or manifest.splits))

    def decide(record: PartitionRecord) -> list[Block]:
        partition = data.partition(record)
        return [Block(score(partition.matrix), _known(model.classes, partition.codes, partition.labels))]

    return Feed(name, split.rows, split.records, decide, lambda record, before: before + record.rows)


def _for_scaled(model: Predictor, data: PreparedData) -> Callable[[Any], NDArray[np.float64]]:
    """Decision values of rows that are scaled already: the model's own scaling is left out, where it can be."""
    scaling = data.manifest.scaling.scaling()
    if not isinstance(model, BudgetedModel):
        return lambda matrix: model.decision_function(scaling.undo(matrix))
    if model.metadata.get("data") != data.manifest.fingerprint and not _same(scaling, model.scaling):
        files = ", ".join(source.name for source in data.manifest.sources)
        raise DataError(
            f"{data.folder.name} was scaled otherwise than what the model was trained on: predict the raw rows it was "
            f"made of ({files})"
        )
    return model.without_scaling().decision_function


def _same(first: Scaling, second: Scaling | None) -> bool:
    return first.as_dict() == (second or Scaling()).as_dict()


def _known(classes: tuple[Any, Any], codes: NDArray[Any], labels: tuple[Label, ...]) -> NDArray[np.int8]:
    """Where each row's own label stands in the model's classes."""
    low, high = (plain_label(label) for label in classes)
    places = [0 if same_label(low, label) else 1 if same_label(high, label) else -1 for label in labels]
    found: NDArray[np.int8] = np.array([*places, -1], np.int8)[codes]
    return found
