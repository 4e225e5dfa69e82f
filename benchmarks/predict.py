"""How fast do models answer, and do their formats agree? Native beside scikit-learn's SVC and onnxruntime, on one core.

    python benchmarks/predict.py [--rows N] [--out DIR]

All three have the same support vectors and coefficients; their decision values are compared before anything is timed.
Methods take turns, medians count; with single rows a turn is a hundred of them, so that each finds its own vectors in
the cache, as in a process that does nothing else. Dense rows have 22 features (as IJCNN), sparse ones 123 with 14 of
them set (as ADULT); SVC gets them as CSR, as the native model does, onnxruntime can only take them dense and is timed
without the conversion.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from frame import ROOT, Figure, Raw, machine, progress, show
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse import random as random_sparse
from sklearn.svm import SVC

from mmbsgd import BudgetedModel
from workflows.export import onnx_graph

VECTORS, GAMMA, ROWS, REPEATS, SINGLE_ROWS, TURN = 500, 0.5, 100_000, 5, 2000, 100
WIDTHS = {"22 dense features": 22, "123 sparse features": 123}
SET = 14


def rows_of(kind: str, rows: int, seed: int) -> Any:
    width = WIDTHS[kind]
    if "dense" in kind:
        return np.random.default_rng(seed).random((rows, width), np.float32)
    found = random_sparse(rows, width, SET / width, format="csr", random_state=seed, dtype=np.float32)
    found.data[:] = 1.0
    return csr_matrix(found)


def dense(rows: Any) -> NDArray[np.float32]:
    return np.ascontiguousarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float32)


def model_of(kind: str) -> BudgetedModel:
    coefficients = np.random.default_rng(0).normal(size=VECTORS)
    return BudgetedModel(dense(rows_of(kind, VECTORS, 1)), coefficients, 0.1, GAMMA)


def svc_of(model: BudgetedModel, rows: Any) -> SVC:
    """An SVC that was given the model's support vectors, those of the first class first, as LIBSVM sorts them."""
    order = np.argsort(model.coefficients > 0, kind="stable")
    vectors, coefficients = model.support_vectors[order].astype(np.float64), model.coefficients[order]
    sparse = hasattr(rows, "toarray")
    svc = SVC(gamma=model.gamma).fit(csr_matrix(vectors) if sparse else vectors, coefficients > 0)
    svc.support_ = np.arange(VECTORS, dtype=np.int32)
    svc.support_vectors_ = csr_matrix(vectors) if sparse else vectors
    svc._n_support = np.array([(coefficients <= 0).sum(), (coefficients > 0).sum()], np.int32)
    # LIBSVM's own sign is the other one.
    svc._dual_coef_ = svc.dual_coef_ = csr_matrix(-coefficients[None]) if sparse else -coefficients[None]
    svc._intercept_ = svc.intercept_ = np.array([-model.bias])
    return svc


def measured(kind: str, rows: int, folder: Path) -> Raw:
    from onnxruntime import InferenceSession, SessionOptions

    model, raw = model_of(kind), rows_of(kind, rows, 2)
    options = SessionOptions()
    options.intra_op_num_threads = 1
    (file,) = onnx_graph.write(model, folder / onnx_graph.FILE)
    session = InferenceSession(file, options, providers=["CPUExecutionProvider"])
    svc, full = svc_of(model, raw), dense(raw)
    double = raw.astype(np.float64)

    def graph(part: NDArray[np.float32]) -> Any:
        return session.run(["score"], {"rows": part})[0]

    few = slice(0, 1000)
    native = model.decision_function(raw[few])
    away = {
        "SVC": np.abs(svc.decision_function(double[few]) - native).max(),
        "onnxruntime": np.abs(graph(full[few]) - native).max(),
    }
    assert max(away.values()) < 1e-3, away
    batch = 4096
    methods: dict[str, Callable[[], Any]] = {
        "native": lambda: model.predict(raw),
        "onnxruntime": lambda: [graph(full[start : start + batch]) for start in range(0, rows, batch)],
        "onnxruntime, all rows at once": lambda: graph(full),
        "SVC": lambda: svc.predict(double),
    }
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(REPEATS):
        for name, method in methods.items():
            began = time.perf_counter()
            method()
            seconds[name].append(time.perf_counter() - began)
            progress(f"{kind}, {name}: {seconds[name][-1]:.3f} s")
    single: dict[str, list[float]] = {"native": [], "onnxruntime": []}
    for first in range(0, SINGLE_ROWS, TURN):
        for name, answer, source in (("native", model.decision_function, raw), ("onnxruntime", graph, full)):
            for place in range(first, first + TURN):
                one = source[place : place + 1]
                began = time.perf_counter()
                answer(one)
                single[name].append(time.perf_counter() - began)
    return {
        "rows": rows,
        "seconds": seconds,
        "single": {name: median(found) for name, found in single.items()},
        "difference": {name: float(found) for name, found in away.items()},
    }


def figures(kind: str, part: Raw) -> Iterator[Figure]:
    seconds = {name: median(found) for name, found in part["seconds"].items()}
    quicker = min(seconds["onnxruntime"], seconds["onnxruntime, all rows at once"])
    text = f"{part['rows']:,} rows of {kind}, {VECTORS} vectors"
    yield Figure(f"{text}: native, × faster than SVC.predict", seconds["SVC"] / seconds["native"], 20, at_least=True)
    yield Figure(f"{text}: native, × faster than onnxruntime", quicker / seconds["native"], 1, at_least=True)
    yield Figure(f"{text}: native, rows per second", part["rows"] / seconds["native"])
    yield Figure(f"{text}: ONNX's largest difference from native", part["difference"]["onnxruntime"], 1e-4)
    yield Figure(f"one row of {kind} through onnxruntime", 1e6 * part["single"]["onnxruntime"], 50, unit=" µs")
    yield Figure(f"one row of {kind}, native", 1e6 * part["single"]["native"], unit=" µs")


def main() -> None:
    parser = argparse.ArgumentParser(description="Predictions, on one core.")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of a batch (%(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", help="folder for the results")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    parts: Raw = {}
    for kind in WIDTHS:
        facts = machine()
        with tempfile.TemporaryDirectory(prefix="mmbsgd-benchmark-") as folder:
            part = measured(kind, arguments.rows, Path(folder))
        part["figures"] = [figure.as_dict() for figure in figures(kind, part)]
        parts[kind] = part | {"machine": facts | {"load_average_after": os.getloadavg()[0]}}
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "predict.json").write_text(json.dumps(parts, indent=1) + "\n")
    show(parts)


if __name__ == "__main__":
    main()
