"""The share of training time that is spent on merging, over the number M of mergees."""

import math
from collections.abc import Callable

from workflows.report import colours
from workflows.report.panels import Axis, Panel, Picture
from workflows.reproduction.experiments.common import (
    ENGINES,
    maintenance_seconds,
    name_of,
    sgd_seconds,
    sgd_share,
    trials,
)
from workflows.reproduction.lab import Lab, Row
from workflows.reproduction.layout import Curve, Part, listed, plain, seconds, table
from workflows.reproduction.results import Mean, grouped, mean_of, only, values

BUDGETS, FEW_BUDGETS = (100, 500), (25, 100)
MERGEES, FEW_MERGEES = tuple(range(2, 12)), (2, 3, 5, 11)
Measure = Callable[[Row], float]
LEAST_SAVING, CALLS = 0.30, 0.25
"""Goals at B = 500 with the paper engine: M = 3 saves so much maintenance time, M = 5 needs so few of the calls."""


def run(lab: Lab, sets: tuple[str, ...]) -> list[Row]:
    rows = []
    for on in sets:
        budgets, mergees = lab.size.some(BUDGETS, FEW_BUDGETS), lab.size.some(MERGEES, FEW_MERGEES)
        rows += lab.grid("merge-share", on, trials(lab, on, budgets, mergees), undisturbed=True)
    return rows


def share(rows: list[Row], **wanted: object) -> Mean:
    return mean_of([sgd_share(row) for row in only(rows, **wanted)])


def section(rows: list[Row]) -> list[Part]:
    at = max(values(rows, "budget"))
    parts: list[Part] = [
        _picture(rows),
        "Share of the SGD passes' time in %, bias left out. One call of maintenance frees M − 1 places, so that M = 5 "
        "needs a quarter of the calls that M = 2 needs (the paper's text says that it saves 66% of them; it is 75%).",
        _shares(rows),
        _often(only(rows, budget=at), at),
        f"What is left of M = 2's maintenance calls, maintenance time and time of the passes at B = {at}: 0.5 is half.",
        _savings(only(rows, budget=at)),
        _cheaper(only(rows, budget=at)),
        _matters_less(only(rows, budget=at), at),
        _goals(only(rows, budget=at), at),
    ]
    return parts


def _picture(rows: list[Row]) -> Picture:
    panels = []
    for (on,), mine in grouped(rows, "set").items():
        marks = []
        for engine, colour in zip(ENGINES, (colours.BLUE, colours.ORANGE), strict=True):
            for budget in values(mine, "budget"):
                means = [(m, share(mine, engine=engine, budget=budget, mergees=m)) for m in values(mine, "mergees")]
                marks += Curve(
                    f"{engine}, B={budget}", means, colour, dotted=budget == min(values(mine, "budget"))
                ).marks()
        axes = Axis("number of mergees M", "count"), Axis("share of merging", "percent", range=(0.0, 0.8))
        panels.append(Panel(name_of(on), *axes, tuple(marks), wide=True, height=300))
    return Picture(
        "merge-share",
        "Share of training time spent on merging",
        "The paper's figure 1 again: in the paper engine (blue) merging takes less of the time the more vectors are "
        "merged at once. In the fast engine (orange) everything costs so little that its share says less: see the "
        "seconds below.",
        tuple(panels),
    )


def _shares(rows: list[Row]) -> str:
    mergees = values(rows, "mergees")
    lines = []
    for (on, engine, budget), mine in sorted(grouped(rows, "set", "engine", "budget").items(), reverse=True):
        shares = [share(mine, mergees=m) for m in mergees]
        lines.append([f"{name_of(on)}, {engine} engine, B = {budget}", *(f"{100 * one.value:.1f}" for one in shares)])
    return table(["share of merging, %", *(f"M = {m}" for m in mergees)], lines)


def _savings(rows: list[Row]) -> str:
    lines = []
    for (on, engine), mine in sorted(grouped(rows, "set", "engine").items(), reverse=True):
        base = only(mine, mergees=2)
        for m in values(mine, "mergees")[1:]:
            merged = only(mine, mergees=m)
            parts = [left(base, merged, measure) for measure in (_calls, maintenance_seconds, sgd_seconds)]
            passes = mean_of([sgd_seconds(row) for row in merged])
            lines.append(
                [f"{name_of(on)}, {engine} engine", m, *(plain(part) for part in parts), seconds(passes.value)]
            )
    headings = ["set, engine", "M", "maintenance calls", "maintenance time", "time of the passes", "that is, s"]
    return table(headings, lines)


def left(base: list[Row], merged: list[Row], measure: Measure) -> float:
    """A measure of some runs as a part of that of others."""
    whole = mean_of([measure(row) for row in base]).value
    return mean_of([measure(row) for row in merged]).value / whole if whole else math.nan


def _cheaper(rows: list[Row]) -> str:
    """What a call of maintenance costs in both engines."""
    said = []
    for (on,), mine in grouped(rows, "set").items():
        calls = [
            mean_of([maintenance_seconds(row) / row["maintenance_calls"] for row in some if row["maintenance_calls"]])
            for some in (only(mine, mergees=2, engine=engine) for engine in ENGINES)
        ]
        times = calls[0].value / calls[1].value
        said.append(
            f"{name_of(on)} {1e6 * calls[0].value:.0f} and {1e6 * calls[1].value:.1f} µs, {times:.0f} times as much"
        )
    return f"A call of maintenance with M = 2 takes, in the paper engine and in the fast one: {'; '.join(said)}."


def _often(rows: list[Row], budget: int) -> str:
    """Why shares differ from set to set."""
    said = [
        f"on {name_of(on)} after {mean_of([row['steps'] / max(row['maintenance_calls'], 1) for row in mine]).value:.1f}"
        for (on,), mine in grouped(only(rows, mergees=2, engine="paper"), "set").items()
    ]
    return (
        f"The share depends on how often the budget is exceeded (with M = 2 and B = {budget}: {listed(said)} steps on "
        "average) and on what a kernel value costs beside a golden section search."
    )


def _matters_less(rows: list[Row], budget: int) -> str:
    """What the fast engine makes of the paper's point."""
    said = []
    for (on,), mine in grouped(rows, "set").items():
        paper, fast = (only(mine, engine=engine) for engine in ENGINES)
        times = [mean_of([sgd_seconds(row) for row in only(some, mergees=2)]).value for some in (paper, fast)]
        saves = [1 - left(only(some, mergees=2), only(some, mergees=5), sgd_seconds) for some in (paper, fast)]
        said.append(
            f"on {name_of(on)} one epoch with M = 2 takes {seconds(times[0])} s in the paper engine and "
            f"{seconds(times[1])} s in the fast one, and M = 5 saves {saves[0]:.0%} and {saves[1]:.0%} of it"
        )
    return f"**M matters less in the fast engine** (B = {budget}): {'; '.join(said)}."


def _goals(rows: list[Row], budget: int) -> str:
    lines = []
    for (on,), mine in grouped(only(rows, engine="paper"), "set").items():
        base = only(mine, mergees=2)
        saving = 1 - left(base, only(mine, mergees=3), maintenance_seconds)
        calls = left(base, only(mine, mergees=5), _calls)
        met = "met" if saving >= LEAST_SAVING else "**not met**"
        lines.append([f"{name_of(on)}: M = 3 saves of M = 2's maintenance time", f"{saving:.1%}", "≥ 30%", met])
        met = "met" if abs(calls - CALLS) <= 0.03 else "**not met**"
        lines.append([f"{name_of(on)}: M = 5's maintenance calls, part of M = 2's", f"{calls:.3f}", "about 1/4", met])
    return table([f"paper engine, B = {budget}", "measured", "goal", ""], lines)


def _calls(row: Row) -> float:
    return float(row["maintenance_calls"])
