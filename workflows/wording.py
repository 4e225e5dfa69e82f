"""How numbers and models of a study are said, in the terminal as in the report."""

import math
import shlex
from collections.abc import Sequence
from typing import Any

from workflows.study.confirmation import Member

SYMBOLS = {"C": "C", "gamma": "γ", "budget": "B", "mergees": "M", "epochs": "epochs"}
"""Parameters that every table shows, in the paper's letters."""
_HEADINGS = {"cpu": "CPU time", "wall": "time", "work": "kernel evaluations"}
_IN_SECONDS = ("cpu", "wall", "latency")
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def heading(objective: str) -> str:
    return _HEADINGS.get(objective, objective)


def objective(name: str, value: float, deviation: float = math.nan) -> str:
    """A value of this objective with its unit, and its deviation if it has one."""
    if not math.isfinite(value):
        return "–"
    known = math.isfinite(deviation)
    if name in _IN_SECONDS:
        unit, factor = unit_of(value)
        return _plain(value * factor) + (f" ±{_plain(deviation * factor, 2)}" if known else "") + f" {unit}"
    if name in ("work", "size"):
        power = 0 if abs(value) < 1e6 else 3 * (math.floor(math.log10(abs(value))) // 3)
        shown = _plain(value / 10**power) + (f" ±{_plain(deviation / 10**power, 2)}" if known else "")
        return f"{shown}·10{str(power).translate(_SUPERSCRIPTS)}" if power else shown
    return f"{value:.2%}" + (f" ±{deviation * 100:.2f}" if known else "")


def parameter(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def span(seconds: float) -> str:
    """How long something took: 0.8 s, 4 min 12 s, 3 h 5 min."""
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


def power_of_ten(value: float) -> str:
    """As a tick of an axis says it: 10⁵, 2·10⁶."""
    exponent = math.floor(math.log10(value) + 1e-9)
    first = f"{value / 10.0**exponent:.6g}"
    power = f"10{str(exponent).translate(_SUPERSCRIPTS)}"
    return power if first == "1" else f"{first}·{power}"


def confirmed(front: Sequence[Member]) -> str:
    """How far a front is confirmed."""
    runs = [bool(member.runs) for member in front]
    return "confirmed" if all(runs) else "partly confirmed" if any(runs) else "unconfirmed"


def shown_parameters(front: Sequence[Member]) -> list[str]:
    """Names of the parameters worth a column: the paper's, and those that differ."""
    names = dict.fromkeys(name for member in front for name in member.parameters)
    return [name for name in names if name in SYMBOLS or len({str(one.parameters.get(name)) for one in front}) > 1]


def export_command(study: str, trial: int, where: str = "") -> str:
    """How to get this model as files. where: the options that lead to the study."""
    return " ".join(["mmbsgd export", shlex.quote(study), f"--trial {trial}", *([where] if where else [])])


def unit_of(seconds: float) -> tuple[str, float]:
    """The unit that a time is said in, and how many of them a second has."""
    return ("s", 1.0) if seconds >= 1 else ("ms", 1e3) if seconds >= 1e-3 else ("µs", 1e6)


def _plain(value: float, digits: int = 3) -> str:
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"
