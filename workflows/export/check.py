"""Every exported file is asked before it is handed out: does it answer as the model does, and how fast?

Asked is what users will run: the C file compiled, LIBSVM's own package, MLflow's own `load_model`. Where a compiler or
that package is missing, only our reader of the file is asked, and times are not measured.
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from mmbsgd import BudgetedModel
from mmbsgd.lanes import EXP2_ERROR
from workflows.errors import ExportError

TOLERANCE, NOISE = 1e-4, EXP2_ERROR
"""Shares of the largest decision value, or of 1 where it is smaller, and of the sum of all coefficients' sizes: what
the native model's own arithmetic, which is float32, may lose."""
NARROW = ("onnx", "mlflow", "c")
"""Formats that take float32 rows."""
BATCH = 1000
_ONE_BY_ONE, _BATCHES, _LONG = 200, 5, 2.0
"""Calls, and the seconds after which there are no more of them."""


class Predictor(Protocol):
    """A model that was read from a file of any format."""

    @property
    def classes(self) -> tuple[Any, Any]: ...

    @property
    def width(self) -> int: ...

    @property
    def features(self) -> tuple[str, ...] | None:
        """Their names, if the training data had some."""
        ...

    def decision_function(self, matrix: Any) -> NDArray[np.float64]:
        """Of raw rows; positive for classes[1]."""
        ...


class Running(Protocol):
    """What users run, with a file that was just written."""

    @property
    def one_by_one(self) -> bool:
        """It takes single rows only: the time of one is its share of many."""
        ...

    def prepared(self, rows: Any) -> Any:
        """Raw rows in its own form."""
        ...

    def decision_function(self, rows: Any) -> NDArray[np.float64]:
        """Of prepared rows."""
        ...

    def predict(self, rows: Any) -> Sequence[Any]:
        """Labels of prepared rows, in the training data's own values."""
        ...


@dataclass(frozen=True)
class _AsRead:
    """Files whose readers are what users run: native and ONNX."""

    found: Any
    one_by_one = False

    def prepared(self, rows: Any) -> Any:
        return rows

    def decision_function(self, rows: Any) -> NDArray[np.float64]:
        return np.asarray(self.found.decision_function(rows))

    def predict(self, rows: Any) -> Sequence[Any]:
        return list(self.found.predict(rows).tolist())


@dataclass(frozen=True)
class Checked:
    difference: float
    """The largest, between its decision values and the model's."""
    allowed: float
    """How large it may be."""
    row: float | None
    """Seconds for one row: of one call, or of C and LIBSVM, which take rows one by one, a thousandth of `batch`. None:
    not measured."""
    batch: float | None
    """For a thousand of them."""
    bytes: int


def check(name: str, found: Predictor, model: BudgetedModel, rows: Any, files: list[Path]) -> Checked:
    """rows: raw ones that the model was not trained on, or some of those that it was; files: the model's own first."""
    expected = model.decision_function(rows)
    allowed = TOLERANCE * max(1.0, _largest(expected)) + NOISE * float(np.abs(model.coefficients).sum())
    if name in NARROW and _largest(model.decision_function(rows.astype(np.float32)) - expected) > allowed:
        raise ExportError(
            f"{name} takes float32 rows, in which the data's values lose too much (a feature far from zero compared "
            "with its spread, such as a timestamp): subtract a constant from it before 'mmbsgd prepare', or export "
            "native or libsvm"
        )
    native = _Native(name, expected, model.classes, allowed)
    scores = found.decision_function(rows)
    difference = native.difference(scores, [found.classes[int(score > 0)] for score in scores])
    if (tuple(found.classes), found.features) != (tuple(model.classes), model.features):
        raise ExportError(f"the {name} model is not the same: it has other labels or features; please report it")
    row = batch = None
    running = _running(name, found, files[0])
    if running is not None:
        ready = running.prepared(rows)
        difference = native.difference(running.decision_function(ready), running.predict(ready))
        batch = _seconds(running, _many(rows), _BATCHES)
        row = batch / BATCH if running.one_by_one else _seconds(running, rows[:1], _ONE_BY_ONE)
    return Checked(difference, allowed, row, batch, sum(_size(file) for file in files))


@dataclass(frozen=True)
class _Native:
    """The model's own answers, which those of a format must equal."""

    name: str
    scores: NDArray[np.float64]
    classes: tuple[Any, Any]
    allowed: float

    def difference(self, scores: NDArray[np.float64], labels: Sequence[Any]) -> float:
        """The largest between decision values; labels may differ only where it decides."""
        found = _largest(scores - self.scores)
        if not found <= self.allowed:
            raise ExportError(
                f"the {self.name} model is not the same: its decision values differ by {found:.2g}, more than "
                f"{self.allowed:.1g}; please report it"
            )
        sure = np.flatnonzero(np.abs(self.scores) > self.allowed).tolist()
        if any(labels[place] != self.classes[int(self.scores[place] > 0)] for place in sure):
            raise ExportError(f"the {self.name} model is not the same: it gives other labels; please report it")
        return found


def _running(name: str, found: Predictor, path: Path) -> Running | None:
    from workflows.export import c_compiled, libsvm_model, mlflow_model

    if name == "c":
        return c_compiled.run(path)
    if name == "libsvm":
        return libsvm_model.run(path)
    return mlflow_model.run(path) if name == "mlflow" else _AsRead(found)


def _largest(values: NDArray[np.float64]) -> float:
    return float(np.abs(values).max(initial=0.0))


def _seconds(running: Running, rows: Any, times: int) -> float:
    """On one thread, the median of so many calls, or fewer if they take long, after one that does not count."""
    ready = running.prepared(rows)
    taken: list[float] = []
    with threadpool_limits(1):  # LIBSVM's package uses all
        running.decision_function(ready)
        while len(taken) < times and sum(taken) < _LONG:
            began = time.perf_counter()
            running.decision_function(ready)
            taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def _many(rows: Any) -> Any:
    return rows[np.resize(np.arange(rows.shape[0]), BATCH)]


def _size(path: Path) -> int:
    return (
        sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else path.stat().st_size
    )


def summary(checked: Mapping[str, Checked]) -> list[tuple[str, str, str, str, str]]:
    """Rows of a table: format, size, one row, a thousand rows, largest difference."""
    return [
        (
            name,
            f"{one.bytes / 1e3:,.0f} kB",
            "not measured" if one.row is None else f"{1e6 * one.row:,.1f} µs",
            "not measured" if one.batch is None else f"{1e3 * one.batch:,.2f} ms",
            f"{one.difference:.1e}",
        )
        for name, one in checked.items()
    ]
