"""The C file as users run it: compiled, if there is a compiler."""

import ctypes
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflows.errors import ExportError
from workflows.export.c_source import KINDS, load
from workflows.export.shared import batches, joined

_DRIVER = """\
#include <math.h>

{kind}predict(const float *x, double *score);
void predict_rows(const float *x, long rows, long width, {kind}*labels, double *scores);

void predict_rows(const float *x, long rows, long width, {kind}*labels, double *scores)
{{
    long i;

    for (i = 0; i < rows; i++)
        labels[i] = predict(x + i * width, scores + i);
}}
"""
_CTYPES: dict[type, Any] = {int: ctypes.c_long, float: ctypes.c_double, bool: ctypes.c_int, str: ctypes.c_char_p}
COMPILERS = ("cc", "gcc", "clang")
MOST_BYTES = 2**26
"""Of a file that is compiled to check it: more would take gigabytes and minutes."""


@dataclass(frozen=True)
class Compiled:
    """The file as a C compiler makes it. The loop over rows is C as well, so that Python's calls are not measured."""

    predict_rows: Any
    width: int
    own: type
    """Of its labels."""
    one_by_one = True

    def prepared(self, rows: Any) -> NDArray[np.float32]:
        return joined(list(batches(rows, self.width, np.float32, max(1, rows.shape[0]))), np.float32)

    def decision_function(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        return self._run(rows)[1]

    def predict(self, rows: NDArray[np.float32]) -> list[Any]:
        labels = list(self._run(rows)[0])
        return [label.decode() for label in labels] if self.own is str else [self.own(label) for label in labels]

    def _run(self, rows: NDArray[np.float32]) -> tuple[Any, NDArray[np.float64]]:
        labels, scores = (_CTYPES[self.own] * len(rows))(), np.empty(len(rows))
        self.predict_rows(rows.ctypes.data, len(rows), self.width, labels, scores.ctypes.data)
        return labels, scores


def run(path: Path) -> Compiled | None:
    """Of a file that was just written; None: there is no compiler that works, or the file is too large for it."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None or path.stat().st_size > MOST_BYTES:
        return None
    found = load(path)
    own = type(found.classes[0])
    with tempfile.TemporaryDirectory(prefix="mmbsgd-export-") as folder:
        driver, library = Path(folder, "driver.c"), Path(folder, "model.so")
        driver.write_text(_DRIVER.format(kind=KINDS[own]))
        said = _compile(compiler, [path.absolute(), driver], library)
        if said and _compile(compiler, [driver], library):
            return None  # it cannot compile anything: headers or a linker are missing
        if said:
            raise ExportError(f"{compiler} does not compile {path.name}: {said}; please report it")
        try:
            function = ctypes.CDLL(str(library)).predict_rows  # stays when the folder has gone
        except OSError:
            return None  # nothing may be run from temporary folders here
    function.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    function.restype = None
    return Compiled(function, found.width, own)


def _compile(compiler: str, sources: list[Path], library: Path) -> str:
    """What it says if it fails."""
    options = ("-O2", "-std=c99", "-shared", "-fPIC")
    command = [compiler, *options, "-o", str(library), "-x", "c", *map(str, sources), "-lm"]
    done = subprocess.run(command, capture_output=True, check=False)
    return done.stderr.decode(errors="replace")[-1000:] or "no reason given" if done.returncode else ""
