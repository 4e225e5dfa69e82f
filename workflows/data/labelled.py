"""Rows with labels, as every reader hands them on, and what a label is."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmbsgd.rows import LARGEST_VALUE

Label = bool | int | float | str


@dataclass(frozen=True)
class LabelledRows:
    matrix: Any  # (rows, d) dense or CSR, finite
    codes: NDArray[np.intp]  # (rows,) positions in `classes`
    classes: tuple[Label, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def only(self, wanted: tuple[Label, ...]) -> "LabelledRows":
        """The rows of these classes."""
        kept = np.isin(self.codes, [code for code, label in enumerate(self.classes) if label in wanted])
        return self if kept.all() else LabelledRows(self.matrix[kept], self.codes[kept], self.classes)


def usable(values: NDArray[Any]) -> bool:
    """Whether all values can be trained on. Float64 ones are scaled first, so that only infinities are too large."""
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))  # NaN if one is NaN
    return largest <= (LARGEST_VALUE if values.dtype == np.float32 else np.finfo(np.float64).max)


def first_unusable(values: NDArray[Any]) -> int:
    limit = LARGEST_VALUE if values.dtype == np.float32 else np.finfo(np.float64).max
    return int(np.flatnonzero(~(np.abs(values.reshape(-1)) <= limit))[0])


def why_unusable(value: float) -> str:
    if math.isfinite(value):
        return (
            f"{value:g} is too large for distances in float32: scale the data with --scale minmax or --scale standard"
        )
    return f"{value} is not a finite number: fill or remove it"


def plain_label(value: Any) -> Label:
    """One spelling for one label: 1, 1.0, "+1" and "1" are the same, whatever file they come from."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    if not math.isfinite(number):
        return str(value)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def label_order(label: Label) -> tuple[bool, Any]:
    """Numbers ascend, then words: the larger label is the positive class."""
    return isinstance(label, str), label


def listed(labels: Any, most: int = 10) -> str:
    shown = [repr(label) for label in labels]
    return ", ".join(shown[:most]) + (", …" if len(shown) > most else "")
