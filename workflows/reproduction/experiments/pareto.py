"""The trade-off between accuracy and training time over budgets and M = 2 to 11."""

from collections import Counter
from dataclasses import dataclass

from workflows.front import front
from workflows.report import colours
from workflows.report.panels import SYMBOLS, Axis, Entry, Level, Line, Mark, Panel, Picture, Points
from workflows.reproduction.experiments import budget_and_mergees
from workflows.reproduction.experiments.common import ENGINES, budgets, exact, name_of, trials
from workflows.reproduction.lab import Lab, Row
from workflows.reproduction.layout import Part, percent, seconds, table
from workflows.reproduction.results import Mean, error_of, grouped, mean, mean_of, only

MORE_MERGEES, FEW_MORE_MERGEES = (6, 7, 8, 9, 10, 11), (8, 11)
"""Beside those of `budget_and_mergees`, whose trials are used here too."""


def run(lab: Lab, sets: tuple[str, ...]) -> list[Row]:
    rows = []
    for on in sets:
        full = exact(lab, on)
        at = budgets(lab, full["support_vectors"])
        rows += [full, *budget_and_mergees.measured(lab, on, full)]
        rows += lab.grid("pareto", on, trials(lab, on, at, lab.size.some(MORE_MERGEES, FEW_MORE_MERGEES)))
    return rows


@dataclass(frozen=True)
class Model:
    """A budget and a number of mergees, and what their runs had on average."""

    budget: int
    mergees: int
    accuracy: Mean
    cpu: Mean

    @property
    def point(self) -> tuple[float, float]:
        return self.accuracy.value, self.cpu.value

    def beats(self, other: "Model") -> bool:
        """Faster by more than two standard errors, and no less accurate by as much."""
        faster = self.cpu.value < other.cpu.value - 2 * error_of(self.cpu, other.cpu)
        lacking = other.accuracy.value - self.accuracy.value
        return faster and lacking <= 2 * error_of(self.accuracy, other.accuracy)


def models(rows: list[Row], engine: str) -> list[Model]:
    groups = grouped(only(rows, engine=engine), "budget", "mergees")
    return [
        Model(budget, mergees, mean(mine, "accuracy"), mean(mine, "cpu")) for (budget, mergees), mine in groups.items()
    ]


def best(found: list[Model]) -> list[Model]:
    """The front, by falling accuracy."""
    return [found[place] for place in front([model.point for model in found])]


def section(rows: list[Row]) -> list[Part]:
    parts: list[Part] = []
    for (on,), mine in grouped(rows, "set").items():
        parts.append(_picture(mine, on))
        parts.append(_reading(mine))
        for engine in ENGINES:
            found = models(mine, engine)
            members = best(found)
            counts = Counter(model.mergees for model in members)
            said = ", ".join(f"M = {m}: {count}" for m, count in sorted(counts.items()))
            parts += [
                f"**{name_of(on)}, {engine} engine**: the front has {len(members)} of {len(found)} models ({said}).",
                _table(members),
            ]
    return parts


def _reading(rows: list[Row]) -> str:
    """How much of the front is chance, and what is not."""
    said = []
    for engine in ENGINES:
        found = models(rows, engine)
        scores = [one.accuracy.value for one in found]
        spread = mean_of([one.accuracy.deviation for one in found]).value
        times = [one.cpu.value for one in found]
        said.append(
            f"in the {engine} engine the means of all {len(found)} models lie within "
            f"{100 * (max(scores) - min(scores)):.2f} points, where one model deviates by {100 * spread:.2f} over "
            f"seeds, and their times within a factor of {max(times) / min(times):.0f}"
        )
    return (
        f"How to read it: {said[0]}; {said[1]}. Where accuracies hardly differ, who is on the front is decided by "
        "time, and among neighbours by chance."
    )


def _table(members: list[Model]) -> str:
    lines = [[f"{one.budget:,}", one.mergees, percent(one.accuracy), seconds(one.cpu.value)] for one in members]
    return table(["B", "M", "test accuracy, %", "time, s"], lines)


def _picture(rows: list[Row], on: str) -> Picture:
    (full,) = only(rows, method="svc")
    panels = []
    for engine in ENGINES:
        found = models(rows, engine)
        mergees, at = sorted({one.mergees for one in found}), sorted({one.budget for one in found})
        marks: list[Mark] = [Level(full["accuracy"], "exact SVM")]
        for budget in at:
            same = sorted((one for one in found if one.budget == budget), key=lambda one: one.mergees)
            x, y = tuple(one.cpu.value for one in same), tuple(one.accuracy.value for one in same)
            marks.append(Line(x, y, colours.GREY, width=0.8, dotted=True))
        for m, colour in zip(mergees, colours.ordered(len(mergees)), strict=True):
            same = [one for one in found if one.mergees == m]
            x, y = tuple(one.cpu.value for one in same), tuple(one.accuracy.value for one in same)
            symbols = tuple(SYMBOLS[at.index(one.budget)] for one in same)
            marks.append(Points(x, y, colour, symbols=symbols, size=8, entry=Entry(f"M = {m}", "mergees")))
        plain = sorted((one for one in found if one.mergees == 2), key=lambda one: one.budget)
        x, y = tuple(one.cpu.value for one in plain), tuple(one.accuracy.value for one in plain)
        marks.append(Line(x, y, colours.VERMILION, width=1.2, dotted=True, entry=Entry("M = 2: plain BSGD")))
        members = sorted(best(found), key=lambda one: one.cpu.value)
        x, y = tuple(one.cpu.value for one in members), tuple(one.accuracy.value for one in members)
        marks.append(Line(x, y, colours.INK, width=2.0, entry=Entry("Pareto front")))
        for budget, symbol in zip(at, SYMBOLS, strict=False):
            key = Entry(f"B = {budget:,}", "budget")
            marks.append(Points((x[0],), (y[0],), colours.FAINT, symbols=(symbol,), size=0.01, entry=key))
        axes = Axis("training time (CPU)", "seconds", log=True), Axis("test accuracy", "percent")
        panels.append(Panel(f"{engine} engine", *axes, tuple(marks), wide=True, height=460))
    return Picture(
        f"pareto-{on}",
        f"{name_of(on)}: the trade-off between accuracy and training time",
        "The paper's figure 4 again: colours are M, symbols are budgets, grey dots join models of the same budget, "
        "the black line is the Pareto front, the orange one plain BSGD. Points are means over seeds.",
        tuple(panels),
    )
