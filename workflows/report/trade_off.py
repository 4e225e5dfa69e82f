"""The picture of the trade-off: score over training cost, and the front between the two."""

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from workflows.report import colours, hover
from workflows.report.classes import Classes, classes
from workflows.report.labels import placed
from workflows.report.panels import SYMBOLS, Axis, Entry, Label, Level, Line, Mark, Panel, Picture, Points, Unit
from workflows.report.ranges import padded, positive, worth_seeing
from workflows.selection import fastest, knee, most_accurate
from workflows.study.confirmation import Member
from workflows.study.settings import Settings
from workflows.study.snapshot import Ended, Snapshot
from workflows.wording import confirmed, heading

MOST_MERGEES, MOST_BUDGETS = 11, 6
_MOST_IN_THE_WAY = 500
"""Trials that words keep away from."""
READING = (
    "Up is more accurate, left is cheaper. Orange is the front: no other model is at least as good in everything. Its "
    "points are means over the confirming runs, with deviations as crosses; all others are single runs of the search, "
    "and a lucky one may lie beyond the front."
)


def trade_off(snapshot: Snapshot, reference: float | None = None, chosen: Member | None = None) -> Picture:
    """reference: the exact SVM's score. chosen: a model to point at."""
    return Picture("trade-off", "The trade-off", READING, (_panel(snapshot, reference, chosen),))


def cost_axis(settings: Settings, shown: tuple[float, float] | None = None) -> Axis:
    unit: Unit = "count" if settings.cost == "work" else "seconds"
    title = {"cpu": "training time (CPU)", "wall": "training time (wall clock)", "work": "kernel evaluations"}
    return Axis(title[settings.cost], unit, log=True, range=shown)


def score_axis(settings: Settings, shown: tuple[float, float] | None = None) -> Axis:
    return Axis(f"{settings.metric}{',' if settings.folds else ''} {settings.scored_on}", "percent", range=shown)


def score_range(snapshot: Snapshot) -> tuple[float, float]:
    """Where hopeless trials do not squeeze the others."""
    scores = [trial.values[0] for trial in snapshot.complete]
    return worth_seeing([member.values[0] for member in snapshot.front], scores)


def _panel(snapshot: Snapshot, reference: float | None, chosen: Member | None) -> Panel:
    settings, complete, front = snapshot.settings, snapshot.complete, snapshot.front
    title = f"{heading(settings.metric)} over {heading(settings.cost)}"
    stopped = [trial for trial in snapshot.trials if _partial(trial, settings)]
    if not complete:
        return Panel(title, note="No trial is complete yet.", wide=True, height=300)
    low, high = score_range(snapshot)
    spreads = [(member.values[0], _finite(member.deviations, 0)) for member in front]
    low = min([low, *(score - spread for score, spread in spreads)])
    high = max([high, *(score + spread for score, spread in spreads), reference or 0.0])
    y = padded(low, high, 0.06, 0.14)
    costs = positive([trial.values[1] for trial in complete] + [member.values[1] for member in front])
    x = padded(min(costs), max(costs), 0.08, 0.05, log=True)
    marks: list[Mark] = [*_stopped(stopped, settings), *_trials(complete, settings), *_front(front, settings)]
    if reference is not None:
        marks.append(Level(reference, "exact SVM"))
    if chosen is not None:
        marks.append(
            Points((chosen.values[1],), (chosen.values[0],), colours.VERMILION, size=15, entry=Entry("chosen"))
        )
    marks += _words(front, complete, x, y, chosen)
    return Panel(title, cost_axis(settings, x), score_axis(settings, y), tuple(marks), wide=True, height=580)


def _partial(trial: Ended, settings: Settings) -> bool:
    cost = trial.result.costs.get(settings.cost, 0.0)
    return trial.state == "stopped" and math.isfinite(trial.result.score) and cost > 0


def _stopped(stopped: Sequence[Ended], settings: Settings) -> list[Mark]:
    if not stopped:
        return []
    return [
        Points(
            tuple(trial.result.costs[settings.cost] for trial in stopped),
            tuple(trial.result.score for trial in stopped),
            colours.GREY,
            symbols=("x",),
            size=5,
            opacity=0.35,
            hover=tuple(hover.of_trial(trial, settings) for trial in stopped),
            entry=Entry("stopped early"),
        )
    ]


def _trials(complete: Sequence[Ended], settings: Settings) -> list[Mark]:
    costs = positive([trial.values[1] for trial in complete])
    mergees = parameter_classes(complete, "mergees", MOST_MERGEES)
    budgets = parameter_classes(complete, "budget", MOST_BUDGETS)
    groups: dict[int, list[int]] = defaultdict(list)
    for position in range(len(complete)):
        groups[mergees.members[position] if mergees else 0].append(position)
    shades = colours.ordered(len(mergees.labels)) if mergees else [colours.BLUE]
    marks: list[Mark] = _lines_of_equal_budget(complete, costs)
    for place, positions in sorted(groups.items()):
        entry = Entry(mergees.labels[place], "mergees M") if mergees else Entry("trial")
        symbols = tuple(SYMBOLS[budgets.members[position]] for position in positions) if budgets else ("circle",)
        marks.append(
            Points(
                tuple(costs[position] for position in positions),
                tuple(complete[position].values[0] for position in positions),
                shades[place],
                symbols=symbols,
                size=8,
                opacity=0.75,
                hover=tuple(hover.of_trial(complete[position], settings) for position in positions),
                entry=entry,
            )
        )
    if budgets:
        marks += [
            Points((), (), colours.GREY, symbols=(SYMBOLS[place],), entry=Entry(label, "budget B"))
            for place, label in enumerate(budgets.labels)
        ]
    return marks


def parameter_classes(trials: Sequence[Ended], name: str, most: int) -> Classes | None:
    """None if this parameter has nothing to tell apart."""
    if not any(name in trial.parameters for trial in trials):
        return None
    found = classes([trial.parameters.get(name) for trial in trials], most)
    return found if len(found.labels) > 1 else None


def _lines_of_equal_budget(complete: Sequence[Ended], costs: Sequence[float]) -> list[Mark]:
    """Only on a grid: a search hardly ever tries a budget twice."""
    found = parameter_classes(complete, "budget", MOST_BUDGETS)
    if found is None or not found.exact:
        return []
    together: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for place, cost, trial in zip(found.members, costs, complete, strict=True):
        together[place].append((cost, trial.values[0]))
    marks: list[Mark] = []
    for _, points in sorted(together.items()):
        if len(points) > 1:
            x, y = zip(*sorted(points), strict=True)
            marks.append(Line(x, y, colours.GREY, width=0.8, opacity=0.6))
    return marks


def _front(front: Sequence[Member], settings: Settings) -> list[Mark]:
    if not front:
        return []
    members = sorted(front, key=lambda member: member.values[1])
    x = tuple(positive([member.values[1] for member in members]))
    y = tuple(member.values[0] for member in members)
    entry = Entry(f"front, {confirmed(front)}")
    marks: list[Mark] = []
    if settings.third == "none":
        marks.append(Line(x, y, colours.INK, width=2.0, steps=True))
    spread_x = [_finite(member.deviations, 1) for member in members]
    spread_y = [_finite(member.deviations, 0) for member in members]
    marks.append(
        Points(
            x,
            y,
            colours.VERMILION,
            size=8,
            error_x=tuple((min(spread, 0.9 * at), spread) for at, spread in zip(x, spread_x, strict=True)),
            error_y=tuple((spread, spread) for spread in spread_y),
            hover=tuple(hover.of_member(member, settings) for member in members),
            entry=entry,
        )
    )
    return marks


def _words(
    front: Sequence[Member],
    complete: Sequence[Ended],
    x: tuple[float, float],
    y: tuple[float, float],
    chosen: Member | None,
) -> list[Label]:
    if not front:
        return []
    said: dict[int, list[str]] = defaultdict(list)
    if chosen is not None:
        said[chosen.number].append("chosen")
    for word, member in (("knee", knee(front)), ("fastest", fastest(front)), ("most accurate", most_accurate(front))):
        said[member.number].append(word)
    others = [] if chosen is None or chosen.number in {member.number for member in front} else [chosen]
    named = [
        (max(member.values[1], x[0]), member.values[0], ", ".join(said[member.number]))
        for member in (*front, *others)
        if member.number in said
    ]
    points = [(max(member.values[1], x[0]), member.values[0]) for member in front]
    points += [(max(trial.values[1], x[0]), trial.values[0]) for trial in complete[:_MOST_IN_THE_WAY]]
    return placed(named, [*points, *_along(sorted(points[: len(front)]))], x, y)


def _along(corners: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points of the staircase between its corners."""
    found = []
    for (left, low), (right, high) in pairwise(corners):
        shares = [step / 8 for step in range(1, 8)]
        found += [(left * (right / left) ** share, low) for share in shares]
        found += [(right, low + share * (high - low)) for share in shares]
    return found


def _finite(deviations: Sequence[float], position: int) -> float:
    spread = deviations[position] if len(deviations) > position else 0.0
    return spread if math.isfinite(spread) else 0.0
