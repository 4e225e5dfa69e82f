"""What a user asks `prepare` for, checked before anything is read."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from mmbsgd.scaling import METHODS, Method
from workflows.data import sources
from workflows.data.labelled import Label, listed, plain_label
from workflows.data.scaling import needs_moments
from workflows.errors import DataError

LayoutChoice = Literal["auto", "dense", "sparse"]


@dataclass(frozen=True)
class Request:
    """What to prepare, and how."""

    source: str
    out: str
    test: str | None = None
    kind: sources.Kind | None = None
    label: str | None = None
    dropped: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    """The two labels to keep, the positive one last; empty: the source has two."""
    scale: Method = "none"
    layout: LayoutChoice = "auto"
    rows_per_partition: int | None = None
    """None: as many as make 32 MB."""
    test_size: float = 0.2
    """A share or a number of rows; without meaning where there is a test file."""
    validation_size: float = 0.2
    """A share of what is left for training, or a number of rows."""
    folds: int = 0
    """With K folds there is no validation split."""
    width: int | None = None
    """Features, where the source shows fewer."""
    rows: int = sources.DEMO_ROWS
    seed: int = 0
    workers: int | None = None
    ray_address: str | None = None
    replace: bool = False

    def __post_init__(self) -> None:
        for name, value, known in (
            ("scale", self.scale, METHODS),
            ("layout", self.layout, get_args(LayoutChoice)),
            ("kind", self.kind, (None, *sources.KINDS)),
        ):
            if value not in known:
                raise DataError(f"{name}={value!r} is none of {listed(known)}")
        for name, number, least in (
            ("seed", self.seed, 0),
            ("rows", self.rows, 10),
            ("workers", self.workers, 1),
            ("rows_per_partition", self.rows_per_partition, 1),
            ("width", self.width, 1),
            ("test_size", self.test_size, 0),
            ("validation_size", self.validation_size, 0),
        ):
            if number is not None and number < least:
                raise DataError(f"{name}={number} must be at least {least}")
        if self.folds < 0 or self.folds == 1:
            raise DataError(f"folds={self.folds}: take 2 or more, or 0 for none")
        if self.classes and (len(self.classes) != 2 or self.classes[0] == self.classes[1]):
            raise DataError(f"classes={self.classes!r} must be two labels, the negative one first")

    @property
    def wanted(self) -> tuple[Label, ...]:
        """The labels to keep as readers spell them; empty: all."""
        return tuple(plain_label(label) for label in self.classes)

    @property
    def staged_as(self) -> type[np.floating[Any]]:
        """What values are kept in before they are scaled: float32 would lose what a scaling brings out."""
        return np.float64 if needs_moments(self.scale) else np.float32
