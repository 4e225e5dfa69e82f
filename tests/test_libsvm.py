"""LIBSVM text is read as scikit-learn reads it, on either way, and mistakes are named by their line."""

import bz2
import io

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reading import chunk_of, labels_of
from sklearn.datasets import load_svmlight_file

from workflows.data import libsvm, text
from workflows.data.places import place
from workflows.errors import DataError

numbers = st.one_of(
    st.floats(-1e15, 1e15).map(repr),
    st.integers(-1000, 1000).map(str),
    st.sampled_from(["0", "-0.0", "1.", ".5", "-.5", "+2", "1e3", "1E-3", "+1e+2", "0005", "1e-400", "5e-324"]),
)
labels = st.sampled_from(["+1", "-1", "0", "1", "2.5", "-1e0", "+.5", "+3.", "+01", "1E1", "12345678"])
spaces = st.sampled_from([" ", "  ", "\t", " \t ", "\v"])
ends = st.sampled_from(["", " ", "\t  ", "\r", " \r"])


@st.composite
def rows(draw):
    """A line that the fast way takes."""
    indices = sorted(draw(st.sets(st.integers(1, 300), max_size=6)))
    pairs = [draw(spaces) + f"{index}:{draw(numbers)}" for index in indices]
    return draw(labels) + "".join(pairs) + draw(ends)


odd_rows = st.one_of(
    st.sampled_from(["", "   ", "\t", "\r", "# only a comment", "  # 1 2:3", "#"]),
    st.sampled_from(["1 qid:3 1:2", "-1 qid:1", "1 +4:2", "+1_0 1:1_0"]),
)


def lines(line):
    return st.tuples(st.lists(line, min_size=1, max_size=8), st.booleans()).map(
        lambda drawn: ("\n".join(drawn[0]) + "\n" * drawn[1]).encode()
    )


def assert_as_scikit_learn_reads(data, dtype=np.float64):
    parsed = libsvm.parse(chunk_of(data), dtype)
    expected, target = load_svmlight_file(io.BytesIO(data), zero_based=False)
    width = int(expected.indices.max(initial=-1)) + 1  # scikit-learn gives no width 0
    assert parsed.matrix.shape == (len(target), width)
    expected = expected.astype(dtype)
    expected.eliminate_zeros()
    assert parsed.matrix.dtype == dtype
    assert parsed.matrix.indptr.tolist() == expected.indptr.tolist()
    assert parsed.matrix.indices.tolist() == expected.indices.tolist()
    assert parsed.matrix.data.tobytes() == expected.data.tobytes()
    assert labels_of(parsed) == target.tolist()
    assert list(parsed.classes) == sorted(set(target))


@given(data=lines(rows()), dtype=st.sampled_from([np.float32, np.float64]))
@example(data=b"+1", dtype=np.float32)
@example(data=b"1\n-1\n+1\n", dtype=np.float32)
@example(data=b"-1 2147483647:1\n", dtype=np.float32)
def test_plain_text_is_taken_by_arrow_and_equals_scikit_learn(data, dtype):
    assert libsvm._by_arrow(data) is not None
    assert_as_scikit_learn_reads(data, dtype)


commented_rows = st.builds("{}{}# {}".format, rows(), spaces, st.sampled_from(["", "x y", "1:2 nan", "é", "5:5 #"]))


@given(data=lines(st.one_of(rows(), odd_rows, commented_rows)), dtype=st.sampled_from([np.float32, np.float64]))
@example(data=b"\n\n# nothing\n", dtype=np.float32)
@example(data=b"1 2147483647:1 # the largest index\n", dtype=np.float32)
def test_any_text_equals_scikit_learn(data, dtype):
    assert_as_scikit_learn_reads(data, dtype)


@given(data=lines(odd_rows))
def test_odd_text_is_left_to_scikit_learn(data):
    assert libsvm._by_arrow(data) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" \n",
        b"1 1:2\n\n1 1:2\n",
        b" 1 1:2\n",
        b"1 1:2\n# comment\n1 1:2\n",
        b"1 qid:1 1:2\n",
        b"+x 1:2\n",
        b"+ 1:2\n",
        b"+nan 1:2\n",
        b"1:2\n",
        b"1 0:2\n",
        b"1 -1:2\n",
        b"1 2:1 1:2\n",
        b"1 1:1 1:2\n",
        b"1 1:2:3\n",
        b"1 1:2 3\n",
        b"1 2147483648:1\n",
        b'"1" 1:2\n',
        b"1 1:2\x00\n",
    ],
)
def test_arrow_takes_nothing_that_is_not_plain(data):
    assert libsvm._by_arrow(data) is None


@pytest.mark.parametrize(
    "data",
    [
        b"1 0x10:5\n",
        b"+. 1:1\n",
        b"1 1:0x10\n",
        b"0x1 1:1\n",
        b"+0x1 1:1\n",
    ],
)
def test_both_ways_refuse_the_same(data):
    with pytest.raises(DataError):
        libsvm.parse(chunk_of(data + b"# so that scikit-learn reads it\n"))
    with pytest.raises(DataError):
        libsvm.parse(chunk_of(data))


def test_explicit_zeros_are_dropped_and_count_for_the_width():
    parsed = libsvm.parse(chunk_of(b"1 1:0 2:5 3:-0.0 4:1e-60\n-1 9:0\n"))
    assert parsed.matrix.shape == (2, 9)
    assert parsed.matrix.nnz == 1
    assert parsed.matrix.indices.tolist() == [1]
    assert parsed.matrix.has_canonical_format


def test_labels_are_plain_and_classes_ascend():
    parsed = libsvm.parse(chunk_of(b"+1 1:1\n-1 1:1\n1.0 1:1\n0.5 1:1\n"))
    assert parsed.classes == (-1, 0.5, 1)
    assert [type(label) for label in parsed.classes] == [int, float, int]
    assert labels_of(parsed) == [1, -1, 1, 0.5]


@pytest.mark.parametrize("size", [1 << 18, text.CHUNK_BYTES])
def test_a9a_equals_scikit_learn_and_is_read_by_arrow(real_data, size):
    file = real_data / "a9a.bz2"
    chunks = list(text.chunks(place(file), quoted=False, size=size))
    assert (len(chunks) > 1) == (size < text.CHUNK_BYTES)
    assert all(libsvm._by_arrow(chunk.data) is not None for chunk in chunks)
    parts = [libsvm.parse(chunk) for chunk in chunks]
    expected, target = load_svmlight_file(io.BytesIO(bz2.decompress(file.read_bytes())), zero_based=False)
    assert max(part.matrix.shape[1] for part in parts) == expected.shape[1]
    lengths = np.concatenate([np.diff(part.matrix.indptr) for part in parts])
    assert np.array_equal(lengths, np.diff(expected.indptr))
    assert np.array_equal(np.concatenate([part.matrix.indices for part in parts]), expected.indices)
    assert np.array_equal(np.concatenate([part.matrix.data for part in parts]), expected.data)
    assert [label for part in parts for label in labels_of(part)] == target.tolist()


def test_a_chunk_of_several_of_arrows_blocks_is_read_whole():
    parsed = libsvm.parse(chunk_of(b"+1 1:2 5:0.5\n-1\n" * 300_000))
    assert parsed.matrix.shape == (600_000, 5)
    assert np.array_equal(parsed.matrix.indptr, np.repeat(np.arange(0, 600_001, 2), 2)[1:])
    assert np.array_equal(parsed.matrix.indices, np.tile([0, 4], 300_000))
    assert np.array_equal(parsed.matrix.data, np.tile(np.float32([2, 0.5]), 300_000))
    assert np.array_equal(parsed.codes, np.tile([1, 0], 300_000))


FORM = "not 'label index:value"
MISTAKES = [
    (b"one 1:1", FORM),
    (b"1 1", FORM),
    (b"1 1:", FORM),
    (b"1 :1", FORM),
    (b"1 1: 2", FORM),
    (b"1 1:x", FORM),
    (b"1 1:2:3", FORM),
    (b"1 1.5:2", FORM),
    (b"1:2", FORM),
    (b"+", FORM),
    (b"1,2 1:1", FORM),
    (b"1 1:1\xff", FORM),
    (b"1 1:1\r2 1:1", FORM),
    (b"1 0:1", "indices start at 1"),
    (b"1 -3:1", "indices start at 1"),
    (b"1 1:1 1:2", "must ascend, and none may come twice"),
    (b"1 3:1 2:2", "must ascend, and none may come twice"),
    (b"1 2147483648:1", "index is too large"),
    (b"1 99999999999999999999:1", "index is too large"),
    (b"1 1:1 2:nan", "feature 2: nan is not a finite number"),
    (b"1 1:1 2:-inf", "feature 2: -inf is not a finite number"),
    (b"1 7:1e999", "feature 7: inf is not a finite number"),
    (b"1 3:1e16", "feature 3: 1e.16 is too large.*--scale"),
    (b"nan 1:1", "the label is nan"),
    (b"+inf 1:1", "the label is inf"),
    (b"-inf 1:1", "the label is -inf"),
]
GOOD = [b"+1 1:1 2:0.5", b"-1", b"+1 3:7"]
ODD = [b"", b"# a comment 1:nan", b"+1 1:1 2:0.5", b"   ", b"-1 # 2:inf", b"+1 qid:4 3:7"]


@pytest.mark.parametrize(("line", "reason"), MISTAKES)
@pytest.mark.parametrize("before", [GOOD, ODD], ids=["plain", "odd"])
@pytest.mark.parametrize("size", [1, 40, 1 << 20])
def test_a_mistake_is_named_by_file_and_line_in_any_chunk(tmp_path, line, reason, before, size):
    file = tmp_path / "rows.txt"
    file.write_bytes(b"\n".join([*before * 3, line, *before, b"also bad"]))
    chunks = list(text.chunks(place(file), quoted=False, size=size))
    with pytest.raises(DataError, match=rf"rows\.txt, line {3 * len(before) + 1}[:,].*{reason}"):
        [libsvm.parse(chunk) for chunk in chunks]


@given(seed=st.integers(0, 10**6), size=st.integers(1, 400), mistake=st.sampled_from(MISTAKES))
def test_the_first_mistake_of_many_lines_is_found(seed, size, mistake):
    """Whatever lines surround it; halving must not jump over it."""
    generator = np.random.default_rng(seed)
    written = [ODD[k] for k in generator.integers(0, len(ODD), size)]
    at = int(generator.integers(0, size))
    written[at] = mistake[0]
    with pytest.raises(DataError, match=rf"^f, line {at + 11}[:,].*{mistake[1]}"):
        libsvm.parse(chunk_of(b"\n".join(written), "f", first_line=11))


def test_float64_takes_what_only_float32_cannot():
    data = chunk_of(b"1 1:1e16 2:-1e300\n")
    assert libsvm.parse(data, np.float64).matrix.data.tolist() == [1e16, -1e300]
    with pytest.raises(DataError, match="too large for distances in float32"):
        libsvm.parse(data)
    with pytest.raises(DataError, match="inf is not a finite number"):
        libsvm.parse(chunk_of(b"1 1:1e309\n"), np.float64)


def test_the_largest_value_of_float32_rows_is_taken():
    assert libsvm.parse(chunk_of(b"1 1:1e15 2:-1e15\n")).matrix.data.tolist() == [np.float32(1e15), np.float32(-1e15)]


def test_a_message_shows_little_of_a_long_line():
    with pytest.raises(DataError) as refused:
        libsvm.parse(chunk_of(b"1 " + b"x" * 10_000))
    assert len(str(refused.value)) < 200


def test_a_model_that_is_asked_takes_short_rows_and_does_without_labels():
    found = libsvm.parse(chunk_of(b"nan 1:1\n+1 2:3\ninf\n"), width=5)
    assert found.matrix.toarray().tolist() == [[1, 0, 0, 0, 0], [0, 3, 0, 0, 0], [0, 0, 0, 0, 0]]
    assert found.codes.tolist() == [-1, 0, -1]
    assert found.classes == (1,)


def test_a_row_with_more_features_than_the_model_is_named():
    with pytest.raises(DataError, match="some file, line 4: feature 6, and the model takes 5"):
        libsvm.parse(chunk_of(b"# rows\n+1 5:1\n\n-1 2:1 6:0.5\n"), width=5)
