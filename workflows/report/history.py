"""The picture of the study's history: how the front grew, and what the workers did."""

import math

from workflows.front import GrowingFront, hypervolume
from workflows.report import colours, hover
from workflows.report.clock import Clock, clock
from workflows.report.panels import Axis, Entry, Line, Mark, Panel, Picture, Spans
from workflows.report.ranges import positive
from workflows.study.snapshot import Ended, Snapshot
from workflows.wording import span

READING = (
    "The hypervolume is the part of the box between score 0 and 1, and between the least and the largest cost seen (in "
    "logarithms), that the front so far dominates; when it stays flat, more trials bring little. Below, every bar is a "
    "trial on its worker."
)
_MOST_LANES = 32
_LONGEST_NAME = 26


def history(snapshot: Snapshot) -> Picture:
    time = clock(snapshot.trials)
    ended = [trial.number for trial in snapshot.trials]
    grown = hypervolumes(snapshot)
    if grown:
        counts = {number: place for place, number in enumerate(ended, start=1)}
        moments = {trial.number: time(trial.ended) for trial in snapshot.trials}
        panels = (
            _growth(
                "hypervolume over trials",
                Axis("ended trials"),
                [(counts[at], share) for at, share in grown],
                len(ended),
            ),
            _growth(
                "hypervolume over time",
                Axis(_since(time), "seconds"),
                [(moments[at], share) for at, share in grown],
                time(time.end),
            ),
        )
    else:
        note = "A hypervolume needs two complete trials of different cost."
        panels = (Panel("hypervolume over trials", note=note), Panel("hypervolume over time", note=note))
    return Picture("history", "The study's history", READING, (*panels, _timeline(snapshot, time)))


def box(snapshot: Snapshot) -> tuple[list[tuple[float, ...]], tuple[float, ...], float]:
    """Complete trials as (score, logarithms of the others), their worst corner, and the volume of the box."""
    complete = snapshot.complete
    columns = [[trial.values[0] for trial in complete]]
    for place in range(1, len(snapshot.settings.names)):
        columns.append([math.log(value) for value in positive([trial.values[place] for trial in complete])])
    points = [tuple(point) for point in zip(*columns, strict=True)]
    worst = (0.0, *(max(column, default=0.0) for column in columns[1:]))
    return points, worst, math.prod(max(column, default=0.0) - min(column, default=0.0) for column in columns[1:])


def hypervolumes(snapshot: Snapshot) -> list[tuple[int, float]]:
    """Numbers of the trials that made the front grow, in the order of their ends, and the share dominated then."""
    points, worst, volume = box(snapshot)
    if volume <= 0:
        return []
    front, grown = GrowingFront(), []
    share = 0.0
    for trial, point in zip(snapshot.complete, points, strict=True):
        if front.add(trial.number, point):
            share = max(share, hypervolume([values for _, values in front.members], worst) / volume)
            grown.append((trial.number, share))
    return grown


def _growth(title: str, across: Axis, grown: list[tuple[float, float]], end: float) -> Panel:
    x, y = zip(*[*grown, (end, grown[-1][1])], strict=True)
    return Panel(
        title,
        across,
        Axis("share of the box dominated", "percent"),
        (Line(x, y, colours.BLUE, 2.2, steps=True),),
        height=340,
    )


def _since(time: Clock) -> str:
    return f"time without pauses ({span(time.left_out)})" if time.pauses else "time since the first trial began"


def _timeline(snapshot: Snapshot, time: Clock) -> Panel:
    title = "what the workers did"
    if not snapshot.trials:
        return Panel(title, note="No trial has ended yet.", wide=True)
    lanes, names = _lanes(snapshot.trials)
    marks: list[Mark] = []
    for state in ("complete", "stopped", "failed"):
        trials = [trial for trial in snapshot.trials if trial.state == state]
        if not trials:
            continue
        marks.append(
            Spans(
                tuple(lanes[trial.result.node] for trial in trials),
                tuple(time(trial.began) for trial in trials),
                tuple(time(trial.ended) for trial in trials),
                colours.STATES[state],
                tuple(
                    f"{hover.of_trial(trial, snapshot.settings)}\n{trial.result.node or 'no worker'}, "
                    f"{span(max(trial.ended - trial.began, 0.0))}"
                    for trial in trials
                ),
                Entry(state),
            )
        )
    across = Axis(_since(time), "seconds", range=(0.0, 1.01 * max(time(time.end), 1e-3)))
    height = min(130 + 30 * len(names), 760)
    return Panel(title, across, Axis(unit="names", names=names), tuple(marks), height=height, wide=True)


def _lanes(trials: tuple[Ended, ...]) -> tuple[dict[str, int], tuple[str, ...]]:
    """A lane for each node; where there are many, one for all of a host that came after each other."""
    times: dict[str, tuple[float, float]] = {}
    for trial in trials:
        begin, end = times.get(trial.result.node, (math.inf, -math.inf))
        times[trial.result.node] = min(begin, trial.began), max(end, trial.ended)
    nodes = sorted(times, key=lambda node: (_host(node), times[node]))
    if len(nodes) <= _MOST_LANES:
        return {node: lane for lane, node in enumerate(nodes)}, tuple(_short(node) for node in nodes)
    lanes: dict[str, int] = {}
    free: list[tuple[str, float]] = []
    for node in nodes:
        host, (begin, end) = _host(node), times[node]
        lane = next((at for at, (owner, until) in enumerate(free) if owner == host and until <= begin), len(free))
        free[lane : lane + 1] = [(host, end)]
        lanes[node] = lane
    return lanes, tuple(_short(host) for host, _ in free)


def _host(node: str) -> str:
    return node.rpartition(":")[0] or node


def _short(node: str) -> str:
    name = node or "no worker"
    return name if len(name) <= _LONGEST_NAME else "…" + name[1 - _LONGEST_NAME :]
