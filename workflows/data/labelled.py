"""Rows with labels, as every reader hands them on, and what a label is."""

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmbsgd.rows import LARGEST_VALUE

_WHOLE = re.compile(r"[+-]?[0-9]+")
Label = bool | int | float | str


@dataclass(frozen=True)
class LabelledRows:
    matrix: Any  # (rows, d) dense or CSR, finite
    codes: NDArray[np.intp]  # (rows,) positions in `classes`; -1: no label, where a model does without
    classes: tuple[Label, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def only(self, wanted: tuple[Label, ...]) -> "LabelledRows":
        """The rows of these classes."""
        codes = [code for code, label in enumerate(self.classes) if any(same_label(label, one) for one in wanted)]
        kept = np.isin(self.codes, codes)
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
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**63):
        return value
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    try:
        number = float(text) if "_" not in text else math.nan
    except ValueError:
        return text
    if not math.isfinite(number):
        return text
    if _WHOLE.fullmatch(text.strip()):
        return int(text) if abs(int(text)) < 2**63 else text  # what Arrow's integers hold
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def same_label(first: Label, second: Label) -> bool:
    """Whether a user who writes one means the other: the word True stands for a boolean, 1 does not."""
    return str(first) == str(second)


def label_order(label: Label) -> tuple[bool, Any]:
    """Numbers ascend, then words: the larger label is the positive class."""
    return isinstance(label, str), label


def listed(labels: Any, most: int = 10) -> str:
    shown = [excerpt(label) for label in labels]
    return ", ".join(shown[:most]) + (", …" if len(shown) > most else "")


def excerpt(value: Any, most: int = 60) -> str:
    """A value as a message can show it."""
    if isinstance(value, str) and len(value) > most:
        return repr(value[:most] + "…")
    return repr(value)
