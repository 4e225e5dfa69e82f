"""Dense and CSR rows are seen where they lie, without a copy."""

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

from mmbsgd.errors import InputError
from mmbsgd.rows import checked, rows_of, span, squared_norm


@pytest.fixture
def dense():
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(7, 5)).astype(np.float32)
    matrix[generator.random((7, 5)) < 0.5] = 0.0
    matrix[3] = 0.0
    return matrix


def unpacked(rows, row):
    where = span(rows, row)
    out = np.zeros(rows.width, np.float32)
    for k in range(where.length):
        out[rows.features[where.feature + k]] = rows.values[where.value + k]
    return out


def test_a_dense_matrix_is_not_copied(dense):
    assert np.shares_memory(rows_of(dense).values, dense)


def test_a_csr_matrix_is_not_copied(dense):
    matrix = csr_matrix(dense)
    rows = rows_of(matrix)
    assert np.shares_memory(rows.values, matrix.data)
    assert np.shares_memory(rows.features, matrix.indices)


def test_the_view_is_read_only_and_leaves_the_input_writeable(dense):
    rows = rows_of(dense)
    assert not rows.values.flags.writeable
    assert not rows.features.flags.writeable
    assert not rows.starts.flags.writeable
    assert dense.flags.writeable


@pytest.mark.parametrize("form", [np.asarray, csr_matrix, csr_array])
def test_every_row_is_found_where_it_lies(dense, form):
    rows = rows_of(form(dense))
    assert rows.width == dense.shape[1]
    for row in range(len(dense)):
        assert np.array_equal(unpacked(rows, row), dense[row])


def test_squared_norms_have_the_same_bits_for_dense_and_csr(dense):
    left, right = rows_of(dense), rows_of(csr_matrix(dense))
    for row in range(len(dense)):
        norm = squared_norm(left, span(left, row))
        assert norm == squared_norm(right, span(right, row))
        assert norm == pytest.approx(np.square(dense[row], dtype=np.float64).sum(), rel=1e-6)


def test_an_all_zero_row_has_length_zero_and_norm_zero(dense):
    rows = rows_of(csr_matrix(dense))
    assert span(rows, 3).length == 0
    assert squared_norm(rows, span(rows, 3)) == 0.0


def test_canonical_csr_stays_the_same_object(dense):
    matrix = csr_matrix(dense)
    assert checked(matrix) is matrix


def test_unsorted_and_repeated_features_are_put_in_order_in_a_copy():
    data, indices, starts = np.array([1, 2, 4, 8], np.float32), np.array([2, 0, 2, 1]), np.array([0, 3, 4])
    matrix = csr_matrix((data.copy(), indices.copy(), starts), shape=(2, 3))
    tidy = checked(matrix)
    assert np.array_equal(tidy.toarray(), [[2, 0, 5], [0, 8, 0]])
    assert np.array_equal(tidy.indices, [0, 2, 1])
    assert np.array_equal(matrix.data, data)
    assert np.array_equal(matrix.indices, indices)


@pytest.mark.parametrize("value", [1e16, -1e16, np.nan, np.inf])
@pytest.mark.parametrize("sparse", [False, True])
def test_values_whose_distances_float32_cannot_hold_are_refused(value, sparse):
    matrix = np.array([[1, value], [2, 0]], np.float32)
    with pytest.raises(InputError, match="scale the data first"):
        checked(csr_matrix(matrix) if sparse else matrix)
    assert checked(np.empty((0, 2), np.float32)).shape == (0, 2)
