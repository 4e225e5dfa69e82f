"""Where words go beside points so that they cover neither each other nor the points."""

import math
from collections.abc import Sequence

from workflows.report.panels import Label

_SIZES = ((430.0, 330.0), (640.0, 350.0), (1150.0, 350.0))
"""Widths and heights in pixels that a picture may be drawn in: a place must be free in each of them."""
_LETTER, _HEIGHT = 7.0, 18.0
_PLACES = tuple(
    (right, up)
    for distance in (30.0, 48.0, 70.0, 100.0)
    for right, up in ((-0.9, 0.8), (0.0, 1.0), (-1.4, 0.2), (0.7, 1.0), (1.2, -0.7), (0.3, -1.1), (1.6, 0.1))
    for right, up in ((right * distance, up * distance),)
)
Box = tuple[float, float, float, float]


def placed(
    words: Sequence[tuple[float, float, str]],
    points: Sequence[tuple[float, float]],
    x: tuple[float, float],
    y: tuple[float, float],
) -> list[Label]:
    """Words for points (across on a log axis), where other points are in the way."""
    labels: list[Label] = []
    for at, up, text in words:
        best = min(
            _PLACES, key=lambda place: math.hypot(*place) / 25 + _cost(place, (at, up, text), labels, points, x, y)
        )
        labels.append(Label(at, up, text, *best))
    return labels


def _cost(
    place: tuple[float, float],
    word: tuple[float, float, str],
    labels: Sequence[Label],
    points: Sequence[tuple[float, float]],
    x: tuple[float, float],
    y: tuple[float, float],
) -> float:
    """How much is in the way: words more than the frame, the frame more than points."""
    total = 0.0
    for width, height in _SIZES:

        def pixel(across: float, up: float, width: float = width, height: float = height) -> tuple[float, float]:
            share = math.log(across / x[0]) / math.log(x[1] / x[0])
            return share * width, (up - y[0]) / (y[1] - y[0]) * height

        box = _box(*pixel(word[0], word[1]), *place, word[2])
        others = [_box(*pixel(label.x, label.y), label.right, label.up, label.text) for label in labels]
        total += 1000 * sum(_meet(box, other) for other in others)
        total += 100 * (box[0] < 0 or box[2] > width or box[1] < 0 or box[3] > height)
        spots = (pixel(*point) for point in points)
        total += sum(box[0] - 5 < a < box[2] + 5 and box[1] - 5 < b < box[3] + 5 for a, b in spots)
    return total


def _box(across: float, up: float, right: float, above: float, text: str) -> Box:
    half = len(text) * _LETTER / 2 + 4
    middle, height = across + right, up + above
    return middle - half, height - _HEIGHT / 2, middle + half, height + _HEIGHT / 2


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
