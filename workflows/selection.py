"""Which member of a front to take: the fastest, the most accurate, or the knee between them."""

import math
from collections.abc import Sequence

from workflows.study.confirmation import Member

KNEE = (
    "the member farthest above the straight line from the fastest to the most accurate, score over the logarithm of "
    "cost: beyond it, more time buys less"
)


def most_accurate(front: Sequence[Member]) -> Member:
    return max(front, key=lambda member: (member.values[0], -member.values[1]))


def fastest(front: Sequence[Member]) -> Member:
    return min(front, key=lambda member: (member.values[1], -member.values[0]))


def knee(front: Sequence[Member]) -> Member:
    """See KNEE; with nobody above the line, the most accurate."""
    first, last = fastest(front), most_accurate(front)
    width, height = _log(last) - _log(first), last.values[0] - first.values[0]
    if width <= 0 or height <= 0:
        return last

    def above(member: Member) -> float:
        return (member.values[0] - first.values[0]) / height - (_log(member) - _log(first)) / width

    best = max(front, key=above)
    return best if above(best) > 1e-9 else last


def _log(member: Member) -> float:
    return math.log(max(member.values[1], 1e-12))
