"""Pareto fronts of score (to be high) and costs (to be low), and the volume that they dominate.

A point is (score, cost, …). It dominates another if it is nowhere worse and somewhere better.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from operator import le

Values = Sequence[float]


def front(points: Sequence[Values]) -> list[int]:
    """Positions of the points that none dominates, by falling score; of equal points the first."""
    order = sorted(range(len(points)), key=lambda position: (_minimised(points[position]), position))
    kept: list[int] = []
    best: list[tuple[float, ...]] = []  # the costs kept so far that none of the others undercuts
    for position in order:
        costs = tuple(points[position][1:])
        # Everything before has at least this score: the point is beaten if one of it costs no more.
        if not any(_none_above(other, costs) for other in best):
            kept.append(position)
            best = [other for other in best if not _none_above(costs, other)]
            best.append(costs)
    return kept


def hypervolume(points: Sequence[Values], reference: Values) -> float:
    """The volume between the points and the reference; points that are not better than it everywhere add nothing."""
    corner = _minimised(reference)
    inside = [point for point in map(_minimised, points) if all(map(float.__lt__, point, corner))]
    return _volume(inside, corner)


class GrowingFront:
    """The front of the points so far, and what it dominates of the box up to score 0 and the largest costs."""

    def __init__(self) -> None:
        self.members: list[tuple[int, tuple[float, ...]]] = []
        """Numbers and points, by falling score."""
        self.hypervolume = 0.0
        self._worst: tuple[float, ...] = ()

    def add(self, number: int, point: tuple[float, ...]) -> bool:
        """Says whether the front has grown."""
        worst = tuple(map(max, self._worst or point[1:], point[1:]))
        grown = not any(_covers(best, point) for _, best in self.members)
        if grown:
            candidates = [*self.members, (number, point)]
            self.members = [candidates[position] for position in front([values for _, values in candidates])]
        if grown or worst != self._worst:
            self._worst = worst
            volume = hypervolume([values for _, values in self.members], (0.0, *worst))
            self.hypervolume = volume / max(math.prod(worst), 1e-300)
        return grown


def _covers(one: Values, other: Values) -> bool:
    """Whether one point is nowhere worse than another."""
    return one[0] >= other[0] and all(map(le, one[1:], other[1:]))


def _volume(points: list[tuple[float, ...]], corner: tuple[float, ...]) -> float:
    """Slabs between successive last entries, each as wide as the points below it reach in the other entries."""
    if len(corner) == 1:
        return corner[0] - min(point[0] for point in points) if points else 0.0
    points = sorted(points, key=lambda point: point[-1])
    levels = [point[-1] for point in points] + [corner[-1]]
    total, best = 0.0, corner[0]
    for count, (level, above) in enumerate(pairwise(levels), start=1):
        if len(corner) == 2:  # a sweep: the best of those below is known from the slab before
            best = min(best, points[count - 1][0])
            total += (above - level) * (corner[0] - best)
        elif above > level:
            total += (above - level) * _volume([point[:-1] for point in points[:count]], corner[:-1])
    return total


def _minimised(values: Values) -> tuple[float, ...]:
    """The same point with every entry to be low."""
    return (-float(values[0]), *map(float, values[1:]))


def _none_above(mine: tuple[float, ...], others: tuple[float, ...]) -> bool:
    return all(a <= b for a, b in zip(mine, others, strict=True)) if len(mine) > 1 else mine[0] <= others[0]
