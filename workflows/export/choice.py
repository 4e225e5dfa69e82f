"""Which model of a front to take, and why: by name, by number, or the best within limits. Confirmed figures decide."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from workflows.errors import StudyError
from workflows.records import Pick
from workflows.selection import KNEE, fastest, knee, most_accurate
from workflows.study.confirmation import Member
from workflows.study.settings import Settings
from workflows.study.snapshot import Snapshot
from workflows.wording import heading, objective, parameter

_PICKED: dict[Pick, tuple[Callable[[Sequence[Member]], Member], str]] = {
    "knee": (knee, f"the knee: {KNEE}"),
    "fastest": (fastest, "the fastest to train"),
    "most-accurate": (most_accurate, "the most accurate"),
}


@dataclass(frozen=True)
class Limits:
    """What a model must keep to; None: whatever it has."""

    min_accuracy: float | None = None
    """Of the study's own metric."""
    max_seconds: float | None = None
    max_budget: int | None = None
    max_latency_us: float | None = None

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) is not None for field in fields(self))


ANY = Limits()


@dataclass(frozen=True)
class Choice:
    member: Member
    why: str
    cheaper: Member | None
    """The front's next member that costs less, and the next that scores more."""
    better: Member | None


def choose(seen: Snapshot, *, pick: Pick | None = None, trial: int | None = None, limits: Limits = ANY) -> Choice:
    """At most one of them; without any, the knee."""
    front = list(seen.front)
    if not front:
        raise StudyError(
            f"the study {seen.study!r} has no front yet: none of its {len(seen.trials)} trials is complete; go on with "
            "'mmbsgd tune'"
        )
    if sum((pick is not None, trial is not None, bool(limits))) > 1:
        raise StudyError("choose by --pick, by --trial or by limits, one of them")
    if trial is not None:
        return _choice(seen, _of_trial(seen, trial), f"trial {trial}, as asked{_beaten(front, trial)}")
    if limits:
        return _choice(seen, *_within(front, limits, seen.settings))
    best, why = _PICKED[pick or "knee"]
    if best is knee and knee(front) is most_accurate(front):
        why = f"the most accurate, since the front has no knee ({KNEE})"
    return _choice(seen, best(front), why)


def _beaten(front: Sequence[Member], number: int) -> str:
    return (
        ""
        if number in {member.number for member in front}
        else "; it is not on the front: others are better and cheaper"
    )


def _of_trial(seen: Snapshot, number: int) -> Member:
    for member in seen.front:
        if member.number == number:
            return member
    for trial in seen.complete:
        if trial.number == number:
            return Member(number, trial.parameters, trial.values, found=trial.values, counters=trial.result.counters)
    known = ", ".join(str(member.number) for member in seen.front)
    state = next((f" is {trial.state}" for trial in seen.trials if trial.number == number), " does not exist")
    raise StudyError(f"trial {number} of {seen.study!r}{state}: those of the front are {known}")


@dataclass(frozen=True)
class _Rule:
    """One limit: what a member has of it, and how it is said."""

    has: Callable[[Member], float]
    limit: float
    least: bool
    said: Callable[[float], str]

    def kept_by(self, member: Member) -> bool:
        value = self.has(member)
        return math.isfinite(value) and (value >= self.limit if self.least else value <= self.limit)

    def __str__(self) -> str:
        return f"{'at least' if self.least else 'at most'} {self.said(self.limit)}"

    def best_of(self, front: Sequence[Member]) -> str:
        values = [self.has(member) for member in front if math.isfinite(self.has(member))]
        return self.said((max if self.least else min)(values)) if values else "unknown"


def _rules(limits: Limits, settings: Settings) -> list[_Rule]:
    rules = []
    if limits.min_accuracy is not None:
        if not 0.0 <= limits.min_accuracy <= 1.0:
            raise StudyError(f"--min-accuracy {limits.min_accuracy:g} is a share, such as 0.9")
        name = settings.metric
        rules.append(_Rule(lambda one: one.values[0], limits.min_accuracy, True, lambda v: f"{name} {v:.2%}"))
    if limits.max_seconds is not None:
        if settings.cost == "work":
            raise StudyError("--max-seconds: this study counts kernel evaluations, not seconds; choose by --trial")
        cost = settings.cost
        said = f"of {heading(cost)}"
        rules.append(
            _Rule(lambda one: one.values[1], limits.max_seconds, False, lambda v: f"{objective(cost, v)} {said}")
        )
    if limits.max_budget is not None:
        rules.append(_Rule(_budget, limits.max_budget, False, lambda v: f"{v:.0f} support vectors"))
    if limits.max_latency_us is not None:
        rules.append(_Rule(_latency, limits.max_latency_us, False, lambda v: f"{v:.3g} µs a row in a batch"))
    return rules


def _within(front: Sequence[Member], limits: Limits, settings: Settings) -> tuple[Member, str]:
    rules = _rules(limits, settings)
    left = [member for member in front if all(rule.kept_by(member) for rule in rules)]
    if not left:
        lacking = [rule for rule in rules if not any(rule.kept_by(member) for member in front)] or rules
        possible = ", ".join(rule.best_of(front) for rule in lacking)
        what = "reached" if len(lacking) == 1 else "reached one by one, not all at once"
        raise StudyError(
            f"no model of the front has {' and '.join(map(str, rules))}; what can be {what}: {possible}. Allow that, "
            "or search on with 'mmbsgd tune'"
        )
    said = " and ".join(map(str, rules))
    if limits.min_accuracy is not None:
        return fastest(left), f"the fastest to train with {said}"
    return most_accurate(left), f"the most accurate with {said}"


def _choice(seen: Snapshot, member: Member, why: str) -> Choice:
    others = [other for other in seen.front if other.number != member.number]
    cheaper = [other for other in others if other.values[1] < member.values[1]]
    better = [other for other in others if other.values[0] > member.values[0]]
    return Choice(
        member,
        why,
        max(cheaper, key=lambda other: other.values[1], default=None),
        min(better, key=lambda other: other.values[0], default=None),
    )


def _budget(member: Member) -> float:
    return float(member.parameters.get("budget", math.nan))


def _latency(member: Member) -> float:
    """Microseconds per row of a batch, as the study measured it."""
    return 1e6 * (member.counters or {}).get("latency", math.nan)


def described(member: Member, settings: Settings) -> str:
    """One line: its objectives and parameters."""
    values = [
        f"{heading(name)} {objective(name, value, member.deviations[place] if member.deviations else math.nan)}"
        for place, (name, value) in enumerate(zip(settings.names, member.values, strict=True))
    ]
    parameters = [f"{name} {parameter(value)}" for name, value in member.parameters.items()]
    return f"trial {member.number}: {', '.join(values)} ({', '.join(parameters)})"
