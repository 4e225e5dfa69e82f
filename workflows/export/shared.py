"""What the written formats share: labels, rows, files that are read as a whole, and the sum itself in float64."""

import json
import math
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mmbsgd import BudgetedModel
from mmbsgd.errors import InputError, ModelFileError
from mmbsgd.rows import is_sparse
from workflows.errors import ExportError

LARGEST = 2**31 - 1
"""Bytes that a file may have: protobuf's own limit."""
MOST = 2**28 - 2**20
"""Numbers that its vectors may have: no more fit into an ONNX file."""
NOT_AS_MANY = "it has not as many names as features"
AT_ONCE = 512
"""Rows that are made dense at the same time."""
Scale = Callable[[NDArray[Any]], NDArray[Any]]


def labels_of(model: BudgetedModel) -> tuple[Any, Any]:
    """Both labels as plain bool, int, float or str, of one kind."""
    low, high = (value.item() if isinstance(value, np.generic) else value for value in model.classes)
    kinds = {type(low), type(high)}
    if kinds == {int, float}:
        low, high = float(low), float(high)
    elif len(kinds) > 1 or not kinds <= {bool, int, float, str}:
        raise ExportError(f"labels must be two numbers, booleans or strings to be exported, not {model.classes!r}")
    for label in (low, high):
        if isinstance(label, float) and not math.isfinite(label):
            raise ExportError(f"the label {label!r} is no number: a file cannot hold it")
        if isinstance(label, int) and not -(2**63) <= label < 2**63:
            raise ExportError(f"the label {label!r} does not fit into 64 bits")
        if isinstance(label, str) and label != label.encode("utf-8", "replace").decode():
            raise ExportError(f"the label {label!r} is not valid Unicode")
    return low, high


def vectors_of(model: BudgetedModel) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Those that weigh something; of none, one that does not, because C has no tables without rows."""
    if model.support_vectors.size > MOST:
        raise ExportError(
            f"{len(model.coefficients)} vectors of {model.width} features are too many for any format but native"
        )
    kept = np.flatnonzero(model.coefficients)
    if not len(kept):
        return np.zeros((1, model.width), np.float32), np.zeros(1)
    return model.support_vectors[kept], model.coefficients[kept]


def contents(path: str | os.PathLike[str]) -> bytes:
    """Of a regular file that is not too large: reading a pipe could wait for ever."""
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise ModelFileError(f"{os.fspath(path)} is a folder, pipe or device: give the file of a model")
        if found.st_size > LARGEST:
            raise ModelFileError(
                f"{os.fspath(path)} has {found.st_size} bytes, more than any model: give the file of a model"
            )
        return Path(path).read_bytes()
    except OSError as error:
        raise ModelFileError(f"cannot read model {os.fspath(path)}: {error.strerror}") from None


def refuse(path: str | os.PathLike[str], why: object) -> NoReturn:
    raise ModelFileError(f"{os.fspath(path)} is damaged, cut off or of another kind: {why}; export the model again")


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its names are nested") from None


def feature_names(text: str) -> tuple[str, ...] | None:
    """From JSON; null: the data had none."""
    names = _from_json(text)
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("its features' names are not a list of words")
    return tuple(names)


def two_labels(text: str) -> tuple[Any, Any]:
    """From JSON."""
    labels = _from_json(text)
    plain = isinstance(labels, list) and all(isinstance(label, bool | int | float | str) for label in labels)
    if not plain or len(labels) != 2 or labels[0] == labels[1]:
        raise ValueError("its labels are not two different ones")
    return labels[0], labels[1]


def batches(matrix: Any, width: int, kind: type[np.floating[Any]], rows: int) -> Iterator[NDArray[Any]]:
    """Dense and finite, so many rows at a time."""
    if not is_sparse(matrix):
        matrix = matrix.tocsr() if hasattr(matrix, "tocsr") else np.asarray(matrix)
    if matrix.ndim != 2 or matrix.shape[1] != width:
        raise InputError(f"this model takes rows of {width} features; these have shape {matrix.shape}")
    for begin in range(0, matrix.shape[0], rows):
        part = matrix if matrix.shape[0] <= rows else matrix[begin : begin + rows]
        part = part.toarray() if is_sparse(part) else part
        if part.dtype != kind:
            with np.errstate(over="ignore"):
                part = part.astype(kind)
        part = np.ascontiguousarray(part)
        if not np.isfinite(part).all():
            raise InputError("rows must be finite numbers that float32 can hold: remove or replace the others")
        yield part


def joined(scores: list[NDArray[Any]], kind: Any) -> NDArray[Any]:
    """Of all batches, of which there may be none."""
    return scores[0] if len(scores) == 1 else np.concatenate([np.empty(0, kind), *scores])


@dataclass(frozen=True, eq=False)
class Sum:
    """f(x) = sum_j alpha_j exp(-gamma ||s_j - x'||^2) + b in float64, x' = scale(x)."""

    vectors: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    bias: float
    gamma: float
    classes: tuple[Any, Any]
    scale: Scale | None = None
    takes: type[np.floating[Any]] = np.float64
    """What raw rows are rounded to first."""
    features: tuple[str, ...] | None = None
    """Their names, if the training data had some."""

    def __post_init__(self) -> None:
        if self.features is not None and len(self.features) != self.width:
            raise ValueError(NOT_AS_MANY)

    @property
    def width(self) -> int:
        return int(self.vectors.shape[1])

    def decision_function(self, matrix: Any) -> NDArray[np.float64]:
        """Of raw rows; positive for classes[1]."""
        parts = batches(matrix, self.width, self.takes, AT_ONCE)
        return joined([self._scores(part) for part in parts], np.float64)

    def _scores(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        rows = (rows if self.scale is None else self.scale(rows)).astype(np.float64, copy=False)
        with np.errstate(over="ignore", under="ignore"):
            kernels = np.exp(-self.gamma * self._distances(rows))
        return np.asarray(kernels @ self.coefficients + self.bias)

    @cached_property
    def _centred(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        centre = self.vectors.mean(axis=0)
        centred = self.vectors - centre
        return centre, centred.T.copy(), np.einsum("ij,ij->i", centred, centred)

    @cached_property
    def _may_cancel(self) -> bool:
        """Whether ||x||^2 + ||s||^2 - 2<x, s> of centred points could change a decision value by 1e-6."""
        largest = float(self._centred[2].max())
        unit = float(np.abs(self.coefficients).sum())
        return not self.width * np.finfo(np.float64).eps * 4.0 * (1.0 + self.gamma * largest) * unit < 1e-6

    def _distances(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._may_cancel:
            differences = (self.vectors - row for row in rows)
            return np.stack([np.einsum("ij,ij->i", one, one) for one in differences])
        centre, centred, norms = self._centred
        rows = rows - centre
        apart = np.einsum("ij,ij->i", rows, rows)[:, None] + norms - 2.0 * (rows @ centred)
        return np.asarray(np.maximum(apart, 0.0))
