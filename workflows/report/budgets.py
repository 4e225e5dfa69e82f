"""The picture of B and M: what a budget buys and costs, and what merging more at once saves."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence

from workflows.report import colours, hover
from workflows.report.classes import Classes, number
from workflows.report.panels import SYMBOLS, Axis, Entry, Line, Mark, Panel, Picture, Points
from workflows.report.ranges import padded, positive
from workflows.report.trade_off import MOST_MERGEES, cost_axis, parameter_classes, score_axis, score_range
from workflows.study.snapshot import Ended, Snapshot
from workflows.wording import heading

READING = (
    "Each dot is a complete trial, each line one number or range of mergees M: the best score, and the median cost, of "
    "three or more trials with about the same budget B. The share of maintenance is what merging "
    "takes of the training time."
)
_MOST_BINS = 7
_FEWEST = 3
"""Trials without which a range of budgets has no say in a line; a single budget needs one."""


def budgets(snapshot: Snapshot) -> Picture:
    trials = snapshot.complete
    settings = snapshot.settings
    scores = [trial.values[0] for trial in trials]
    costs = positive([trial.values[1] for trial in trials]) if trials else []
    low, high = score_range(snapshot) if trials else (0.0, 1.0)
    panels = (
        _against_budget(
            snapshot,
            f"best {settings.metric} against budget",
            score_axis(settings, padded(low, high, 0.1, 0.06)),
            scores,
            max,
        ),
        _against_budget(
            snapshot, f"median {heading(settings.cost)} against budget", cost_axis(settings), costs, statistics.median
        ),
        _maintenance(snapshot),
    )
    return Picture("budgets", "Budget and mergees", READING, panels)


def _against_budget(
    snapshot: Snapshot, title: str, up: Axis, values: Sequence[float], middle: Callable[[list[float]], float]
) -> Panel:
    trials = snapshot.complete
    bins = parameter_classes(trials, "budget", min(max(len(trials) // 12, 3), _MOST_BINS))
    if bins is None or not bins.numbers:
        return Panel(title, note=_missing(trials, "budget", "budgets"))
    places = [number(trial.parameters.get("budget")) for trial in trials]
    # Lines of a handful of trials each would be noise: with few trials there are fewer of them.
    room = MOST_MERGEES if bins.exact else len(trials) // (4 * len(bins.labels))
    mergees = parameter_classes(trials, "mergees", min(max(room, 1), MOST_MERGEES))
    shades = colours.ordered(len(mergees.labels)) if mergees else [colours.BLUE]
    symbols = SYMBOLS if mergees else ("circle",)
    marks: list[Mark] = []
    lines: list[Mark] = []
    for group in range(len(shades)):
        inside = [at for at in range(len(trials)) if mergees is None or mergees.members[at] == group]
        entry = Entry(mergees.labels[group], "mergees M") if mergees else None
        marks.append(
            Points(
                tuple(places[at] for at in inside),
                tuple(values[at] for at in inside),
                shades[group],
                size=5,
                opacity=0.4,
                hover=tuple(hover.of_trial(trials[at], snapshot.settings) for at in inside),
            )
        )
        x, y = _line(bins, [(bins.members[at], values[at]) for at in inside], middle)
        lines.append(Line(x, y, shades[group], width=2.2))
        lines.append(Points(x, y, shades[group], symbols=(symbols[group % len(symbols)],), size=8, entry=entry))
    across = Axis("budget B", log=min(places) > 0 and max(places) / min(places) >= 8)
    return Panel(title, across, up, (*marks, *lines), height=420)


def _line(
    bins: Classes, found: Sequence[tuple[int, float]], middle: Callable[[list[float]], float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    together: dict[int, list[float]] = defaultdict(list)
    for place, value in found:
        together[place].append(value)
    kept = [place for place in sorted(together) if bins.exact or len(together[place]) >= _FEWEST]
    return tuple(bins.numbers[place] for place in kept), tuple(middle(together[place]) for place in kept)


def _maintenance(snapshot: Snapshot) -> Panel:
    title = "share of maintenance against mergees"
    trials = [trial for trial in snapshot.complete if "maintenance_share" in trial.result.counters]
    found = parameter_classes(trials, "mergees", MOST_MERGEES)
    if found is None:
        return Panel(title, note=_missing(trials, "mergees", "numbers of mergees"), wide=True)
    marks: list[Mark] = []
    middles = []
    for group, shade in enumerate(colours.ordered(len(found.labels))):
        inside = [trial for trial, place in zip(trials, found.members, strict=True) if place == group]
        shares = tuple(trial.result.counters["maintenance_share"] for trial in inside)
        middles.append(statistics.median(shares))
        texts = tuple(
            f"{hover.of_trial(trial, snapshot.settings)}\nmaintenance {share:.0%}"
            for trial, share in zip(inside, shares, strict=True)
        )
        places = tuple(group + _jitter(trial) for trial in inside)
        marks.append(Points(places, shares, shade, size=5, opacity=0.5, hover=texts))
    line = tuple(float(group) for group in range(len(middles)))
    marks.append(Line(line, tuple(middles), colours.INK, width=2))
    marks.append(Points(line, tuple(middles), colours.INK, symbols=("diamond",), size=9, entry=Entry("median")))
    up = Axis("maintenance's share of training time", "percent")
    return Panel(title, Axis("mergees M", "names", names=found.labels), up, tuple(marks), wide=True)


def _jitter(trial: Ended) -> float:
    """The golden ratio spreads successive numbers evenly."""
    return (trial.number * 0.6180339887 % 1.0 - 0.5) * 0.5


def _missing(trials: Sequence[Ended], name: str, several: str) -> str:
    if not trials:
        return "No trial is complete yet."
    values = {repr(trial.parameters[name]) for trial in trials if name in trial.parameters}
    if not values:
        return f"The space has no {name}."
    return f"There are no different {several} to compare." if len(values) == 1 else f"Not every {name} is a number."
