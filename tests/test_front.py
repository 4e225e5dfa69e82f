"""Fronts hold what none dominates, each value once; the hypervolume is the space that they dominate."""

import random

import naive
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workflows.front import front, hypervolume

TIED = st.integers(0, 4).map(float)
ANY = st.one_of(TIED, st.floats(-1e3, 1e3))


@st.composite
def several_points(draw, numbers=ANY):
    count = draw(st.sampled_from([2, 3]))
    return draw(st.lists(st.tuples(*[numbers] * count), max_size=12))


@st.composite
def points_in_a_box(draw):
    """Points of equal length, and a reference that some of them may not reach."""
    count = draw(st.sampled_from([2, 3]))
    numbers = st.one_of(TIED, st.floats(0, 4))
    points = draw(st.lists(st.tuples(*[numbers] * count), max_size=8))
    return points, draw(st.tuples(*[numbers] * count))


@given(several_points())
@example([(0.5, 1.0)] * 3)
@example([(0.5, 1.0), (0.5, 0.9), (0.6, 1.0)])
@example([(0.5, 1.0, 2.0), (0.5, 2.0, 1.0), (0.5, 1.0, 1.0)])
def test_the_front_is_what_none_dominates(points):
    found = front(points)
    assert len({points[position] for position in found}) == len(found), "each value once"
    assert {points[position] for position in found} == naive.pareto(points)


@given(several_points())
def test_the_front_lies_by_falling_score_and_names_the_first_of_equals(points):
    found = front(points)
    scores = [points[position][0] for position in found]
    assert scores == sorted(scores, reverse=True)
    assert all(points.index(points[position]) == position for position in found)


@given(several_points(TIED), st.randoms(use_true_random=False))
def test_the_order_of_the_points_does_not_matter(points, generator):
    shuffled = list(points)
    generator.shuffle(shuffled)
    assert [points[position] for position in front(points)] == [shuffled[position] for position in front(shuffled)]


@given(several_points())
def test_the_front_of_a_front_is_itself(points):
    best = [points[position] for position in front(points)]
    assert front(best) == list(range(len(best)))


def test_no_points_have_no_front_and_no_volume():
    assert front([]) == []
    assert hypervolume([], (0.0, 1.0)) == 0.0


@given(points_in_a_box())
def test_the_volume_is_the_sum_of_all_dominated_cells(box):
    points, reference = box
    assert hypervolume(points, reference) == pytest.approx(naive.dominated_volume(points, reference), abs=1e-9)


@given(points_in_a_box(), st.randoms(use_true_random=False))
def test_dominated_points_and_their_order_add_nothing(box, generator):
    points, reference = box
    shuffled = list(points)
    generator.shuffle(shuffled)
    best = [points[position] for position in front(points)]
    volume = hypervolume(points, reference)
    assert hypervolume(best, reference) == pytest.approx(volume, abs=1e-9)
    assert hypervolume(shuffled, reference) == pytest.approx(volume, abs=1e-9)


@given(points_in_a_box(), st.data())
def test_another_point_never_makes_it_smaller(box, data):
    points, reference = box
    point = data.draw(st.tuples(*[st.floats(0, 4)] * len(reference)))
    assert hypervolume([*points, point], reference) >= hypervolume(points, reference) - 1e-9


def test_volumes_of_worked_examples():
    # Two steps: 0.5 high from 1 to 3, 0.9 high from 3 to 4.
    assert hypervolume([(0.5, 1.0), (0.9, 3.0)], (0.0, 4.0)) == pytest.approx(0.5 * 2 + 0.9 * 1)
    assert hypervolume([(1.0, 1.0, 1.0)], (0.0, 3.0, 4.0)) == pytest.approx(6.0)
    # Two boxes of volume 2 that share a cube of volume 1.
    assert hypervolume([(1.0, 1.0, 0.0), (1.0, 0.0, 1.0)], (0.0, 2.0, 2.0)) == pytest.approx(3.0)
    assert hypervolume([(0.5, 4.0)], (0.0, 4.0)) == 0.0, "as dear as the reference"


def test_whole_numbers_are_points_too():
    assert hypervolume([(1, 1)], (0, 3)) == 2.0
    assert front([(1, 5), (2, 5), (0, 1)]) == [1, 2]


def test_a_large_front_takes_no_time_to_speak_of():
    """A driver asks after every trial: that must not grow with the square of the trials."""
    generator = random.Random(1)
    comparisons = 0

    class Counting(float):
        def __le__(self, other):
            nonlocal comparisons
            comparisons += 1
            return float(self) <= float(other)

    points = [(generator.random(), Counting(generator.random())) for _ in range(5000)]
    assert {points[position] for position in front(points)}
    assert comparisons < 3 * len(points)
