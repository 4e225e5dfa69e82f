"""Early stopping: a trial ends when a finished one is cheaper than its clock and as good as it can still hope to be."""

import math

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.front import front
from workflows.records import Bar, Point
from workflows.stopping import FEWEST_CURVES, QUANTILE, SHARES, bar, hope, hopeless, learnt_slack

SCORES = st.integers(0, 20).map(lambda score: score / 20)
COSTS = st.integers(1, 20).map(float)
FINISHED = st.lists(st.tuples(SCORES, COSTS), max_size=12)


def curve_of(scores, last=1.0):
    """Looks at even shares, the last of them at the end."""
    count = len(scores)
    shares = [(look + 1) / count for look in range(count - 1)] + [last]
    return tuple(Point(share, 10 * share, score) for share, score in zip(shares, scores, strict=True))


def bar_of(finished, curves, shortest=1.0):
    return bar([finished[position] for position in front(finished)], learnt_slack(curves), shortest)


def one_look(share, cost, score):
    return [Point(share, cost, score)]


CURVE = st.lists(SCORES, min_size=2, max_size=12).map(curve_of)
CURVES = st.lists(CURVE, max_size=25)


@given(FINISHED, CURVES, CURVE)
def test_a_trial_stops_exactly_when_the_rule_says_so(finished, curves, mine):
    made = bar_of(finished, curves)
    for look in range(1, len(mine) + 1):
        seen = [(point.share, point.cost, point.score) for point in mine[:look]]
        assert hopeless(mine[:look], made) == naive.stops(seen, finished, made.slack)


@given(FINISHED, CURVES, CURVE)
def test_who_would_have_ended_on_the_front_is_not_stopped_if_it_ends_within_its_hope(finished, curves, mine):
    made = bar_of(finished, curves)
    end = (mine[-1].score, mine[-1].cost)
    on_the_front = not any(naive.dominates(other, end) or other == end for other in finished)
    for look in range(1, len(mine)):
        if on_the_front and end[0] <= hope(mine[:look], made.slack):
            assert not hopeless(mine[:look], made)


@given(CURVES)
def test_the_slack_covers_all_but_a_few_of_the_trials_that_finished(curves):
    slack = dict(learnt_slack(curves))
    for share in SHARES:
        parts = naive.vanished([[(point.share, point.score) for point in curve] for curve in curves], share)
        assert (share in slack) == (len(parts) >= FEWEST_CURVES)
        if share in slack:
            assert slack[share] == pytest.approx(max(np.quantile(parts, QUANTILE), 0.0))
            assert sum(part <= slack[share] + 1e-12 for part in parts) > QUANTILE * (len(parts) - 1)


@given(CURVE, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_hope_lies_between_what_was_seen_and_no_error_at_all_and_grows_with_the_slack(curve, less, more):
    less, more = sorted((less, more))
    best = max(point.score for point in curve)
    lower, upper = hope(curve, ((0.0, less),)), hope(curve, ((0.0, more),))
    assert best - 1e-12 <= lower <= upper + 1e-12 <= 1.0 + 2e-12


def test_the_rule_in_numbers():
    made = Bar(front=((1.0, 0.80), (5.0, 0.90)), slack=((0.5, 0.2),))
    assert hopeless(one_look(0.5, 1.0, 0.75), made), "0.75 + 0.2 * 0.25 = 0.80, which was had for less"
    assert not hopeless(one_look(0.5, 1.0, 0.7501), made)
    assert not hopeless(one_look(0.5, 0.99, 0.1), made), "nothing finished is as cheap yet"
    assert hopeless(one_look(0.6, 5.0, 0.87), made)
    assert not hopeless(one_look(0.4, 99.0, 0.0), made), "nothing is known of so early a share"


def test_a_trial_is_judged_by_the_best_that_it_was():
    made = Bar(front=((1.0, 0.80),), slack=((0.1, 0.0),))
    assert not hopeless([Point(0.5, 1.0, 0.81), Point(0.6, 2.0, 0.3)], made)
    assert hopeless([Point(0.5, 1.0, 0.79), Point(0.6, 2.0, 0.3)], made)


def test_nothing_stops_before_anything_is_known():
    now = one_look(0.9, 1e9, 0.0)
    assert not hopeless(now, Bar())
    assert not hopeless(now, Bar(front=((1.0, 1.0),)))
    assert not hopeless(now, Bar(slack=((0.1, 0.0),)))


def test_few_curves_teach_nothing():
    curve = curve_of([0.5] * 40)
    assert learnt_slack([curve] * (FEWEST_CURVES - 1)) == ()
    assert learnt_slack([curve] * FEWEST_CURVES) == tuple((share, 0.0) for share in SHARES)


def test_scores_that_fell_give_no_negative_slack():
    falling = curve_of([0.9, 0.8, 0.7, 0.6, 0.5])
    assert {part for _, part in learnt_slack([falling] * 20)} == {0.0}


def test_a_score_without_error_leaves_nothing_to_hope_for():
    slack = dict(learnt_slack([curve_of([1.0, 0.9, 1.0])] * 20))
    assert slack[0.9] == 0.0
    assert hope(one_look(0.5, 1.0, 1.0), ((0.1, 0.5),)) == 1.0


def test_curves_that_did_not_reach_their_end_teach_nothing():
    assert learnt_slack([curve_of([0.1, 0.5, 0.9], last=0.9)] * 50) == ()
    assert learnt_slack([()] * 50) == ()


def test_a_look_without_a_score_neither_stops_a_trial_nor_spoils_what_is_learnt():
    """A probe may hold one class alone, for which a metric is not defined."""
    assert not hopeless(one_look(0.5, 9.0, math.nan), Bar(((1.0, 0.9),), ((0.1, 0.0),)))
    rising = [curve_of([0.5, 0.6, 0.7, 0.7, 0.7])] * 20
    undefined = curve_of([math.nan, math.nan, math.nan, math.nan, 0.7])
    assert learnt_slack([*rising, *[undefined] * 500]) == learnt_slack(rising)


def test_the_slack_holds_from_its_share_on():
    slack = ((0.1, 0.6), (0.5, 0.2))
    assert hope(one_look(0.05, 1.0, 0.5), slack) == math.inf
    assert [hope(one_look(share, 1.0, 0.5), slack) for share in (0.1, 0.3, 0.5, 1.0)] == [0.8, 0.8, 0.6, 0.6]
    assert hope(one_look(0.5, 1.0, 0.5), ()) == math.inf


@given(FINISHED)
def test_the_bar_holds_what_no_finished_trial_beats_by_rising_cost(finished):
    made = bar_of(finished, [], shortest=3.0)
    assert {(score, cost) for cost, score in made.front} == naive.pareto(finished)
    assert list(made.front) == sorted(made.front)
    assert made.shortest == 3.0


def test_one_in_twenty_may_be_wronged():
    """Of 100 curves four lose far more of their error than the others: the slack is that of the others."""
    steady, leaping = curve_of([0.5, 0.5, 0.6]), curve_of([0.1, 0.1, 0.9])
    slack = dict(learnt_slack([steady] * 96 + [leaping] * 4))
    assert slack[0.9] == pytest.approx(0.2)
