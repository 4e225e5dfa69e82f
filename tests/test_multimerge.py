"""M vectors become one: the cascade and the gradient ascent against brute force."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform

from mmbsgd.multimerge import cascade, coefficient, distance_to, gradient, joint_degradation, spread, start

GAMMA = 0.5

mergee_counts = st.integers(2, 8)
seeds = st.integers(0, 10**6)


def scene(seed, count, both_signs=False, width=3, size=0.8):
    generator = np.random.default_rng(seed)
    points = size * generator.normal(size=(count, width))
    betas = generator.uniform(0.2, 2.0, count)
    if both_signs:
        betas *= np.where(generator.random(count) < 0.5, 1.0, -1.0)
    return points, betas, squareform(pdist(points, "sqeuclidean"))


def merged_by_cascade(points, betas, pairs, by_golden_section=False):
    shares = np.zeros(len(betas))
    beta, loss = cascade(betas, pairs, shares, GAMMA, by_golden_section)
    return beta, loss, shares, shares @ points


def merged_by_gradient(points, betas, pairs):
    shares, kernels, trial = np.zeros((3, len(betas)))
    beta, loss = gradient(betas, pairs, shares, GAMMA, kernels, trial)
    return beta, loss, shares, shares @ points


@given(seed=seeds, count=mergee_counts)
def test_distances_in_coordinates_equal_distances_in_space(seed, count):
    points, betas, pairs = scene(seed, count)
    shares = betas / betas.sum()
    for j in range(count):
        expected = np.sum((shares @ points - points[j]) ** 2)
        assert distance_to(j, shares, pairs, count, spread(shares, pairs, count)) == pytest.approx(expected, abs=1e-12)


@given(seed=seeds, count=mergee_counts, by_golden_section=st.booleans())
def test_the_cascade_equals_naive_binary_merges_in_a_row(seed, count, by_golden_section):
    points, betas, pairs = scene(seed, count)
    beta, _, shares, z = merged_by_cascade(points, betas, pairs, by_golden_section)
    expected_beta, expected_z = naive.cascade(points, betas, GAMMA)
    assert shares.sum() == pytest.approx(1.0)
    assert beta == pytest.approx(expected_beta, rel=1e-6)
    np.testing.assert_allclose(z, expected_z, atol=1e-3)


@given(seed=seeds, count=mergee_counts, both_signs=st.booleans(), by_gradient=st.booleans())
def test_the_reported_degradation_is_the_distance_in_feature_space(seed, count, both_signs, by_gradient):
    points, betas, pairs = scene(seed, count, both_signs)
    merged = merged_by_gradient if by_gradient else merged_by_cascade
    beta, loss, shares, z = merged(points, betas, pairs)
    scale = np.abs(betas).sum() ** 2
    assert loss >= 0.0
    assert loss == pytest.approx(naive.degradation(points, betas, z, beta, GAMMA), abs=1e-9 * scale)
    assert joint_degradation(betas, pairs, shares, GAMMA, beta) == pytest.approx(loss, abs=1e-9 * scale)


@given(seed=seeds, count=mergee_counts, both_signs=st.booleans())
def test_the_gradient_ends_on_a_summit_with_the_best_coefficient(seed, count, both_signs):
    points, betas, pairs = scene(seed, count, both_signs)
    beta, _, _, z = merged_by_gradient(points, betas, pairs)
    assert beta == pytest.approx(naive.margins(z[None], points, betas, GAMMA)[0], rel=1e-9)
    uphill = 2 * GAMMA * (betas * naive.gaussian_kernel(points, z, GAMMA)[:, 0]) @ (points - z)
    assert np.linalg.norm(uphill) <= 2e-3 * max(abs(beta), 0.1)


@given(seed=seeds, count=mergee_counts)
def test_the_gradient_finds_the_optimum_of_nearby_points(seed, count):
    points, betas, pairs = scene(seed, count, size=0.3)
    beta, loss, _, z = merged_by_gradient(points, betas, pairs)
    best_beta, best_z = naive.best_point(points, betas, GAMMA)
    assert beta == pytest.approx(best_beta, rel=1e-6)
    np.testing.assert_allclose(z, best_z, atol=2e-3)
    assert loss <= merged_by_cascade(points, betas, pairs)[1] + 1e-6


@given(seed=seeds, count=mergee_counts, both_signs=st.booleans(), size=st.sampled_from([0.1, 1.0, 10.0]))
def test_the_gradient_is_never_worse_than_standing_on_a_mergee(seed, count, both_signs, size):
    points, betas, pairs = scene(seed, count, both_signs, size=size)
    beta, loss, _, _ = merged_by_gradient(points, betas, pairs)
    on_mergees = naive.margins(points, points, betas, GAMMA)
    assert abs(beta) >= np.abs(on_mergees).max() * (1 - 1e-12)
    assert (
        loss
        <= min(naive.degradation(points, betas, x, b, GAMMA) for x, b in zip(points, on_mergees, strict=True)) + 1e-9
    )


@given(seed=seeds, both_signs=st.booleans())
def test_two_mergees_are_one_binary_merge_for_either_strategy(seed, both_signs):
    points, betas, pairs = scene(seed, 2, both_signs, size=0.4)
    expected_beta, _ = naive.merge_two(betas[0], points[0], betas[1], points[1], GAMMA)
    expected = naive.pairwise_degradation(betas[0], points[0], betas[1], points[1], GAMMA)
    for merged in (merged_by_cascade, merged_by_gradient):
        beta, loss, _, _ = merged(points, betas, pairs)
        assert beta == pytest.approx(expected_beta, rel=1e-4)
        assert loss == pytest.approx(expected, rel=1e-2, abs=1e-6)


@pytest.mark.parametrize("merged", [merged_by_cascade, merged_by_gradient])
def test_coinciding_points_merge_without_loss(merged):
    points = np.ones((4, 2))
    betas = np.array([0.5, 1.0, 1.5, 2.0])
    beta, loss, _, z = merged(points, betas, np.zeros((4, 4)))
    assert beta == pytest.approx(5.0)
    assert loss == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(z, [1, 1])


@pytest.mark.parametrize("merged", [merged_by_cascade, merged_by_gradient])
def test_points_that_cannot_feel_each_other_leave_the_heaviest(merged):
    points, betas = np.array([[0.0], [1e3], [3e3]]), np.array([1.0, 3.0, 2.0])
    beta, loss, _, z = merged(points, betas, squareform(pdist(points, "sqeuclidean")))
    assert beta == pytest.approx(3.0)
    assert z[0] == pytest.approx(1e3)
    assert loss == pytest.approx(5.0)


def test_coefficients_that_cancel_end_without_nan():
    points, betas, pairs = np.zeros((2, 1)), np.array([1.0, -1.0]), np.zeros((2, 2))
    beta, loss, shares, _ = merged_by_gradient(points, betas, pairs)
    assert (beta, loss) == (0.0, 0.0)
    assert np.all(np.isfinite(shares))


def test_the_start_is_the_weighted_mean_unless_a_mergee_is_better():
    near, betas = np.array([[0.0], [0.2], [0.4]]), np.array([1.0, 2.0, 1.0])
    shares, kernels = np.zeros((2, 3))
    start(betas, squareform(pdist(near, "sqeuclidean")), shares, GAMMA, kernels)
    np.testing.assert_allclose(shares, [0.25, 0.5, 0.25])
    far = np.array([[0.0], [10.0], [30.0]])
    start(betas, squareform(pdist(far, "sqeuclidean")), shares, GAMMA, kernels)
    np.testing.assert_allclose(shares, [0.0, 1.0, 0.0])


def test_the_coefficient_is_the_sum_of_kernel_values_and_leaves_them_behind():
    points, betas, pairs = scene(5, 4)
    shares, kernels = np.full(4, 0.25), np.zeros(4)
    value = coefficient(betas, pairs, shares, GAMMA, kernels)
    np.testing.assert_allclose(kernels, naive.gaussian_kernel(points, points.mean(axis=0), GAMMA)[:, 0])
    assert value == pytest.approx(betas @ kernels)
