"""The models to choose between, each on a card: what it is, how it compares, and how to get it."""

import html
import math
from collections.abc import Sequence

from workflows.selection import KNEE, fastest, knee, most_accurate
from workflows.study.confirmation import Member
from workflows.study.settings import Settings
from workflows.study.snapshot import WHERE, Snapshot
from workflows.wording import SYMBOLS, export_command, heading, objective, parameter

ROLES = {
    "knee": f"The knee is {KNEE}.",
    "fastest": "The front's cheapest model to train.",
    "most accurate": "The front's highest score.",
}

ALL = "No other model found is cheaper or better."
_ALIKE = 1.05
"""Costs that differ by a smaller factor are said to be about the same."""


def chosen(front: Sequence[Member]) -> list[tuple[str, Member]]:
    """Roles and who has them; a member may have several."""
    return [("knee", knee(front)), ("fastest", fastest(front)), ("most accurate", most_accurate(front))]


def cards(snapshot: Snapshot) -> str:
    """One for each member that has a role."""
    if not snapshot.front:
        return ""
    roles = chosen(snapshot.front)
    made = []
    for member in dict.fromkeys(one.number for _, one in roles):
        mine = [role for role, one in roles if one.number == member]
        made.append(_card(mine, next(one for _, one in roles if one.number == member), roles, snapshot))
    return f'<div class="cards">{"".join(made)}</div>'


def _card(mine: Sequence[str], member: Member, roles: Sequence[tuple[str, Member]], snapshot: Snapshot) -> str:
    settings, where = snapshot.settings, snapshot.environment.get(WHERE, "")
    names = settings.names
    deviations = member.deviations or (math.nan,) * len(names)
    values = [objective(*one) for one in zip(names, member.values, deviations, strict=True)]
    title = ", ".join(mine)
    lines = [
        f"<h3>{title[0].upper()}{title[1:]} <span class='faint'>· trial {member.number}</span></h3>",
        f"<div class='score'>{_escaped(values[0])} <span class='unit'>{_escaped(names[0])}</span></div>",
        *(
            f"<div class='cost'>{_escaped(value)} <span class='unit'>{_escaped(heading(name))}</span></div>"
            for name, value in zip(names[1:], values[1:], strict=True)
        ),
        f"<p class='parameters'>{_escaped(_parameters(member))}</p>",
        *(f"<p>{_escaped(text)}</p>" for text in compared(mine, member, roles, settings)),
        *(
            f"<p class='faint'>{_escaped(text)}</p>"
            for text in ([ALL] if len(mine) == len(ROLES) else [ROLES[role] for role in mine])
        ),
        f"<p class='faint'>{_escaped(_runs(member))}</p>",
        f"<code>{_escaped(export_command(snapshot.study, member.number, where))}</code>",
    ]
    return f"<article class='card'>{''.join(lines)}</article>"


def compared(mine: Sequence[str], member: Member, roles: Sequence[tuple[str, Member]], settings: Settings) -> list[str]:
    """The same model beside those of the other cards."""
    said = []
    for role, other in roles:
        if role in mine or other.number == member.number:
            continue
        points, times = 100 * (member.values[0] - other.values[0]), _ratio(member.values[1], other.values[1])
        height = (
            "as good as" if abs(points) < 5e-3 else f"{_few(abs(points))} points {'above' if points > 0 else 'below'}"
        )
        what = {"cpu": "CPU time", "wall": "time", "work": "kernel evaluations"}[settings.cost]
        price = f"for {_few(times)} times its {what}" if times >= 1 else f"for 1/{_few(1 / times)} of its {what}"
        price = f"at about the same {what}" if 1 / _ALIKE < times < _ALIKE else price
        said.append(f"{height[0].upper()}{height[1:]} the {role} {price}.")
    return said


def _runs(member: Member) -> str:
    if not member.runs:
        return "As the search found it, once; not confirmed."
    return "Confirmed by one run with a fresh seed." if member.runs == 1 else f"Means of {member.runs} fresh seeds."


def _parameters(member: Member) -> str:
    shown = {"epochs": 1} | member.parameters
    order = [name for name in ("budget", "mergees", "C", "gamma", "epochs", "polish") if name in shown]
    order += [name for name in shown if name not in order]
    return ", ".join(f"{SYMBOLS.get(name, name)} = {parameter(shown[name]) or 'none'}" for name in order)


def _ratio(mine: float, other: float) -> float:
    return max(mine, 1e-12) / max(other, 1e-12)


def _few(value: float) -> str:
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def _escaped(text: str) -> str:
    return html.escape(text)
