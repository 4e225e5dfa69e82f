"""The study's own time: seconds since its first trial began, without the pauses between one driver and the next."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from workflows.study.snapshot import Ended

_SHORTEST, _SHARE = 30.0, 0.1
"""A pause is left out if it takes at least so many seconds, and so large a part of the time that trials took."""


@dataclass(frozen=True)
class Clock:
    pauses: tuple[tuple[float, float], ...]
    """When they began and ended."""
    start: float
    end: float

    def __call__(self, moment: float) -> float:
        moment = min(max(moment, self.start), self.end)
        before = self.pauses[: bisect_right(self.pauses, (moment, moment))]
        return moment - self.start - sum(min(end, moment) - begin for begin, end in before)

    @property
    def left_out(self) -> float:
        return sum(end - begin for begin, end in self.pauses)


def clock(trials: Sequence[Ended]) -> Clock:
    """Trials that no worker reported on (their driver died) may have ended long before that was noticed."""
    known = [trial for trial in trials if trial.result.node] or list(trials)
    if not known:
        return Clock((), 0.0, 0.0)
    busy: list[list[float]] = []
    for begin, end in sorted((trial.began, trial.ended) for trial in known):
        if busy and begin <= busy[-1][1]:
            busy[-1][1] = max(busy[-1][1], end)
        else:
            busy.append([begin, end])
    long = max(_SHORTEST, _SHARE * sum(end - begin for begin, end in busy))
    gaps = [(left[1], right[0]) for left, right in pairwise(busy)]
    return Clock(tuple(gap for gap in gaps if gap[1] - gap[0] >= long), busy[0][0], busy[-1][1])
