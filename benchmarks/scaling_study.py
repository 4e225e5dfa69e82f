"""How much benchmarks/scaling.py measures, and the study that its parts run: the real driver on any backend."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from frame import Raw, in_a_folder
from orchestration_tasks import LOOKS, SPACE, objectives

from workflows.backends import Backend
from workflows.records import Bar, Point, TrialResult, TrialSpec
from workflows.study.driver import Driver, Limits, Listener, Progress
from workflows.study.proposer import Proposal, Proposer
from workflows.study.settings import Settings
from workflows.study.tuning import Held, Watcher, held

COUNTERS = (
    "steps violations maintenance_calls merges kernel_evaluations maintenance_seconds support_vectors size latency"
)
"""As many as a real trial has."""


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    trials: tuple[tuple[str, float, int], ...] = (
        ("sleep", 0.1, 60),
        ("sleep", 0.5, 24),
        ("sleep", 2.0, 8),
        ("burn", 0.1, 60),
        ("burn", 0.5, 24),
        ("burn", 2.0, 8),
        ("train", 0.5, 24),
    )
    """Kind, seconds and how many of them per worker and repeat."""
    repeats: int = 2
    calls: int = 2_000
    actors: int = 16
    nodes: int = 4
    best: int = 3
    stored: int = 200
    tracked: int = 150
    lengths: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0)
    workers: tuple[int, ...] = (1, 10, 100, 1_000, 10_000)
    auto: int = 600


QUICK = Plan((("sleep", 0.1, 8), ("burn", 0.5, 4)), 1, 100, 3, 2, 1, 40, 20, (0.1, 10.0), (1, 10, 100), 60)


def best_of(repeats: int, task: Callable[..., Raw], **arguments: Any) -> Raw:
    """The run that was disturbed least. An argument that is a function is asked for a new value each time."""
    runs = []
    for _ in range(repeats):
        given = {name: value() if callable(value) else value for name, value in arguments.items()}
        runs.append(in_a_folder(task, **given))
    return min(runs, key=lambda raw: float(raw["ms"])) | {"all_ms": [raw["ms"] for raw in runs]}


def study(
    folder: str,
    sampler: str,
    backend: Backend,
    trials: int,
    *,
    storage: str | None = None,
    early: bool = True,
    extra: Raw | None = None,
    listener: Listener = lambda progress, result: None,
    watch: Callable[[Held, Proposer], None] = lambda mine, asked: None,
) -> Progress:
    """The driver as `mmbsgd tune` runs it. early: early stopping is on. extra: what trials are told besides."""
    settings = Settings(data="none", fingerprint="none", space="adult")

    def spec(origin: int, proposal: Proposal, bar: Bar | None) -> TrialSpec:
        made = settings.spec(origin, proposal, bar)
        return replace(made, parameters=made.parameters | extra) if extra else made

    with held("study", Path(folder), storage, settings, SPACE, Watcher()) as mine:
        asked = Proposer(sampler, 0, SPACE, settings.directions)  # type: ignore[arg-type]
        limits, bar = Limits(trials=trials), settings.first_bar if early else None
        driver = Driver(
            mine.ledger, asked, backend, spec, settings.objectives, limits=limits, bar=bar, listener=listener
        )
        watch(mine, asked)
        done = driver.run()
        watch(mine, asked)
    if done.complete != trials:
        raise RuntimeError(f"{done.complete} of {trials} trials are complete: {done.failures[:3]}")
    return done


def result(spec: TrialSpec, seconds: float) -> TrialResult:
    """As large as a real one: trials of a second and more have learning curves."""
    score, cost = objectives(spec.parameters)
    shares = [look / LOOKS for look in range(1, LOOKS + 1)] if seconds >= 1.0 else []
    return TrialResult(
        spec.number,
        "complete",
        score=score,
        costs={"cpu": cost, "wall": 1.1 * cost, "work": 1e6 * cost},
        counters=dict.fromkeys(COUNTERS, cost),
        curve=tuple(Point(share, share * cost, score * (0.9 + 0.1 * share)) for share in shares),
        epochs=(Point(1.0, cost, score),),
        seconds=seconds,
    )
