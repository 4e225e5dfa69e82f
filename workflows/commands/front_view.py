"""A front as people and machines read it."""

import math
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from workflows.study.confirmation import Member
from workflows.study.settings import Settings
from workflows.study.tuning import Outcome
from workflows.wording import SYMBOLS, heading, objective, parameter, shown_parameters
from workflows.wording import confirmed as state

__all__ = ["as_json", "front_json", "front_table", "state"]


def front_table(front: list[Member], settings: Settings, title: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    names, shown = settings.names, shown_parameters(front)
    confirmed = any(member.runs for member in front)
    headings = ["trial", *map(heading, names), *(SYMBOLS.get(name, name) for name in shown)]
    for text in [*headings, "runs"] if confirmed else headings:
        table.add_column(text, justify="right", no_wrap=True)
    for member in front:
        deviations = member.deviations or (math.nan,) * len(names)
        values = [objective(*one) for one in zip(names, member.values, deviations, strict=True)]
        numbers = [parameter(member.parameters.get(name)) for name in shown]
        table.add_row(str(member.number), *values, *numbers, *([str(member.runs)] if confirmed else []))
    return table


def as_json(outcome: Outcome, seconds: float | None = None) -> dict[str, Any]:
    progress, settings = outcome.progress, outcome.settings
    content = {
        "study": outcome.study,
        "storage": outcome.where,
        "objectives": settings.names,
        "trials": {
            "complete": progress.complete,
            "stopped": progress.stopped,
            "failed": progress.failed,
            "retries": progress.retries,
        },
        "hypervolume": progress.hypervolume,
        "interrupted": outcome.interrupted,
        "tracking": asdict(outcome.tracked) if outcome.tracked else None,
        "front": front_json(outcome.front, settings),
        "failures": [{"trial": number, "reason": reason} for number, reason in progress.failures],
    }
    return content if seconds is None else content | {"seconds": seconds}


def front_json(front: list[Member], settings: Settings) -> list[dict[str, Any]]:
    names = settings.names
    return [
        {
            "trial": member.number,
            "parameters": member.parameters,
            "objectives": dict(zip(names, member.values, strict=True)),
            "deviations": {
                name: value for name, value in zip(names, member.deviations, strict=False) if math.isfinite(value)
            },
            "runs": member.runs,
            "in the search": dict(zip(names, member.found, strict=True)),
        }
        for member in front
    ]
