"""Merging M = 3 vectors in a cascade or by gradient descent, at growing budgets."""

import math

from workflows.report import colours
from workflows.report.panels import Axis, Mark, Panel, Picture
from workflows.reproduction.experiments.common import ENGINES, name_of, trials
from workflows.reproduction.lab import Lab, Row
from workflows.reproduction.layout import Curve, Part, percent, ratio, seconds, table
from workflows.reproduction.paper import MERGING
from workflows.reproduction.results import grouped, mean, mean_of, only, values

BUDGETS, FEW_BUDGETS = (120, 600, 1200, 1800, 2500), (120, 600)
STRATEGIES = ("cascade", "gradient")


def run(lab: Lab, sets: tuple[str, ...]) -> list[Row]:
    rows = []
    for on in sets:
        wanted = trials(lab, on, lab.size.some(BUDGETS, FEW_BUDGETS), [3], maintenance=STRATEGIES)
        rows += lab.grid("merge-strategies", on, wanted, undisturbed=True)
    return rows


def section(rows: list[Row]) -> list[Part]:
    parts: list[Part] = []
    for (on,), mine in grouped(rows, "set").items():
        reported = MERGING if on == "adult" else {strategy: {} for strategy in STRATEGIES}
        parts += [
            f"**Time**, {name_of(on)}, M = 3, one epoch, in seconds; means of {len(values(mine, 'seed'))} seeds.",
            _times(mine, reported),
            "**Test accuracy** in %, of the paper engine; the fast one chooses the same partners. Without a bias as "
            "in the paper's code, and with the bias that this project calibrates after the epoch.",
            _accuracies(mine, reported),
            _reading(mine),
            _picture(mine, on),
        ]
    return parts


def _reading(rows: list[Row]) -> str:
    groups = list(grouped(only(rows, engine="paper"), "maintenance", "budget").values())
    spreads = [mean_of([mean(mine, name).deviation for mine in groups]) for name in ("score_without_bias", "accuracy")]
    means = [mean(mine, "accuracy").value for mine in groups] or [math.nan]
    return (
        f"Over seeds, accuracy deviates by {100 * spreads[0].value:.1f} points without a bias: the last steps of one "
        "epoch are as large as C, and where they leave the threshold is chance. Calibrated, it deviates by "
        f"{100 * spreads[1].value:.2f} points, and all budgets are within {100 * (max(means) - min(means)):.2f} points "
        "of each other."
    )


Reported = dict[str, dict[int, tuple[float, float]]]


def _times(rows: list[Row], reported: Reported) -> str:
    headings = ["B", "paper: cascade", "gradient", "ratio"]
    headings += [f"{text}{strategy}" for text in ("paper engine: ", "fast engine: ") for strategy in STRATEGIES]
    headings[6:6], headings[9:9] = ["ratio"], ["ratio"]
    lines = []
    for budget in values(rows, "budget"):
        theirs = [reported[strategy].get(budget, (None, None))[0] for strategy in STRATEGIES]
        line = [budget, *map(seconds, theirs), ratio(theirs[1], theirs[0])]
        for engine in ENGINES:
            ours = [mean(_at(rows, engine, strategy, budget), "cpu").value for strategy in STRATEGIES]
            line += [*map(seconds, ours), ratio(ours[1], ours[0])]
        lines.append(line)
    return table(headings, lines)


def _accuracies(rows: list[Row], reported: Reported) -> str:
    headings = [
        "B",
        "paper: cascade",
        "gradient",
        "without bias: cascade",
        "gradient",
        "calibrated: cascade",
        "gradient",
    ]
    lines = []
    for budget in values(rows, "budget"):
        theirs = [reported[strategy].get(budget, (None, None))[1] for strategy in STRATEGIES]
        line = [budget, *("–" if one is None else f"{100 * one:.2f}" for one in theirs)]
        for name in ("score_without_bias", "accuracy"):
            line += [percent(mean(_at(rows, "paper", strategy, budget), name)) for strategy in STRATEGIES]
        lines.append(line)
    return table(headings, lines)


def _picture(rows: list[Row], on: str) -> Picture:
    panels = []
    for name, title, axis in (
        ("accuracy", "Test accuracy", Axis("test accuracy", "percent")),
        ("cpu", "Training time", Axis("training time (CPU)", "seconds", log=True)),
    ):
        marks: list[Mark] = []
        for engine in ENGINES:
            for strategy, colour in zip(STRATEGIES, (colours.BLUE, colours.VERMILION), strict=True):
                means = [(budget, mean(_at(rows, engine, strategy, budget), name)) for budget in values(rows, "budget")]
                marks += Curve(f"{strategy}, {engine} engine", means, colour, dotted=engine == "fast").marks()
        panels.append(Panel(title, Axis("budget B", "count"), axis, tuple(marks), wide=True, height=330))
    return Picture(
        f"merge-strategies-{on}",
        "Merging three vectors, in a cascade or by gradient descent",
        "The two ways of merging are level in accuracy; bars are deviations over seeds.",
        tuple(panels),
    )


def _at(rows: list[Row], engine: str, strategy: str, budget: int) -> list[Row]:
    return only(rows, engine=engine, maintenance=strategy, budget=budget)
