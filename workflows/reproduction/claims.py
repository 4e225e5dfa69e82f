"""The paper's claims, and what becomes of them here: a verdict from the data for each engine.

A verdict follows from rules that are written down here, not from a look at the figures: a claim of several parts holds
where all do, and in part where some do.
"""

import math
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from workflows.reproduction.experiments import merge_share, merge_strategies, parameter_study, pareto
from workflows.reproduction.experiments.common import ENGINES, name_of, sgd_seconds
from workflows.reproduction.lab import Row
from workflows.reproduction.layout import listed, percent, plain, table
from workflows.reproduction.results import error_of, grouped, mean, mean_of, only, values

Outcome = Literal["holds", "holds in part", "does not hold", "not judged"]
MOST_OF_TIME, LEAST_SAVING, FASTEST = 0.45, 0.30, 5.0
NEARLY_EQUAL = 0.005
"""Accuracies that differ by no more than half a point, or by no more than two standard errors, are nearly equal."""


@dataclass(frozen=True)
class Verdict:
    outcome: Outcome
    figure: str
    """What it rests on, with its spread."""


@dataclass(frozen=True)
class Claim:
    text: str
    needs: str
    """The experiment that it is judged by."""
    judge: Callable[[list[Row], str], Verdict]
    """From that experiment's rows, and an engine."""
    rule: str
    """When it holds, for readers."""


NOTHING = Verdict("not judged", "every trial failed")


def verdict(parts: list[bool], figure: str) -> Verdict:
    outcome: Outcome = "holds" if all(parts) else "holds in part" if any(parts) else "does not hold"
    return Verdict(outcome, figure)


def share_of_merging(rows: list[Row], engine: str) -> Verdict:
    """At M = 2 the share reaches 45% somewhere; from M = 2 to the largest M it falls in every case, by more than two
    standard errors."""
    firsts, lasts, falls = [], [], []
    most = max(values(rows, "mergees"))
    for (on, budget), mine in grouped(only(rows, engine=engine), "set", "budget").items():
        first, last = (merge_share.share(mine, mergees=m) for m in (2, most))
        if not math.isfinite(first.value - last.value):
            continue
        falls.append(first.value - last.value > 2 * error_of(first, last))
        lasts.append(last.value)
        firsts.append((first.value, f"{percent(first, 1)}% ({name_of(on)}, B = {budget})"))
    if not falls:
        return NOTHING
    said = [f"M = 2: {' to '.join(dict.fromkeys((min(firsts)[1], max(firsts)[1])))}"]
    said.append(f"it falls in {sum(falls)} of {len(falls)} cases, to {_between(lasts)} at M = {most}")
    return verdict([max(firsts)[0] >= MOST_OF_TIME, all(falls)], "; ".join(said))


def time_saved(rows: list[Row], engine: str) -> Verdict:
    """M = 3 saves at least 30% of the passes' time in every case; M = 10, or the largest, is five times as fast in
    some."""
    savings, in_all, faster, spread = [], [], [], 0.0
    most = 10 if 10 in values(rows, "mergees") else max(values(rows, "mergees"))
    for mine in grouped(only(rows, engine=engine), "set", "budget").values():
        base, three, many = (only(mine, mergees=m) for m in (2, 3, most))
        if not (base and three and many):
            continue
        savings.append(1 - merge_share.left(base, three, sgd_seconds))
        in_all.append(1 - merge_share.left(base, three, lambda row: float(row["cpu"])))
        faster.append(1 / merge_share.left(base, many, sgd_seconds))
        times = [mean_of([sgd_seconds(row) for row in some]) for some in (base, three, many)]
        spread = max(spread, *(one.deviation / one.value for one in times))
    if not savings:
        return NOTHING
    parts = [min(savings) >= LEAST_SAVING, max(faster) >= FASTEST]
    if max(savings) >= LEAST_SAVING:
        parts.append(True)  # the saving is there, if not everywhere
    figure = (
        f"M = 3 saves {_between(savings, 0)} of the passes ({_between(in_all, 0)} of the training, bias included), "
    )
    figure += (
        f"M = {most} is {min(faster):.1f} to {max(faster):.1f} times as fast (times deviate by up to {spread:.0%})"
    )
    return verdict(parts, figure)


def strategies_level(rows: list[Row], engine: str) -> Verdict:
    """At every budget the accuracies are nearly equal; gradient descent takes less time for the same seed and budget,
    by more than two standard errors."""
    differences, ratios = [], []
    for (_, budget), mine in grouped(only(rows, engine=engine), "set", "budget").items():
        cascade, gradient = (only(mine, maintenance=name) for name in merge_strategies.STRATEGIES)
        if not (cascade and gradient):
            continue
        scores = mean(cascade, "accuracy"), mean(gradient, "accuracy")
        differences.append((scores[1].value - scores[0].value, error_of(*scores), budget))
        times = {row["seed"]: sgd_seconds(row) for row in cascade}
        ratios += [sgd_seconds(row) / times[row["seed"]] for row in gradient if row["seed"] in times]
    if not ratios:
        return NOTHING
    largest, ratio = max(differences, key=lambda one: abs(one[0])), mean_of(ratios)
    figure = f"gradient − cascade: at most {100 * largest[0]:+.2f} points (B = {largest[2]}; standard error "
    figure += f"{100 * largest[1]:.2f}); gradient takes {ratio.value:.3f} of the passes' time (standard error "
    figure += f"{ratio.error:.3f})"
    level = all(abs(difference) <= max(NEARLY_EQUAL, 2 * error) for difference, error, _ in differences)
    return verdict([level, ratio.value < 1 - 2 * ratio.error], figure)


def plain_bsgd_dominated(rows: list[Row], engine: str) -> Verdict:
    """Every model with M = 2 but that of the largest budget is beaten by one with more mergees, and by M = 3, 4 or 5
    with a larger budget: less time by more than two standard errors, and no less accuracy by as much."""
    found = pareto.models(_of_one_set(rows, "adult"), engine)
    if not found:
        return NOTHING
    largest = max(one.budget for one in found)
    plain_ones = [one for one in found if one.mergees == 2 and one.budget < largest]
    beaten = [one for one in plain_ones if any(other.beats(one) for other in found if other.mergees > 2)]
    invested = [
        one
        for one in plain_ones
        if any(other.beats(one) for other in found if other.mergees in (3, 4, 5) and other.budget > one.budget)
    ]
    on_front = Counter(one.mergees for one in pareto.best(found))
    parts = [len(beaten) == len(plain_ones), len(invested) == len(plain_ones)]
    if beaten:
        parts.append(True)  # at some budgets
    members = listed(f"{m} (×{count})" for m, count in sorted(on_front.items()))
    figure = f"M = 2 is beaten at {len(beaten)} of {len(plain_ones)} budgets, at {len(invested)} by M = 3 to 5 with a "
    figure += f"larger budget; M on the front of the means: {members}; accuracies deviate by {_points(found)} points"
    return verdict(parts, figure)


def _points(found: list[pareto.Model]) -> str:
    return f"{100 * mean_of([one.accuracy.deviation for one in found]).value:.2f}"


def _of_one_set(rows: list[Row], usual: str) -> list[Row]:
    """Those of the paper's set, or of the first that was taken instead."""
    return only(rows, set=usual) or only(rows, set=rows[0]["set"])


def _between(shares: list[float], digits: int = 1) -> str:
    low, high = (f"{100 * share:.{digits}f}" for share in (min(shares), max(shares)))
    return f"{low}%" if low == high else f"{low} to {high}%"


def gamma_matters_more(rows: list[Row], engine: str) -> Verdict:
    """Accuracy changes more with gamma than with C; it deviates most over seeds at the smallest gamma."""
    ours = [row for row in only(_of_one_set(rows, "phishing"), engine=engine) if "budget" in row]
    gammas, costs = values(ours, "gamma"), values(ours, "C")
    if not ours:
        return NOTHING
    cells = {(c, g): parameter_study.accuracy(only(ours, C=c, gamma=g)) for c in costs for g in gammas}
    by_gamma = [_range([cells[c, g] for g in gammas]) for c in costs]
    by_cost = [_range([cells[c, g] for c in costs]) for g in gammas]
    deviations = [parameter_study.fluctuation(only(ours, gamma=g)) for g in gammas]
    parts = [statistics.fmean(by_gamma) > statistics.fmean(by_cost), deviations[0] == max(deviations)]
    figure = f"γ changes {_points_between(by_gamma)} points, depending on C; C changes {_points_between(by_cost)}, "
    figure += f"depending on γ; deviation over seeds at γ = {listed(plain(g) for g in gammas)}: "
    figure += listed(f"{100 * one:.2f}" for one in deviations)
    return verdict(parts, figure)


def _range(numbers: list[float]) -> float:
    known = [number for number in numbers if math.isfinite(number)]
    return max(known) - min(known) if known else 0.0


def _points_between(changes: list[float]) -> str:
    return f"{100 * min(changes):.2f} to {100 * max(changes):.2f}"


CLAIMS = (
    Claim(
        "Plain BSGD (M = 2) spends up to 45% of its time on merging; the share falls as M grows",
        "merge-share",
        share_of_merging,
        "with M = 2 the share reaches 45% somewhere, be it more; from there to the largest M it falls in every case by "
        "more than two standard errors",
    ),
    Claim(
        "M = 3 saves 30% to 50% of the time; M = 10 is up to five times as fast",
        "merge-share",
        time_saved,
        "M = 3 saves 30% of the passes' time in every case (in part: in one), and M = 10 is five times as fast in one",
    ),
    Claim(
        "Cascade and gradient merging are nearly equally accurate; gradient is a bit faster at M = 3",
        "merge-strategies",
        strategies_level,
        "at every budget accuracies differ by at most half a point or two standard errors; for the same seed and "
        "budget gradient descent is faster by more than two standard errors",
    ),
    Claim(
        "M = 2 lies opposite to the Pareto front but for the largest budget; M = 3 to 5 and a larger budget beat it",
        "pareto",
        plain_bsgd_dominated,
        "every M = 2 below the largest budget is beaten, and by M = 3 to 5 with a larger budget too (in part: one is "
        "beaten). Beaten is who is slower by more than two standard errors and not measurably more accurate; the front "
        "is that of the bare means, where M = 2 may still be",
    ),
    Claim(
        "γ matters more than C; results for small γ fluctuate most",
        "parameter-study",
        gamma_matters_more,
        "mean accuracy changes more from γ to γ than from C to C, and deviates most over seeds at the smallest γ",
    ),
)


def verdicts(measured: dict[str, list[Row]]) -> str:
    """A table of all claims that there is data for."""
    lines = []
    for number, claim in enumerate(CLAIMS, 1):
        rows = measured.get(claim.needs)
        if rows is None:
            continue
        for engine in ENGINES:
            found = claim.judge(rows, engine)
            text = f"{number}. {claim.text}" if engine == ENGINES[0] else ""
            lines.append([text, engine, f"**{found.outcome}**", found.figure])
    if not lines:
        return ""
    headings = ["the paper's claim", "engine", "verdict", "measured"]
    rules = [f"{number}. {claim.rule}." for number, claim in enumerate(CLAIMS, 1) if claim.needs in measured]
    return "\n".join([table(headings, lines, words=range(4)), "", "When a claim holds:", "", *rules])
