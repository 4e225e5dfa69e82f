"""Which model of a front to take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.selection import fastest, knee, most_accurate
from workflows.study.confirmation import Member

POINTS = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1e6)), min_size=1, max_size=20)


def members(points):
    return [Member(number, {}, tuple(values)) for number, values in enumerate(points)]


@given(POINTS)
def test_the_ends_are_the_ends_and_the_knee_is_a_member(points):
    front = members(points)
    assert fastest(front).values[1] == min(cost for _, cost in points)
    assert most_accurate(front).values[0] == max(score for score, _ in points)
    assert knee(front) in front


def test_the_knee_is_where_more_time_buys_less():
    front = members([(0.95, 100.0), (0.94, 10.0), (0.93, 1.0), (0.70, 0.1), (0.5, 0.05)])
    assert knee(front).values == (0.93, 1.0)


@pytest.mark.parametrize("points", [[(0.9, 1.0)], [(0.9, 1.0), (0.8, 0.5)], [(0.9, 1.0), (0.4, 0.1), (0.3, 0.05)]])
def test_without_a_knee_it_is_the_most_accurate(points):
    assert knee(members(points)).values == (0.9, 1.0)


def test_of_equal_ones_the_better_is_taken():
    assert fastest(members([(0.8, 1.0), (0.9, 1.0)])).values == (0.9, 1.0)
    assert most_accurate(members([(0.9, 2.0), (0.9, 1.0)])).values == (0.9, 1.0)


def test_a_knee_of_three_objectives_looks_at_the_first_two():
    assert knee(members([(0.95, 100.0, 1.0), (0.93, 1.0, 9.0), (0.5, 0.1, 5.0)])).values == (0.93, 1.0, 9.0)
