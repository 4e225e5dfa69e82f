"""Scaling: what scikit-learn's scalers do, learnt in pieces from the training rows alone."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prepared import class_blocks, gathered, prepared, write_csv, write_libsvm
from scipy.sparse import csr_array, issparse
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import MinMaxScaler, StandardScaler, normalize

from mmbsgd.scaling import METHODS, Scaling
from workflows.data.scaling import Moments, learn
from workflows.errors import DataError

SCALERS = {"minmax": MinMaxScaler, "standard": StandardScaler}


def measurements(seed, rows=60, density=1.0):
    """Columns of very different size and place."""
    generator = np.random.default_rng(seed)
    matrix = generator.normal(size=(rows, 5)) * [1e-3, 1.0, 1e3, 5.0, 1e6] + [0.0, 50.0, -1e4, 0.0, 3e7]
    matrix[generator.random(matrix.shape) >= density] = 0.0
    return matrix


def learnt(method, *parts, sparse=False):
    return learn(method, (Moments.of(csr_array(part) if sparse else part) for part in parts), sparse=sparse)


def assert_same_moments(left, right):
    assert left.rows == right.rows
    assert np.array_equal(left.low, right.low)
    assert np.array_equal(left.high, right.high)
    scale = np.maximum(np.abs(left.low), np.abs(left.high))
    assert np.all(np.abs(left.mean - right.mean) <= 1e-12 * scale)
    assert np.all(np.abs(left.squares - right.squares) <= 1e-9 * left.rows * scale**2 + 1e-300)


@given(
    seed=st.integers(0, 10**6),
    cuts=st.lists(st.integers(1, 59), unique=True, max_size=8).map(sorted),
    order=st.randoms(use_true_random=False),
    density=st.sampled_from([0.1, 0.6, 1.0]),
    sparse=st.booleans(),
)
def test_moments_merge_in_any_grouping(seed, cuts, order, density, sparse):
    matrix = measurements(seed, density=density)
    parts = [Moments.of(csr_array(part) if sparse else part) for part in np.split(matrix, cuts)]
    whole = Moments.of(matrix)
    assert_same_moments(reduce(lambda left, right: left + right, parts), whole)
    while len(parts) > 1:
        order.shuffle(parts)
        parts.append(parts.pop() + parts.pop())
    assert_same_moments(parts[0], whole)


@pytest.mark.parametrize("method", SCALERS)
@given(seed=st.integers(0, 10**6), cut=st.integers(1, 59))
def test_scaling_equals_scikit_learns_scaler(method, seed, cut):
    train, other = measurements(seed), measurements(seed + 1)
    scaler = SCALERS[method]().fit(train)
    scaling = learnt(method, train[:cut], train[cut:])
    for rows in (train, other):
        np.testing.assert_allclose(scaling.apply(rows), scaler.transform(rows), rtol=1e-6, atol=1e-6)
        assert scaling.apply(rows).dtype == np.float32


@given(seed=st.integers(0, 10**6), density=st.floats(0, 1), sparse=st.booleans())
def test_unit_rows_equal_scikit_learns_normalize(seed, density, sparse):
    rows = measurements(seed, density=density).astype(np.float32)
    scaled = Scaling("unit").apply(csr_array(rows) if sparse else rows)
    assert issparse(scaled) == sparse
    np.testing.assert_allclose(
        scaled.toarray() if sparse else scaled, normalize(rows.astype(np.float64)), rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("method", SCALERS)
@pytest.mark.parametrize("constant", [0.0, 1.0, -7.25, 0.1, 1e9])
def test_a_feature_that_never_changes_does_no_harm(method, constant):
    rows = measurements(3)
    rows[:, 2] = constant
    scaled = learnt(method, rows[:20], rows[20:]).apply(rows)
    np.testing.assert_allclose(scaled, SCALERS[method]().fit_transform(rows), rtol=1e-6, atol=1e-6)
    assert np.abs(scaled[:, 2]).max() < 1e-6


@pytest.mark.parametrize("method", METHODS)
@given(seed=st.integers(0, 10**6))
def test_sparse_rows_keep_their_zeros(method, seed):
    matrix = csr_array(measurements(seed, density=0.3))
    scaled = learnt(method, measurements(seed, density=0.3), sparse=True).apply(matrix)
    assert issparse(scaled)
    assert scaled.dtype == np.float32
    assert scaled.indices.tolist() == matrix.indices.tolist()
    assert scaled.indptr.tolist() == matrix.indptr.tolist()


@pytest.mark.parametrize("method", SCALERS)
@given(seed=st.integers(0, 10**6))
def test_sparse_and_dense_rows_have_the_same_kernel_values(method, seed):
    matrix = measurements(seed, density=0.3)
    in_dense = learnt(method, matrix).apply(matrix).astype(np.float64)
    in_sparse = learnt(method, matrix, sparse=True).apply(csr_array(matrix)).toarray().astype(np.float64)
    np.testing.assert_allclose(rbf_kernel(in_sparse, gamma=0.2), rbf_kernel(in_dense, gamma=0.2), atol=1e-4)


def test_values_beyond_float64_are_refused_by_feature():
    rows = np.array([[1.0, -1.7e308], [2.0, 1.7e308]])
    for method in SCALERS:
        with (
            np.errstate(over="ignore", invalid="ignore"),
            pytest.raises(DataError, match=r"feature 2 .* too large to be scaled"),
        ):
            learnt(method, rows)


def test_no_scaling_is_no_copy():
    rows = measurements(0).astype(np.float32)
    assert Scaling("none").apply(rows) is rows


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    """A CSV file and a LIBSVM file of few entries, and each prepared without scaling."""
    folder = tmp_path_factory.mktemp("raw")
    matrix, labels = class_blocks(4, rows=200, width=5)
    table = write_csv(folder / "dense.csv", matrix * np.float32([1, 20, 1, 300, 1]), labels)
    matrix, labels = class_blocks(5, rows=200, width=12, density=0.15)
    text = write_libsvm(folder / "sparse.svm", matrix, labels)
    options = {"rows_per_partition": 30, "seed": 3}
    return {
        "dense": (table, prepared(folder / "dense", table, **options), options),
        "sparse": (text, prepared(folder / "sparse", text, **options), options),
    }


@pytest.mark.parametrize("method", ["minmax", "standard", "unit"])
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_prepared_rows_are_scaled_by_what_the_training_rows_say(raw, tmp_path, method, layout):
    source, unscaled, options = raw[layout]
    scaled = prepared(tmp_path / "out", source, scale=method, **options)
    assert scaled.manifest.layout == unscaled.manifest.layout == layout
    train = gathered(unscaled, "train")[0].astype(np.float64)
    if method == "unit":
        transform = normalize
    else:
        scaler = SCALERS[method]().fit(train)
        shift = scaler.transform(np.zeros((1, train.shape[1]))) if layout == "sparse" else 0.0
        transform = lambda rows: scaler.transform(rows) - shift  # noqa: E731
    for split in ("train", "validation", "test"):
        rows, labels = gathered(unscaled, split)
        found, same = gathered(scaled, split)
        assert np.array_equal(labels, same)
        np.testing.assert_allclose(found, transform(rows.astype(np.float64)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_the_scaling_in_the_manifest_gives_the_very_rows(raw, tmp_path, method, layout):
    source, unscaled, options = raw[layout]
    scaled = prepared(tmp_path / "out", source, scale=method, **options)
    scaling = scaled.manifest.scaling.scaling()
    assert scaling.method == method
    for record, before in zip(scaled.manifest.partitions, unscaled.manifest.partitions, strict=True):
        found, rows = scaled.partition(record).matrix, unscaled.partition(before).matrix
        expected = scaling.apply(rows.astype(np.float64) if method in SCALERS else rows)
        if layout == "sparse":
            assert found.data.tobytes() == expected.data.tobytes()
            assert found.indices.tobytes() == expected.indices.astype(np.int32).tobytes()
            wide = rows.toarray().astype(np.float64 if method in SCALERS else np.float32)
            np.testing.assert_allclose(scaling.apply(wide), found.toarray(), rtol=1e-6)
        else:
            assert found.tobytes() == expected.tobytes()


def times(tmp_path):
    """Times in seconds, two apart: as float32 they would be the same number."""
    _, labels = class_blocks(7, rows=100)
    matrix = np.c_[1.6e9 + 2 * np.arange(100), np.arange(100) % 3]
    return matrix, write_csv(tmp_path / "in.csv", matrix, labels)


def test_columns_that_float32_cannot_hold_are_scaled_before_they_are_narrowed(tmp_path):
    matrix, source = times(tmp_path)
    options = {"scale": "minmax", "test_size": 0, "validation_size": 0}
    scaled = np.sort(gathered(prepared(tmp_path / "out", source, **options))[0][:, 0].astype(np.float64))
    np.testing.assert_allclose(scaled, np.sort(MinMaxScaler().fit_transform(matrix)[:, 0]), atol=1e-6)


def test_sparse_rows_that_would_need_a_shift_are_refused(tmp_path):
    _, source = times(tmp_path)
    with pytest.raises(DataError, match=r"feature 1 .*--layout dense"):
        prepared(tmp_path / "out", source, scale="minmax", layout="sparse")


def test_test_and_validation_rows_teach_the_scaling_nothing(tmp_path):
    """Ten times the size in the test file: the training rows end up the same."""
    matrix, labels = class_blocks(6, rows=80)
    train = write_csv(tmp_path / "train.csv", matrix, labels)
    tests = [write_csv(tmp_path / f"test{times}.csv", matrix * times, labels) for times in (1, 10)]
    found = [prepared(tmp_path / f"out{n}", train, test=test, scale="minmax") for n, test in enumerate(tests)]
    assert gathered(found[0], "train")[0].tobytes() == gathered(found[1], "train")[0].tobytes()
    assert gathered(found[0], "train")[0].max() == 1.0
    assert gathered(found[1], "test")[0].max() > 5


def test_with_folds_all_of_them_teach_the_scaling(tmp_path):
    matrix, labels = class_blocks(6, rows=90)
    source = write_csv(tmp_path / "in.csv", matrix, labels)
    plain = prepared(tmp_path / "plain", source, folds=3)
    scaled = prepared(tmp_path / "scaled", source, folds=3, scale="standard")
    folds = ("fold-0", "fold-1", "fold-2")
    scaler = StandardScaler().fit(gathered(plain, *folds)[0].astype(np.float64))
    for split in (*folds, "test"):
        expected = scaler.transform(gathered(plain, split)[0].astype(np.float64))
        np.testing.assert_allclose(gathered(scaled, split)[0], expected, rtol=1e-5, atol=1e-6)
