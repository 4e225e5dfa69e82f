"""How sections of the page are put together: tables in Markdown, curves for pictures, and how numbers are written."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from workflows.report.panels import Entry, Line, Mark, Picture, Points, Symbol
from workflows.reproduction.results import Mean

Part = str | Picture
"""A paragraph or a table in Markdown, or a picture."""


@dataclass(frozen=True)
class Curve:
    """Means over something, with their deviations."""

    name: str
    points: Sequence[tuple[float, Mean]]
    colour: str
    dotted: bool = False
    symbol: Symbol = "circle"

    def marks(self, *, named: bool = True) -> list[Mark]:
        known = [(x, mean) for x, mean in self.points if math.isfinite(mean.value)]
        x, y = tuple(x for x, _ in known), tuple(mean.value for _, mean in known)
        spread = tuple((mean.deviation, mean.deviation) for _, mean in known)
        entry = Entry(self.name) if named else None
        line = Line(x, y, self.colour, width=1.6, dotted=self.dotted, entry=entry)
        return [line, Points(x, y, self.colour, symbols=(self.symbol,), size=5, error_y=spread)]


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], words: Sequence[int] = (0,)) -> str:
    """words: the columns that hold text, not numbers."""
    sides = ["---" if column in words else "---:" for column in range(len(headings))]
    lines = ["| " + " | ".join(headings) + " |", "|" + "|".join(sides) + "|"]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(lines)


def percent(mean: Mean | None, digits: int = 2) -> str:
    if mean is None or not math.isfinite(mean.value):
        return "–"
    spread = f" ± {100 * mean.deviation:.{digits}f}" if mean.count > 1 else ""
    return f"{100 * mean.value:.{digits}f}{spread}"


def seconds(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def timed(mean: Mean) -> str:
    """Seconds, with their deviation."""
    return seconds(mean.value) + (f" ± {mean.deviation:.2g}" if mean.count > 1 else "")


def plain(value: float | None, digits: int = 3) -> str:
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) >= 1e5 or 0 < abs(value) < 1e-3:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def ratio(one: float | None, other: float | None) -> str:
    return f"{one / other:.2f}" if one and other and math.isfinite(one / other) else "–"


def listed(names: Iterable[Any]) -> str:
    words = [str(name) for name in names]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words) or "none"
