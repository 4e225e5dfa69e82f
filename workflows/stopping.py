"""Early stopping for two objectives, score and cost.

A running trial stops when a finished one is already cheaper than this one's clock and at least as good as this one can
still hope to become: then it would end dominated.

    stop  ⇔  ∃ finished j:  cost_j ≤ cost(now)  and  score_j ≥ hope(now)
    hope  =  best + slack · (1 - best)

best    the highest score of this trial so far: SGD's last iterate jumps up and down
slack   the part of the error 1 - best that may still vanish, learnt from finished trials: at every share of the
        training, all but a few of them lost at most that part of their error from there to their end
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence

import numpy as np

from workflows.records import Bar, Point

SHARES = (0.025, 0.05, *(share / 10 for share in range(1, 10)))
"""Of the training: where a trial is looked at, and where slack is learnt."""
QUANTILE = 0.95
"""One trial in twenty may have a better end than it seemed to have hope for."""
FEWEST_CURVES = 5
"""Before that many long trials have finished, none is stopped."""


def hopeless(curve: Sequence[Point], bar: Bar) -> bool:
    """Whether the trial can only end dominated, as far as its curve goes."""
    now = curve[-1]
    cheaper = [score for cost, score in bar.front if cost <= now.cost]
    return bool(cheaper) and max(cheaper) >= hope(curve, bar.slack)


def hope(curve: Sequence[Point], slack: Sequence[tuple[float, float]]) -> float:
    """The score that the trial may still reach; without anything learnt about this share, anything."""
    position = bisect_right([share for share, _ in slack], curve[-1].share + 1e-9) - 1
    if position < 0:
        return float("inf")
    best = max(point.score for point in curve)
    return best + slack[position][1] * (1.0 - best)


def bar(best: Iterable[tuple[float, ...]], slack: tuple[tuple[float, float], ...], shortest: float = 1.0) -> Bar:
    """best: (score, cost) of the finished trials that no other beats."""
    return Bar(tuple(sorted((cost, score) for score, cost, *_ in best)), slack, shortest)


def learnt_slack(curves: Sequence[Sequence[Point]]) -> tuple[tuple[float, float], ...]:
    """What part of their errors trials lost from each share to the end, at the quantile."""
    slack = []
    for share in SHARES:
        lost = [part for part in (_lost(curve, share) for curve in curves) if part is not None]
        if len(lost) >= FEWEST_CURVES:
            slack.append((share, max(float(np.quantile(lost, QUANTILE)), 0.0)))
    return tuple(slack)


def _lost(curve: Sequence[Point], share: float) -> float | None:
    """The part of the error at this share that was gone at the end; None if the curve does not say."""
    # A probe of one class alone has no score in some metrics.
    before = [point.score for point in curve if point.share <= share + 1e-9 and math.isfinite(point.score)]
    if not before or curve[-1].share < 1.0:
        return None
    best = max(before)
    return (curve[-1].score - best) / (1.0 - best) if best < 1.0 else 0.0
