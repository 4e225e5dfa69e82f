"""Accuracy and training time over the budget B, for M = 2 to 5, on all sets."""

from collections import Counter

from workflows.report import colours
from workflows.report.panels import Axis, Level, Mark, Panel, Picture
from workflows.reproduction.experiments.common import ENGINES, budgets, exact, name_of, trials
from workflows.reproduction.lab import Lab, Row
from workflows.reproduction.layout import Curve, Part, listed, percent, ratio, seconds, table
from workflows.reproduction.results import grouped, level, mean, only, values

MERGEES, FEW_MERGEES = (2, 3, 4, 5), (2, 3, 5)


def run(lab: Lab, sets: tuple[str, ...]) -> list[Row]:
    rows = []
    for on in sets:
        full = exact(lab, on)
        rows += [full, *measured(lab, on, full)]
    return rows


def measured(lab: Lab, on: str, full: Row) -> list[Row]:
    """full: the exact model."""
    at = budgets(lab, full["support_vectors"])
    return lab.grid("budget-and-mergees", on, trials(lab, on, at, lab.size.some(MERGEES, FEW_MERGEES)))


def section(rows: list[Row]) -> list[Part]:
    parts: list[Part] = []
    for (on,), mine in grouped(rows, "set").items():
        (full,), ours = only(mine, method="svc"), [row for row in mine if "budget" in row]
        parts += [
            f"**{name_of(on)}** (exact SVM: {100 * full['accuracy']:.2f}%, {full['support_vectors']:,.0f} support "
            "vectors)",
            _picture(ours, on, full),
            _table(ours, full),
        ]
    legend = (
        "Test accuracy in % with the calibrated bias, mean and deviation over seeds, of the paper engine; the fast "
        f"one's means are level with it (within two standard errors) in {_alike(rows)} cases. Times are CPU time of "
        "the whole training, bias included, as parts of that with M = 2."
    )
    return [legend, *parts, _effect(rows)]


def _alike(rows: list[Row]) -> str:
    """How many of all cases have the same accuracy in both engines."""
    found = [
        level(*(mean(only(mine, engine=engine), "accuracy") for engine in ENGINES))
        for mine in grouped([row for row in rows if "budget" in row], "set", "budget", "mergees").values()
    ]
    return f"{sum(found)} of {len(found)}"


def _effect(rows: list[Row]) -> str:
    """What more mergees cost in accuracy, by two standard errors; only where budgets were exceeded at all."""
    lines, told = [], {}
    for (on,), mine in grouped(only(rows, engine="paper"), "set").items():
        counts: Counter[str] = Counter()
        for same in grouped(mine, "budget").values():
            if not any(row["maintenance_calls"] for row in same):
                counts["idle"] += 1
                continue
            base = mean(only(same, mergees=2), "accuracy")
            for m in values(same, "mergees")[1:]:
                other = mean(only(same, mergees=m), "accuracy")
                worse = "worse" if other.value < base.value else "better"
                counts["level" if level(base, other) else worse] += 1
        told[name_of(on)] = counts
        lines.append([name_of(on), *(counts[kind] for kind in ("worse", "level", "better", "idle"))])
    said = (
        "**What M costs in accuracy.** The paper sees larger M do harm on ADULT, IJCNN and SKIN and good on WEB, and "
        "overall no systematic deterioration. Here M = 3 and more against M = 2 at the same budget, paper engine: a "
        f"case is worse or better if means differ by more than two standard errors. {_told(told)}"
    )
    return said + "\n\n" + table(["set", "worse", "level", "better", "budgets that were never exceeded"], lines)


def _told(counts: dict[str, Counter[str]]) -> str:
    """The sets where something is lost, and what is won."""
    kinds = ("worse", "level", "better")
    worse, better = (sum(one[kind] for one in counts.values()) for kind in ("worse", "better"))
    total = sum(one[kind] for one in counts.values() for kind in kinds)
    harmed = [
        f"{on} ({one['worse']} of {sum(one[kind] for kind in kinds)})" for on, one in counts.items() if one["worse"]
    ]
    where = f"; it is worse on {listed(harmed)}" if harmed else ""
    return f"Of {total} cases {worse} are worse and {better} better{where}."


def _table(rows: list[Row], full: Row) -> str:
    mergees = values(rows, "mergees")
    headings = ["B", "of the exact", *(f"M = {m}: %" for m in mergees)]
    headings += ["paper engine, M = 2: s", *(f"M = {m}" for m in mergees[1:])]
    headings += ["fast engine, M = 2: s", *(f"M = {m}" for m in mergees[1:])]
    lines = []
    for budget in values(rows, "budget"):
        mine = only(rows, budget=budget)
        line = [f"{budget:,}", f"{budget / full['support_vectors']:.0%}"]
        line += [percent(mean(only(mine, engine="paper", mergees=m), "accuracy")) for m in mergees]
        for engine in ENGINES:
            times = [mean(only(mine, engine=engine, mergees=m), "cpu").value for m in mergees]
            line += [seconds(times[0]), *(ratio(time, times[0]) for time in times[1:])]
        lines.append(line)
    return table(headings, lines)


def _picture(rows: list[Row], on: str, full: Row) -> Picture:
    mergees = values(rows, "mergees")
    accuracies: list[Mark] = [Level(full["accuracy"], "exact SVM")]
    times: list[Mark] = []
    for m, colour in zip(mergees, colours.ordered(len(mergees) + 1), strict=False):
        mine = only(rows, mergees=m)
        for engine in ENGINES:
            runs = [(budget, only(mine, engine=engine, budget=budget)) for budget in values(mine, "budget")]
            if engine == "paper":
                means = [(budget, mean(some, "accuracy")) for budget, some in runs]
                accuracies += Curve(f"M = {m}", means, colour).marks()
            means = [(budget, mean(some, "cpu")) for budget, some in runs]
            named = engine == "paper"
            times += Curve(f"M = {m}", means, colour, dotted=not named).marks(named=named)
    budget = Axis("budget B", "count", log=True)
    panels = (
        Panel("Test accuracy", budget, Axis("test accuracy", "percent"), tuple(accuracies), height=330),
        Panel("Training time", budget, Axis("CPU time", "seconds", log=True), tuple(times), height=330),
    )
    reading = "Left: accuracy of the paper engine. Right: time of the paper engine, and dotted of the fast one."
    return Picture(f"budget-and-mergees-{on}", f"{name_of(on)}: accuracy and time over the budget", reading, panels)
