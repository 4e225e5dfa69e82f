"""Kernel values, distances and margins equal the naive ones, for dense and CSR rows of any scale."""

import naive
import numpy as np
import pytest
from builders import filled, vectors_of
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from mmbsgd.gaussian import margin, margins, scatter, squared_distances, tile_for
from mmbsgd.rows import rows_of, span, squared_norm
from mmbsgd.support import PRECISE, release

MARGIN_ERROR = 1e-5
"""Per unit of sum |beta|, for gamma * ||x||^2 up to about 10."""


def scene(seed, vectors, rows, width, scale=1.0, empty_share=0.0):
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(vectors, width)).astype(np.float32) * np.float32(scale)
    queries = generator.normal(size=(rows, width)).astype(np.float32) * np.float32(scale)
    queries[generator.random((rows, width)) < empty_share] = 0.0
    return points, generator.uniform(-1, 1, vectors).astype(np.float32), queries


def all_margins(support, matrix):
    rows = rows_of(matrix)
    out = np.empty(matrix.shape[0], np.float32)
    margins(rows, 0, support, tile_for(rows), out)
    return out


def single_margins(support, matrix):
    rows, result = rows_of(matrix), []
    for i in range(matrix.shape[0]):
        row = span(rows, i)
        squared_distances(rows, row, squared_norm(rows, row), support, support.distances)
        result.append(margin(support))
    return np.array(result)


@given(
    seed=st.integers(0, 10**6),
    vectors=st.sampled_from([1, 2, 31, 32, 33, 64, 65, 100]),
    rows=st.sampled_from([1, 2, 31, 32, 33, 70]),
    width=st.integers(1, 9),
    gamma=st.sampled_from([0.01, 0.3, 2.0]),
    sparse=st.booleans(),
)
def test_margins_equal_the_naive_ones(seed, vectors, rows, width, gamma, sparse):
    points, betas, queries = scene(seed, vectors, rows, width, empty_share=0.4)
    matrix = csr_matrix(queries) if sparse else queries
    support = filled(points, betas, gamma)
    expected = naive.margins(queries, points, betas, gamma)
    bound = MARGIN_ERROR * np.abs(betas).sum()
    np.testing.assert_allclose(all_margins(support, matrix), expected, rtol=0, atol=bound)
    np.testing.assert_allclose(single_margins(support, matrix)[:40], expected[:40], rtol=0, atol=bound)


@given(
    seed=st.integers(0, 10**6), vectors=st.integers(1, 70), width=st.integers(1, 40), scale=st.sampled_from([1, 1e4])
)
def test_dense_and_csr_rows_give_the_same_bits(seed, vectors, width, scale):
    points, betas, queries = scene(seed, vectors, 5, width, scale, empty_share=0.5)
    support = filled(points, betas, 0.1)
    assert all_margins(support, queries).tobytes() == all_margins(support, csr_matrix(queries)).tobytes()
    assert single_margins(support, queries).tobytes() == single_margins(support, csr_matrix(queries)).tobytes()


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("width", [1, 3, 20])
def test_a_row_has_distance_zero_to_itself_whatever_its_scale(scale, width):
    points, betas, _ = scene(1, 40, 0, width, scale)
    support, rows = filled(points, betas, 0.5), rows_of(points)
    for i in range(len(points)):
        row = span(rows, i)
        support.norms[i] = squared_norm(rows, row)
        squared_distances(rows, row, support.norms[i], support, support.distances)
        assert support.distances[i] == 0.0


def test_large_values_switch_to_sums_of_squared_differences_and_keep_their_digits():
    points, betas, queries = scene(2, 20, 10, 4)
    points, queries = points + np.float32(1e4), queries + np.float32(1e4)
    support = filled(points, betas, 0.5)
    assert support.state[PRECISE] == 1
    expected = naive.margins(queries, points, betas, 0.5)
    np.testing.assert_allclose(all_margins(support, queries), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(single_margins(support, csr_matrix(queries)), expected, rtol=0, atol=1e-5)


def test_small_values_keep_the_fast_distances():
    points, betas, _ = scene(2, 20, 0, 4)
    assert filled(points, betas, 0.5).state[PRECISE] == 0


def test_an_empty_slot_adds_nothing():
    points, betas, queries = scene(3, 35, 6, 3)
    support = filled(points, betas, 0.5)
    release(support, 7)
    release(support, 33)
    left, left_betas = vectors_of(support)
    assert len(left_betas) == 33
    np.testing.assert_allclose(all_margins(support, queries), naive.margins(queries, left, left_betas, 0.5), atol=1e-4)


def test_no_support_vectors_give_margin_zero():
    support = filled(np.empty((0, 3), np.float32), [], 1.0, budget=5)
    assert np.array_equal(all_margins(support, np.ones((3, 3), np.float32)), np.zeros(3))


def test_all_zero_rows_have_the_margin_of_the_origin():
    points, betas, _ = scene(4, 10, 0, 3)
    support = filled(points, betas, 0.5)
    expected = naive.margins(np.zeros((2, 3)), points, betas, 0.5)
    for matrix in (np.zeros((2, 3), np.float32), csr_matrix((2, 3), dtype=np.float32)):
        np.testing.assert_allclose(all_margins(support, matrix), expected, atol=1e-5)
        np.testing.assert_allclose(single_margins(support, matrix), expected, atol=1e-5)


def test_scatter_overwrites_what_was_there():
    rows, out = rows_of(csr_matrix(np.array([[0, 2, 0]], np.float32))), np.full(3, 9.0, np.float32)
    scatter(rows, span(rows, 0), out)
    assert np.array_equal(out, [0, 2, 0])
