"""What a user would pick instead: other classifiers, trained by the same trials on the same rows.

A trial whose parameters name a `method` trains it as scikit-learn's users do, and our own estimator no otherwise than
the rest: the clock runs around `fit`, on one thread. Rows are gathered before, once per worker, and a first fit of a
few rows, which loads and compiles, is not timed. Feature maps and linear models are scikit-learn's own.
"""

import pickle
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from workflows.data import PreparedData
from workflows.data.partitions import Partition

Parameters = Mapping[str, Any]
Build = Callable[[Parameters, int, int], Any]
"""An estimator from its parameters, the number of training rows and a seed."""
OURS = "mmbsgd"
BLOCK = 10_000
"""Rows that are scored at a time."""
WARMING_ROWS = 100
"""Of each class at most."""
CACHE_MEGABYTES = 1000
"""For the exact solver's kernel rows: five times what scikit-learn gives it."""


@dataclass(frozen=True)
class Method:
    title: str
    build: Build
    dense: bool = False
    """Whether it takes no sparse rows; making them dense is not timed."""
    random: bool = True
    """Whether another seed gives another model."""
    weighted: bool = False
    """Whether equal dense rows are given to it as one row with a weight: the same problem, sooner solved."""
    warming: Parameters = field(default_factory=dict)
    """Parameters of the first fit that need code which others may not."""


@dataclass(frozen=True)
class Fitted:
    """A trained peer."""

    estimator: Any
    method: Method
    cpu_seconds: float
    seconds: float

    def decided(
        self, data: PreparedData, splits: tuple[str, ...]
    ) -> tuple[NDArray[np.float64], NDArray[np.int8], float]:
        """Scores, classes, and the seconds that a row took on one thread; blocks of rows are made before."""
        matrix, codes, _ = _gathered(data, splits, self.method.dense, False)
        blocks = [matrix[start : start + BLOCK] for start in range(0, len(codes), BLOCK)]
        with threadpool_limits(1):
            began = time.thread_time()
            scores = [self.estimator.decision_function(block) for block in blocks]
            seconds = time.thread_time() - began
        return np.concatenate(scores).astype(np.float64), codes, seconds / len(codes)

    @property
    def saved(self) -> bytes:
        """As its users keep it: ours is a file of its own, others are pickles. It is measured, and never read."""
        if not hasattr(self.estimator, "model_"):
            return pickle.dumps(self.estimator)
        with tempfile.TemporaryDirectory() as folder:
            self.estimator.model_.save(file := Path(folder) / "model.arrow")
            return file.read_bytes()

    @property
    def support_vectors(self) -> int:
        """0 for models that have none."""
        return int(np.sum(getattr(self.estimator, "n_support_", 0)))


def fit(name: str, parameters: Parameters, data: PreparedData, splits: tuple[str, ...], seed: int) -> Fitted:
    method = METHODS[name]
    matrix, codes, weights = _gathered(data, splits, method.dense, method.weighted)
    estimator = method.build(parameters, len(codes), seed)
    given = {} if weights is None else {"sample_weight": weights}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a linear model has not converged: its time and its score say so
        _warm_up(name, parameters, matrix, codes)
        began, cpu_began = time.perf_counter(), time.thread_time()
        estimator.fit(matrix, codes, **given)
        return Fitted(estimator, method, time.thread_time() - cpu_began, time.perf_counter() - began)


_warm: set[tuple[str, bool]] = set()


def _warm_up(name: str, parameters: Parameters, matrix: Any, codes: NDArray[np.int8]) -> None:
    """Once per process, method and kind of rows."""
    kind = name, sparse.issparse(matrix)
    if kind in _warm:
        return
    some = np.concatenate([np.flatnonzero(codes == code)[:WARMING_ROWS] for code in np.unique(codes)])
    METHODS[name].build({**parameters, **METHODS[name].warming}, len(some), 0).fit(matrix[some], codes[some])
    _warm.add(kind)


@lru_cache(maxsize=6)
def _gathered(
    data: PreparedData, splits: tuple[str, ...], dense: bool, weighted: bool
) -> tuple[Any, NDArray[np.int8], NDArray[np.float64] | None]:
    matrices: list[Any] = []
    codes: list[NDArray[np.int8]] = []

    def add(partition: Partition) -> None:
        matrices.append(_rows(partition.matrix, dense))
        codes.append(np.array(partition.codes))

    data.split(*splits).each(add)
    classes = np.concatenate(codes)
    if sparse.issparse(matrices[0]):
        return sparse.vstack(matrices, format="csr"), classes, None
    stack = np.vstack(matrices)
    if not weighted:
        return stack, classes, None
    labelled = np.column_stack((stack, classes))
    _, first, counts = np.unique(labelled, axis=0, return_index=True, return_counts=True)
    return stack[first], classes[first], counts.astype(np.float64)


def _rows(matrix: Any, dense: bool) -> Any:
    return matrix.toarray() if dense and sparse.issparse(matrix) else matrix


# scikit-learn is imported when a peer is first trained: studies of our own need not wait for it.


def _ours(parameters: Parameters, rows: int, seed: int) -> Any:
    from mmbsgd import MultiMergeSVC

    return MultiMergeSVC(**parameters, random_state=seed)


def _exact(parameters: Parameters, rows: int, seed: int) -> Any:
    from sklearn.svm import SVC

    return SVC(C=parameters["C"], gamma=parameters["gamma"], cache_size=CACHE_MEGABYTES)


def _linear(parameters: Parameters, rows: int, seed: int) -> Any:
    from sklearn.preprocessing import MaxAbsScaler

    return _pipeline(MaxAbsScaler(), _linear_svm(parameters, rows, seed))


def _on_landmarks(classifier: Build) -> Build:
    def build(parameters: Parameters, rows: int, seed: int) -> Any:
        from sklearn.kernel_approximation import Nystroem

        count = min(parameters["components"], rows)
        features = Nystroem(gamma=parameters["gamma"], n_components=count, random_state=seed)
        return _pipeline(features, classifier(parameters, rows, seed))

    return build


def _on_frequencies(classifier: Build) -> Build:
    def build(parameters: Parameters, rows: int, seed: int) -> Any:
        from sklearn.kernel_approximation import RBFSampler

        features = RBFSampler(gamma=parameters["gamma"], n_components=parameters["components"], random_state=seed)
        return _pipeline(features, classifier(parameters, rows, seed))

    return build


def _averaged_sgd(parameters: Parameters, rows: int, seed: int) -> Any:
    from sklearn.linear_model import SGDClassifier

    strength = 1.0 / (rows * parameters["C"])
    return SGDClassifier(alpha=strength, max_iter=parameters["epochs"], tol=None, average=True, random_state=seed)


def _linear_svm(parameters: Parameters, rows: int, seed: int) -> Any:
    from sklearn.svm import LinearSVC

    return LinearSVC(C=parameters["C"], tol=parameters["tol"], dual="auto", random_state=seed)


def _trees(parameters: Parameters, rows: int, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=parameters["trees"],
        learning_rate=parameters["rate"],
        max_leaf_nodes=parameters["leaves"],
        l2_regularization=parameters["l2"],
        early_stopping=False,
        random_state=seed,
    )


def _pipeline(*steps: Any) -> Any:
    from sklearn.pipeline import make_pipeline

    return make_pipeline(*steps)


METHODS = {
    OURS: Method("mmbsgd", _ours, warming={"polish": 3}),
    "svc": Method("SVC (exact)", _exact, random=False, weighted=True),
    "linear-svc": Method("LinearSVC", _linear),
    "nystroem-sgd": Method("Nystroem + averaged SGD", _on_landmarks(_averaged_sgd)),
    "nystroem-svm": Method("Nystroem + linear SVM", _on_landmarks(_linear_svm)),
    "fourier-sgd": Method("Fourier features + averaged SGD", _on_frequencies(_averaged_sgd)),
    "fourier-svm": Method("Fourier features + linear SVM", _on_frequencies(_linear_svm)),
    "boosted-trees": Method("gradient-boosted trees", _trees, dense=True, random=False),
}
