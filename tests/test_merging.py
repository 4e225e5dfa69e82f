"""Merging two vectors: the best h, its coefficient, and the weight degradation against brute force."""

import naive
import numpy as np
import pytest
from conftest import UNCOMPILED
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numba import njit

from mmbsgd.lanes import LANES, load, store
from mmbsgd.merging import (
    BOUND_SLACK,
    DEGRADATION_TABLE,
    H_ERROR,
    TABLE_ERROR,
    best_h,
    beyond,
    bracket,
    degradation_bounds,
    golden_section,
    merged_coefficient,
    table_degradation,
    weight_degradation,
)

reaches = st.floats(-3.0, 2.5).map(lambda exponent: 10.0**exponent)
sizes = st.floats(0.05, 20.0)
ratios = st.floats(0.01, 1.0)


@njit(error_model="numpy", fastmath={"contract"})
def bounds_of(a, b, reach, out):
    for start in range(0, a.shape[0], LANES):
        store(out, start, degradation_bounds(load(a, start), load(b, start), load(reach, start)))


def least_loss(a, b, reach):
    """Brute force in the plane: two points at the distance that gamma = 1 makes `reach`."""
    return naive.pairwise_degradation(a, np.zeros(1), b, np.array([np.sqrt(reach)]), 1.0)


def away_from_the_fork(ratio, reach):
    # At ratio 1 and reach 2 one optimum becomes two: h moves with the square root of any rounding error.
    return abs(ratio - 1.0) > 0.05 or abs(reach - 2.0) > 0.3


@given(ratio=st.floats(-0.95, 1.0), reach=st.floats(-2.0, 2.0).map(lambda e: 10.0**e))
def test_both_searches_find_the_h_of_brute_force(ratio, reach):
    assume(abs(ratio) > 1e-3)
    assume(away_from_the_fork(ratio, reach))
    exact = naive.best_share(ratio, 1.0, reach)
    assert golden_section(ratio, reach) == pytest.approx(exact, abs=2 * H_ERROR)
    assert best_h(ratio, reach) == pytest.approx(exact, abs=2 * H_ERROR)


@given(ratio=st.floats(-0.95, 1.0), reach=st.floats(-5.0, 8.0).map(lambda e: 10.0**e))
@example(ratio=1.0, reach=1e5)
@example(ratio=0.5, reach=3e4)
def test_golden_section_and_newton_agree_within_the_stated_error(ratio, reach):
    assume(away_from_the_fork(ratio, reach))
    # Either error is relative where opposite signs of nearly equal size push z far out.
    assert golden_section(ratio, reach) == pytest.approx(best_h(ratio, reach), abs=2 * H_ERROR, rel=2 * H_ERROR)


@given(ratio=st.floats(-1.0, 1.0), reach=st.floats(0.0, 1e5))
def test_h_lies_in_its_bracket_nearer_to_the_heavier_vector(ratio, reach):
    low, high = bracket(ratio, reach)
    for h in (golden_section(ratio, reach), best_h(ratio, reach)):
        assert low <= h <= high
        assert h <= 0.5


@given(a=sizes, b=sizes, reach=reaches, opposite=st.booleans())
def test_the_least_degradation_equals_brute_force(a, b, reach, opposite):
    a, b = min(a, b), max(a, b)
    assume(not opposite or a < 0.95 * b)
    a = -a if opposite else a
    expected = least_loss(a, b, reach)
    for h in (golden_section(a / b, reach), best_h(a / b, reach)):
        assert weight_degradation(a, b, reach, h) == pytest.approx(expected, rel=1e-5, abs=1e-12 * b * b)


@given(a=sizes, b=sizes, reach=reaches, h=st.floats(-2.0, 3.0), sign=st.sampled_from([-1.0, 1.0]))
def test_the_degradation_at_any_h_equals_the_distance_in_feature_space(a, b, reach, h, sign):
    x_a, x_b, a = np.zeros((1, 1)), np.array([[np.sqrt(reach)]]), sign * a
    z = h * x_a + (1 - h) * x_b
    coefficient = merged_coefficient(a, b, reach, h)
    assert coefficient == pytest.approx(
        naive.margins(z, np.vstack([x_a, x_b]), [a, b], 1.0)[0], abs=1e-12 * (abs(a) + b)
    )
    expected = naive.degradation(np.vstack([x_a, x_b]), [a, b], z, coefficient, 1.0)
    assert weight_degradation(a, b, reach, h) == pytest.approx(expected, abs=1e-12 * (abs(a) + b) ** 2)


@given(a=st.floats(-1e6, 1e6), b=st.floats(-1e6, 1e6), reach=st.floats(0.0, 1e30), h=st.floats(-1.0, 1.0))
@example(a=1.0, b=1.0, reach=1e4, h=0.5)
@example(a=1.0, b=-1.0, reach=1e4, h=0.5)
def test_the_degradation_is_never_negative_nor_nan(a, b, reach, h):
    assert weight_degradation(a, b, reach, h) >= 0.0


@given(ratio=ratios, reach=reaches)
def test_merging_loses_nothing_at_reach_zero_and_never_more_than_the_lighter_vector(ratio, reach):
    assert weight_degradation(ratio, 1.0, 0.0, best_h(ratio, 0.0)) == 0.0
    assert weight_degradation(ratio, 1.0, reach, best_h(ratio, reach)) <= ratio * ratio * (1 + 1e-12)


@given(ratio=ratios, reach=st.one_of(reaches, st.floats(0.0, 1e6)), b=sizes)
def test_the_table_equals_golden_section_within_its_stated_error(ratio, reach, b):
    a = ratio * b
    searched = weight_degradation(a, b, reach, golden_section(a / b, reach))
    assert table_degradation(a, b, reach, DEGRADATION_TABLE) == pytest.approx(searched, rel=TABLE_ERROR, abs=1e-30)


@pytest.mark.compiled_only
def test_the_table_keeps_its_error_on_a_dense_grid_with_the_fork_in_it():
    worst = 0.0
    for ratio in np.concatenate([np.linspace(0.01, 1.0, 250), np.linspace(0.98, 1.0, 50)]):
        for reach in np.concatenate([np.logspace(-3, 3, 250), np.linspace(1.8, 2.3, 50)]):
            searched = weight_degradation(ratio, 1.0, reach, golden_section(ratio, reach))
            worst = max(worst, abs(table_degradation(ratio, 1.0, reach, DEGRADATION_TABLE) / searched - 1.0))
    assert worst <= TABLE_ERROR


def test_the_table_does_not_mind_signs():
    for reach in (0.0, 0.1, 5.0):
        positive = table_degradation(0.3, 0.7, reach, DEGRADATION_TABLE)
        assert table_degradation(-0.3, -0.7, reach, DEGRADATION_TABLE) == positive


def test_bounds_are_below_the_loss_and_at_most_the_slack_below():
    steps = 16 if UNCOMPILED else 160
    ratio, reach = np.meshgrid(np.linspace(0.01, 1.0, steps), np.logspace(-3, 3.9, 2 * steps))
    ratio, reach = ratio.ravel(), reach.ravel()
    b = np.full(len(ratio), 0.7)
    out = np.empty(len(ratio), np.float32)
    bounds_of((ratio * b).astype(np.float32), b.astype(np.float32), reach.astype(np.float32), out)
    losses = [weight_degradation(r, 1.0, d, best_h(r, d)) / r**2 for r, d in zip(ratio, reach, strict=True)]
    shares = out / np.array(losses)
    assert shares.max() <= 1.001
    assert shares.min() >= 0.999 / BOUND_SLACK


def test_beyond_a_multiple_of_the_reach_nothing_loses_less():
    for reach in np.linspace(1e-4, 12.0, 400):
        largest = 1.0 - np.exp(-2 * reach) * (1 + 2 * reach)  # a weightless first candidate
        far = beyond(reach)
        assert weight_degradation(1.0, 1.0, far, best_h(1.0, far)) >= largest - 1e-12
