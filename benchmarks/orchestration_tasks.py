"""What benchmarks/orchestration.py measures in processes of their own: a study of stand-ins for trials on Ray actors,
the same with Ray Tune, and studies on a simulated cluster. Name and arguments (JSON) come from the command line, the
result goes to the standard output as JSON.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence
from math import log10
from pathlib import Path
from typing import Any

import numpy as np

from search_spaces import load
from workflows.backends import Backend
from workflows.backends.simulated import Simulated
from workflows.cluster import connect
from workflows.records import Bar, Point, TrialResult, TrialSpec
from workflows.study.driver import Driver, Limits, Listener
from workflows.study.proposer import POPULATION, Proposer
from workflows.study.settings import Settings
from workflows.study.tuning import Watcher, held

WORKERS = 2
TRIAL_SECONDS = 0.010
MEAN_SECONDS, SHAPE = 5.0, 4.0
LOOKS = 10
HALF_WINDOW = 50
SPACE = load("adult").distributions({})

Raw = dict[str, Any]


def objectives(parameters: dict[str, Any]) -> tuple[float, float]:
    """Score and cost that pull apart, so that the samplers have a front to work on."""
    missed = log10(parameters["C"] / 16) ** 2 + log10(parameters["gamma"] / 0.01) ** 2
    return (1 - parameters["budget"] ** -0.5) / (1 + missed), parameters["budget"] / parameters["mergees"]


def spend(kind: str) -> None:
    """sleep: leaves the processor to others. burn: needs that much of it."""
    if kind == "sleep":
        time.sleep(TRIAL_SECONDS)
        return
    began = time.thread_time()
    while time.thread_time() - began < TRIAL_SECONDS:
        pass


class Clock:
    """Starts with the second result, when both workers are up: the same for both loops."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.processor: list[float] = []

    def tick(self) -> None:
        self.times.append(time.perf_counter())
        self.processor.append(time.process_time())

    def raw(self) -> Raw:
        trials, seconds = len(self.times) - WORKERS, self.times[-1] - self.times[WORKERS - 1]
        driver = self.processor[-1] - self.processor[WORKERS - 1]
        return {"trials": trials, "seconds": seconds, "rate": trials / seconds, "driver_cpu_ms": 1e3 * driver / trials}


def study(
    folder: str,
    sampler: str,
    backend: Backend,
    trials: int,
    *,
    seed: int = 0,
    bar: bool = False,
    listener: Listener = lambda progress, result: None,
) -> str:
    """The driver as `mmbsgd tune` runs it, with a journal file; says which sampler it ended with."""
    settings = Settings(data="none", fingerprint="none", space="adult", seed=seed)
    with held("study", Path(folder), None, settings, SPACE, Watcher()) as mine:
        proposer = Proposer(sampler, seed, SPACE, settings.directions)  # type: ignore[arg-type]
        first: Bar | None = settings.first_bar if bar else None
        make = (settings.spec, settings.objectives)
        driver = Driver(
            mine.ledger, proposer, backend, *make, limits=Limits(trials=trials), bar=first, listener=listener
        )
        progress = driver.run()
        if progress.complete != trials:
            raise RuntimeError(f"{progress.complete} of {trials} trials are complete: {progress.failures[:3]}")
        return progress.sampler


# Throughput.


class StandIn:
    """How a worker gets ready for trials that do nothing."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def open(self) -> Callable[[TrialSpec], TrialResult]:
        def run(spec: TrialSpec) -> TrialResult:
            spend(self.kind)
            score, cost = objectives(spec.parameters)
            return TrialResult(spec.number, "complete", score=score, costs={"cpu": cost})

        return run


def run_ours(kind: str, trials: int, folder: str, seed: int) -> Raw:
    connect(None, WORKERS)
    from workflows.backends.ray_actors import RayActors

    backend, clock, busy = RayActors(StandIn(kind), workers=WORKERS), Clock(), 0.0  # type: ignore[arg-type]
    while backend.slots() < WORKERS:
        backend.wait(1.0)

    def listener(_: Any, result: TrialResult | None) -> None:
        nonlocal busy
        if result is not None:
            clock.tick()
            busy += result.seconds

    began = time.perf_counter()
    study(folder, "nsga2", backend, trials, seed=seed, listener=listener)
    whole = clock.times[-1] - began
    return clock.raw() | {"from_first_submit": whole, "busy": busy / (WORKERS * whole)}


def run_tune(kind: str, trials: int, folder: str, seed: int, as_it_comes: bool) -> Raw:
    """Reused actors, one step per trial, Optuna's study in memory.

    as_it_comes: Tune writes every result to a JSON and a CSV file and saves a checkpoint, here an empty one, of every
    trial; otherwise it does neither, and keeps the state of the experiment now and then.
    """
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = str(int(not as_it_comes))
    connect(None, WORKERS)
    from optuna.samplers import NSGAIISampler
    from ray import tune
    from ray.tune.search.optuna import OptunaSearch

    logging.disable(logging.CRITICAL)
    clock = Clock()

    class Ticking(tune.Callback):
        def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
            clock.tick()

    class StandInTrainable(tune.Trainable):
        def setup(self, config: Raw) -> None:
            self.parameters = config

        def reset_config(self, new_config: Raw) -> bool:
            self.parameters = new_config
            return True

        def step(self) -> Raw:
            spend(kind)
            score, cost = objectives(self.parameters)
            return {"score": score, "cost": cost, "done": True}

        def save_checkpoint(self, checkpoint_dir: str) -> None: ...

    sampler = NSGAIISampler(population_size=POPULATION, seed=seed)
    search = OptunaSearch(SPACE, metric=["score", "cost"], mode=["max", "min"], sampler=sampler)
    tuner = tune.Tuner(
        tune.with_resources(StandInTrainable, {"cpu": 1}),
        tune_config=tune.TuneConfig(
            search_alg=search, num_samples=trials, max_concurrent_trials=WORKERS, reuse_actors=True
        ),
        run_config=tune.RunConfig(
            storage_path=folder,
            verbose=0,
            callbacks=[Ticking()],
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=as_it_comes),
        ),
    )
    found = tuner.fit()
    if found.num_errors or len(clock.times) != trials:
        raise RuntimeError(f"{len(clock.times)} of {trials} trials are complete: {found.errors[:3]}")
    return clock.raw()


# Scale.


class Watched(Simulated):
    """Notes when each trial kept a worker, and the driver's processor time whenever it waits."""

    def __init__(self, durations: Sequence[float], slots: int, curves: bool) -> None:
        super().__init__(self._outcome_of, slots)
        self._durations, self._curves = durations, curves
        self.kept: list[tuple[float, float]] = []
        self.waits: list[tuple[float, int]] = []
        self._results = 0

    def submit(self, spec: TrialSpec, *, alone: bool = False) -> None:
        began = self.now()
        super().submit(spec, alone=alone)
        self.kept.append((began, began + self._durations[spec.number]))

    def wait(self, timeout: float) -> list[TrialResult]:
        self.waits.append((time.process_time(), self._results))
        found = super().wait(timeout)
        self._results += len(found)
        return found

    def busy(self, since: float, until: float) -> float:
        """The share of all workers' time."""
        inside = sum(max(min(end, until) - max(begin, since), 0.0) for begin, end in self.kept)
        return inside / (self._slots * (until - since))

    def cost_around(self, trial: int) -> float | None:
        """Driver's processor ms per trial. Whole turns of its loop (results taken, as many trials proposed, entered and
        handed out) around so many results; None if the study was shorter."""
        first = [wait for wait in self.waits if wait[1] <= trial - HALF_WINDOW]
        last = [wait for wait in self.waits if wait[1] >= trial + HALF_WINDOW]
        if not first or not last:
            return None
        return 1e3 * (last[0][0] - first[-1][0]) / (last[0][1] - first[-1][1])

    def _outcome_of(self, spec: TrialSpec) -> TrialResult:
        seconds = self._durations[spec.number]
        score, cost = objectives(spec.parameters)
        shares = [look / LOOKS for look in range(1, LOOKS + 1)] if self._curves else []
        curve = tuple(Point(share, share * cost, score * (0.9 + 0.1 * share)) for share in shares)
        return TrialResult(spec.number, "complete", score=score, costs={"cpu": cost}, curve=curve, seconds=seconds)


def run_simulated(workers: int, trials: int, sampler: str, folder: str, early: int, late: int, curves: bool) -> Raw:
    """curves: trials report learning curves, as those above a second do while early stopping is on."""
    durations = np.random.default_rng(0).gamma(SHAPE, MEAN_SECONDS / SHAPE, trials).tolist()
    backend, began, processor = Watched(durations, workers, curves), time.perf_counter(), time.process_time()
    ended_with = study(folder, sampler, backend, trials, bar=curves)
    filled, last = backend.kept[workers - 1][0], backend.kept[-1][0]
    end = max(end for _, end in backend.kept)
    return {
        "workers": workers,
        "trials": trials,
        "sampler": sampler,
        "ended_with": ended_with,
        "curves": curves,
        "busy_when_filled": backend.busy(filled, last),
        "busy_whole": backend.busy(backend.kept[0][0], end),
        "filled_after": filled,
        "last_handed_out": last,
        "simulated_seconds": end,
        "real_seconds": time.perf_counter() - began,
        "cpu_ms_per_trial": 1e3 * (time.process_time() - processor) / trials,
        "cpu_ms_early": backend.cost_around(early),
        "cpu_ms_late": backend.cost_around(late),
    }
