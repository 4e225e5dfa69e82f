"""A C99 file that needs nothing but libm's exp and sqrt: `label = predict(row, &score)`. C++ (from C++17) takes it too.

    f(x) = sum_j alpha_j exp(-gamma ||s_j - x'||^2) + b,  x' = x, (x - shift) factor or x / ||x||, rounded to float

Numbers are hexadecimal, so that none is rounded; sums are in double, of squared differences, so that none cancels. Text
of users stands nowhere but in two string literals and a comment, the features' names, in plain ASCII. `load` reads the
tables back and runs nothing; the last line is the fingerprint of all others.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmbsgd import BudgetedModel
from mmbsgd._version import __version__
from mmbsgd.errors import InputError
from mmbsgd.scaling import Scaling
from workflows.errors import ExportError
from workflows.export.shared import MOST, Sum, contents, feature_names, labels_of, refuse, vectors_of
from workflows.files import written_text

NAME, FILE = "c", "model.c"
KINDS = {int: "long ", float: "double ", bool: "int ", str: "const char *"}
_SMALLEST = "(-9223372036854775807L - 1L)"
"""C has no literal for it."""
_LONGEST = 4095
"""Characters of a string that every C99 compiler takes."""

_CODE = """\
/* A support vector machine, exported by mmbsgd {version}. Compile: cc -std=c99 -O2 -c model.c; link with -lm.
   predict() takes a row of FEATURES raw values and returns its label; score, unless NULL, receives the decision
   value, which is positive for LABELS[1]. Values must be finite: where one is NaN the score is NaN and the label
   LABELS[0], and of infinite ones neither means anything. */

#include <math.h>

#ifdef __cplusplus
extern "C" {{
#endif

enum {{ FEATURES = {width}, VECTORS = {count} }};
{names}
{kind}predict(const float *x, double *score);

{tables}
{kind}predict(const float *x, double *score)
{{
    float row[FEATURES];
    double value = BIAS;
    int j, k;

{scaling}
    for (j = 0; j < VECTORS; j++) {{
        const float *vector = SUPPORT[j];
        double even = 0.0, odd = 0.0;

        for (k = 0; k + 1 < FEATURES; k += 2) {{
            const double first = (double)row[k] - (double)vector[k];
            const double second = (double)row[k + 1] - (double)vector[k + 1];

            even += first * first;
            odd += second * second;
        }}
        if (k < FEATURES) {{
            const double last = (double)row[k] - (double)vector[k];

            even += last * last;
        }}
        value += COEFFICIENTS[j] * exp(-GAMMA * (even + odd));
    }}
    if (score)
        *score = value;
    return LABELS[value > 0.0 ? 1 : 0];
}}

#ifdef __cplusplus
}}
#endif
"""
_PLAIN = """\
    for (k = 0; k < FEATURES; k++)
        row[k] = x[k];
"""
_AFFINE = """\
    for (k = 0; k < FEATURES; k++)
        row[k] = (float)(((double)x[k] - SHIFT[k]) * FACTOR[k]);
"""
_UNIT = """\
    double length = 0.0;

    for (k = 0; k < FEATURES; k++)
        length += (double)x[k] * (double)x[k];
    length = length > 0.0 ? sqrt(length) : 1.0;
    for (k = 0; k < FEATURES; k++)
        row[k] = (float)((double)x[k] / length);
"""
_STEPS = {"none": _PLAIN, "affine": _AFFINE, "unit": _UNIT}
_LAST = re.compile(r"/\* sha256 ([0-9a-f]{64}) \*/\n", re.ASCII)
_SIZES = re.compile(
    r"/\* [^*]* mmbsgd ([\w.+-]+)\. [^*]*\*/[^{}]*\{\n#endif\n\n"
    r"enum \{ FEATURES = (\d{1,10}), VECTORS = (\d{1,10}) \};\n"
    r"(?:/\* The features, in JSON:\n(\[[^*]*\]) \*/\n)?",
    re.ASCII,
)
_NUMBER = re.compile(r"0|-?0x[01](?:\.[0-9a-f]{1,13})?p[+-]\d{1,4}f?", re.ASCII)
_LITERAL = r'"(?:[^"\\\n]|\\["\\?]|\\[0-7]{3})*"'
_PAIR = re.compile(rf"\{{({_LITERAL}|[^,\"]+), ({_LITERAL}|[^,\"]+)\}}")


def write(model: BudgetedModel, path: Path) -> list[Path]:
    vectors, coefficients = vectors_of(model)
    labels, scaling = labels_of(model), model.scaling
    own = type(labels[0])
    tables = {"GAMMA": _hex(model.gamma), "BIAS": _hex(model.bias)}
    tables["LABELS"] = f"{{{_literal(labels[0])}, {_literal(labels[1])}}}"
    steps = "none" if scaling is None else "unit" if scaling.method == "unit" else "affine"
    if scaling is not None and scaling.shift is not None and scaling.factor is not None:
        tables |= {"SHIFT": _row(scaling.shift), "FACTOR": _row(scaling.factor)}
    tables["COEFFICIENTS"] = _row(coefficients)
    tables["SUPPORT"] = "{\n" + ",\n".join(_row(vector, "f") for vector in vectors) + "}"
    head, tail = _around(__version__, model.width, len(vectors), model.features, own, steps)
    declared = _declared(own, steps)
    lines = (f"static const {declared[name]} = {numbers};\n" for name, numbers in tables.items())
    text = head + "".join(lines) + tail
    return [written_text(path, text + f"/* sha256 {_digest(text)} */\n")]


def _around(
    version: str, width: int, count: int, names: tuple[str, ...] | None, own: type, steps: str
) -> tuple[str, str]:
    """The text before the tables and after them."""
    text = _CODE.format(
        version=version,
        width=width,
        count=count,
        names="" if names is None else f"/* The features, in JSON:\n{_commented(names)} */\n",
        kind=KINDS[own],
        tables="\0",
        scaling=_STEPS[steps],
    )
    head, tail = text.split("\0")
    return head, tail


def _commented(names: tuple[str, ...]) -> str:
    """JSON that neither ends a comment nor begins one, and has no trigraph. One name a line: C99 wants short ones."""
    text = "[" + ",\n".join(map(json.dumps, names)) + "]"
    return re.sub(r"[*/?\x7f]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _declared(own: type, steps: str) -> dict[str, str]:
    """The tables in their order, as C declares them."""
    labels = "char *const LABELS[2]" if own is str else f"{KINDS[own]}LABELS[2]"
    scaling = {name: f"double {name}[FEATURES]" for name in ("SHIFT", "FACTOR") if steps == "affine"}
    return {
        "GAMMA": "double GAMMA",
        "BIAS": "double BIAS",
        "LABELS": labels,
        **scaling,
        "COEFFICIENTS": "double COEFFICIENTS[VECTORS]",
        "SUPPORT": "float SUPPORT[VECTORS][FEATURES]",
    }


def _row(numbers: NDArray[Any], suffix: str = "") -> str:
    written = ["0"] * len(numbers)
    for place in np.flatnonzero(numbers):
        written[place] = _hex(numbers[place]) + suffix
    return "{" + ",\n".join(", ".join(some) for some in _some(written, 8)) + "}"


def _some(words: list[str], count: int) -> Iterable[list[str]]:
    return (words[begin : begin + count] for begin in range(0, len(words), count))


def _hex(number: float) -> str:
    """0x1.8p+1: without the zeros at the end that float.hex has."""
    mantissa, exponent = float(number).hex().split("p")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{exponent}"


def _literal(label: Any) -> str:
    if isinstance(label, str):
        return _quoted(label)
    if isinstance(label, float):
        return _hex(label)
    if isinstance(label, bool):
        return str(int(label))
    return f"{label}L" if label > -(2**63) else _SMALLEST


def _quoted(label: str) -> str:
    """Octal escapes end after three digits, and \\? keeps ??/ from being a trigraph."""
    data = label.encode()
    if 0 in data or len(data) > _LONGEST:
        raise ExportError(
            f"the label {label[:40]!r} cannot be a string in C, which ends at a zero and has at most {_LONGEST} bytes: "
            "choose the format onnx or native"
        )
    plain = {byte: chr(byte) for byte in range(0x20, 0x7F)} | {ord(char): f"\\{char}" for char in '"\\?'}
    return '"' + "".join(plain.get(byte, f"\\{byte:03o}") for byte in data) + '"'


def load(path: Path) -> Sum:
    data = contents(path)
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        refuse(path, "it is not plain text")
    cut = text.rfind("\n", 0, -1) + 1
    ending = _LAST.fullmatch(text[cut:])
    if ending is None:
        refuse(path, "its last line is not the fingerprint that mmbsgd writes")
    if _digest(text[:cut]) != ending[1]:
        refuse(path, "its text does not match its fingerprint")
    try:
        return _parsed(text[:cut])
    except (ValueError, OverflowError, KeyError, InputError) as error:
        refuse(path, error)


def _parsed(text: str) -> Sum:
    """Only what `write` could have written: the code around the tables is compared, not understood."""
    sizes = _SIZES.match(text)
    if sizes is None:
        raise ValueError("it does not begin as mmbsgd begins it")
    width, count = int(sizes[2]), int(sizes[3])
    if not 0 < width * count <= MOST:
        raise ValueError(f"{count} vectors of {width} features are too many")
    names = feature_names(sizes[4] or "null")
    for own, steps in product(KINDS, _STEPS):
        head, tail = _around(sizes[1], width, count, names, own, steps)
        if text.startswith(head) and text.endswith(tail) and len(text) > len(head) + len(tail):
            tables = _tables(text[len(head) : -len(tail)], _declared(own, steps))
            return replace(_sum(tables, width, count, own, steps), features=names)
    raise ValueError("its code is not what mmbsgd writes")


def _tables(text: str, declared: dict[str, str]) -> dict[str, str]:
    lines = text.split(";\n")
    begins = [f"static const {one} = " for one in declared.values()]
    if len(lines) != len(begins) + 1 or lines[-1] or not all(map(str.startswith, lines, begins)):
        raise ValueError(f"its tables are not {', '.join(declared)}")
    return {name: line[len(begin) :] for name, line, begin in zip(declared, lines, begins, strict=False)}


def _sum(tables: dict[str, str], width: int, count: int, own: type, steps: str) -> Sum:
    vectors = _numbers(tables["SUPPORT"], width * count).reshape(count, width)
    gamma, bias = float(_numbers(tables["GAMMA"], 1)[0]), float(_numbers(tables["BIAS"], 1)[0])
    labels = _PAIR.fullmatch(tables["LABELS"])
    if not gamma > 0.0 or np.abs(vectors).max() > np.finfo(np.float32).max or labels is None:
        raise ValueError("its gamma is not above zero, a vector is too large, or there are not two labels")
    scaling = Scaling("unit") if steps == "unit" else None
    if steps == "affine":
        scaling = Scaling("standard", _numbers(tables["SHIFT"], width), _numbers(tables["FACTOR"], width))
    scale = None if scaling is None else scaling.apply
    classes = (_label(own, labels[1]), _label(own, labels[2]))
    return Sum(vectors, _numbers(tables["COEFFICIENTS"], count), bias, gamma, classes, scale, np.float32)


def _numbers(table: str, count: int) -> NDArray[np.float64]:
    words = re.sub(r"[{}\s]", "", table).split(",")
    if len(words) != count:
        raise ValueError(f"a table of {count} numbers has {len(words)}")
    if not all(map(_NUMBER.fullmatch, words)):
        raise ValueError("a table holds what is no number")
    return np.array([float.fromhex(word.removesuffix("f")) for word in words])


def _label(own: type, literal: str) -> Any:
    if own is float:
        return float.fromhex(literal)
    if own is bool:
        return {"0": False, "1": True}[literal]
    if own is int:
        return -(2**63) if literal == _SMALLEST else int(literal.removesuffix("L"))
    if not literal.startswith('"'):
        raise ValueError("a label is not quoted")
    return re.sub(rb"\\([0-7]{3}|.)", _unescaped, literal[1:-1].encode()).decode()


def _unescaped(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 8)]) if len(found[1]) == 3 else found[1]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
