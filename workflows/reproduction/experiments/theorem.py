"""Theorem 1 along training: the mean gradient error, and the bound that follows from it."""

from collections.abc import Iterator

from workflows.report import colours
from workflows.report.panels import Axis, Entry, Line, Panel, Picture
from workflows.reproduction.experiments.common import name_of, trials
from workflows.reproduction.lab import Lab, Row
from workflows.reproduction.layout import Part, listed, plain, table
from workflows.reproduction.results import grouped, mean, only, values

BUDGETS, FEW_BUDGETS = (100, 500, 2500), (100, 500)
MERGEES, FEW_MERGEES = (2, 3, 5, 11), (2, 5)
ROUNDING = 1e-4
"""Of ‖E_t‖: dropping a vector that was just added has an error of 1."""


def run(lab: Lab, sets: tuple[str, ...]) -> list[Row]:
    rows = []
    for on in sets:
        at, mergees = lab.size.some(BUDGETS, FEW_BUDGETS), lab.size.some(MERGEES, FEW_MERGEES)
        rows += lab.grid("theorem", on, trials(lab, on, at, mergees, engine=["fast"]), trace=True)
    return rows


def section(rows: list[Row]) -> list[Part]:
    return [
        "Theorem 1 bounds how far the mean loss along the way is above the optimum's: by a term that falls like "
        "ln(N)/N, and by 2 U Ē, where Ē is the mean of the gradient errors ‖E_t‖ = ‖Δ_t‖/η_t and U = 2/λ. It assumes "
        "‖E_t‖ ≤ 1.",
        _picture(rows),
        "At the end of the epoch, means over seeds; the last two columns are the two terms of the bound.",
        _table(rows),
        _reading(rows),
    ]


def _table(rows: list[Row]) -> str:
    lines = []
    for (on, budget, m), mine in grouped(rows, "set", "budget", "mergees").items():
        error, largest, bound = (
            mean(mine, name).value for name in ("mean_gradient_error", "largest_gradient_error", "theorem_bound")
        )
        second = 2 * radius(mine[0]) * error
        lines.append([name_of(on), budget, m, plain(error), plain(largest), plain(bound - second), plain(second)])
    return table(["set", "B", "M", "Ē", "largest ‖E_t‖", "first term", "2 U Ē"], lines)


def radius(row: Row) -> float:
    """U = 2 / lambda, for lambda = 1 / (n C) is far below 4 here."""
    return float(2.0 * row["steps"] * row["C"])


def _reading(rows: list[Row]) -> str:
    smallest = min(row["theorem_bound"] for row in rows)
    above = [row for row in rows if row["largest_gradient_error"] > 1.0 + ROUNDING]
    many = sorted({row["mergees"] for row in above})
    assumed = (
        f"In {len(above)} of {len(rows)} runs some ‖E_t‖ is above 1, all of them with M = {listed(many)}: the "
        "theorem's assumption does not hold there."
        if above
        else "‖E_t‖ stays at or below 1 in all runs, as the theorem assumes."
    )
    return (
        "**The bound says nothing in practice**: the hinge loss of the zero model is 1, the smallest bound here is "
        f"{plain(smallest)}, because U = 2/λ = 2nC is as large as {plain(max(radius(row) for row in rows))}. What it "
        f"can show is a direction: {_direction(rows)}. {assumed}"
    )


def _direction(rows: list[Row]) -> str:
    """What Ē does with the budget and with M, from case to case."""
    by_budget = [_falls(mine, "budget") for mine in grouped(rows, "set", "mergees").values()]
    by_mergees = [_falls(mine, "mergees") for mine in grouped(rows, "set", "budget").values()]
    said = [
        f"from the smallest to the largest {name} Ē falls in {sum(falls)} of {len(falls)} cases"
        for name, falls in (("budget", by_budget), ("M", by_mergees))
    ]
    few = "there are fewer calls of maintenance, each with a larger error"
    return f"{said[0]}, and {said[1]} ({few})"


def _falls(rows: list[Row], name: str) -> bool:
    first, last = values(rows, name)[0], values(rows, name)[-1]
    errors = [mean(only(rows, **{name: value}), "mean_gradient_error").value for value in (first, last)]
    return errors[1] < errors[0]


def _picture(rows: list[Row]) -> Picture:
    panels = []
    for (on,), mine in grouped(rows, "set").items():
        for name, title, log in (
            ("mean_gradient_error", "mean gradient error Ē so far", False),
            ("bound", "bound of Theorem 1", True),
        ):
            axes = Axis("step t", "count", log=True), Axis(title, log=log)
            panels.append(Panel(name_of(on), *axes, tuple(_lines(mine, name)), wide=True, height=280))
    return Picture(
        "theorem",
        "Theorem 1 along training",
        "Solid lines are M = 2, dotted ones the largest M; means over seeds. Merging begins when the budget is full.",
        tuple(panels),
    )


def _lines(rows: list[Row], name: str) -> Iterator[Line]:
    """From where there is an error to speak of."""
    shades = (colours.VERMILION, colours.BLUE, colours.GREEN)
    for budget, colour in zip(values(rows, "budget"), shades, strict=False):
        for m in (2, max(values(rows, "mergees"))):
            traces = [row["trace"] for row in only(rows, budget=budget, mergees=m)]
            moments = [(some[0]["steps"], mean(some, name).value) for some in zip(*traces, strict=False)]
            seen = [(steps, value) for steps, value in moments if value > 0]
            x, y = tuple(steps for steps, _ in seen), tuple(value for _, value in seen)
            yield Line(x, y, colour, 1.6, dotted=m > 2, entry=Entry(f"M = {m}", f"B = {budget}"))
