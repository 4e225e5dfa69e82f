"""What is said of a trial when the mouse is over it."""

import math
from collections.abc import Mapping
from typing import Any

from workflows.study.confirmation import Member
from workflows.study.settings import Settings
from workflows.study.snapshot import Ended
from workflows.wording import SYMBOLS, heading, objective, parameter

_LONGEST = 120


def of_trial(trial: Ended, settings: Settings) -> str:
    result = trial.result
    values = trial.values
    if trial.state == "stopped" and settings.cost in result.costs:
        values = (result.score, result.costs[settings.cost])
    said = [f"{heading(name)} {objective(name, value)}" for name, value in zip(settings.names, values, strict=False)]
    state = "" if trial.state == "complete" else f" · {trial.state}"
    lines = [f"trial {trial.number}{state}", *said, _parameters(trial.parameters)]
    return "\n".join(lines + ([_short(result.reason)] if result.reason else []))


def of_member(member: Member, settings: Settings) -> str:
    deviations = member.deviations or (math.nan,) * len(member.values)
    said = [
        f"{heading(name)} {objective(name, value, deviation)}"
        for name, value, deviation in zip(settings.names, member.values, deviations, strict=True)
    ]
    runs = f"mean of {member.runs} confirming runs" if member.runs > 1 else "confirmed once" if member.runs else ""
    title = f"trial {member.number} · on the front"
    return "\n".join([title, *said, _parameters(member.parameters), *([runs] if runs else [])])


def _parameters(parameters: Mapping[str, Any]) -> str:
    said = [f"{SYMBOLS.get(name, name)} = {_short(parameter(value) or 'none')}" for name, value in parameters.items()]
    return "\n".join(", ".join(said[start : start + 5]) for start in range(0, len(said), 5))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
