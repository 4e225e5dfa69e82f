"""What crosses the borders between processes: small frozen records and nothing else."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Metric = Literal["accuracy", "balanced-accuracy", "f1", "roc-auc"]
Cost = Literal["cpu", "wall", "work"]
Third = Literal["none", "size", "latency"]
Sampler = Literal["auto", "tpe", "nsga2", "random", "grid"]
State = Literal["complete", "stopped", "failed"]
Pick = Literal["knee", "fastest", "most-accurate"]
Keep = Literal["median", "best-validation"]


@dataclass(frozen=True)
class Bar:
    """What a running trial must still be able to reach; see `stopping`."""

    front: tuple[tuple[float, float], ...] = ()
    """(cost, score) of finished trials that no other beats, by rising cost."""
    slack: tuple[tuple[float, float], ...] = ()
    """(share of the training done, part of the error that may still vanish), by rising share."""
    shortest: float = 1.0
    """Trials that will cost less than this are never stopped: it would not pay."""


@dataclass(frozen=True)
class TrialSpec:
    """One trial: a pure function of this record and the data."""

    number: int
    parameters: dict[str, Any]
    seed: int
    metric: Metric = "accuracy"
    cost: Cost = "cpu"
    repeats: int = 1
    folds: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ((("train",), ("validation",)),)
    """Pairs of splits: those to train on, and those to score on."""
    bar: Bar | None = None
    """None: never stopped early."""
    trace: bool = False
    """Whether the theorem's terms are kept along the way."""


@dataclass(frozen=True)
class Point:
    """Where a training stood at a boundary: the learning curve."""

    share: float
    cost: float
    score: float


@dataclass(frozen=True)
class Step:
    """The terms of Theorem 1 after so many steps."""

    steps: int
    mean_gradient_error: float
    largest_gradient_error: float
    bound: float


@dataclass(frozen=True)
class TrialResult:
    number: int
    state: State
    score: float = float("nan")
    spread: float = 0.0
    """Standard deviation of the score over repeats and folds."""
    costs: dict[str, float] = field(default_factory=dict)
    """cpu and wall in seconds, work in kernel evaluations: means over repeats and folds."""
    counters: dict[str, float] = field(default_factory=dict)
    curve: tuple[Point, ...] = ()
    """Looks while it was trained, and its end: what early stopping learns from."""
    epochs: tuple[Point, ...] = ()
    """After every epoch; all but the last are scored on some of the rows."""
    trace: tuple[Step, ...] = ()
    """Every few thousand steps, where the trial was asked for it."""
    reason: str = ""
    """Why it was stopped or failed."""
    model: str = ""
    """A fingerprint of the trained models' numbers."""
    node: str = ""
    seconds: float = 0.0
    """From start to end, everything included: what the worker was busy for."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "TrialResult":
        known = {name: content[name] for name in cls.__dataclass_fields__ if name in content}
        for name in ("curve", "epochs"):
            known[name] = tuple(Point(**point) for point in content.get(name, ()))
        known["trace"] = tuple(Step(**step) for step in content.get("trace", ()))
        return cls(**known)


@dataclass(frozen=True)
class Tracked:
    """What MLflow has of a study."""

    where: str
    """The MLflow, without a password."""
    done: int
    total: int
    """Trials that it has, and trials that it should have, as far as is known."""
    page: str = ""
    """The study's run in the browser, where a server shows it."""
    reason: str = ""
    """Why something is missing; empty: nothing is."""
    follows: bool = False
    """What is missing is being written by a process in the background."""
    waited: float = 0.0
    """Seconds that the command waited for it when the study had ended."""
