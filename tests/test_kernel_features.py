"""Kernel values of training rows: the naive ones, once for equal rows, the same from memory and made anew."""

import naive
import numpy as np
import pytest
from builders import blobs
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from mmbsgd import BudgetedModel, kernel_features
from mmbsgd.kernel_features import KernelFeatures, distinct
from mmbsgd.portions import Whole
from mmbsgd.rows import rows_of


class Parts:
    """The same rows in portions of their own."""

    def __init__(self, matrix, weights, cuts):
        self._parts = [
            (np.ascontiguousarray(rows), own)
            for rows, own in zip(np.split(matrix, cuts), np.split(weights, cuts), strict=True)
        ]
        self.width, self.classes = matrix.shape[1], (-1, 1)
        self.counts = (int((weights <= 0).sum()), int((weights > 0).sum()))

    def __len__(self):
        return len(self._parts)

    def visit(self, order, visitor):
        for number in order:
            matrix, weights = self._parts[number]
            visitor(rows_of(matrix), weights)


def model_of(points, gamma=0.5):
    return BudgetedModel(points, np.ones(len(points)), 0.3, gamma)


def gathered(features, numbers):
    found = {}

    def keep(some, phi, places):
        found.update(zip(some.tolist(), phi[places].copy(), strict=True))

    features.show(np.asarray(numbers), keep)
    return np.array([found[number] for number in numbers])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cache", [0, 4 * 33 * 20, 2**28], ids=["made anew", "partly kept", "kept"])
def test_values_are_the_naive_ones(monkeypatch, cache, bias):
    monkeypatch.setattr(kernel_features, "LARGEST_CACHE", cache)
    monkeypatch.setattr(kernel_features, "AT_ONCE", 7)
    matrix, labels = blobs(0, count=50)
    features = KernelFeatures(model_of(matrix[:33]), Parts(matrix, labels, [10, 30]), bias=bias)
    expected = naive.gaussian_kernel(matrix, matrix[:33], 0.5)
    expected = np.column_stack([expected, np.ones(50)]) if bias else expected
    for numbers in (range(50), [0, 9, 10, 29, 30, 49], [12], range(31, 40)):
        np.testing.assert_allclose(gathered(features, list(numbers)), expected[list(numbers)], atol=1e-6)
    direction = np.random.default_rng(1).normal(size=features.size)
    np.testing.assert_allclose(features.products(direction), expected @ direction, atol=1e-5)


@pytest.mark.parametrize("parts", [[], [10, 30]], ids=["whole", "portions"])
@pytest.mark.parametrize("room", [0, 5, 10, 17, 49, 50, 80])
def test_no_more_is_kept_than_there_is_room_for(monkeypatch, parts, room):
    monkeypatch.setattr(kernel_features, "LARGEST_CACHE", 4 * 9 * room)
    monkeypatch.setattr(kernel_features, "AT_ONCE", 1)
    matrix, labels = blobs(0, count=50)
    features = KernelFeatures(model_of(matrix[:8]), Parts(matrix, labels, parts), bias=True)
    assert sum(block.nbytes for block in features._blocks) == 4 * 9 * min(room, 50)
    before = features.kernel_evaluations
    features.products(np.ones(9))
    assert features.kernel_evaluations - before == 8 * (50 - min(room, 50))


def test_one_class_alone_has_no_bias():
    matrix, labels = blobs(0, count=20)
    weights = np.where(labels > 0, labels, 0.0).astype(np.float32)
    features = KernelFeatures(model_of(matrix[:5]), Whole(rows_of(matrix), weights), bias=True)
    assert (features.bias, features.size) == (False, 5)
    np.testing.assert_allclose(
        features.products(np.ones(5)), naive.gaussian_kernel(matrix, matrix[:5], 0.5).sum(axis=1), atol=1e-5
    )


@given(seed=st.integers(0, 10**6), count=st.integers(1, 40))
def test_equal_rows_of_a_class_count_once(seed, count):
    generator = np.random.default_rng(seed)
    matrix = generator.integers(0, 2, (count, 2)).astype(np.float32)
    weights = generator.choice([-2.0, -1.0, 1.0, 0.5], count).astype(np.float32)
    places, together = distinct(rows_of(matrix), weights)
    expected = {}
    for row, weight in zip(matrix.tolist(), weights.tolist(), strict=True):
        expected[*row, weight > 0] = expected.get((*row, weight > 0), 0.0) + weight
    assert {
        (*matrix[place].tolist(), bool(weights[place] > 0)): own for place, own in zip(places, together, strict=True)
    } == (pytest.approx(expected))
    assert (np.diff(places) > 0).all()
    sparse = distinct(rows_of(csr_matrix(matrix)), weights)
    assert np.array_equal(places, sparse[0])
    assert np.array_equal(together, sparse[1])


def test_the_sign_of_zero_makes_no_difference():
    places, _ = distinct(rows_of(np.array([[0.0, 1.0], [-0.0, 1.0]], np.float32)), np.ones(2, np.float32))
    assert places.tolist() == [0]


def test_no_rows_are_no_features():
    matrix, _ = blobs(0, count=5)
    features = KernelFeatures(model_of(matrix), Whole(rows_of(matrix[:0]), np.empty(0, np.float32)), bias=True)
    assert features.products(np.ones(6)).shape == (0,)
