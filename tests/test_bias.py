"""The calibrated bias has the least training error of all thresholds, the optimal one the least hinge loss."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mmbsgd.bias import calibrated_bias, optimal_bias

scores_and_weights = st.integers(1, 25).flatmap(
    lambda count: st.tuples(
        arrays(np.float32, count, elements=st.sampled_from([-2.5, -1, -0.5, 0, 0.25, 1, 1.5, 3])),
        arrays(np.float32, count, elements=st.sampled_from([-2, -1, -0.5, 0, 0.5, 1, 2])),
    )
)


@given(scores_and_weights)
def test_no_threshold_has_a_smaller_weighted_error(case):
    scores, weights = case
    bias = calibrated_bias(scores, weights)
    assert naive.weighted_error(scores, weights, bias) == naive.least_error(scores, weights)


@given(seed=st.integers(0, 10**6), count=st.integers(1, 60))
def test_no_threshold_between_random_scores_is_better(seed, count):
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=count).astype(np.float32)
    weights = (generator.choice([-1.0, 1.0], count) * generator.uniform(0, 2, count)).astype(np.float32)
    error = naive.weighted_error(scores, weights, calibrated_bias(scores, weights))
    assert error == pytest.approx(naive.least_error(scores, weights), abs=1e-5)


def test_scores_without_error_keep_bias_zero():
    assert calibrated_bias(np.array([-2, -1, 3], np.float32), np.array([-1, -1, 1], np.float32)) == 0.0


def test_shifted_scores_are_shifted_back_to_the_middle_of_the_gap():
    assert calibrated_bias(np.array([4, 5, 9], np.float32), np.array([-1, -1, 1], np.float32)) == -7.0


def test_among_equally_good_gaps_the_nearest_to_zero_wins():
    scores, weights = np.array([-6, -5, -3, -2, 1], np.float32), np.array([-1, 1, -1, 1, 1], np.float32)
    # A threshold in (-6, -5) gets one row wrong, and so does one in (-3, -2).
    assert calibrated_bias(scores, weights) == 2.5


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_gap_beyond_all_scores_reaches_to_infinity_so_that_zero_lies_in_it(sign):
    scores, weights = np.float32(sign) * np.array([3, 4, 5], np.float32), np.full(3, sign, np.float32)
    assert calibrated_bias(scores, weights) == 0.0


def test_one_heavy_row_outweighs_many_light_ones():
    scores, weights = np.array([1, 2, 3, 4], np.float32), np.array([10, -1, -1, -1], np.float32)
    assert calibrated_bias(scores, weights) > -1.0


def test_equal_scores_are_never_told_apart():
    scores, weights = np.full(3, 2.0, np.float32), np.array([-1, -1, 1], np.float32)
    assert 2.0 + calibrated_bias(scores, weights) <= 0.0


@given(scores_and_weights)
def test_what_is_tolerated_keeps_the_bias_nearer_to_zero(case):
    scores, weights = case
    exact, lax = calibrated_bias(scores, weights), calibrated_bias(scores, weights, 0.1)
    allowed = 0.1 * float(np.abs(weights).sum())
    assert naive.weighted_error(scores, weights, lax) <= naive.least_error(scores, weights) + allowed + 1e-5
    assert abs(lax) <= abs(exact) + 1e-6


@given(scores_and_weights)
def test_no_bias_has_a_smaller_hinge_loss(case):
    scores, weights = (part.astype(np.float64) for part in case)
    found = naive.hinge_loss(scores, weights, optimal_bias(scores, weights))
    corners = np.where(weights > 0, 1.0, -1.0) - scores
    assert found <= min(naive.hinge_loss(scores, weights, corner) for corner in corners) + 1e-9


def test_where_several_are_optimal_it_is_the_middle():
    assert optimal_bias(np.array([-3.0, 4.0]), np.array([-1.0, 1.0])) == pytest.approx(-0.5)
