"""A scatter of score against cost in characters: the shape of a front at a glance."""

import math
from collections.abc import Sequence

from rich.text import Text

WIDTH, HEIGHT = 58, 11


def scatter(points: Sequence[tuple[float, float]], best: Sequence[tuple[float, float]], names: tuple[str, str]) -> Text:
    """Points are (score, cost); costs are drawn on a log scale. The best ones stand out."""
    drawn = [*points, *best]
    if not drawn:
        return Text()
    scores, costs = [score for score, _ in drawn], [math.log10(max(cost, 1e-12)) for _, cost in drawn]
    # A few hopeless trials would squeeze all others together: the lowest scores are drawn at the bottom edge.
    low = max(
        min(scores), min((score for score, _ in best), default=0.0) - 1.5 * (max(scores) - _median(scores) + 1e-9)
    )
    rows = [[(" ", "")] * WIDTH for _ in range(HEIGHT)]
    for (score, cost), mark in [
        *((point, ("·", "dim")) for point in points),
        *((p, ("●", "bold green")) for p in best),
    ]:
        row = _position(score, low, max(scores), HEIGHT)
        column = _position(math.log10(max(cost, 1e-12)), min(costs), max(costs), WIDTH)
        rows[HEIGHT - 1 - row][column] = mark
    text = Text()
    labels = {0: f"{max(scores):.2%}", HEIGHT - 1: f"{low:.2%}"}
    for number, cells in enumerate(rows):
        text.append(f"{labels.get(number, ''):>8} │", "dim")
        for letter, style in cells:
            text.append(letter, style)
        text.append("\n")
    left, right = f"{10 ** min(costs):.3g}", f"{10 ** max(costs):.3g}"
    text.append(f"{names[0]:>8.8} └{'─' * WIDTH}\n", "dim")
    text.append(" " * 10 + f"{left:<{WIDTH // 2 - 8}}{names[1]:^16}{right:>{WIDTH // 2 - 8}}", "dim")
    return text


def _position(value: float, low: float, high: float, cells: int) -> int:
    share = (value - low) / (high - low) if high > low else 0.5
    return min(max(round(share * (cells - 1)), 0), cells - 1)


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
