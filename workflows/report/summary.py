"""A study in a paragraph, its front as a table, and what failed."""

import html
import math
from collections import Counter, defaultdict
from datetime import UTC, datetime

from workflows.report.clock import clock
from workflows.report.importance import varying
from workflows.selection import most_accurate
from workflows.study.snapshot import Snapshot
from workflows.wording import SYMBOLS, confirmed, heading, objective, parameter, shown_parameters, span

_MOST_NUMBERS, _MOST_REASONS, _LONGEST = 12, 50, 600


def summary(snapshot: Snapshot, reference: float | None) -> str:
    """Plain sentences, without HTML."""
    return " ".join([_searched(snapshot), _ended(snapshot), _found(snapshot, reference)])


def _searched(snapshot: Snapshot) -> str:
    settings = snapshot.settings
    names = [SYMBOLS.get(name, name) for name in (varying(snapshot.trials) or list(snapshot.space))]
    what = f"searched {_and(names)} (space {settings.space})" if names else f"tried the space {settings.space}"
    wanted = [f"high {settings.metric}", f"low {heading(settings.cost)}"]
    wanted += {"none": [], "size": ["few support vectors"], "latency": ["low latency"]}[settings.third]
    how = f", by cross-validation in {settings.folds} folds" if settings.folds else ""
    seeds = f", each trial the mean of {settings.repeats} seeds" if settings.repeats > 1 else ""
    return f"The study {what} on the data {settings.data} for models of {_and(wanted)}{how}{seeds}."


def _ended(snapshot: Snapshot) -> str:
    trials = snapshot.trials
    if not trials:
        return f"No trial has ended yet; {snapshot.running} running." if snapshot.running else "No trial has ended yet."
    counts = Counter(trial.state for trial in trials)
    said = [f"{counts['complete']:,} complete", f"{counts['stopped']:,} stopped early", f"{counts['failed']:,} failed"]
    again = sum(trial.number != trial.origin for trial in trials)
    said += [f"{again:,} of them tried again"] if again else []
    nodes = {trial.result.node for trial in trials if trial.result.node}
    hosts = {node.rpartition(":")[0] for node in nodes}
    on = f" on {_count(len(nodes), 'worker')} of {_count(len(hosts), 'machine')}" if nodes else ""
    time = clock(trials)
    text = f"{_count(len(trials), 'trial')} ended in {span(time(time.end))}{on}: {_and(said)}."
    return text + (f" {snapshot.running:,} still running." if snapshot.running else "")


def _found(snapshot: Snapshot, reference: float | None) -> str:
    if not snapshot.front:
        return "There is no front yet: no trial is complete."
    metric, best = snapshot.settings.metric, most_accurate(snapshot.front)
    deviation = best.deviations[0] if best.deviations else math.nan
    state = confirmed(snapshot.front)
    count = len(snapshot.front)
    text = (
        f"The front has {_count(count, 'model')} and is {state}; its best {metric} is "
        f"{objective(metric, best.values[0], deviation)}."
    )
    if reference is None:
        return text
    points = 100 * (best.values[0] - reference)
    place = "the same" if abs(points) < 5e-3 else f"{abs(points):.2f} points {'less' if points > 0 else 'more'}"
    return f"{text} The exact SVM reaches {reference:.2%} on the same rows, {place}."


def front_rows(snapshot: Snapshot) -> str:
    """The front as a table of HTML, by falling score."""
    front, names = snapshot.front, snapshot.settings.names
    if not front:
        return '<p class="note">No trial is complete yet.</p>'
    shown = shown_parameters(front)
    heads = ["trial", *map(heading, names), *(SYMBOLS.get(name, name) for name in shown), "runs"]
    rows = []
    for member in front:
        deviations = member.deviations or (math.nan,) * len(names)
        values = [objective(*one) for one in zip(names, member.values, deviations, strict=True)]
        numbers = [parameter(member.parameters.get(name)) for name in shown]
        rows.append([str(member.number), *values, *numbers, str(member.runs or "–")])
    head = "".join(f"<th>{html.escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def failures(snapshot: Snapshot) -> str:
    """What went wrong, each reason once with the trials that it hit."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for trial in snapshot.trials:
        if trial.state == "failed":
            numbers[trial.result.reason or "no reason is known"].append(trial.number)
    if not numbers:
        return "<p>No trial failed.</p>"
    rows = []
    for reason, hit in sorted(numbers.items(), key=lambda one: (-len(one[1]), one[1]))[:_MOST_REASONS]:
        listed = ", ".join(map(str, hit[:_MOST_NUMBERS])) + (", …" if len(hit) > _MOST_NUMBERS else "")
        text = reason if len(reason) <= _LONGEST else reason[: _LONGEST - 1] + "…"
        rows.append(
            f"<tr><td>{len(hit):,}</td><td class='text'>{html.escape(text)}</td><td class='text'>{listed}</td></tr>"
        )
    more = len(numbers) - len(rows)
    rest = f"<p class='faint'>{more:,} more reasons are in trials.csv.</p>" if more else ""
    head = "<th>times</th><th class='text'>reason</th><th class='text'>trials</th>"
    return (
        f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>{rest}"
    )


def colophon(snapshot: Snapshot) -> str:
    """Where it comes from; says the same for the same study."""
    settings = snapshot.settings
    said = [f"study {snapshot.identity}", f"data {settings.fingerprint}", f"seed {settings.seed}"]
    if snapshot.trials:
        last = datetime.fromtimestamp(max(trial.ended for trial in snapshot.trials), UTC)
        said.append(f"last trial ended {last:%Y-%m-%d %H:%M:%S} UTC")
    said += [f"{name} {value}" for name, value in _flat(snapshot.environment)]
    return " · ".join(said)


def _flat(content: dict[str, object], prefix: str = "") -> list[tuple[str, str]]:
    found = []
    for name, value in content.items():
        if isinstance(value, dict):
            found += _flat(value, f"{prefix}{name} ")
        elif value not in (None, "", []):
            found.append((prefix + name, str(value)))
    return found


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
