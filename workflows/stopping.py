"""Early stopping for two objectives, score and cost.

A running trial stops when a finished one is already cheaper than this one's clock and at least as good as this one can
still hope to become: then it would be dominated whatever happens. What it can hope for is its score at this share of
the training plus a slack, learnt from how much the scores of finished trials rose from that share on.

    stop  ⇔  ∃ finished j:  cost_j ≤ cost(now)  and  score_j ≥ score(now) + slack(share)
"""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from workflows.front import front
from workflows.records import Bar, Point

SHARES = tuple(share / 10 for share in range(1, 10))
QUANTILE = 0.95
"""Of the rises seen: one trial in twenty may be stopped that would have risen by more."""
FEWEST_CURVES = 10


def hopeless(now: Point, bar: Bar) -> bool:
    """Whether the trial can only end dominated."""
    cheaper = [score for cost, score in bar.front if cost <= now.cost]
    return bool(cheaper) and max(cheaper) >= now.score + slack_at(now.share, bar.slack)


def slack_at(share: float, slack: Sequence[tuple[float, float]]) -> float:
    """The slack at the last share that is not later; without one, anything can still happen."""
    position = bisect_right([step for step, _ in slack], share) - 1
    return slack[position][1] if position >= 0 else float("inf")


def learnt_slack(curves: Sequence[Sequence[Point]]) -> tuple[tuple[float, float], ...]:
    """How much scores rose from each share to the end, at the quantile; nothing while there are few curves."""
    slack = []
    for share in SHARES:
        rises = [rise for rise in (_rise(curve, share) for curve in curves) if rise is not None]
        if len(rises) >= FEWEST_CURVES:
            slack.append((share, max(float(np.quantile(rises, QUANTILE)), 0.0)))
    return tuple(slack)


def bar(finished: Sequence[tuple[float, float]], curves: Sequence[Sequence[Point]], shortest: float = 1.0) -> Bar:
    """finished: (score, cost) of the trials that ran to their end."""
    best = sorted((finished[position][1], finished[position][0]) for position in front(finished))
    return Bar(tuple(best), learnt_slack(curves), shortest)


def _rise(curve: Sequence[Point], share: float) -> float | None:
    before = [point for point in curve if point.share <= share + 1e-9]
    if not before or not curve or curve[-1].share < 1.0:
        return None
    return curve[-1].score - before[-1].score
