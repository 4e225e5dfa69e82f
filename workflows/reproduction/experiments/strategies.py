"""What to do when the budget is exceeded: removal, projection, merging two, and merging three in two ways."""

from collections import Counter

from workflows.report import colours
from workflows.report.panels import Axis, Entry, Mark, Panel, Picture, Points
from workflows.reproduction.experiments.common import name_of, trials
from workflows.reproduction.lab import Lab, Row
from workflows.reproduction.layout import Part, listed, percent, plain, seconds, table
from workflows.reproduction.results import grouped, level, mean, only, values

BUDGETS, FEW_BUDGETS = (100, 500), (100,)
STRATEGIES = {
    "removal": {"maintenance": "removal", "mergees": 2},
    "projection": {"maintenance": "projection", "mergees": 2},
    "merging": {"maintenance": "cascade", "mergees": 2},
    "cascade": {"maintenance": "cascade", "mergees": 3},
    "gradient": {"maintenance": "gradient", "mergees": 3},
}
"""Merging is the cascade of a single merge: BSGD."""


def run(lab: Lab, sets: tuple[str, ...]) -> list[Row]:
    rows = []
    for on in sets:
        base = trials(lab, on, lab.size.some(BUDGETS, FEW_BUDGETS), [2], engine=["fast"])
        rows += lab.grid("strategies", on, [one | how for one in base for how in STRATEGIES.values()])
    return rows


def strategy(row: Row) -> str:
    return next(name for name, how in STRATEGIES.items() if how.items() <= row.items())


def section(rows: list[Row]) -> list[Part]:
    named = [row | {"strategy": strategy(row)} for row in rows]
    lines = []
    for (on, budget, name), mine in grouped(named, "set", "budget", "strategy").items():
        lines.append(
            [
                name_of(on),
                budget,
                name,
                percent(mean(mine, "accuracy")),
                percent(mean(mine, "score_without_bias")),
                seconds(mean(mine, "cpu").value),
                plain(mean(mine, "mean_gradient_error").value),
            ]
        )
    headings = ["set", "B", "strategy", "test accuracy, %", "without bias, %", "time, s", "Ē"]
    return [
        "Removal drops the vector of least weight, projection gives its weight to all others, merging is BSGD (M = "
        "2), cascade and gradient merge M = 3. All by the fast engine, one epoch, means over seeds. Ē is the mean "
        "weight degradation in units of the step size.",
        _picture(named),
        table(headings, lines, words=(0, 2)),
        _reading(named),
    ]


def _reading(rows: list[Row]) -> str:
    """Who is most accurate how often, and what projection costs."""
    wins: Counter[str] = Counter()
    ties = 0
    slower = []
    for mine in grouped(rows, "set", "budget").values():
        by_name = {name: mean(only(mine, strategy=name), "accuracy") for name in STRATEGIES}
        first, second, *_ = sorted(by_name, key=lambda name: by_name[name].value, reverse=True)
        if level(by_name[first], by_name[second]):
            ties += 1
        else:
            wins[first] += 1
        times = [mean(only(mine, strategy=name), "cpu").value for name in ("projection", "merging")]
        slower.append(times[0] / times[1])
    said = listed(f"{name} ({count})" for name, count in wins.most_common())
    longer = f"{min(slower):.1f} to {max(slower):.1f}" if len(slower) > 1 else f"{slower[0]:.1f}"
    return (
        f"Most accurate with the calibrated bias by more than two standard errors, and how often of {len(slower)}: "
        f"{said}; in the other {ties} the best two are level. Projection takes {longer} times as long as merging."
    )


def _picture(rows: list[Row]) -> Picture:
    panels = []
    shades = (colours.GREY, colours.ORANGE, colours.BLUE, colours.GREEN, colours.VERMILION)
    for (on, budget), mine in grouped(only(rows, budget=max(values(rows, "budget"))), "set", "budget").items():
        marks: list[Mark] = []
        for name, colour in zip(STRATEGIES, shades, strict=True):
            some = only(mine, strategy=name)
            time, score = mean(some, "cpu"), mean(some, "accuracy")
            errors = ((score.deviation, score.deviation),)
            marks.append(
                Points((time.value,), (score.value,), colour, size=9, error_y=errors, entry=Entry(name, "strategy"))
            )
        axes = Axis("training time (CPU)", "seconds", log=True), Axis("test accuracy", "percent")
        panels.append(Panel(f"{name_of(on)}, B = {budget}", *axes, tuple(marks), wide=True, height=230))
    reading = "Up is more accurate, left is faster; bars are deviations over seeds."
    return Picture("strategies", "Strategies of budget maintenance", reading, tuple(panels))
