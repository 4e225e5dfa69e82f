"""Blocks: the rows of a source, grouped by class and shuffled within each class; none lost, mapped when read back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prepared import dense, lies_in, multiset
from scipy.sparse import csr_array, issparse
from scipy.stats import chisquare

from workflows.data.blocks import FileBlock, block_of
from workflows.data.labelled import LabelledRows


def labelled(seed, rows=50, width=4, density=1.0, sparse=False, classes=("a", "b")):
    generator = np.random.default_rng(seed)
    matrix = generator.normal(size=(rows, width)).astype(np.float32)
    matrix[generator.random(matrix.shape) >= density] = 0.0
    codes = generator.integers(0, len(classes), rows)
    return LabelledRows(csr_array(matrix) if sparse else matrix, codes, classes)


@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(0, 60),
    density=st.floats(0, 1),
    sparse=st.booleans(),
    classes=st.sampled_from([("a", "b"), (-1, 1), (1, -1), (2, "x", 0.5), (False, True), ("only",)]),
)
def test_a_block_holds_every_row_once_grouped_by_class(seed, rows, density, sparse, classes):
    source = labelled(seed, rows, density=density, sparse=sparse, classes=classes)
    summary, matrix = block_of(source, np.random.SeedSequence(seed))
    assert summary.rows == rows
    assert summary.width == 4
    assert summary.nonzeros == np.count_nonzero(dense(source.matrix))
    assert matrix.shape == (rows, 4)
    grouped = [label for label, count in summary.groups for _ in range(count)]
    assert multiset(dense(matrix), grouped) == multiset(dense(source.matrix), [classes[code] for code in source.codes])
    assert all(count > 0 for _, count in summary.groups)
    numbers = [label for label, _ in summary.groups if not isinstance(label, str)]
    assert [label for label, _ in summary.groups][: len(numbers)] == sorted(numbers)


def test_sparse_rows_become_dense_where_that_is_smaller():
    for density, becomes_sparse in ((0.2, True), (0.8, False)):
        _, matrix = block_of(labelled(1, 200, 10, density, sparse=True), np.random.SeedSequence(0))
        assert issparse(matrix) == becomes_sparse


def test_the_order_within_a_class_is_uniformly_random():
    rows, repeats = 8, 4000
    source = LabelledRows(np.arange(rows, dtype=np.float32)[:, None], np.zeros(rows, np.intp), ("a",))
    seeds = np.random.SeedSequence(5).spawn(repeats)
    places = np.array([block_of(source, seed)[1][:, 0] for seed in seeds]).astype(int)
    for row in range(rows):
        assert chisquare(np.bincount(places[:, row], minlength=rows)).pvalue > 1e-4
    successors = np.zeros((rows, rows), int)
    for before, after in zip(places[:, :-1].ravel(), places[:, 1:].ravel(), strict=True):
        successors[before, after] += 1
    assert chisquare(successors[~np.eye(rows, dtype=bool)]).pvalue > 1e-4


def test_a_block_follows_its_seed():
    first, again, other = (block_of(labelled(1), np.random.SeedSequence(seed))[1].tobytes() for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_kept_block_is_the_same_bits_in_mapped_memory(tmp_path, sparse, dtype):
    matrix = labelled(2, 30, 7, density=0.3, sparse=sparse).matrix.astype(dtype)
    loaded = FileBlock.save(tmp_path / "0", matrix).load()
    assert issparse(loaded) == sparse
    assert loaded.shape == matrix.shape
    assert loaded.dtype == dtype
    assert dense(loaded).tobytes() == dense(matrix).tobytes()
    values = loaded.data if sparse else loaded
    assert any(lies_in(np.asarray(values), file) for file in tmp_path.iterdir())
    assert not values.flags.writeable


def test_a_kept_block_of_rows_without_entries_keeps_its_shape(tmp_path):
    assert FileBlock.save(tmp_path / "0", csr_array((3, 5), dtype=np.float32)).load().shape == (3, 5)
    assert FileBlock.save(tmp_path / "1", np.zeros((3, 5), np.float32)).load().shape == (3, 5)
