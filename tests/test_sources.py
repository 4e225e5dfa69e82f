"""Sources: known by their names, refused with a reason, read in tasks that any worker can run."""

import bz2
import gzip
import lzma
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading import read_all
from scipy.sparse import issparse

from workflows.data import sources
from workflows.data.places import place
from workflows.data.sources import DEMO_CHUNK, KINDS, kind_of, open_source, position
from workflows.errors import DataError

LIBSVM = b"+1 1:0.5 3:2\n-1 2:1\n"
CSV = b"a,b,label\n1,2,x\n3,4,y\n"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a9a", "libsvm"),
        ("a9a.t", "libsvm"),
        ("a9a.txt", "libsvm"),
        ("a9a.libsvm", "libsvm"),
        ("a9a.bz2", "libsvm"),
        ("my.csv.rows", "libsvm"),
        ("csv", "libsvm"),
        ("rows.csv", "csv"),
        ("ROWS.CSV", "csv"),
        ("rows.csv.gz", "csv"),
        ("rows.csv.bz2", "csv"),
        ("rows.CSV.XZ", "csv"),
        ("rows.tsv", "tsv"),
        ("rows.tab", "tsv"),
        ("rows.tsv.xz", "tsv"),
        ("rows.parquet", "parquet"),
        ("rows.PARQUET", "parquet"),
        ("rows.pq", "parquet"),
    ],
)
def test_the_kind_follows_from_the_name(tmp_path, name, kind):
    (tmp_path / name).write_bytes(b"")
    assert kind_of(place(tmp_path / name)) == kind
    assert kind in KINDS


@pytest.mark.parametrize("name", ["folder", "folder.csv", "folder.parquet"])
def test_a_folder_is_parquet_whatever_its_name(tmp_path, name):
    (tmp_path / name).mkdir()
    assert kind_of(place(tmp_path / name)) == "parquet"


@pytest.mark.parametrize("compress", [bytes, bz2.compress, gzip.compress, lzma.compress])
@pytest.mark.parametrize("suffix", ["", ".bz2", ".gz", ".xz", ".whatever"])
def test_compression_follows_from_the_bytes_not_from_the_name(tmp_path, compress, suffix):
    path = tmp_path / f"rows{suffix}"
    path.write_bytes(compress(LIBSVM))
    found = read_all(path)
    assert found.matrix.tolist() == [[0.5, 0, 2], [0, 1, 0]]
    assert found.labels == [1, -1]
    assert found.source.record.bytes == path.stat().st_size
    assert found.source.record.kind == "libsvm"


@pytest.mark.parametrize(
    ("name", "data", "kind", "matrix"),
    [
        ("rows", LIBSVM, None, [[0.5, 0, 2], [0, 1, 0]]),
        ("rows.csv", LIBSVM, "libsvm", [[0.5, 0, 2], [0, 1, 0]]),
        ("rows.csv", CSV, None, [[1, 2], [3, 4]]),
        ("rows", CSV, "csv", [[1, 2], [3, 4]]),
        ("rows.csv.gz", gzip.compress(CSV, mtime=0), None, [[1, 2], [3, 4]]),
        ("rows.tsv", CSV.replace(b",", b"\t"), None, [[1, 2], [3, 4]]),
        ("rows.txt", CSV.replace(b",", b"\t"), "tsv", [[1, 2], [3, 4]]),
        ("rows.csv", CSV.replace(b",", b";"), None, [[1, 2], [3, 4]]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_kind_that_is_said_counts_more_than_the_name(tmp_path, name, data, kind, matrix, dtype):
    (tmp_path / name).write_bytes(data)
    found = read_all(tmp_path / name, dtype, kind=kind)
    assert found.matrix.tolist() == matrix
    assert issparse(found.parts[0].matrix) == (found.source.columns is None)


def test_a_parquet_file_may_have_any_name_if_its_kind_is_said(tmp_path):
    pq.write_table(pa.table({"a": [1.5], "label": [1]}), tmp_path / "rows.data")
    assert read_all(tmp_path / "rows.data", kind="parquet").matrix.tolist() == [[1.5]]


def refused(path, data=None, **options):
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(DataError) as caught:
        read_all(path, **options)
    return str(caught.value)


def test_a_missing_file_is_refused_with_advice(tmp_path):
    message = refused(tmp_path / "nowhere.csv")
    assert "nowhere.csv does not exist" in message
    assert "demo" in message


@pytest.mark.parametrize("kind", ["csv", "tsv", "libsvm"])
def test_only_parquet_is_read_from_folders(tmp_path, kind):
    assert "is a folder" in refused(tmp_path, kind=kind)


def test_a_folder_without_parquet_is_refused(tmp_path):
    (tmp_path / "rows.csv").write_bytes(CSV)
    assert "no .parquet file in" in refused(tmp_path)


@pytest.mark.parametrize("name", ["rows", "rows.csv", "rows.tsv", "rows.bz2"])
def test_an_empty_file_is_refused(tmp_path, name):
    assert f"{name} is empty" in refused(tmp_path / name, b"")


@pytest.mark.parametrize("options", [{"label": "y"}, {"dropped": ("a",)}, {"label": "y", "dropped": ("a",)}])
def test_libsvm_text_has_no_columns_to_name(tmp_path, options):
    message = refused(tmp_path / "rows.txt", LIBSVM, **options)
    assert "rows.txt is read as LIBSVM text" in message
    assert "--format csv" in message


def test_an_empty_compressed_table_is_refused(tmp_path):
    assert "rows.csv.gz is empty" in refused(tmp_path / "rows.csv.gz", gzip.compress(b"", mtime=0))


def test_libsvm_text_without_rows_has_none(tmp_path):
    (tmp_path / "rows").write_bytes(b"# only a comment\n\n")
    assert read_all(tmp_path / "rows").labels == []


def test_opening_reads_no_rows(tmp_path):
    """A mistake far down is found by the task that reads it."""
    (tmp_path / "rows.csv").write_bytes(CSV + b"one,2,z\n")
    source = open_source(str(tmp_path / "rows.csv"))
    assert source.columns.features == ("a", "b")
    (task,) = source.tasks
    with pytest.raises(DataError, match="line 4"):
        list(source.read(task, np.float32))


@pytest.mark.parametrize("name", ["rows.txt", "rows.csv", "rows.parquet", "demo"])
def test_tasks_travel_to_other_processes(tmp_path, name):
    (tmp_path / "rows.txt").write_bytes(LIBSVM)
    (tmp_path / "rows.csv").write_bytes(CSV)
    pq.write_table(pa.table({"a": [1, 2, 3], "label": [0, 1, 0]}), tmp_path / "rows.parquet", row_group_size=2)
    source = open_source(name if name == "demo" else str(tmp_path / name), rows=100)
    for task in source.tasks:
        there, columns, delimiter = pickle.loads(pickle.dumps((task, source.columns, source.delimiter)))
        near, far = list(source.read(task, np.float32)), list(sources.read(there, columns, delimiter, np.float32))
        assert [rows.classes for rows in near] == [rows.classes for rows in far]
        for left, right in zip(near, far, strict=True):
            assert np.array_equal(left.codes, right.codes)
            both = [rows.matrix.toarray() if issparse(rows.matrix) else rows.matrix for rows in (left, right)]
            assert both[0].tobytes() == both[1].tobytes()


@pytest.mark.parametrize("name", ["rows.txt", "rows.csv", "rows.parquet", "folder", "demo"])
def test_the_last_position_is_the_size_that_was_said(tmp_path, name):
    (tmp_path / "rows.txt").write_bytes(LIBSVM)
    (tmp_path / "rows.csv").write_bytes(CSV)
    (tmp_path / "folder").mkdir()
    table = pa.table({"a": np.arange(1000.0), "label": np.arange(1000) % 2})
    for file in ("rows.parquet", "folder/a.parquet", "folder/b.parquet"):
        pq.write_table(table, tmp_path / file, row_group_size=300)
    source = open_source(name if name == "demo" else str(tmp_path / name), rows=DEMO_CHUNK + 5)
    reached = [0]
    for task in source.tasks:
        reached.append(position(task, reached[-1]))
    assert reached == sorted(reached)
    assert reached[-1] == source.record.bytes > 0


def test_the_demo_follows_from_rows_and_seed():
    first, again, other = (read_all("demo", rows=500, seed=seed) for seed in (1, 1, 2))
    assert first.matrix.tobytes() == again.matrix.tobytes()
    assert first.labels == again.labels
    assert first.matrix.tobytes() != other.matrix.tobytes()
    assert set(first.labels) == {-1, 1}
    assert first.source.record.name == first.source.record.kind == "demo"


@pytest.mark.parametrize("rows", [1, DEMO_CHUNK - 1, DEMO_CHUNK, DEMO_CHUNK + 1, 2 * DEMO_CHUNK + 3])
def test_the_demo_has_as_many_rows_as_asked_in_tasks_that_differ(rows):
    tasks = list(open_source("demo", rows=rows).tasks)
    assert sum(task.rows for task in tasks) == rows
    assert max(task.rows for task in tasks) <= DEMO_CHUNK
    assert len({task.number for task in tasks}) == len(tasks) == -(-rows // DEMO_CHUNK)


def test_each_task_of_the_demo_has_points_of_its_own():
    tasks = list(open_source("demo", rows=2 * DEMO_CHUNK).tasks)
    first, second = (next(sources.read(task, None, ",", np.float32)).matrix for task in tasks)
    assert not np.array_equal(first, second)


def test_a_file_named_demo_is_read_where_its_path_says_so(tmp_path):
    (tmp_path / "demo").write_bytes(LIBSVM)
    assert read_all(tmp_path / "demo").labels == [1, -1]
