"""A LIBSVM model file (c_svc, rbf), which svm-predict and LIBSVM's Python package load.

    f(x) = sum_j alpha_j exp(-gamma ||s_j - (x - shift) factor||^2) + b
         = sum_j alpha_j exp(-gamma factor^2 ||s_j / factor + shift - x||^2) + b        if all factors are equal

With unequal factors rows go through `svm-scale -r model.libsvm.range` first: it maps min = shift to 0 and
max = shift + 1/factor to 1, and takes what a line does not name for a zero, as `load` does. It prints six digits.

LIBSVM's first label is the one of positive values, and rho is -b. Labels are 32-bit integers there: others are written
as 0 and 1, and model.libsvm.labels holds both (and tells 1.0 from 1). Names of features, if there are some, stand in
model.libsvm.features. Both are JSON, and LIBSVM needs neither. It stops reading after the last vector; the line that
follows it is the fingerprint of all files.
"""

import ctypes
import hashlib
import importlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmbsgd import BudgetedModel
from mmbsgd.errors import ModelFileError
from mmbsgd.scaling import Scaling
from workflows.errors import ExportError
from workflows.export.shared import (
    AT_ONCE,
    MOST,
    Scale,
    Sum,
    batches,
    contents,
    feature_names,
    labels_of,
    refuse,
    two_labels,
    vectors_of,
)
from workflows.files import written_text

NAME, FILE = "libsvm", "model.libsvm"
LABELS, FEATURES, RANGE = ".labels", ".features", ".range"
_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?"
_HEADER = re.compile(
    rf"svm_type c_svc\nkernel_type rbf\ngamma ({_NUMBER})\nnr_class 2\ntotal_sv (\d+)\nrho ({_NUMBER})\n"
    r"label (-?\d+) (-?\d+)\nnr_sv (\d+) (\d+)\nSV\n",
    re.ASCII,
)
_KIND = "(?:labels|features|range)"
_LAST = re.compile(rf"# mmbsgd sha256=([0-9a-f]{{64}}) beside=(none|{_KIND}(?:,{_KIND})*)\n", re.ASCII)
_VECTOR = re.compile(rf"{_NUMBER}(?: \d+:{_NUMBER})*", re.ASCII)
_RANGE = re.compile(rf"(\d+) ({_NUMBER}) ({_NUMBER})", re.ASCII)


def write(model: BudgetedModel, path: Path) -> list[Path]:
    """The model file first, then those that belong to it."""
    scaling = model.scaling
    if scaling is not None and scaling.method == "unit":
        raise ExportError(
            "LIBSVM cannot scale rows to unit length, as this model wants it: choose the format onnx, c, mlflow or "
            "native"
        )
    low, high = labels_of(model)
    whole = type(low) in (int, float) and all(
        -(2**31) <= label < 2**31 and label == int(label) for label in (low, high)
    )
    vectors, coefficients = vectors_of(model)
    points, gamma, ranged = vectors.astype(np.float64), float(model.gamma), False
    if scaling is not None:
        folded = _folded(points, gamma, scaling)
        points, gamma, ranged = (*folded, False) if folded else (points, gamma, True)
    beside = {}
    if not whole or type(low) is float:
        beside[LABELS] = json.dumps([low, high]) + "\n"
    if model.features is not None:
        beside[FEATURES] = json.dumps(model.features) + "\n"
    if ranged and scaling is not None:
        beside[RANGE] = _range(scaling)
    text = _text(points, coefficients, gamma, model.bias, (int(low), int(high)) if whole else (0, 1))
    last = f"# mmbsgd sha256={_digest(text, beside)} beside={','.join(kind[1:] for kind in beside) or 'none'}\n"
    for kind in {LABELS, FEATURES, RANGE} - set(beside):
        _beside(path, kind).unlink(missing_ok=True)
    files = [written_text(_beside(path, kind), content) for kind, content in beside.items()]
    return [written_text(path, text + last), *files]


def _folded(points: NDArray[np.float64], gamma: float, scaling: Scaling) -> tuple[NDArray[np.float64], float] | None:
    """Vectors and gamma for raw rows; None where features have factors of their own."""
    assert scaling.shift is not None
    assert scaling.factor is not None
    factor = float(scaling.factor[0]) if len(scaling.factor) else 1.0
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        raw, own = points / np.float64(factor) + scaling.shift, gamma * factor * factor
    usable = np.finfo(np.float64).tiny <= own < np.inf and np.isfinite(raw).all()
    return (raw, own) if usable and (scaling.factor == factor).all() else None


def _range(scaling: Scaling) -> str:
    """For svm-scale. A factor of zero is a range of nothing, whose feature it leaves out; one that it does not find
    here it would learn from the rows, so that all are listed."""
    assert scaling.shift is not None
    assert scaling.factor is not None
    lines = ["x", "0 1"]
    for feature, (shift, factor) in enumerate(zip(scaling.shift.tolist(), scaling.factor.tolist(), strict=True), 1):
        high = shift + 1.0 / factor if factor else shift
        if not np.isfinite(high):
            raise ExportError(
                f"LIBSVM's range file cannot hold the factor {factor:.3g} of feature {feature}: choose the format "
                "onnx, c, mlflow or native"
            )
        lines.append(f"{feature} {shift:.17g} {high:.17g}")
    return "\n".join(lines) + "\n"


def _text(
    points: NDArray[np.float64], coefficients: NDArray[np.float64], gamma: float, bias: float, labels: tuple[int, int]
) -> str:
    order = np.argsort(coefficients <= 0.0, kind="stable")
    positive = int(np.count_nonzero(coefficients > 0.0))
    lines = [
        "svm_type c_svc",
        "kernel_type rbf",
        f"gamma {gamma:.17g}",
        "nr_class 2",
        f"total_sv {len(points)}",
        f"rho {-float(bias):.17g}",
        f"label {labels[1]} {labels[0]}",
        f"nr_sv {positive} {len(points) - positive}",
        "SV",
    ]
    width = points.shape[1]
    for place, slot in enumerate(order):
        named = np.flatnonzero(points[slot])
        # The first vector names the last feature in any case: nothing else tells how many there are.
        if place == 0 and (not len(named) or named[-1] != width - 1):
            named = np.append(named, width - 1)
        values = zip((named + 1).tolist(), points[slot, named].tolist(), strict=True)
        lines.append(
            " ".join([f"{coefficients[slot]:.17g}", *(f"{feature}:{value:.17g}" for feature, value in values)])
        )
    return "\n".join(lines) + "\n"


def load(path: Path) -> Sum:
    data = contents(path)
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        refuse(path, "it is not text")
    body, last = text[: text.rfind("\n", 0, -1) + 1], text[text.rfind("\n", 0, -1) + 1 :]
    header, ending = _HEADER.match(body), _LAST.fullmatch(last)
    if header is None:
        refuse(path, "it does not begin as a LIBSVM model of two classes with a Gaussian kernel (c_svc, rbf)")
    if ending is None:
        refuse(path, "its last line is not the fingerprint that mmbsgd writes")
    kinds = [] if ending[2] == "none" else [f".{kind}" for kind in ending[2].split(",")]
    beside = {kind: _companion(path, kind) for kind in kinds}
    if _digest(body, beside) != ending[1]:
        refuse(path, "its values, or those of the files beside it, do not match their fingerprint")
    try:
        return _parsed(header, body[header.end() :].splitlines(), beside)
    except (ValueError, OverflowError) as error:
        refuse(path, error)


def _parsed(header: re.Match[str], lines: list[str], beside: dict[str, str]) -> Sum:
    count, first, second = int(header[2]), int(header[6]), int(header[7])
    if not count == first + second == len(lines) or not lines:
        raise ValueError(f"it has {len(lines)} vectors, not {count}")
    width = int(lines[0].rpartition(" ")[2].partition(":")[0])
    if not 0 < width * count <= MOST:
        raise ValueError(f"{count} vectors of {width} features are too many")
    vectors, coefficients = np.zeros((count, width)), np.empty(count)
    for slot, line in enumerate(lines):
        if not _VECTOR.fullmatch(line):
            raise ValueError(f"vector {slot + 1} is not written as LIBSVM writes one")
        coefficient, *pairs = line.split(" ")
        coefficients[slot] = float(coefficient)
        features = np.array([int(pair.partition(":")[0]) for pair in pairs], np.int64) - 1
        if len(features) and not (features[0] >= 0 and features[-1] < width and (np.diff(features) > 0).all()):
            raise ValueError(f"vector {slot + 1} names features that are out of order or beyond the {width} there are")
        vectors[slot, features] = [float(pair.partition(":")[2]) for pair in pairs]
    gamma, rho = float(header[1]), float(header[3])
    if not (
        np.isfinite(vectors).all() and np.isfinite(coefficients).all() and 0.0 < gamma < np.inf and abs(rho) < np.inf
    ):
        raise ValueError("it holds values that are no numbers")
    classes = two_labels(beside[LABELS]) if LABELS in beside else (int(header[5]), int(header[4]))
    scale = _scale(beside[RANGE], width) if RANGE in beside else None
    names = feature_names(beside[FEATURES]) if FEATURES in beside else None
    return Sum(vectors, coefficients, -rho, gamma, classes, scale, features=names)


def _scale(text: str, width: int) -> Scale:
    """What svm-scale does with such a file."""
    head, *lines = text.splitlines()
    found = [_RANGE.fullmatch(line) for line in lines[1:]]
    if head != "x" or lines[:1] != ["0 1"] or [one and int(one[1]) for one in found] != list(range(1, width + 1)):
        raise ValueError(f"{RANGE} must list the {width} features in order, for a range from 0 to 1")
    low, high = (np.array([float(one[place]) for one in found if one]) for place in (2, 3))
    flat = low == high

    def scale(rows: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.where(flat, 0.0, (rows - low) / np.where(flat, 1.0, high - low)))

    return scale


def _companion(path: Path, kind: str) -> str:
    try:
        return contents(_beside(path, kind)).decode("ascii")
    except ModelFileError as error:
        raise ModelFileError(f"{error}; {path} needs it: keep both in one folder, or export the model again") from None
    except UnicodeDecodeError:
        refuse(_beside(path, kind), "it is not text")


def _beside(path: Path, kind: str) -> Path:
    return path.with_name(path.name + kind)


def _digest(text: str, beside: dict[str, str]) -> str:
    return hashlib.sha256("\0".join([text, *beside.values()]).encode()).hexdigest()


class Package:
    """The file in LIBSVM's own Python package, which takes rows one by one."""

    one_by_one = True

    def __init__(self, svmutil: Any, path: Path) -> None:
        self._found, self._svmutil = load(path), svmutil
        self._model = svmutil.svm_load_model(str(path))
        if self._model is None:
            raise ExportError(f"LIBSVM does not load {path.name}; please report it")
        high, low = self._model.get_labels()
        self._labels = {low: self._found.classes[0], high: self._found.classes[1]}

    def prepared(self, rows: Any) -> list[Any]:
        """LIBSVM's nodes; what svm-scale would do to rows is done here, in all digits."""
        found, nodes = self._found, self._svmutil.gen_svm_nodearray
        parts = batches(rows, found.width, found.takes, AT_ONCE)
        scaled = (part if found.scale is None else found.scale(part) for part in parts)
        return [nodes(row)[0] for part in scaled for row in part]

    def decision_function(self, nodes: list[Any]) -> NDArray[np.float64]:
        return self._run(nodes)[1]

    def predict(self, nodes: list[Any]) -> list[Any]:
        return [self._labels[int(label)] for label in self._run(nodes)[0]]

    def _run(self, nodes: list[Any]) -> tuple[list[float], NDArray[np.float64]]:
        ask, model, value = self._svmutil.libsvm.svm_predict_values, self._model, (ctypes.c_double * 1)()
        labels, values = [], np.empty(len(nodes))
        for place, row in enumerate(nodes):
            labels.append(ask(model, row, value))
            values[place] = value[0]
        return labels, values


def run(path: Path) -> Package | None:
    """None: the package is not installed."""
    try:
        svmutil = importlib.import_module("libsvm.svmutil")
    except ImportError:
        return None
    return Package(svmutil, path)
