"""The picture of what matters: each parameter's influence, and where in the space good models are."""

import math
from collections.abc import Sequence

from workflows.report import colours, hover
from workflows.report.classes import number
from workflows.report.importance import FEWEST, importances, varying
from workflows.report.panels import Axis, Bars, Entry, Panel, Picture, Points, Scale
from workflows.report.trade_off import score_range
from workflows.study.snapshot import Ended, Snapshot
from workflows.wording import SYMBOLS, heading

READING = (
    "Left: how much a parameter decides whether a trial is among the best tenth, for each objective by itself. Right: "
    "every complete trial at its place in the space; rings are members of the front."
)
_COLOURS = (colours.BLUE, colours.ORANGE, colours.GREEN)
_MOST_LINES = 12


def influence(snapshot: Snapshot) -> Picture:
    return Picture("what-matters", "What matters", READING, (_importances(snapshot), _map(snapshot)))


def _importances(snapshot: Snapshot) -> Panel:
    title, complete, names = "importance of parameters", snapshot.complete, varying(snapshot.complete)
    if len(complete) < FEWEST:
        note = f"Importances need {FEWEST} complete trials; there {_are(len(complete))} so far."
        return Panel(title, note=note)
    if len(names) < 2:
        only = f"only {SYMBOLS.get(names[0], names[0])} was varied" if names else "no parameter was varied"
        return Panel(title, note=f"There is nothing to compare: {only}.")
    found = importances(snapshot)
    if not any(found):
        return Panel(title, note="All complete trials are equally good.")
    order = sorted(names, key=lambda name: -max(shares.get(name, 0.0) for shares in found))[:_MOST_LINES]
    objectives = [
        (heading(name), shares) for name, shares in zip(snapshot.settings.names, found, strict=True) if shares
    ]
    thick = 0.8 / len(objectives)
    marks = []
    for place, (text, shares) in enumerate(objectives):
        lengths = tuple(shares.get(name, 0.0) for name in order)
        lines = tuple(line + (place - (len(objectives) - 1) / 2) * thick for line in range(len(order)))
        texts = tuple(f"{length:.0%}" for length in lengths)
        marks.append(Bars(lines, lengths, texts, _COLOURS[place], 0.9 * thick, Entry(text)))
    longest = max(length for mark in marks for length in mark.lengths)
    shown = tuple(SYMBOLS.get(name, name) for name in order)
    across = Axis("share of the influence", "percent", range=(0.0, 1.12 * longest))
    return Panel(title, across, Axis(unit="names", names=shown), tuple(marks))


def _map(snapshot: Snapshot) -> Panel:
    complete = snapshot.complete
    names = _two_numbers(complete)
    if names is None:
        said = (
            "No trial is complete yet." if not complete else "Fewer than two parameters are numbers that were varied."
        )
        return Panel("where good models are", note=said)
    across, up = (Axis(_title(name), log=_log(complete, name)) for name in names)
    low, high = score_range(snapshot)
    low, high = (low, high) if high > low else (low - 0.005, high + 0.005)
    # The best are drawn last: above all others.
    trials = sorted(complete, key=lambda trial: trial.values[0])
    best = {member.number for member in snapshot.front}
    ringed = [trial for trial in trials if trial.number in best]
    x, y = ([number(trial.parameters[name]) for trial in trials] for name in names)
    points = Points(
        tuple(x),
        tuple(y),
        values=tuple(trial.values[0] for trial in trials),
        scale=Scale(snapshot.settings.metric, low, high),
        size=7,
        opacity=0.85,
        hover=tuple(hover.of_trial(trial, snapshot.settings) for trial in trials),
    )
    rings = Points(
        tuple(number(trial.parameters[names[0]]) for trial in ringed),
        tuple(number(trial.parameters[names[1]]) for trial in ringed),
        colours.VERMILION,
        size=12,
        hollow=True,
        entry=Entry("on the front"),
    )
    title = f"where good models are: {_title(names[0])} and {_title(names[1])}"
    return Panel(title, across, up, (points, rings))


def _two_numbers(trials: Sequence[Ended]) -> tuple[str, str] | None:
    names = [name for name in varying(trials) if all(math.isfinite(number(trial.parameters[name])) for trial in trials)]
    if "C" in names and "gamma" in names:
        return "C", "gamma"
    return (names[0], names[1]) if len(names) > 1 else None


def _log(trials: Sequence[Ended], name: str) -> bool:
    values = [number(trial.parameters[name]) for trial in trials]
    return min(values) > 0 and (name in ("C", "gamma") or max(values) / min(values) >= 30)


def _title(name: str) -> str:
    return SYMBOLS.get(name, name)


def _are(count: int) -> str:
    return "is 1" if count == 1 else f"are {count or 'none'}"
