"""Partitions: written and read back bit for bit, as views of mapped memory; a damaged one is refused."""

import gc
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prepared import lies_in, mapped_ranges
from scipy.sparse import csr_array, issparse

from workflows.data.partitions import Written, fingerprint, read, write
from workflows.data.places import place
from workflows.errors import DataError

WIDTH = 5
LAYOUTS = ["dense", "sparse"]


def rows(seed=0, count=12, layout="dense", width=WIDTH, density=0.5):
    generator = np.random.default_rng(seed)
    matrix = generator.normal(size=(count, width)).astype(np.float32)
    matrix[generator.random(matrix.shape) >= density] = 0.0
    codes = generator.integers(0, 2, count).astype(np.int8)
    return (csr_array(matrix) if layout == "sparse" else matrix), codes


@pytest.fixture(scope="module")
def spot(tmp_path_factory):
    return tmp_path_factory.mktemp("partitions") / "p.arrow"


def parts_of(matrix):
    return [matrix.data, matrix.indices, matrix.indptr] if issparse(matrix) else [matrix]


@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 40),
    width=st.integers(1, 9),
    density=st.floats(0, 1),
    layout=st.sampled_from(LAYOUTS),
    labels=st.sampled_from([(-1, 1), (0.5, 2.5), (False, True), ("no", "yes"), ("ä", "𝄞"), (0, "x"), (1, 2.5)]),
)
def test_written_then_read_is_the_same_bit_for_bit(spot, seed, count, width, density, layout, labels):
    target = place(spot)
    matrix, codes = rows(seed, count, layout, width, density)
    written = write(target, matrix, codes, labels)
    found = read(target, written, width, labels)
    assert len(found) == count
    assert issparse(found.matrix) == (layout == "sparse")
    assert found.matrix.shape == matrix.shape
    for mine, theirs in zip(parts_of(found.matrix), parts_of(matrix), strict=True):
        assert mine.tobytes() == theirs.tobytes()
        assert mine.dtype == theirs.dtype
    assert found.codes.tobytes() == codes.tobytes()
    assert found.labels == labels
    assert found.signs.tolist() == [1.0 if code else -1.0 for code in codes]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("check", [True, False])
def test_rows_are_views_of_the_mapped_file(tmp_path, layout, check):
    path = tmp_path / "p.arrow"
    matrix, codes = rows(1, 3000, layout)
    found = read(place(path), write(place(path), matrix, codes, (-1, 1)), WIDTH, (-1, 1), check=check)
    for array in [*parts_of(found.matrix), found.codes]:
        assert lies_in(array, path)
        assert not array.flags.writeable
    assert lies_in(found.rows.values, path)
    if layout == "sparse":
        assert lies_in(found.rows.features, path)
    assert len(mapped_ranges(path)) == 1


def test_the_look_at_addresses_tells_a_copy(tmp_path):
    path = tmp_path / "p.arrow"
    found = read(place(path), write(place(path), *rows(1, 3000), (-1, 1)), WIDTH, (-1, 1))
    assert not lies_in(found.matrix.copy(), path)
    assert not lies_in(found.matrix, tmp_path / "other.arrow")


def test_memory_is_let_go_with_the_partition(tmp_path):
    path = tmp_path / "p.arrow"
    found = read(place(path), write(place(path), *rows(1, 3000), (-1, 1)), WIDTH, (-1, 1))
    values = found.rows.values
    del found
    gc.collect()
    assert lies_in(values, path), "an array alone keeps its memory"
    del values
    gc.collect()
    assert mapped_ranges(path) == []


@pytest.mark.parametrize("labels", [(-1, 1), (0.5, 2.5), (False, True), ("no", "yes")])
def test_other_programs_read_the_users_own_labels(tmp_path, labels):
    path = tmp_path / "p.arrow"
    matrix, codes = rows()
    write(place(path), matrix, codes, labels)
    with pa.memory_map(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
        assert table["label"].to_pylist() == [labels[code] for code in codes]
        assert [type(label) for label in table["label"].to_pylist()] == [type(labels[0])] * len(codes)
        assert np.array_equal(table["row"].to_pylist(), matrix)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_fingerprint_is_that_of_the_file(tmp_path, layout):
    path = tmp_path / "p.arrow"
    written = write(place(path), *rows(layout=layout), (-1, 1))
    assert written == Written(path.stat().st_size, fingerprint(path.read_bytes()))


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "p.arrow"
    written = write(place(path), *rows(), (-1, 1))
    data = path.read_bytes()
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(DataError, match=r"p\.arrow is damaged: .* bytes instead of .*prepare the data again"):
            read(place(path), written, WIDTH, (-1, 1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_flipped_bit_is_refused(tmp_path, layout):
    path = tmp_path / "p.arrow"
    written = write(place(path), *rows(layout=layout), (-1, 1))
    data = path.read_bytes()
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"p\.arrow is damaged: .* fingerprint; prepare the data again"):
            read(place(path), written, WIDTH, (-1, 1))


def assert_sound(found, path):
    """Whatever it says, the solver can walk it without leaving its memory."""
    matrix = found.matrix
    assert matrix.dtype == np.float32
    assert matrix.shape == (len(found), WIDTH)
    assert len(found.codes) == len(found)
    assert set(found.codes.tolist()) <= {0, 1}
    for array in [*parts_of(matrix), found.codes]:
        assert array.size == 0 or lies_in(array, path) or array.base is None or array.flags.owndata
        array.tobytes()  # reads all of it
    if issparse(matrix):
        starts, features = matrix.indptr, matrix.indices
        assert starts[0] == 0
        assert np.all(np.diff(starts) >= 0)
        assert starts[-1] <= len(features) == len(matrix.data)
        for begin, end in pairwise(starts):
            assert np.all(np.diff(features[begin:end]) > 0)
            assert np.all((features[begin:end] >= 0) & (features[begin:end] < WIDTH))
    assert len(found.signs) == len(found)
    assert found.rows.width == WIDTH


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=200)
@given(data=st.data())
def test_damage_behind_a_forged_fingerprint_is_refused_or_sound(spot, layout, data):
    write(place(spot), *rows(layout=layout), (-1, 1))
    content = bytearray(spot.read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.sampled_from([len(content)] * 3) | st.integers(0, len(content)))]
    spot.unlink()  # another file: what an earlier example maps stays as it is
    spot.write_bytes(content)
    try:
        found = read(place(spot), Written(len(content), fingerprint(bytes(content))), WIDTH, (-1, 1))
    except DataError as error:
        refusal = str(error)
    else:
        assert_sound(found, spot)
        return
    assert "p.arrow is damaged" in refusal


def arrow_file(path, *batches, schema=None, options=None):
    with pa.OSFile(str(path), "wb") as sink:
        writer = pa.ipc.new_file(sink, schema or batches[0].schema, options=options)
        with writer:
            for batch in batches:
                writer.write_batch(batch)
    return Written(path.stat().st_size, fingerprint(path.read_bytes()))


def labels_column(codes=(0, 1), words=(-1, 1)):
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(words), safe=False)


def dense_column(values=None, width=WIDTH, kind="float32"):
    values = np.zeros(2 * width) if values is None else values
    return pa.FixedSizeListArray.from_arrays(pa.array(values, kind), width)


def sparse_column(features=(0, 2, 1), values=(1.0, 2.0, 3.0), value="float32"):
    entries = pa.StructArray.from_arrays(
        [pa.array(features, pa.int32()), pa.array(values, value)], ["feature", "value"]
    )
    return pa.ListArray.from_arrays(pa.array((0, 2, 3), pa.int32()), entries)


def batch_of(row, label=None):
    return pa.record_batch([labels_column() if label is None else label, row], ["label", "row"])


@pytest.mark.parametrize(
    "batch",
    [
        batch_of(dense_column(width=WIDTH + 1)),
        batch_of(dense_column(width=WIDTH - 1)),
        batch_of(dense_column(kind="float64")),
        batch_of(dense_column(np.zeros(10, np.int32), kind="int32")),
        batch_of(dense_column([None] + [0.0] * 9)),
        batch_of(sparse_column(features=(0, WIDTH, 1))),
        batch_of(sparse_column(features=(-1, 2, 1))),
        batch_of(sparse_column(features=(2, 0, 1))),
        batch_of(sparse_column(features=(2, 2, 1))),
        batch_of(sparse_column(features=(0, None, 1))),
        batch_of(sparse_column(values=(0, None, 1))),
        batch_of(sparse_column(value="float64")),
        batch_of(dense_column(), labels_column((0, 2))),
        batch_of(dense_column(), labels_column((0, -1))),
        batch_of(dense_column(), labels_column((0, 2), words=(-1, 1, 7))),
        batch_of(dense_column(), labels_column((0, None))),
        batch_of(dense_column(), pa.array([0, 1], pa.int8())),
        batch_of(pa.array([1.0, 2.0], pa.float32())),
        batch_of(pa.array(["a", "b"])),
        batch_of(pa.array([[1.0] * WIDTH] * 2, pa.list_(pa.float32()))),
        pa.record_batch([labels_column()], ["label"]),
        pa.record_batch([dense_column()], ["row"]),
        pa.record_batch([dense_column(), dense_column()], ["row", "row"]),
    ],
)
def test_arrow_files_of_another_meaning_are_refused(tmp_path, batch):
    path = tmp_path / "p.arrow"
    written = arrow_file(path, batch)
    with pytest.raises(DataError, match=r"p\.arrow is damaged"):
        read(place(path), written, WIDTH, (-1, 1))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2e15, -2e15])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_that_the_solver_cannot_take_are_refused(tmp_path, value, layout):
    path = tmp_path / "p.arrow"
    row = sparse_column(values=(1.0, value, 3.0)) if layout == "sparse" else dense_column(np.array([0] * 9 + [value]))
    written = arrow_file(path, batch_of(row))
    with pytest.raises(DataError, match=r"p\.arrow is damaged"):
        read(place(path), written, WIDTH, (-1, 1))


@pytest.mark.parametrize("starts", [(0, 2, 4), (0, 2, 2**30), (0, 9, 3), (0, 3, 2), (0, -2, 3), (-1, 2, 3), (1, 2, 3)])
def test_row_starts_outside_the_file_are_refused(tmp_path, starts):
    path = tmp_path / "p.arrow"
    arrow_file(path, batch_of(sparse_column()))
    honest, forged = (np.array(numbers, np.int32).tobytes() for numbers in ((0, 2, 3), starts))
    content = path.read_bytes()
    assert content.count(honest) == 1
    path.write_bytes(content.replace(honest, forged))
    with pytest.raises(DataError, match=r"p\.arrow is damaged"):
        read(place(path), Written(len(content), fingerprint(path.read_bytes())), WIDTH, (-1, 1))


def test_what_those_files_were_made_from_is_sound(tmp_path):
    for row in (dense_column(), sparse_column()):
        path = tmp_path / "p.arrow"
        found = read(place(path), arrow_file(path, batch_of(row)), WIDTH, (-1, 1))
        assert_sound(found, path)


@pytest.mark.parametrize("content", [b"", b"hello\n" * 100, b"ARROW1\x00\x00", bytes(5000)])
def test_files_of_another_kind_are_refused(tmp_path, content):
    path = tmp_path / "p.arrow"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"p\.arrow is damaged"):
        read(place(path), Written(len(content), fingerprint(content)), WIDTH, (-1, 1))


def test_a_file_without_rows_is_refused(tmp_path):
    path = tmp_path / "p.arrow"
    written = arrow_file(path, schema=batch_of(dense_column()).schema)
    with pytest.raises(DataError, match=r"p\.arrow is damaged"):
        read(place(path), written, WIDTH, (-1, 1))


def test_a_compressed_file_is_sound_though_not_mapped(tmp_path):
    path = tmp_path / "p.arrow"
    matrix, codes = rows(3, 500)
    batch = batch_of(dense_column(matrix.reshape(-1)), labels_column(codes))
    written = arrow_file(path, batch, options=pa.ipc.IpcWriteOptions(compression="lz4"))
    found = read(place(path), written, WIDTH, (-1, 1))
    assert np.array_equal(found.matrix, matrix)


def test_a_missing_partition_is_named(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*gone\.arrow"):
        read(place(tmp_path / "gone.arrow"), Written(1, ""), WIDTH, (-1, 1))


def test_a_file_is_of_the_dimensions_that_the_manifest_says(tmp_path):
    path = tmp_path / "p.arrow"
    written = write(place(path), *rows(layout="sparse"), (-1, 1))
    with pytest.raises(DataError, match="out of range"):
        read(place(path), written, 2, (-1, 1))
