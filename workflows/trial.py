"""One trial: train on some splits, score on others, count what it cost. A pure function of its spec and the data.

Its parameters are the solver's, and two more where a study says so: `seed`, for runs of the same parameters that are
trials of their own, and `method`, for a classifier that is trained instead, as its users would (see `peers`).

After every epoch its clock stands still and a small probe of the data tells how good it would be if it ended now. One
that will cost more than a second is looked at more often, and stops when it can only end dominated.
"""

import math
import statistics
import time
import traceback
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from mmbsgd import BudgetedModel, MultiMergeSVC, Training
from mmbsgd.bias import calibrated_bias
from mmbsgd.estimator import POLISH
from mmbsgd.training import CHUNK, Trainer
from workflows import peers
from workflows.data import PreparedData
from workflows.records import Bar, Metric, Point, Step, TrialResult, TrialSpec
from workflows.stopping import SHARES, hopeless

PROBE_ROWS = 2048
EPOCH_ROWS = 1024
"""Fewer where nothing is decided: short trials have epochs too."""
LARGEST_SHARE_OF_LOOKS = 0.05
"""Of the kernel evaluations of the training so far, for looking at it."""

TRACE_EVERY = 128
"""Steps between two looks of a trial that keeps a trace; of these it keeps one in every tenth more."""

Run = Callable[[TrialSpec], TrialResult]


def run_trial(spec: TrialSpec, data: PreparedData) -> TrialResult:
    spec = replace(spec, parameters={name: value for name, value in spec.parameters.items() if value is not None})
    runs: list[_Trained] = []
    watcher = _Watcher(spec, data)
    for repeat, fold in product(range(spec.repeats), spec.folds):
        try:
            runs.append(_train(spec, data, repeat, fold, watcher if not runs else None))
        except _Stopped:
            return watcher.result()
        if not math.isfinite(runs[-1].score):
            break  # the others would not mend it
    scores = [run.score for run in runs]
    return TrialResult(
        spec.number,
        "complete",
        score=statistics.fmean(scores),
        spread=statistics.pstdev(scores) if len(scores) > 1 and all(map(math.isfinite, scores)) else 0.0,
        costs=_means([run.costs for run in runs]),
        counters=_means([run.counters for run in runs]),
        curve=watcher.curve(runs[0]),
        epochs=watcher.epochs(runs[0]),
        trace=watcher.trace,
        model=xxhash.xxh3_64_hexdigest(b"".join(run.model for run in runs)),
    )


def attempt(run: Run, spec: TrialSpec, node: str = "") -> TrialResult:
    """The trial's result, whatever happens to it: an exception becomes a failed one."""
    began = time.perf_counter()
    try:
        result = run(spec)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        said = " ".join(str(error).split()) or "no message"
        reason = f"{type(error).__name__}: {said} ({Path(frame.filename).name}, line {frame.lineno})"
        result = TrialResult(spec.number, "failed", reason=reason)
    return replace(result, node=node, seconds=time.perf_counter() - began)


def costs_of(training: Training) -> dict[str, float]:
    return {
        "cpu": training.cpu_seconds,
        "wall": training.seconds,
        "work": float(training.kernel_evaluations),
    }


def score_of(metric: Metric, scores: NDArray[np.float64], codes: NDArray[np.int8]) -> float:
    """How well decision values tell the two classes apart; NaN where the metric is not defined."""
    if not np.isfinite(scores).all():
        return float("nan")
    decided = scores > 0
    if metric == "accuracy":
        return float(np.mean(decided == codes))
    from sklearn import metrics

    if metric == "f1":
        return float(metrics.f1_score(codes, decided, zero_division=0.0))
    if codes.min() == codes.max():
        return float("nan")
    if metric == "roc-auc":
        return float(metrics.roc_auc_score(codes, scores))
    return float(metrics.balanced_accuracy_score(codes, decided))


@dataclass(frozen=True)
class _Trained:
    score: float
    costs: dict[str, float]
    counters: dict[str, float]
    model: bytes


class _Stopped(Exception):
    """The trial can only end dominated."""


def _train(
    spec: TrialSpec,
    data: PreparedData,
    repeat: int,
    fold: tuple[Sequence[str], Sequence[str]],
    watcher: "_Watcher | None",
) -> _Trained:
    parameters = dict(spec.parameters)
    method, seed = parameters.pop("method", None), _seed(parameters.pop("seed", spec.seed), repeat)
    if method is not None:
        fitted = peers.fit(method, parameters, data, tuple(fold[0]), seed)
        return _peer(fitted, spec.metric, *fitted.decided(data, tuple(fold[1])))
    estimator = MultiMergeSVC(**parameters, random_state=seed)
    estimator.fit_portions(data.split(*fold[0]), watch=watcher, every=TRACE_EVERY if spec.trace else CHUNK)
    training, model = estimator.training_, estimator.model_
    scores, codes, latency = _decided(model, data, fold[1])
    numbers = model.support_vectors.tobytes() + model.coefficients.tobytes() + np.float64(model.bias).tobytes()
    counters = _counters(training) | {"latency": latency, "bytes": float(len(numbers))}
    if spec.metric == "accuracy":  # as the paper's code scores, which has no bias
        counters["score_without_bias"] = float(np.mean((scores > model.bias) == codes))
    return _Trained(score_of(spec.metric, scores, codes), costs_of(training), counters, numbers)


def _peer(
    fitted: peers.Fitted, metric: Metric, scores: NDArray[np.float64], codes: NDArray[np.int8], latency: float
) -> _Trained:
    size, saved = float(fitted.support_vectors), fitted.saved
    counters = {"latency": latency, "bytes": float(len(saved)), "support_vectors": size, "size": size}
    costs = {"cpu": fitted.cpu_seconds, "wall": fitted.seconds, "work": 0.0}
    return _Trained(score_of(metric, scores, codes), costs, counters, saved)


def _decided(
    model: Any, data: PreparedData, splits: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.int8], float]:
    """Its scores, the classes, and the seconds that a row took."""
    began = time.thread_time()
    scores, codes = data.split(*splits).decide(model)
    return scores, codes, (time.thread_time() - began) / len(scores)


class _Watcher:
    """Looks at the first of the trial's trainings from time to time. One that will be polished is not stopped: what
    comes of it nobody knows before."""

    def __init__(self, spec: TrialSpec, data: PreparedData) -> None:
        trained_on, scored_on = spec.folds[0]
        self._spec, self._points, self._epochs = spec, list[Point](), list[Point]()
        self._training, self._held_out = _probe(data, trained_on), _probe(data, scored_on)
        self._rows = data.split(*trained_on).rows
        self._total = spec.parameters.get("epochs", 1) * self._rows
        self._next = self._looks = 0
        self._polished = spec.parameters.get("polish", POLISH) > 0
        self._last: Training | None = None
        self._steps, self._next_step = list[Step](), 1

    def __call__(self, trainer: Trainer) -> None:
        if self._spec.trace and trainer.steps >= self._next_step:
            self._next_step = math.ceil(1.1 * trainer.steps)
            self._steps.append(_step(trainer.report()))
        if trainer.steps >= self._total:
            return  # it is scored for real now
        if trainer.steps % self._rows == 0:
            self._epochs.append(self._point(trainer, trainer.report(), EPOCH_ROWS))
        share = trainer.steps / self._total
        if (
            self._spec.bar is not None
            and not self._polished
            and self._next < len(SHARES)
            and share >= SHARES[self._next]
        ):
            self._next = bisect_right(SHARES, share)
            self._judge(trainer, self._spec.bar)

    def curve(self, run: _Trained) -> tuple[Point, ...]:
        """The looks, and the end as it was really scored."""
        return (*self._points, self._end(run)) if self._points else ()

    def epochs(self, run: _Trained) -> tuple[Point, ...]:
        return (*self._epochs, self._end(run))

    @property
    def trace(self) -> tuple[Step, ...]:
        return tuple(self._steps)

    def result(self) -> TrialResult:
        training, last = self._last, self._points[-1]
        assert training is not None
        return TrialResult(
            self._spec.number,
            "stopped",
            score=last.score,
            costs=costs_of(training),
            counters=_counters(training),
            curve=tuple(self._points),
            epochs=tuple(self._epochs),
            reason=f"after {last.share:.0%} of its training it could only end dominated",
        )

    def _judge(self, trainer: Trainer, bar: Bar) -> None:
        training, share = trainer.report(), trainer.steps / self._total
        look = training.support_vectors * sum(len(codes) for _, codes in (self._training, self._held_out))
        cost = costs_of(training)[self._spec.cost]
        if cost / share < bar.shortest or self._looks + look > LARGEST_SHARE_OF_LOOKS * training.kernel_evaluations:
            return
        self._looks += look
        self._points.append(self._point(trainer, training, PROBE_ROWS))
        if hopeless(self._points, bar):
            self._last = training
            raise _Stopped

    def _point(self, trainer: Trainer, training: Training, rows: int) -> Point:
        score = self._score(trainer.model(), rows)
        return Point(trainer.steps / self._total, costs_of(training)[self._spec.cost], score)

    def _end(self, run: _Trained) -> Point:
        return Point(1.0, run.costs[self._spec.cost], run.score)

    def _score(self, model: BudgetedModel, rows: int) -> float:
        bias = 0.0
        if self._spec.parameters.get("bias", "calibrated") == "calibrated":
            matrix, codes = self._training[0][:rows], self._training[1][:rows]
            if 0 < codes.sum() < len(codes):
                scores = model.decision_function(matrix).astype(np.float32)
                bias = calibrated_bias(scores, codes.astype(np.float32) * 2 - 1)
        matrix, codes = self._held_out[0][:rows], self._held_out[1][:rows]
        return score_of(self._spec.metric, model.decision_function(matrix) + bias, codes)


@lru_cache(maxsize=32)
def _probe(data: PreparedData, splits: tuple[str, ...]) -> tuple[Any, NDArray[np.int8]]:
    """Some rows of these splits: partitions are shuffled, so that the first rows will do."""
    partition = data.partition(data.split(*splits).records[0])
    return partition.matrix[:PROBE_ROWS], partition.codes[:PROBE_ROWS]


def _seed(seed: int, repeat: int) -> int:
    return int(np.random.SeedSequence([seed, repeat]).generate_state(1)[0] >> 1)


def _step(training: Training) -> Step:
    return Step(training.steps, training.mean_gradient_error, training.largest_gradient_error, training.theorem_bound)


def _counters(training: Training) -> dict[str, float]:
    counted = {name: float(value) for name, value in training.as_dict().items() if not math.isnan(value)}
    del counted["seconds"], counted["cpu_seconds"]  # they are costs
    return counted | {"size": counted["support_vectors"]}


def _means(records: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.fmean(record[name] for record in records) for name in records[0]}
