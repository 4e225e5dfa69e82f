"""The study in a few lines of Markdown: what a person sees first when they open its run in MLflow."""

from collections import Counter
from itertools import accumulate

from workflows.selection import KNEE, fastest, knee, most_accurate
from workflows.study.confirmation import Member
from workflows.study.snapshot import Snapshot
from workflows.tracking.names import metric_name
from workflows.tracking.views import charts_page, front_page, report_page, trials_page
from workflows.wording import SYMBOLS, confirmed, heading, objective, parameter, shown_parameters

ROOM = 5000
"""Letters for the table; MLflow keeps 8000 of a note."""
GAP = "\u00a0\u00a0"
"""MLflow's tables have no space between columns: it is brought along."""
_RULE = "|---"


def note(snapshot: Snapshot, experiment: str, run: str) -> str:
    settings, states = snapshot.settings, Counter(trial.state for trial in snapshot.trials)
    said = f"{states['complete']} trials complete, {states['stopped']} stopped early, {states['failed']} failed"
    lines = [
        f"Which model of {_safe(settings.data)} is worth its time? {heading(settings.metric).capitalize()} against "
        f"{heading(settings.cost)}, searched in {_safe(settings.space)}: {said}.",
    ]
    if not snapshot.front:
        return "\n".join([*lines, "", "No trial is complete yet."])
    return "\n".join(
        [
            *lines,
            "",
            f"**[The report]({report_page('', experiment, run)})** has the pictures, and how to export each model. "
            f"Trials as a table: [all of them]({trials_page('', experiment)}), "
            f"[the front]({front_page('', experiment, metric_name(settings.metric))}); "
            f"[as parallel coordinates]({charts_page('', experiment)}).",
            "",
            f"The {confirmed(snapshot.front)} Pareto front:",
            "",
            *_fitting(_table(snapshot)),
            "",
            f"Knee: {KNEE}.",
        ]
    )


def _fitting(rows: list[str]) -> list[str]:
    lengths = accumulate(len(row) + 1 for row in rows)
    kept = [row for row, length in zip(rows, lengths, strict=True) if length <= ROOM]
    return kept if len(kept) == len(rows) else [*kept, "", f"{len(rows) - len(kept)} more are in the report."]


def _table(snapshot: Snapshot) -> list[str]:
    settings, front = snapshot.settings, snapshot.front
    shown = shown_parameters(front)
    names = ["", "trial", *map(heading, settings.names), *(SYMBOLS.get(name, name) for name in shown)]
    rows = [_row(member, snapshot, shown) for member in front]
    return [_line(names), _RULE * len(names) + "|", *map(_line, rows)]


def _row(member: Member, snapshot: Snapshot, shown: list[str]) -> list[str]:
    front = snapshot.front
    roles = {"fastest": fastest(front), "most accurate": most_accurate(front), "knee": knee(front)}
    deviations = member.deviations or (float("nan"),) * len(member.values)
    return [
        ", ".join(role for role, holder in roles.items() if holder is member),
        str(member.number),
        *(objective(*one) for one in zip(snapshot.settings.names, member.values, deviations, strict=True)),
        *(_safe(parameter(member.parameters.get(name))) for name in shown),
    ]


def _line(cells: list[str]) -> str:
    return "| " + f" {GAP}| ".join(cells) + " |"


def _safe(text: str) -> str:
    """Without letters that mean something to Markdown."""
    return "".join(f"\\{letter}" if letter in r"\`*_{}[]()<>#|!" else letter for letter in text)
