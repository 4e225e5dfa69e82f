"""How far an axis reaches, and where it has its ticks."""

import math
from collections.abc import Sequence

from workflows.report.panels import Axis, Bars, Label, Level, Line, Panel, Points, Spans
from workflows.wording import power_of_ten, unit_of

_HALF_A_DECADE, _FEW_DECADES, _SOME_DECADES = 0.5, 1.6, 3.5


def positive(values: Sequence[float]) -> list[float]:
    """For a log axis: what is not above zero is put where the smallest of the others is."""
    smallest = min((value for value in values if value > 0), default=1e-9)
    return [max(value, smallest) for value in values]


def padded(low: float, high: float, below: float, above: float, *, log: bool = False) -> tuple[float, float]:
    """With so large shares of the width added; never of no width."""
    if log:
        a, b = padded(math.log(low), math.log(high), below, above)
        return math.exp(a), math.exp(b)
    width = high - low
    if width <= 1e-12 * max(abs(low), abs(high), 1e-300):
        width, low, high = 1.0, low - 0.5 * (abs(low) or 1.0) * 0.05, high + 0.5 * (abs(high) or 1.0) * 0.05
        width = high - low
    return low - below * width, high + above * width


def worth_seeing(best: Sequence[float], others: Sequence[float]) -> tuple[float, float]:
    """Scores from the best down to the middle of the field, or to the worst of the best if that is lower."""
    known = sorted(others) or sorted(best)
    low = min(*best, known[len(known) // 2]) if best else known[0]
    return max(low, known[0]) if known else low, max([*best, *known])


def extent(panel: Panel) -> tuple[list[float], list[float]]:
    """All finite positions of what a panel shows, across and up."""
    x: list[float] = []
    y: list[float] = []
    for mark in panel.marks:
        if isinstance(mark, Points | Line):
            x += mark.x
            y += mark.y
            if isinstance(mark, Points):
                x += _ends(mark.x, mark.error_x)
                y += _ends(mark.y, mark.error_y)
        elif isinstance(mark, Label):
            x.append(mark.x)
            y.append(mark.y)
        elif isinstance(mark, Level):
            y.append(mark.y)
        elif isinstance(mark, Bars):
            x += [0.0, *mark.lengths]
            y += mark.lines
        elif isinstance(mark, Spans):
            x += [*mark.begins, *mark.ends]
            y += mark.lanes
    return [value for value in x if math.isfinite(value)], [value for value in y if math.isfinite(value)]


def _ends(positions: Sequence[float], errors: Sequence[tuple[float, float]]) -> list[float]:
    """Of error bars."""
    bars = list(zip(positions, errors, strict=False))
    return [at - down for at, (down, _) in bars] + [at + up for at, (_, up) in bars]


def shown(axis: Axis, positions: Sequence[float]) -> tuple[float, float]:
    """Its range; without one, everything and a little more."""
    if axis.range is not None:
        return axis.range
    if axis.unit == "names":
        return -0.6, len(axis.names) - 0.4
    if not positions:
        return (1.0, 10.0) if axis.log else (0.0, 1.0)
    inside = [value for value in positions if value > 0] if axis.log else positions
    return padded(min(inside), max(inside), 0.05, 0.05, log=axis.log)


def log_ticks(axis: Axis, low: float, high: float) -> tuple[list[float], list[str]]:
    """Positions and texts; as many as there is room for between low and high, and their like beyond."""
    decades = math.log10(high / low)
    if decades < _HALF_A_DECADE:
        ticks = _even_ticks(low, high)
    else:
        digits = (1, 2, 5) if decades <= _FEW_DECADES else (1, 3) if decades <= _SOME_DECADES else (1,)
        step = max(1, math.ceil(decades / 8))
        first, last = math.floor(math.log10(low)) - 2, math.ceil(math.log10(high)) + 2
        ticks = [digit * 10.0**power for power in range(first, last) if power % step == 0 for digit in digits]
    return ticks, [tick_text(axis, tick) for tick in ticks]


def _even_ticks(low: float, high: float) -> list[float]:
    """So narrow a range looks as if it were not logarithmic."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= rough)
    return [count * step for count in range(math.floor(0.5 * low / step) or 1, math.ceil(2 * high / step))][:200]


def tick_text(axis: Axis, value: float) -> str:
    if axis.unit == "seconds":
        unit, factor = unit_of(value)
        return f"{value * factor:,.6g} {unit}"
    return f"{value:.6g}" if 1e-3 <= value < 1e4 else power_of_ten(value)
