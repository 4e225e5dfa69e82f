"""A training from start to end: passes in Python's hands, everything inside a pass compiled.

`Trainer` holds what is being learnt and can be fed rows in any number of portions; `Training` is its report. With
several portions an epoch visits them in a fresh random order, and the rows of each in a fresh random order.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmbsgd.bias import calibrated_bias, optimal_bias
from mmbsgd.gaussian import margins, tile_for
from mmbsgd.maintenance import STRATEGIES, Policy, bench_for
from mmbsgd.model import BudgetedModel
from mmbsgd.polishing import Polished, compile_kernels, polish
from mmbsgd.portions import Portions
from mmbsgd.rows import Rows
from mmbsgd.sgd import (
    KERNEL_EVALUATIONS,
    MAINTENANCE_CALLS,
    MAINTENANCE_TICKS,
    MERGES,
    PASS_TICKS,
    STEPS,
    VIOLATIONS,
    empty_tally,
    run_pass,
)
from mmbsgd.support import COUNT, empty_support

ENGINES = ("fast", "paper")
MULTIPLICATIONS_PER_EVALUATION = 16
"""Of polishing, in the time of one kernel evaluation: measured with B = 500 on ADULT, to a factor of two."""
CHUNK = 8192
"""Steps between two looks of a watcher, unless it wants others."""


@dataclass(frozen=True)
class Training:
    """What a training did and what it cost."""

    steps: int
    margin_violations: int
    maintenance_calls: int
    merges: int
    kernel_evaluations: int
    """And what else polishing did, in their measure."""
    support_vectors: int
    seconds: float
    """Passes, bias and polishing together; compilation never counts."""
    cpu_seconds: float
    """The same in time of this thread's processor: what others do on the machine does not blur it."""
    maintenance_seconds: float
    bias_seconds: float
    polish_seconds: float
    polish_passes: int
    """Over all rows: one for the start, and one for each of Newton's steps."""
    objective: float
    """1/2 ||w||^2 / (C sum_i w_i) + the weighted mean of the losses, before the bias is calibrated; NaN where the
    model is not a polished one."""
    gap: float
    """How far the objective may be above the optimum over the same support vectors, as a part of it; at most 1."""
    mean_gradient_error: float
    """The mean of ||E_t|| = ||Delta_t|| / eta_t over all steps, called E-bar in Theorem 1."""
    largest_gradient_error: float
    """Theorem 1 assumes that it is at most 1."""
    theorem_bound: float
    """Theorem 1: how far the mean loss along the way can be above the optimum's, for weights of 1; it promises nothing
    where `largest_gradient_error` is above 1."""

    @property
    def maintenance_share(self) -> float:
        return self.maintenance_seconds / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Without what has no value, which JSON could not say."""
        named = {**asdict(self), "maintenance_share": self.maintenance_share}
        return {name: value for name, value in named.items() if math.isfinite(value)}


def theorem_bound(regularization: float, steps: int, mean_gradient_error: float) -> float:
    """(lambda U + 2)^2 (ln N + 1) / (2 lambda N) + 2 U E, U = 2 / lambda for lambda <= 4, else lambda^-1/2."""
    if steps == 0:
        return math.inf
    radius = 2.0 / regularization if regularization <= 4.0 else regularization**-0.5
    optimisation = (regularization * radius + 2.0) ** 2 * (math.log(steps) + 1.0) / (2.0 * regularization * steps)
    return optimisation + 2.0 * radius * mean_gradient_error


def _evaluations(polished: Polished) -> int:
    return polished.kernel_evaluations + polished.multiplications // MULTIPLICATIONS_PER_EVALUATION


class Stopwatch(AbstractContextManager["Stopwatch"]):
    """Adds up wall time and this thread's processor time while it is entered."""

    def __init__(self) -> None:
        self.seconds = self.cpu_seconds = 0.0

    def __enter__(self) -> "Stopwatch":
        self._began, self._cpu_began = time.perf_counter(), time.thread_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu_seconds += time.thread_time() - self._cpu_began
        self.seconds += time.perf_counter() - self._began

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()


class Trainer:
    """Budgeted SGD over portions of rows: `run` any number of passes, then `calibrate`, then `model`."""

    def __init__(
        self,
        *,
        width: int,
        regularization: float,
        gamma: float,
        budget: int,
        mergees: int = 3,
        maintenance: str = "cascade",
        across_signs: bool = False,
        engine: str = "fast",
        unit: float = 1.0,
        seed: int = 0,
    ) -> None:
        """unit: what a weight of 1 stands for. Coefficients are kept in that unit, so that none leaves float32."""
        self.regularization = regularization
        self.unit = unit
        self.policy = Policy(STRATEGIES[maintenance], budget, mergees, across_signs, engine == "paper")
        self.support = empty_support(budget, width, gamma)
        self.bench = bench_for(self.policy)
        self.tally = empty_tally()
        self.generator = np.random.default_rng(seed)
        self.shuffler = np.random.default_rng([seed, 1])  # of portions: rows of a single one keep their own order
        self.bias = 0.0  # in units of beta
        self.watch: Watch | None = None
        """Called after `every` steps, and after every pass of polishing, while the clock stands still; an
        exception that it raises ends the training."""
        self.every = CHUNK
        self.polish_passes = 0
        self._polished: Polished | None = None
        self._passes, self._calibration, self._polishing = Stopwatch(), Stopwatch(), Stopwatch()
        self._calibration_evaluations = self._polishing_evaluations = 0

    def epoch(self, portions: Portions) -> None:
        """One pass over everything."""
        portions.visit(self.shuffler.permutation(len(portions)).tolist(), self.run)

    def run(self, rows: Rows, signed_weights: NDArray[np.float32]) -> None:
        """One pass over the rows in a fresh random order."""
        self._polished = None
        self._visit(rows, signed_weights, np.empty(0, np.int64))  # compiles, if need be, before the clock runs
        with self._passes:
            order = self.generator.permutation(len(signed_weights))
        chunk = len(order) if self.watch is None else self.every
        for start in range(0, len(order), max(chunk, 1)):
            with self._passes:
                self._visit(rows, signed_weights, order[start : start + chunk])
            if self.watch is not None:
                self.watch(self)

    def _visit(self, rows: Rows, signed_weights: NDArray[np.float32], order: NDArray[np.int64]) -> None:
        threshold = self.regularization / self.unit
        run_pass(rows, signed_weights, order, threshold, self.support, self.policy, self.bench, self.tally)

    @property
    def steps(self) -> int:
        return int(self.tally.counters[STEPS])

    def scores(self, rows: Rows, count: int) -> NDArray[np.float32]:
        """sum_j beta_j k(s_j, x_i) of the current vectors."""
        out = np.empty(count, np.float32)
        margins(rows, 0, self.support, tile_for(rows), out)
        self._calibration_evaluations += count * int(self.support.state[COUNT])
        return out

    def polish(self, portions: Portions, passes: int, bias: str) -> None:
        """Gives the support vectors their best coefficients and bias. SGD goes on from its own coefficients."""
        start, before = self.model(), self.polish_passes
        cost = self.unit / (self.regularization * sum(portions.counts))
        compile_kernels()  # if need be, before the clock runs

        def look(used: int) -> None:
            self.polish_passes = before + used
            if self.watch is not None:
                with self._polishing.paused():
                    self.watch(self)

        with self._polishing:
            self._polished = polish(start, portions, cost=cost, passes=passes, bias=bias, look=look)
        self._polishing_evaluations += _evaluations(self._polished)

    def calibrate(self, portions: Portions, bias: str = "calibrated") -> None:
        """Sets the bias to the threshold of least error on these rows, or of least hinge loss ("optimal"); one class
        alone says nothing about it."""
        scores: list[NDArray[np.float32]] = []
        weights: list[NDArray[np.float32]] = []

        def score(rows: Rows, signed_weights: NDArray[np.float32]) -> None:
            self.scores(rows, 0)
            with self._calibration:
                scores.append(self.scores(rows, len(signed_weights)))
                weights.append(np.array(signed_weights))

        portions.visit(range(len(portions)), score)
        with self._calibration:
            signed = np.concatenate(weights)
            if (signed > 0).any() and (signed < 0).any():
                found = np.concatenate(scores)
                if bias == "calibrated":
                    self.bias = calibrated_bias(found, signed)
                else:
                    self.bias = optimal_bias(found * self._unit_of_beta, signed) / self._unit_of_beta

    @property
    def _unit_of_beta(self) -> float:
        """alpha / beta"""
        return self.unit / (self.regularization * max(int(self.tally.counters[STEPS]), 1))

    def model(self) -> BudgetedModel:
        if self._polished is not None:
            return self._polished.model
        support = self.support
        occupied = np.flatnonzero(support.beta[: support.points.shape[0]])
        return BudgetedModel(
            support_vectors=support.points[occupied],
            coefficients=support.beta[occupied].astype(np.float64) * self._unit_of_beta,
            bias=self.bias * self._unit_of_beta,
            gamma=support.gamma,
        )

    def report(self) -> Training:
        counters, errors = self.tally.counters, self.tally.errors
        steps = int(counters[STEPS])
        mean_error = self.unit * float(errors[0]) / max(steps, 1)
        share = counters[MAINTENANCE_TICKS] / max(int(counters[PASS_TICKS]), 1)
        polished, watches = self._polished, (self._passes, self._calibration, self._polishing)
        evaluations = int(counters[KERNEL_EVALUATIONS]) + self._calibration_evaluations + self._polishing_evaluations
        return Training(
            steps=steps,
            margin_violations=int(counters[VIOLATIONS]),
            maintenance_calls=int(counters[MAINTENANCE_CALLS]),
            merges=int(counters[MERGES]),
            kernel_evaluations=evaluations,
            support_vectors=int(self.support.state[COUNT]),
            seconds=sum(watch.seconds for watch in watches),
            cpu_seconds=sum(watch.cpu_seconds for watch in watches),
            maintenance_seconds=self._passes.seconds * float(share),
            bias_seconds=self._calibration.seconds,
            polish_seconds=self._polishing.seconds,
            polish_passes=self.polish_passes,
            objective=polished.objective if polished else math.nan,
            gap=polished.gap if polished else math.nan,
            mean_gradient_error=mean_error,
            largest_gradient_error=self.unit * float(errors[1]),
            theorem_bound=theorem_bound(self.regularization, steps, mean_error),
        )


Watch = Callable[[Trainer], None]
