"""Projection onto the remaining vectors, by a triangular factor that is kept from call to call."""

import naive
import numpy as np
import pytest
from builders import assert_consistent, filled, policy_of, train, vectors_of
from hypothesis import given
from hypothesis import strategies as st
from numba import config
from sklearn.datasets import make_moons

from mmbsgd.maintenance import maintain
from mmbsgd.projection import RIDGE, append, drop, empty_factor, project

GAMMA = 0.7


def scene(seed, count):
    generator = np.random.default_rng(seed)
    points = (1.5 * generator.normal(size=(count, 3))).astype(np.float32)
    return points, (generator.uniform(0.3, 2.0, count) * generator.choice([-1.0, 1.0], count)).astype(np.float32)


def exact_kernels(points):
    return naive.gaussian_kernel(points, points, GAMMA) + naive.RIDGE * np.eye(len(points))


def product(factor):
    """L L^T and the slots of its rows."""
    size = factor.size[0]
    lower = np.tril(factor.lower[:size, :size])
    return lower @ lower.T, list(factor.members[:size])


def factored(support, factor):
    for slot in np.flatnonzero(support.beta[: len(support.points)]):
        append(support, slot, factor)


def with_factor(points, betas):
    support = filled(points, betas, GAMMA)
    factor = empty_factor(len(points))
    factored(support, factor)
    return support, factor


def test_the_ridge_is_the_one_the_oracle_uses():
    assert RIDGE == naive.RIDGE


@given(seed=st.integers(0, 10**6), count=st.integers(2, 12))
def test_projection_equals_a_linear_solve(seed, count):
    points, betas = scene(seed, count)
    support, factor = with_factor(points, betas)
    removed = seed % count
    loss = project(support, removed, factor)
    assert_consistent(support)
    left, left_betas = vectors_of(support)
    assert np.array_equal(left, np.delete(points, removed, axis=0))
    np.testing.assert_allclose(left_betas, naive.projected(points, betas, removed, GAMMA), atol=1e-4)
    expected = naive.degradation(points, betas, left, left_betas, GAMMA)
    assert loss == pytest.approx(expected, abs=1e-5 * float(np.abs(betas).sum()) ** 2)
    assert loss <= betas[removed] ** 2 * (1 + 1e-6)


def test_inserting_and_removing_keep_the_factor_of_the_kernel_matrix():
    points, betas = scene(1, 9)
    support, factor = with_factor(points, betas)
    kernels, slots = product(factor)
    np.testing.assert_allclose(kernels, exact_kernels(points), atol=1e-6)
    for slot in (4, 0, 8):
        drop(slot, factor)
        slots.remove(slot)
        kernels, members = product(factor)
        assert members == slots
        np.testing.assert_allclose(kernels, exact_kernels(points[slots]), atol=1e-6)
    append(support, 4, factor)
    np.testing.assert_allclose(product(factor)[0], exact_kernels(points[[*slots, 4]]), atol=1e-6)


def test_ten_thousand_insertions_and_removals_do_not_wear_the_factor_out():
    points, betas = scene(2, 12)
    support, factor = with_factor(points, betas)
    generator = np.random.default_rng(0)
    for slot in generator.integers(0, 12, 300 if config.DISABLE_JIT else 10_000):
        drop(slot, factor)
        append(support, slot, factor)
    kernels, members = product(factor)
    np.testing.assert_allclose(kernels, exact_kernels(points[members]), atol=1e-6)


def test_a_vector_that_equals_another_is_projected_without_loss():
    points = np.array([[0, 0], [0, 0], [2, 1]], np.float32)
    support, factor = with_factor(points, [0.5, 1.0, -1.0])
    assert project(support, 0, factor) == pytest.approx(0.0, abs=1e-5)
    np.testing.assert_allclose(vectors_of(support)[1], [1.5, -1.0], atol=1e-4)


def test_a_coefficient_that_the_projection_cancels_keeps_its_vector():
    points = np.array([[0.0], [100.0], [0.0]], np.float32)
    support, factor = with_factor(points, [1.0, 1.0, -1.0])
    support.beta[0] = np.float32(1.0 + 1e-6)
    support.beta[2] = -np.float32(1.0)
    project(support, 0, factor)
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


def test_maintenance_projects_the_smallest():
    points, betas = scene(3, 5)
    support = filled(points, betas, GAMMA)
    policy, bench = policy_of("projection", budget=4)
    factored(support, bench.factor)
    first = int(np.argmin(np.abs(betas)))
    _, merges = maintain(support, policy, bench)
    assert merges == 0
    np.testing.assert_allclose(vectors_of(support)[1], naive.projected(points, betas, first, GAMMA), atol=1e-4)
