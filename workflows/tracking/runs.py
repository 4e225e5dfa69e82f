"""What a study's runs contain: its records in MLflow's terms. Everything here is the same whenever it is written again.

The parent run is the study, with its settings as parameters and its progress as metrics over the number of ended
trials. A child run is a trial. Runs are recognised by their tags `mmbsgd.study` and `mmbsgd.trial`.
"""

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from workflows.front import GrowingFront
from workflows.study.confirmation import Member
from workflows.study.ledger import BLAMELESS
from workflows.study.snapshot import Ended, Snapshot
from workflows.tracking.names import metric_name, parameter_name

STUDY, TRIAL, PARENT, NOTE = "mmbsgd.study", "mmbsgd.trial", "mlflow.parentRunId", "mlflow.note.content"
_SAME_AS_ANOTHER = ("size", "work")
_RECENT = 20
"""Trials over which their number per second is taken."""
LONGEST_TEXT = 5000


@dataclass(frozen=True)
class Value:
    """A metric at one moment."""

    name: str
    value: float
    time: int
    """Milliseconds since 1970."""
    step: int = 0


@dataclass(frozen=True)
class Run:
    name: str
    began: int
    """Milliseconds since 1970."""
    ended: int
    status: str
    parameters: dict[str, str]
    tags: dict[str, str]
    metrics: list[Value] = field(default_factory=list)


def child(trial: Ended, snapshot: Snapshot) -> Run:
    settings, result = snapshot.settings, trial.result
    ended = _milliseconds(trial.ended)
    parameters = {parameter_name(name): _text(value) for name, value in trial.parameters.items()}
    measured = _measured(trial, snapshot)
    metrics = [Value(name, value, ended) for name, value in measured.items() if math.isfinite(value)]
    score = metric_name(settings.metric)
    for epoch, point in enumerate(result.epochs, start=1):
        metrics.append(Value(f"{score}_by_epoch", point.score, ended, epoch))
    for point in result.curve:
        metrics.append(Value(f"{score}_while_training", point.score, ended, round(100 * point.share)))
    tags = {
        STUDY: snapshot.identity,
        TRIAL: str(trial.number),
        "state": trial.state,
        "retries": str(trial.attempt - 1),
        "node": result.node,
        "reason": result.reason[:LONGEST_TEXT],
        "pareto": "false",
    }
    if trial.origin != trial.number:
        tags["again"] = f"trial {trial.origin}"
    return Run(
        name=f"trial {trial.number}",
        began=_milliseconds(trial.began),
        ended=ended,
        status=_status(trial),
        parameters={"seed": str(settings.seed_of(trial.origin, 0))} | parameters,
        tags={name: value for name, value in tags.items() if value},
        metrics=metrics,
    )


def confirmed(member: Member, trial: Ended, names: Iterable[str]) -> list[Value]:
    """What runs with fresh seeds say of a member of the front; the step is their number."""
    when, found = _milliseconds(trial.ended), [("runs", float(member.runs))]
    for name, mean, deviation in zip(names, member.values, member.deviations, strict=False):
        found += [(metric_name(name), mean), (f"{metric_name(name)}_deviation", deviation)]
    return [
        Value(f"confirmed_{name}", value, when, member.runs)
        for name, value in found
        if member.runs and math.isfinite(value)
    ]


def parent(snapshot: Snapshot, *, status: str, note: str) -> Run:
    settings = snapshot.settings
    parameters = {
        "data": settings.data,
        "data_fingerprint": settings.fingerprint,
        "search_space": settings.space,
        "objectives": ", ".join(settings.names),
        "folds": str(settings.folds),
        "scored": settings.scored_on,
        "repeats": str(settings.repeats),
        "seed": str(settings.seed),
    }
    parameters |= {
        f"space.{parameter_name(name)}": str(spread)[:LONGEST_TEXT] for name, spread in snapshot.space.items()
    }
    tags = dict(snapshot.environment)
    if "git.commit" in tags:
        tags["mlflow.source.git.commit"] = tags["git.commit"].removesuffix("-dirty")
    began = min((trial.began for trial in snapshot.trials), default=time.time())
    ended = max((trial.ended for trial in snapshot.trials), default=began)
    return Run(
        name=snapshot.study,
        began=_milliseconds(began),
        ended=_milliseconds(ended),
        status=status,
        parameters=parameters,
        tags=tags | {STUDY: snapshot.identity, NOTE: note},
    )


def progress(snapshot: Snapshot, after: int) -> Iterator[Value]:
    """How the study went, from the (after + 1)-th ended trial on; steps are numbers of ended trials."""
    growing, trials = GrowingFront(), snapshot.trials
    best = metric_name(snapshot.settings.metric)
    for step, trial in enumerate(trials, start=1):
        if trial.state == "complete":
            growing.add(trial.number, trial.values)
        if step <= after:
            continue
        when = _milliseconds(trial.ended)
        yield Value("trials", float(step), when, step)
        if growing.members:
            yield Value("hypervolume", growing.hypervolume, when, step)
            yield Value("front_size", float(len(growing.members)), when, step)
            yield Value(f"best_{best}", growing.members[0][1][0], when, step)
        since = trials[max(step - 1 - _RECENT, 0)]
        if trial.ended > since.ended:
            yield Value("trials_per_second", min(step - 1, _RECENT) / (trial.ended - since.ended), when, step)


def _measured(trial: Ended, snapshot: Snapshot) -> dict[str, float]:
    result, settings = trial.result, snapshot.settings
    everything = result.costs | result.counters
    found = {metric_name(name): value for name, value in everything.items() if name not in _SAME_AS_ANOTHER}
    if trial.state == "complete":  # the score of a stopped one is a glimpse: it is among those while training
        found[metric_name(settings.metric)] = result.score
        if settings.repeats > 1 or settings.folds:
            found[f"{metric_name(settings.metric)}_deviation"] = result.spread
    return found | {"busy_seconds": result.seconds}


def _status(trial: Ended) -> str:
    if trial.state == "failed":
        return "KILLED" if trial.result.reason in BLAMELESS else "FAILED"
    return "FINISHED" if trial.state == "complete" else "KILLED"


def _text(value: object) -> str:
    return str(value)[:LONGEST_TEXT]


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)
