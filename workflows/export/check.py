"""Every exported file is asked before it is handed out: does it answer as the model does, and how fast?"""

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mmbsgd import BudgetedModel
from workflows.errors import ExportError

TOLERANCE, NOISE = 1e-4, 1e-7
"""Shares of the largest decision value, or of 1 where it is smaller, and of the sum of all coefficients' sizes: what
the native model's own arithmetic, which is float32, may lose."""
NARROW = ("onnx", "mlflow", "c")
"""Formats that take float32 rows."""
BATCH = 1000
_ONE_BY_ONE, _BATCHES = 200, 5


class Predictor(Protocol):
    """A model that was read from a file of any format."""

    @property
    def classes(self) -> tuple[Any, Any]: ...

    @property
    def width(self) -> int: ...

    @property
    def features(self) -> tuple[str, ...] | None:
        """Their names, where its format keeps them."""
        ...

    def decision_function(self, matrix: Any) -> NDArray[np.float64]:
        """Of raw rows; positive for classes[1]."""
        ...


@dataclass(frozen=True)
class Checked:
    difference: float
    """The largest, between its decision values and the model's."""
    undecided: int
    """Rows so near the boundary that the difference decides: their labels may differ."""
    row: float
    """Seconds for one row, and for a thousand of them."""
    batch: float
    bytes: int


def check(name: str, found: Predictor, model: BudgetedModel, rows: Any, files: list[Path]) -> Checked:
    """rows: raw ones that the model was not trained on, or some of those that it was."""
    expected = model.decision_function(rows)
    tolerance = TOLERANCE * max(1.0, _largest(expected)) + NOISE * float(np.abs(model.coefficients).sum())
    if name in NARROW and _largest(model.decision_function(rows.astype(np.float32)) - expected) > tolerance:
        raise ExportError(
            f"{name} takes float32 rows, in which the data's values lose too much (a feature far from zero compared "
            "with its spread, such as a timestamp): subtract a constant from it before 'mmbsgd prepare', or export "
            "native or libsvm"
        )
    scores = found.decision_function(rows)
    difference = _largest(scores - expected)
    if not difference <= tolerance:
        raise ExportError(
            f"the {name} model is not the same: its decision values differ by {difference:.2g}, more than "
            f"{tolerance:.1g}; please report it"
        )
    flipped = (scores > 0) != (expected > 0)
    if (flipped & (np.abs(expected) > tolerance)).any() or tuple(found.classes) != tuple(model.classes):
        raise ExportError(f"the {name} model is not the same: it gives other labels; please report it")
    return Checked(
        difference,
        int(flipped.sum()),
        _seconds(found, rows[:1], _ONE_BY_ONE),
        _seconds(found, _many(rows), _BATCHES),
        sum(_size(file) for file in files),
    )


def _largest(values: NDArray[np.float64]) -> float:
    return float(np.abs(values).max(initial=0.0))


def _seconds(found: Predictor, rows: Any, times: int) -> float:
    """The median of so many calls, after one that does not count."""
    found.decision_function(rows)
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        found.decision_function(rows)
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
            f"{1e6 * one.row:,.1f} µs",
            f"{1e3 * one.batch:,.2f} ms",
            f"{one.difference:.1e}",
        )
        for name, one in checked.items()
    ]
