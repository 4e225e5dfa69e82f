"""A front as people and machines read it."""

import math
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from workflows.study.confirmation import Member
from workflows.study.settings import Settings
from workflows.study.tuning import Outcome

COLUMNS = {"C": "C", "gamma": "γ", "budget": "B", "mergees": "M", "epochs": "epochs"}


def front_table(front: list[Member], settings: Settings, title: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    names = [*settings.names]
    confirmed = any(member.runs for member in front)
    table.add_column("trial", justify="right", no_wrap=True)
    for name in names:
        table.add_column(_heading(name), justify="right", no_wrap=True)
    parameters = list(dict.fromkeys(name for member in front for name in member.parameters))
    shown = [name for name in parameters if name in COLUMNS or _varies(front, name)]
    for name in shown:
        table.add_column(COLUMNS.get(name, name), justify="right", no_wrap=True)
    if confirmed:
        table.add_column("runs", justify="right", no_wrap=True)
    for member in front:
        deviations = member.deviations or (math.nan,) * len(names)
        values = [_value(*one) for one in zip(names, member.values, deviations, strict=True)]
        numbers = [_number(member.parameters.get(name)) for name in shown]
        table.add_row(str(member.number), *values, *numbers, *([str(member.runs)] if confirmed else []))
    return table


def state(front: list[Member]) -> str:
    """How far a front is confirmed."""
    confirmed = [bool(member.runs) for member in front]
    return "confirmed" if all(confirmed) else "partly confirmed" if any(confirmed) else "unconfirmed"


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


def train_command(member: Member, settings: Settings) -> str:
    """How to train this model by hand."""
    options = {"C": "--C", "gamma": "--gamma", "budget": "--budget", "mergees": "--mergees", "epochs": "--epochs"}
    options |= {"maintenance": "--maintenance", "engine": "--engine"}
    chosen = {"epochs": 1} | member.parameters
    words = [f"{options[name]} {value}" for name, value in chosen.items() if name in options]
    return f"mmbsgd train {settings.data} {' '.join(words)}"


def _heading(name: str) -> str:
    return {"cpu": "CPU time", "wall": "time", "work": "kernel evaluations"}.get(name, name)


def _value(name: str, value: float, deviation: float) -> str:
    if name in ("cpu", "wall", "latency"):
        unit, factor = ("s", 1.0) if value >= 1 else ("ms", 1e3) if value >= 1e-3 else ("µs", 1e6)
        spread = f" ±{deviation * factor:.2g}" if math.isfinite(deviation) else ""
        return f"{value * factor:.3g}{spread} {unit}"
    if name in ("work", "size"):
        return f"{value:.3g}" + (f" ±{deviation:.2g}" if math.isfinite(deviation) else "")
    return f"{value:.2%}" + (f" ±{deviation * 100:.2f}" if math.isfinite(deviation) else "")


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)


def _varies(front: list[Member], name: str) -> bool:
    return len({str(member.parameters.get(name)) for member in front}) > 1
