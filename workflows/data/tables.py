"""Tables with named columns, one of them the label: what CSV and Parquet have in common."""

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from workflows.data.labelled import LabelledRows, excerpt, first_unusable, listed, plain_label, usable, why_unusable
from workflows.data.views import joined, view
from workflows.errors import DataError

PARQUET_ENDINGS = (".parquet", ".pq")
MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
LABEL = "label"
"""The name of the label's column, if none is said."""
NO_LABELS = {"", "na", "n/a", "nan", "null", "inf", "-inf", "infinity", "-infinity"}
Where = Callable[[int], str]
"""Names the place of a row in a message."""
Choice = Callable[[Sequence[str], str], "Columns"]
"""What the columns of these names are for; the second word is the file's name."""


@dataclass(frozen=True)
class Columns:
    """The columns of a file and what each is for."""

    names: tuple[str, ...]  # as they stand in the file
    label: str | None  # None: there is none, and a model that is asked needs none
    features: tuple[str, ...]  # in the order of the matrix

    def sorted_as(self, first: "Columns", name: str) -> "Columns":
        """The same columns in the order of another file, for a test file that goes with it."""
        missing = [column for column in first.features if column not in self.features]
        extra = [column for column in self.features if column not in first.features]
        if missing or extra:
            said = [f"lacks {listed(missing)}" if missing else "", f"has {listed(extra)} besides" if extra else ""]
            raise DataError(f"{name} {' and '.join(filter(None, said))}: training and test data need the same columns")
        return Columns(self.names, self.label, first.features)


@dataclass(frozen=True)
class Inputs:
    """What a trained model takes: rows of so many features, known by their names or only by their order."""

    width: int
    names: tuple[str, ...] | None = None


def choose(names: Sequence[str], label: str | None, dropped: Sequence[str], source: str) -> Columns:
    """Which column is the label and which are features."""
    _check_names(names, dropped, source)
    if label is None:
        if LABEL not in names:
            raise DataError(f"which column of {source} is the label? say --label COLUMN; columns are: {_few(names)}")
        label = LABEL
    features = _besides(names, label, dropped, source)
    if not features:
        raise DataError(f"{source} has no column besides the label {label!r} and what is dropped: no features are left")
    return Columns(tuple(names), label, features)


def choose_for(inputs: Inputs, names: Sequence[str], label: str | None, dropped: Sequence[str], source: str) -> Columns:
    """The columns that a model takes, by name if it knows names. A label is welcome, not needed."""
    _check_names(names, ("", *dropped) if inputs.names else dropped, source)
    if label is None and LABEL in names and LABEL not in (*(inputs.names or ()), *dropped):
        label = LABEL
    features = _besides(names, label, dropped, source)
    if inputs.names is None:
        if all(map(_is_number, names)):
            raise DataError(f"{source} begins with a line of numbers: its first line must name the columns")
        if len(features) != inputs.width:
            raise DataError(
                f"{source} has {len(features)} columns of features, and the model takes {inputs.width}, whose names it "
                f"does not know: say which to leave out, --label COLUMN or --drop COLUMN; columns are: {_few(names)}"
            )
        return Columns(tuple(names), label, features)
    if missing := [name for name in inputs.names if name not in names]:
        raise DataError(f"{source} lacks {listed(missing)}, which the model needs; columns are: {_few(names)}")
    if missing := [name for name in inputs.names if name not in features]:
        raise DataError(f"the model needs {listed(missing)} of {source}: it can be neither dropped nor the label")
    return Columns(tuple(names), label, inputs.names)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_names(names: Sequence[str], dropped: Sequence[str], source: str) -> None:
    twice = [name for name, number in Counter(names).items() if number > 1]
    if twice:
        raise DataError(
            f"{source} has more than one column {listed(twice)}: rename them; or is the line with the names missing?"
        )
    if "" in names and "" not in dropped:
        raise DataError(
            f"column {list(names).index('') + 1} of {source} has no name (row numbers?): name it, or leave it out: "
            "--drop ''"
        )


def _besides(names: Sequence[str], label: str | None, dropped: Sequence[str], source: str) -> tuple[str, ...]:
    """All columns but the label and those dropped."""
    left_out = {*dropped} if label is None else {label, *dropped}
    known = set(names)
    for column in (*([] if label is None else [label]), *dropped):
        if column not in known:
            what = "label column" if column == label else "column to drop"
            raise DataError(f"{what} {excerpt(column)} not found in {source}; columns are: {_few(names)}")
    return tuple(name for name in names if name not in left_out)


def labelled(table: pa.Table, columns: Columns, dtype: Any, where: Where, *, needed: bool = True) -> LabelledRows:
    """The rows of a table, with errors that name row and column. needed: a missing label is one of them."""
    matrix = np.empty((len(table), len(columns.features)), dtype)
    with np.errstate(over="ignore"):
        for position, name in enumerate(columns.features):
            matrix[:, position] = _numbers(table[name], name, where)
    if not usable(matrix):
        row, position = divmod(first_unusable(matrix), matrix.shape[1])
        name = columns.features[position]
        reason = why_unusable(float(table[name][row].as_py()))
        raise DataError(f"{where(row)}, column {excerpt(name)}: {reason}, or leave the column out: {_drop(name)}")
    if columns.label is None:
        return LabelledRows(matrix, np.full(len(table), -1, np.intp), ())
    return LabelledRows(matrix, *_codes(table[columns.label], columns.label, where, needed))


def not_a_number(where: str, name: str, value: Any) -> DataError:
    place = f"{where}, column {excerpt(name)}"
    if str(value).strip().lower() in MISSING:
        return DataError(f"{place}: the value is missing ({value!r}): fill it, or leave the column out: {_drop(name)}")
    return DataError(
        f"{place}: {excerpt(value)} is text, not a number: encode the column as numbers, or leave it out: {_drop(name)}"
    )


def _numbers(column: pa.ChunkedArray, name: str, where: Where) -> NDArray[Any]:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        if pa.types.is_boolean(kind):
            column = pc.cast(column, pa.uint8())
        elif pa.types.is_decimal(kind):
            column = pc.cast(column, pa.float64())
        elif not pa.types.is_null(kind):
            raise DataError(
                f"{where(0)}, column {excerpt(name)} holds {kind}, not numbers: encode it as numbers, or leave it out: "
                f"{_drop(name)}"
            )
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise not_a_number(where(row), name, None)
    return joined(column)


def _codes(column: pa.ChunkedArray, name: str, where: Where, needed: bool) -> tuple[NDArray[np.intp], tuple[Any, ...]]:
    if pa.types.is_nested(column.type):
        raise DataError(f"{where(0)}, label column {excerpt(name)} holds {column.type}, not labels")
    encoded = pc.dictionary_encode(column).combine_chunks()
    try:
        values = encoded.dictionary.to_pylist()
    except UnicodeDecodeError:
        raise DataError(f"{where(0)}, label column {excerpt(name)} is not UTF-8 text") from None
    bad = [code for code, value in enumerate(values) if value is None or str(value).strip().lower() in NO_LABELS]
    codes = view(encoded.indices.fill_null(-1))
    missing = np.flatnonzero(np.isin(codes, [-1, *bad]))
    if missing.size and needed:
        raise DataError(
            f"{where(int(missing[0]))}, label column {excerpt(name)}: the label is missing: fill it or remove the row"
        )
    plain = [None if code in bad else plain_label(value) for code, value in enumerate(values)]
    known = dict.fromkeys(label for label in plain if label is not None)
    positions: dict[Any, int] = {label: position for position, label in enumerate(known)} | {None: -1}
    return np.array([positions[label] for label in (*plain, None)], np.intp)[codes], tuple(known)


def _drop(name: str) -> str:
    return f"--drop {shlex.quote(name)}" if name.isprintable() and len(name) <= 60 else "--drop COLUMN"


def _few(names: Sequence[str]) -> str:
    plain = [name.isprintable() and name == name.strip() and 0 < len(name) <= 60 for name in names[:20]]
    shown = [name if simple else excerpt(name) for name, simple in zip(names, plain, strict=False)]
    return ", ".join(shown) + (", …" if len(names) > 20 else "")
