"""Training data in portions: all rows at once, or a part at a time where they do not fit into memory."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mmbsgd.rows import Rows, moments

Visitor = Callable[[Rows, NDArray[np.float32]], None]


class Portions(Protocol):
    """Rows of two classes in one or more portions. Signed weights are w_i y_i; without weights, the signs y_i."""

    @property
    def width(self) -> int:
        """d"""
        ...

    @property
    def counts(self) -> tuple[int, int]:
        """Rows of the first and of the second class."""
        ...

    @property
    def classes(self) -> tuple[Any, Any]:
        """The labels that stand for -1 and +1."""
        ...

    def __len__(self) -> int:
        """How many portions there are."""
        ...

    def visit(self, order: Sequence[int], visitor: Visitor) -> None:
        """Calls the visitor with the rows and signed weights of these portions, one after the other.

        The visitor keeps nothing of what it is shown: the memory may go away when it returns.
        """
        ...


class Whole:
    """All rows in one portion."""

    def __init__(self, rows: Rows, signed_weights: NDArray[np.float32], classes: tuple[Any, Any] = (-1, 1)) -> None:
        self._rows, self._weights = rows, signed_weights
        self.width, self.classes = rows.width, classes
        positive = int(np.count_nonzero(signed_weights > 0))
        self.counts = (len(signed_weights) - positive, positive)

    def __len__(self) -> int:
        return 1

    def visit(self, order: Sequence[int], visitor: Visitor) -> None:
        for _ in order:
            visitor(self._rows, self._weights)


class Weighted:
    """The same rows with a weight for each class."""

    def __init__(self, portions: Portions, weights: tuple[float, float]) -> None:
        self._portions, self._weights = portions, weights
        self.width, self.classes, self.counts = portions.width, portions.classes, portions.counts

    def __len__(self) -> int:
        return len(self._portions)

    def visit(self, order: Sequence[int], visitor: Visitor) -> None:
        first, second = (np.float32(weight) for weight in self._weights)
        self._portions.visit(
            order, lambda rows, signs: visitor(rows, signs * np.where(signs > 0, second, first).astype(np.float32))
        )


def scale_gamma(portions: Portions) -> float:
    """1 / (d * variance of all entries), as in scikit-learn's SVC, without a copy of the data."""
    total = squares = 0.0
    entries = 0

    def add(rows: Rows, signed_weights: NDArray[np.float32]) -> None:
        nonlocal total, squares, entries
        first, second = moments(rows.values)
        total, squares = total + first, squares + second
        entries += len(signed_weights) * portions.width

    portions.visit(range(len(portions)), add)
    variance = max(squares / entries - (total / entries) ** 2, 0.0)
    if variance == 0.0:
        return 1.0
    return float(min(max(1.0 / (portions.width * variance), 1e-30), 1e30))
