"""Accuracy over budgets and mergees where C and gamma are varied."""

from workflows.report import colours
from workflows.report.panels import Axis, Level, Mark, Panel, Picture
from workflows.reproduction.experiments.common import ENGINES, budgets, name_of, trials
from workflows.reproduction.lab import Lab, Row, product
from workflows.reproduction.layout import Curve, Part, table
from workflows.reproduction.paper import PARAMETER_STUDY
from workflows.reproduction.results import grouped, mean, mean_of, only, values

COSTS, WIDTHS = (2.0, 8.0, 32.0), (2.0, 8.0, 32.0)
MERGEES, FEW_MERGEES = (2, 3, 4, 5), (2, 5)


def run(lab: Lab, sets: tuple[str, ...]) -> list[Row]:
    rows = []
    for on in sets:
        full = lab.grid("exact-grid", on, product(method=["svc"], C=COSTS, gamma=WIDTHS))
        wanted = []
        for one in full:
            at = budgets(lab, one["support_vectors"])
            mergees = lab.size.some(MERGEES, FEW_MERGEES)
            wanted += trials(lab, on, at, mergees, C=[one["C"]], gamma=[one["gamma"]])
        wanted.sort(key=lambda one: one["seed"])  # one round after the other
        rows += [*full, *lab.grid("parameter-study", on, wanted)]
    return rows


def section(rows: list[Row]) -> list[Part]:
    parts: list[Part] = []
    for (on,), mine in grouped(rows, "set").items():
        full, ours = only(mine, method="svc"), [row for row in mine if "budget" in row]
        parts += [
            f"**{name_of(on)}**: the exact model, as the paper reports it and as it is here.",
            _exact(full, on),
            _picture(full, ours, on),
            "What C and γ change: mean accuracy over all budgets and M in %, and the mean deviation over seeds in "
            "points.",
            _influence(ours),
        ]
    return parts


def _exact(full: list[Row], on: str) -> str:
    lines = []
    for row in full:
        theirs = PARAMETER_STUDY.get((row["C"], row["gamma"])) if on == "phishing" else None
        known = [f"{100 * theirs[0]:.2f}", f"{theirs[1]:,}"] if theirs else ["–", "–"]
        ours = [f"{100 * row['accuracy']:.2f}", f"{row['support_vectors']:,.0f}"]
        lines.append([f"C = {row['C']:g}, γ = {row['gamma']:g}", known[0], ours[0], known[1], ours[1]])
    return table(["", "accuracy, %: paper", "here", "support vectors: paper", "here"], lines)


def accuracy(rows: list[Row]) -> float:
    """The mean over budgets and M of what they have over seeds; shares of the exact model stand for budgets."""
    return mean_of([mean(mine, "accuracy").value for mine in grouped(rows, "budget", "mergees").values()]).value


def fluctuation(rows: list[Row]) -> float:
    """The mean over everything of the deviation over seeds."""
    groups = grouped(rows, "C", "gamma", "budget", "mergees").values()
    return mean_of([mean(mine, "accuracy").deviation for mine in groups]).value


def _influence(rows: list[Row]) -> str:
    lines = []
    for engine in ENGINES:
        for gamma in values(rows, "gamma"):
            mine = only(rows, engine=engine, gamma=gamma)
            across = [accuracy(only(mine, C=c)) for c in values(mine, "C")]
            parts = [*(f"{100 * one:.2f}" for one in across), f"{100 * (max(across) - min(across)):.2f}"]
            lines.append([f"{engine} engine, γ = {gamma:g}", *parts, f"{100 * fluctuation(mine):.2f}"])
    headings = ["", *(f"C = {c:g}" for c in values(rows, "C")), "change by C", "deviation over seeds"]
    return table(headings, lines)


def _picture(full: list[Row], rows: list[Row], on: str) -> Picture:
    """Of the paper engine. All panels have the same accuracies on their axes."""
    panels = []
    shown = only(rows, engine="paper")
    scores = [mean(mine, "accuracy").value for mine in grouped(shown, "C", "gamma", "budget", "mergees").values()]
    between = (min(scores) - 0.01, max([*scores, *(row["accuracy"] for row in full)]) + 0.005)
    for row in full:
        mine = only(shown, C=row["C"], gamma=row["gamma"])
        mergees = values(mine, "mergees")
        marks: list[Mark] = [Level(row["accuracy"], "exact SVM")]
        for m, colour in zip(mergees, colours.ordered(len(mergees) + 1), strict=False):
            runs = [(budget, only(mine, budget=budget, mergees=m)) for budget in values(mine, "budget")]
            name = f"M = {m}" if m == mergees[0] else f"{m}"  # the panels are small
            marks += Curve(name, [(budget, mean(some, "accuracy")) for budget, some in runs], colour).marks()
        axes = Axis("budget B", "count"), Axis("test accuracy", "percent", range=between)
        panels.append(Panel(f"C = {row['C']:g}, γ = {row['gamma']:g}", *axes, tuple(marks), height=270))
    return Picture(
        f"parameter-study-{on}",
        f"{name_of(on)}: accuracy over the budget for nine settings of C and γ",
        "The paper's figure 5 again, by the paper engine. Budgets follow the exact model's number of support vectors.",
        tuple(panels),
        columns=len(values(full, "gamma")),
    )
