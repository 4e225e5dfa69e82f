"""Projection onto the remaining vectors, by an inverse that is updated and now and then made afresh."""

import naive
import numpy as np
import pytest
from builders import assert_consistent, filled, policy_of, train, vectors_of
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_moons

from mmbsgd.maintenance import maintain
from mmbsgd.projection import RIDGE, extend_inverse, project, refresh_inverse, shrink_inverse

GAMMA = 0.7


def scene(seed, count):
    generator = np.random.default_rng(seed)
    points = (1.5 * generator.normal(size=(count, 3))).astype(np.float32)
    return points, (generator.uniform(0.3, 2.0, count) * generator.choice([-1.0, 1.0], count)).astype(np.float32)


def exact_inverse(points):
    return np.linalg.inv(naive.gaussian_kernel(points, points, GAMMA) + naive.RIDGE * np.eye(len(points)))


def with_inverse(points, betas):
    support = filled(points, betas, GAMMA)
    inverse = np.zeros((len(points), len(points)))
    refresh_inverse(support, inverse)
    return support, inverse


def test_the_ridge_is_the_one_the_oracle_uses():
    assert RIDGE == naive.RIDGE


@given(seed=st.integers(0, 10**6), count=st.integers(2, 12))
def test_projection_equals_a_linear_solve(seed, count):
    points, betas = scene(seed, count)
    support, inverse = with_inverse(points, betas)
    removed = seed % count
    loss = project(support, removed, inverse, np.zeros(count))
    assert_consistent(support)
    left, left_betas = vectors_of(support)
    assert np.array_equal(left, np.delete(points, removed, axis=0))
    np.testing.assert_allclose(left_betas, naive.projected(points, betas, removed, GAMMA), atol=1e-4)
    expected = naive.degradation(points, betas, left, left_betas, GAMMA)
    assert loss == pytest.approx(expected, abs=1e-5 * float(np.abs(betas).sum()) ** 2)
    assert loss <= betas[removed] ** 2 * (1 + 1e-6)


def test_inserting_and_removing_keep_the_inverse():
    points, betas = scene(1, 9)
    support, _ = with_inverse(points, betas)
    inverse, column = np.zeros((9, 9)), np.zeros(9)
    everyone = support.beta.copy()
    support.beta[:] = 0.0
    for slot in range(9):
        support.beta[slot] = everyone[slot]
        support.distances[:9] = np.square(points - points[slot]).sum(axis=1)
        extend_inverse(support, slot, inverse, column)
    np.testing.assert_allclose(inverse, exact_inverse(points), atol=1e-4)
    shrink_inverse(4, inverse, column)
    assert not inverse[4].any()
    assert not inverse[:, 4].any()
    kept = np.delete(np.arange(9), 4)
    np.testing.assert_allclose(inverse[np.ix_(kept, kept)], exact_inverse(points[kept]), atol=1e-4)


def test_the_fresh_inverse_skips_empty_slots():
    points, betas = scene(2, 6)
    support, inverse = with_inverse(points, betas)
    np.testing.assert_allclose(inverse, exact_inverse(points), atol=1e-6)
    support.beta[2] = 0.0
    refresh_inverse(support, inverse)
    kept = [0, 1, 3, 4, 5]
    assert not inverse[2].any()
    np.testing.assert_allclose(inverse[np.ix_(kept, kept)], exact_inverse(points[kept]), atol=1e-6)


def test_a_vector_that_equals_another_is_projected_without_loss():
    points = np.array([[0, 0], [0, 0], [2, 1]], np.float32)
    support, inverse = with_inverse(points, [0.5, 1.0, -1.0])
    assert project(support, 0, inverse, np.zeros(3)) == pytest.approx(0.0, abs=1e-5)
    np.testing.assert_allclose(vectors_of(support)[1], [1.5, -1.0], atol=1e-4)


def test_a_coefficient_that_the_projection_cancels_keeps_its_vector():
    points = np.array([[0.0], [100.0], [0.0]], np.float32)
    support, inverse = with_inverse(points, [1.0, 1.0, -1.0])
    inverse[2, 0] = -inverse[0, 0]
    project(support, 0, inverse, np.zeros(3))
    assert_consistent(support)
    assert len(vectors_of(support)[1]) == 2


@pytest.mark.compiled_only
@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_close_vectors_do_not_make_coefficients_explode_over_a_long_training(gamma):
    rows, classes = make_moons(1500, noise=0.25, random_state=0)
    rows, labels = rows.astype(np.float32), np.where(classes > 0, 1.0, -1.0)
    order = np.random.default_rng(0).permutation(1500)
    slow = naive.train(rows, labels, order, 1 / 15000, gamma, 60, maintenance="projection")
    quick = train(rows, labels, [order], 1 / 15000, gamma, 60, maintenance="projection")
    points, betas = vectors_of(quick.support)
    assert np.abs(betas).max() < 100 * np.abs(slow.betas).max()
    right = np.mean(naive.margins(rows, points, betas, gamma) * labels > 0)
    slow_right = np.mean(naive.margins(rows, np.array(slow.points), slow.betas, gamma) * labels > 0)
    assert right > slow_right - 0.03


def test_maintenance_projects_the_smallest_and_makes_the_inverse_afresh_after_a_budget_of_removals():
    points, betas = scene(3, 5)
    support, inverse = with_inverse(points, betas)
    policy, bench = policy_of("projection", budget=4)
    bench.inverse[:] = inverse + 1e-3  # drifted: only a fresh one gives the right answer
    bench.removals[0] = 3
    first = int(np.argmin(np.abs(betas)))
    _, merges = maintain(support, policy, bench)
    assert (merges, bench.removals[0]) == (0, 0)
    np.testing.assert_allclose(vectors_of(support)[1], naive.projected(points, betas, first, GAMMA), atol=1e-4)
