"""CSV, TSV and Parquet: the numbers that pandas reads, the label apart, mistakes named by line or row and column."""

import contextlib
import csv
import datetime
import decimal
import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import chunk_of, read_all

from workflows.data import csv_files, parquet_files, tables, text
from workflows.data.sources import open_source
from workflows.errors import DataError

# CSV


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A folder for the many files of one property."""
    return tmp_path_factory.mktemp("tables")


@pytest.fixture
def read_csv(tmp_path):
    def read(data, name="table.csv", **options):
        (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        return read_all(tmp_path / name, **options)

    return read


cells = st.one_of(
    st.floats(-1e15, 1e15), st.integers(-(10**6), 10**6).map(float), st.sampled_from([0.0, 1e-300, 5e-324])
)


@given(
    names=st.lists(st.text('abé "', min_size=1, max_size=6), min_size=1, max_size=4, unique=True),
    data=st.data(),
    separator=st.sampled_from(",;\t"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    end=st.sampled_from(["\n", "\r\n"]),
    size=st.sampled_from([7, 60, 1 << 20]),
)
def test_numbers_are_what_pandas_reads(shared, names, data, separator, quoting, end, size):
    rows = st.lists(cells, min_size=len(names), max_size=len(names))
    frame = pd.DataFrame(data.draw(st.lists(rows, min_size=1, max_size=6)), columns=names)
    frame.insert(data.draw(st.integers(0, len(names))), "label", data.draw(st.permutations(range(len(frame)))))
    path = shared / "table.csv"
    frame.to_csv(path, sep=separator, quoting=quoting, lineterminator=end, index=False)
    expected = pd.read_csv(path, sep=separator, engine="python")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "chunks", partial(text.chunks, size=size))
        found = read_all(path, np.float64)
        narrow = read_all(path, np.float32)
    assert found.source.columns.features == tuple(names)
    assert np.array_equal(found.matrix, expected[names].to_numpy(float))
    assert np.array_equal(narrow.matrix, expected[names].to_numpy(np.float32))
    assert found.labels == expected["label"].tolist()


def test_a_tsv_file_is_split_at_tabs_alone(read_csv):
    found = read_csv("a,b;c\tlabel\n1\t2\n", "table.tsv")
    assert found.source.columns.features == ("a,b;c",)
    assert found.matrix.tolist() == [[1.0]]


def test_a_quoted_line_break_in_a_dropped_column_is_no_end_of_a_row(read_csv):
    found = read_csv('a,text,label\n1,"one\ntwo, three",x\n2,,y\n3,"""\n",x\n', dropped=("text",))
    assert found.matrix.tolist() == [[1], [2], [3]]
    assert found.labels == ["x", "y", "x"]


@pytest.mark.parametrize("size", range(1, 60, 4))
def test_quoted_line_breaks_are_read_alike_in_any_chunk(read_csv, monkeypatch, size):
    monkeypatch.setattr(text, "chunks", partial(text.chunks, size=size))
    rows = "".join(f'{number},"line\nbreak",{number % 2}\n' for number in range(5))
    found = read_csv("a,text,label\n" + rows, dropped=("text",))
    assert found.matrix[:, 0].tolist() == list(range(5))
    assert found.labels == [0, 1, 0, 1, 0]


def test_quoted_line_breaks_are_no_ends_of_rows_in_a_long_table_either(read_csv):
    rows = "".join(f'{number},"{chr(10) * (number % 50)}",x\n' for number in range(60_000))
    assert len(rows) > 1 << 21
    found = read_csv("a,text,label\n" + rows, dropped=("text",))
    assert np.array_equal(found.matrix[:, 0], np.arange(60_000))


@pytest.mark.parametrize(
    ("written", "labels"),
    [
        (["yes", "no", "yes"], ["yes", "no", "yes"]),
        (["1", "-1", "+1"], [1, -1, 1]),
        (["1.0", "0", "1"], [1, 0, 1]),
        (["0.5", "2", "2.0"], [0.5, 2, 2]),
        (["True", "False", "True"], ["True", "False", "True"]),
        (["é, ü", "x\ny", '"'], ["é, ü", "x\ny", '"']),
        (["b", "1", "a"], ["b", 1, "a"]),
    ],
)
def test_labels_are_words_or_numbers(read_csv, written, labels):
    quoted = ['"{}"'.format(label.replace('"', '""')) for label in written]
    found = read_csv("a,label\n" + "".join(f"{row},{label}\n" for row, label in enumerate(quoted)))
    assert found.labels == labels
    assert [type(label) for label in found.labels] == [type(label) for label in labels]
    assert found.matrix[:, 0].tolist() == [0, 1, 2]


def test_the_label_may_stand_anywhere_and_have_any_name(read_csv):
    found = read_csv("a,the class,b\n1,x,2\n", label="the class")
    assert found.source.columns == tables.Columns(("a", "the class", "b"), "the class", ("a", "b"))
    assert found.matrix.tolist() == [[1, 2]]


def test_a_dropped_column_may_hold_anything(read_csv):
    found = read_csv(b'a,text,label\n1,\xff\x00,x\n2,"",y\n', dropped=("text",))
    assert found.matrix.tolist() == [[1], [2]]


def test_blank_lines_spaces_and_a_missing_last_line_end_are_no_mistakes(read_csv):
    found = read_csv(b"\xef\xbb\xbfa,label\r\n 1,x\r\n\r\n2 ,y\r\n\r\n\r\n3,x")
    assert found.source.columns.features == ("a",)
    assert found.matrix[:, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("data", [b"a,label\n", b"a,label", b"a,label\r\n\r\n \n"])
def test_a_header_alone_is_a_table_without_rows(read_csv, data):
    found = read_csv(data)
    assert found.source.columns.features == ("a",)
    assert found.labels == []


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(read_csv, data):
    with pytest.raises(DataError, match=r"table\.csv is empty"):
        read_csv(data)


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        ("a,label\n1,x\nred,y\n", {}, ["line 3", "column 'a'", "'red' is text", "--drop a"]),
        ("a,b,label\n1,2,x\n3,1 2,y\n", {}, ["line 3", "column 'b'", "'1 2'", "--drop b"]),
        ("a;label\n1,5;x\n", {}, ["line 2", "column 'a'", "'1,5' is text"]),
        ("a,label\ntrue,x\n", {}, ["line 2", "column 'a'", "'true' is text"]),
        ("b,a,label\nx,1,1\ny,z,1\n", {}, ["line 2", "column 'b'", "'x'"]),
        ("a,label\n1,x\n,y\n", {}, ["line 3", "column 'a'", "missing", "--drop a"]),
        ("a,label\n1,x\nNA,y\n", {}, ["line 3", "column 'a'", "missing ('NA')"]),
        ("a,label\n1,x\n?,y\n", {}, ["line 3", "column 'a'", "missing ('?')"]),
        ("a,label\n1,x\nNaN,y\n", {}, ["line 3", "column 'a'", "nan is not a finite number", "--drop a"]),
        ("a,label\n1,x\n-inf,y\n", {}, ["line 3", "column 'a'", "-inf is not a finite number"]),
        ("a,label\n1,x\n1e16,y\n", {}, ["line 3", "column 'a'", "1e+16 is too large", "--scale"]),
        ("a,label\n1,x\n2,\n", {}, ["line 3", "label column 'label'", "missing"]),
        ("a,label\n1,x\n2, \n", {}, ["line 3", "label column 'label'", "missing"]),
        ("a,label\n1,x\n2,nan\n", {}, ["line 3", "label column 'label'", "missing"]),
        ("a,label\n1,x\n2\n", {}, ["line 3", "1 values", "2 columns"]),
        ("a,label\n1,x\n2,y,3\n", {}, ["line 3", "3 values", "2 columns"]),
        ('a,t,label\n1,"p,q",x\n2,y\n', {"dropped": ("t",)}, ["line 3", "2 values", "3 columns"]),
        ("a,b\n1,2\n", {}, ["which column", "--label", "a, b"]),
        ("a,b\n1,2\n", {"label": "c"}, ["label column 'c' not found", "a, b"]),
        ("a,b\n1,2\n", {"label": "b", "dropped": ("c",)}, ["column to drop 'c' not found", "a, b"]),
        ("a,b,a,label\n1,2,3,4\n", {}, ["more than one column 'a'"]),
        ("label\n1\n", {}, ["no features are left"]),
        ("a,label\n1,1\n", {"dropped": ("a",)}, ["no features are left"]),
        (",a,label\n0,1,x\n", {}, ["column 1", "no name", "--drop ''"]),
        ("a, label\n1,1\n", {}, ["columns are: a, ' label'"]),
        ("\n\n", {}, ["line 1", "no header"]),
        (b"a,label\n1,x\n\xff,y\n", {}, ["line 3", "not UTF-8"]),
        (b"a\xff,label\n1,x\n", {}, ["line 1", "UTF"]),
        (b"a,label\n1,x\xff\n", {}, ["UTF"]),
        ("a,label\n1,x\n\n\nred,y\n", {}, ["line 5", "'red'"]),
        ("a,label\n1,x\n\n\nnan,y\n", {}, ["line 5", "nan"]),
        ('a,t,label\n1,"p\nq",x\nred,,y\n', {"dropped": ("t",)}, ["line 4", "'red'"]),
        ("a,label\n 1,x\nred,y\n", {}, ["line 3", "'red'"]),
        ("a,label\n1,x\n2,NaN\n", {}, ["line 3", "label", "missing"]),
        ("a,label\n1,x\n2,NA\n", {}, ["line 3", "label", "missing"]),
        ('a,label\n1,"x\n2,y\n', {}, ["quot"]),
        ('a,label,t\n1,x,"p\n2,y,\n', {"dropped": ("t",)}, ["quot"]),
    ],
)
def test_a_mistake_in_a_table_is_named(read_csv, data, options, words):
    with pytest.raises(DataError) as refused:
        read_csv(data, **options)
    for word in ["table.csv", *words]:
        assert word in str(refused.value)


@pytest.mark.parametrize("size", [1, 10, 25, 40, 1000])
@pytest.mark.parametrize("bad", ["red,x", "nan,x", ",x", "1", "1,x,2", "1e99,x", "1,"])
def test_a_line_is_counted_right_in_any_chunk(read_csv, monkeypatch, size, bad):
    monkeypatch.setattr(text, "chunks", partial(text.chunks, size=size))
    with pytest.raises(DataError, match=r"table\.csv, line 12\b"):
        read_csv("a,label\n" + "1,x\n" * 10 + bad + "\n" + "2,y\n" * 10 + bad + "\n")


def test_many_columns_are_listed_in_part(read_csv):
    with pytest.raises(DataError) as refused:
        read_csv(",".join(f"c{number}" for number in range(1000)) + "\n")
    assert "c0, c1" in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_quoted_name_may_hold_other_delimiters(read_csv):
    found = read_csv('"a;b;c",label\n1,x\n')
    assert found.source.columns.features == ("a;b;c",)


def test_a_header_may_be_long(read_csv):
    names = [f"a_rather_long_name_{number:06d}" for number in range(50_000)]
    found = read_csv(",".join([*names, "label"]) + "\n" + "1," * len(names) + "x\n")
    assert found.matrix.shape == (1, len(names))


def test_a_row_may_be_long(read_csv):
    found = read_csv("a,t,label\n1," + "t" * (5 << 20) + ",x\n", dropped=("t",))
    assert found.matrix.tolist() == [[1]]


@pytest.mark.parametrize("data", ["a,label\r1,x\r2,y\r", "a,label\r1,x\n2,y\n"])
def test_no_row_is_lost_where_lines_end_in_a_carriage_return(read_csv, data):
    with contextlib.suppress(DataError):
        assert read_csv(data).matrix[:, 0].tolist() == [1, 2]


def test_float64_keeps_what_only_float32_cannot_hold(read_csv):
    assert read_csv("a,label\n1e300,x\n", dtype=np.float64).matrix.tolist() == [[1e300]]


# A test file's columns

FIRST = tables.Columns(("a", "b", "label"), "label", ("a", "b"))


def test_a_test_file_is_put_in_the_order_of_the_training_file(read_csv):
    found = read_csv("label,b,a\nx,2,1\n", like=FIRST)
    assert found.source.columns == tables.Columns(("label", "b", "a"), "label", ("a", "b"))
    assert found.matrix.tolist() == [[1, 2]]
    assert found.labels == ["x"]


def test_columns_that_both_files_drop_may_differ(read_csv):
    found = read_csv("t,b,a,label\nred,2,1,x\n", like=FIRST, dropped=("t",))
    assert found.matrix.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("a,label", r"table\.csv lacks 'b'"),
        ("a,b,c,label", r"table\.csv has 'c' besides"),
        ("c,b,d,label", r"table\.csv lacks 'a' and has 'c', 'd' besides"),
        ("A,b,label", r"table\.csv lacks 'a' and has 'A' besides"),
    ],
)
def test_a_test_file_of_other_columns_is_refused(read_csv, header, message):
    with pytest.raises(DataError, match=message):
        read_csv(header + "\n", like=FIRST)


def test_a_test_file_in_parquet_goes_with_a_training_file_in_csv(tmp_path):
    pq.write_table(pa.table({"b": [2], "label": ["x"], "a": [1]}), tmp_path / "test.parquet")
    assert read_all(tmp_path / "test.parquet", like=FIRST).matrix.tolist() == [[1, 2]]
    with pytest.raises(DataError, match=r"test\.parquet lacks 'z'"):
        open_source(str(tmp_path / "test.parquet"), like=tables.Columns(("z",), "label", ("a", "b", "z")))


# Parquet


@pytest.fixture
def read_parquet(tmp_path):
    def read(columns, dtype=np.float32, groups=2, **options):
        pq.write_table(pa.table(columns), tmp_path / "table.parquet", row_group_size=groups)
        return read_all(tmp_path / "table.parquet", dtype, **options)

    return read


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_integers_of_every_type_are_features(read_parquet, kind, dtype):
    found = read_parquet({"a": pa.array([3, 0, 100], kind), "label": [1, 2, 1]}, dtype)
    assert found.matrix.tolist() == [[3], [0], [100]]
    assert len(found.parts) == 2


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fractions_of_every_type_are_features(read_parquet, kind, dtype):
    values = np.array([0.25, -1000, 65504], np.float16)
    found = read_parquet({"a": pa.array(values).cast(kind), "label": [1, 2, 1]}, dtype)
    assert found.matrix.tolist() == [[0.25], [-1000], [65504]]


@pytest.mark.parametrize("kind", [pa.decimal128(5, 2), pa.decimal256(50, 10)], ids=str)
def test_decimals_and_booleans_are_numbers(read_parquet, kind):
    amounts = pa.array([decimal.Decimal("1.25"), decimal.Decimal("-0.50"), decimal.Decimal("3.00")], kind)
    found = read_parquet({"a": amounts, "b": [True, False, True], "label": [1, 2, 1]})
    assert found.matrix.tolist() == [[1.25, 1], [-0.5, 0], [3, 1]]


@given(
    seed=st.integers(0, 10**6),
    count=st.integers(0, 40),
    groups=st.integers(1, 50),
    compression=st.sampled_from(["snappy", "none", "zstd", "gzip"]),
)
def test_rows_keep_their_order_whatever_the_row_groups(shared, seed, count, groups, compression):
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame(generator.normal(size=(count, 3)), columns=["x", "y", "z"])
    frame.insert(1, "label", generator.integers(0, 2, count))
    path = shared / "table.parquet"
    frame.to_parquet(path, row_group_size=groups, compression=compression, index=False)
    found = read_all(path, np.float64)
    if count:
        assert np.array_equal(found.matrix, frame[["x", "y", "z"]].to_numpy())
    assert found.labels == frame["label"].tolist()
    assert len(found.parts) == -(-count // groups)


def words(*values, dictionary):
    return pa.DictionaryArray.from_arrays(pa.array(values, pa.int8()), pa.array(dictionary))


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        (["yes", "no", "yes"], ["yes", "no", "yes"]),
        (pa.array(["1", "+1", "-1"], pa.large_string()), [1, 1, -1]),
        ([b"yes", b"no", b"2"], ["yes", "no", 2]),
        ([1, -1, 1], [1, -1, 1]),
        (pa.array([0, 1, 0], pa.uint8()), [0, 1, 0]),
        ([1.0, 0.5, -1.0], [1, 0.5, -1]),
        ([True, False, True], [True, False, True]),
        ([decimal.Decimal("1.0"), decimal.Decimal("2.0"), decimal.Decimal("2.5")], [1, 2, 2.5]),
        ([datetime.date(2026, 1, 2)] * 3, ["2026-01-02"] * 3),
        (words(1, 0, 1, dictionary=["no", "yes"]), ["yes", "no", "yes"]),
        (words(1, 0, 1, dictionary=[10, 20]), [20, 10, 20]),
        (words(0, 1, 2, dictionary=["1", "+1", "1.0"]), [1, 1, 1]),
        (words(1, 0, 1, dictionary=["no", "yes", "never seen"]), ["yes", "no", "yes"]),
        (words(1, 0, 1, dictionary=["no", "yes", ""]), ["yes", "no", "yes"]),
    ],
)
def test_labels_of_every_type_are_plain(read_parquet, column, labels):
    found = read_parquet({"a": [1, 2, 3], "label": column})
    assert found.labels == labels
    assert [type(label) for label in found.labels] == [type(label) for label in labels]


def test_columns_may_have_any_name(read_parquet):
    names = ["a.b", ".c", "[0]", "d e", "é", "$", "a"]
    found = read_parquet({name: [number] for number, name in enumerate(names)} | {"label": [1]})
    assert found.source.columns.features == tuple(names)
    assert found.matrix.tolist() == [list(range(7))]


def test_text_may_be_dropped_or_be_the_label(read_parquet):
    columns = {"t": ["x", "y"], "a": [1, 2], "label": [0, 1]}
    assert read_parquet(columns, dropped=("t",)).matrix.tolist() == [[1], [2]]
    assert read_parquet(columns, label="t").labels == ["x", "y"]
    assert read_parquet(columns, label="t").matrix.tolist() == [[1, 0], [2, 1]]


GOOD = [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("column", "named"),
    [
        ([1, 2, None], "row 3, column 'a': the value is missing"),
        ([None, None, None], "row 1, column 'a': the value is missing"),
        (pa.nulls(3), "row 1, column 'a': the value is missing"),
        ([1.0, 2.0, np.nan], "row 3, column 'a': nan is not a finite number"),
        ([1.0, np.inf, 3.0], "row 2, column 'a': inf is not a finite number"),
        ([1.0, 2.0, -1e16], "row 3, column 'a': -1e+16 is too large"),
        (["1", "2", "3"], "row 1, column 'a' holds string"),
        (words(0, 0, 0, dictionary=["x"]), "row 1, column 'a' holds dictionary"),
        ([datetime.datetime(2026, 1, 1)] * 3, "row 1, column 'a' holds timestamp"),
        ([datetime.date(2026, 1, 1)] * 3, "row 1, column 'a' holds date32"),
        ([datetime.timedelta(1)] * 3, "row 1, column 'a' holds duration"),
        ([[1.0]] * 3, "row 1, column 'a' holds list"),
        ([{"x": 1}] * 3, "row 1, column 'a' holds struct"),
        ([b"1"] * 3, "row 1, column 'a' holds binary"),
    ],
)
def test_what_is_no_number_is_named_by_file_row_and_column(read_parquet, column, named):
    with pytest.raises(DataError) as refused:
        read_parquet({"b": GOOD, "a": column, "label": [1, 2, 1]})
    assert f"table.parquet, {named}" in str(refused.value)
    assert "--drop a" in str(refused.value)


@pytest.mark.parametrize(
    ("column", "named"),
    [
        (["x", None, "y"], "row 2, label column 'label': the label is missing"),
        (["x", "y", " "], "row 3, label column 'label': the label is missing"),
        ([1, 2, None], "row 3, label column 'label': the label is missing"),
        ([1.0, np.nan, 1.0], "row 2, label column 'label': the label is missing"),
        ([True, True, None], "row 3, label column 'label': the label is missing"),
        (pa.nulls(3), "row 1, label column 'label': the label is missing"),
        (words(0, None, 1, dictionary=["x", "y"]), "row 2, label column 'label': the label is missing"),
        ([1.0, 2.0, -np.inf], "row 3, label column 'label'"),
        ([[1], [2], [3]], "row 1, label column 'label'"),
    ],
)
def test_what_is_no_label_is_named_by_file_row_and_column(read_parquet, column, named):
    with pytest.raises(DataError) as refused:
        read_parquet({"a": GOOD, "label": column})
    assert f"table.parquet, {named}" in str(refused.value)


@pytest.mark.parametrize("row", [1, 1024, 1025, 2000, 2001, 3500])
def test_rows_are_counted_through_batches_and_row_groups(read_parquet, monkeypatch, row):
    monkeypatch.setattr(parquet_files, "BATCH_BYTES", 1)  # batches of 1024 rows
    values = np.arange(3500.0)
    assert read_parquet({"a": values, "label": [1] * 3500}, groups=2000).matrix[:, 0].tolist() == values.tolist()
    values[row - 1] = np.nan
    with pytest.raises(DataError, match=rf"table\.parquet, row {row}, column 'a'"):
        read_parquet({"a": values, "label": [1] * 3500}, groups=2000)


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"a": [1], "b": [2]}, {}, ["which column", "--label", "a, b"]),
        ({"a": [1], "b": [2]}, {"label": "c"}, ["'c' not found", "a, b"]),
        ({"label": [1]}, {}, ["no features are left"]),
    ],
)
def test_a_parquet_file_without_the_columns_is_refused(read_parquet, columns, options, words):
    with pytest.raises(DataError) as refused:
        read_parquet(columns, **options)
    for word in ["table.parquet", *words]:
        assert word in str(refused.value)


def test_a_repeated_column_of_parquet_is_refused(tmp_path):
    table = pa.table([pa.array([1])] * 3, names=["a", "a", "label"])
    pq.write_table(table, tmp_path / "table.parquet")
    with pytest.raises(DataError, match=r"table\.parquet has more than one column 'a'"):
        read_all(tmp_path / "table.parquet")


# Folders of Parquet files


def write_folder(folder, tables_):
    for name, columns in tables_.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), folder / name, row_group_size=2)
    return folder


def part(*values, **more):
    return {"a": list(values), "label": [value % 2 for value in values]} | more


def test_a_folder_is_one_table_in_the_order_of_its_names(tmp_path):
    parts = {"b.parquet": part(4, 5), "a.parquet": part(1, 2, 3), "c/d.parquet": part(6)}
    others = {"_temporary.parquet": part(7), ".hidden.parquet": part(8)}
    folder = write_folder(tmp_path / "set", parts | others)
    (folder / "notes.txt").write_text("not Parquet")
    found = read_all(folder)
    assert found.matrix[:, 0].tolist() == [1, 2, 3, 4, 5, 6]
    assert found.labels == [1, 0, 1, 0, 1, 0]
    assert len(found.parts) == 4
    assert found.source.record.kind == "parquet"


def test_names_of_folders_are_columns(tmp_path):
    folder = write_folder(tmp_path / "set", {"year=2026/a.parquet": part(1, 2), "year=2027/a.parquet": part(3)})
    found = read_all(folder)
    assert found.source.columns.features == ("a", "year")
    assert found.matrix.tolist() == [[1, 2026], [2, 2026], [3, 2027]]
    assert read_all(folder, dropped=("year",)).matrix.tolist() == [[1], [2], [3]]
    assert read_all(folder, label="year", dropped=("label",)).labels == [2026, 2026, 2027]


def test_names_of_folders_may_be_the_label(tmp_path):
    columns = {"a": [1, 2]}
    found = read_all(write_folder(tmp_path / "set", {"label=no/a.parquet": columns, "label=yes/a.parquet": columns}))
    assert found.labels == ["no", "no", "yes", "yes"]


def test_words_in_names_of_folders_are_no_features(tmp_path):
    folder = write_folder(tmp_path / "set", {"region=eu/a.parquet": part(1), "region=us/a.parquet": part(2)})
    with pytest.raises(DataError, match=r"region=eu/a\.parquet, row 1, column 'region' holds string.*--drop region"):
        read_all(folder)


def test_a_mistake_in_a_folder_is_named_by_its_file(tmp_path):
    folder = write_folder(tmp_path / "set", {"a.parquet": part(1, 2, 3), "b.parquet": part(1, 2, 3)})
    assert len(read_all(folder).labels) == 6
    pq.write_table(pa.table({"a": [1, 2, None], "label": [1, 1, 1]}), folder / "b.parquet", row_group_size=2)
    with pytest.raises(DataError, match=r"set/b\.parquet, row 3, column 'a': the value is missing"):
        read_all(folder)


@pytest.mark.parametrize(("first", "second"), [(part(1, b=[1]), part(2)), (part(1), part(2, b=[1]))])
def test_files_of_a_folder_that_differ_in_their_columns_are_refused(tmp_path, first, second):
    folder = write_folder(tmp_path / "set", {"a.parquet": first, "b.parquet": second})
    with pytest.raises(DataError, match=r"b\.parquet and .*a\.parquet differ in the columns 'b'"):
        read_all(folder)


def test_text_in_one_file_of_a_folder_is_refused_by_its_name(tmp_path):
    clash = {"a": ["one", "two"], "label": [0, 1]}
    folder = write_folder(tmp_path / "set", {"a.parquet": part(1, 2), "b.parquet": clash})
    with pytest.raises(DataError, match=r"b\.parquet"):
        read_all(folder)


def test_a_column_may_hold_integers_in_one_file_and_fractions_in_the_next(tmp_path):
    folder = write_folder(tmp_path / "set", {"a.parquet": part(1, 2), "b.parquet": {"a": [1.5, 2], "label": [0, 1]}})
    assert read_all(folder).matrix[:, 0].tolist() == [1, 2, 1.5, 2]


def test_a_folder_without_parquet_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing here")
    with pytest.raises(DataError, match=r"no \.parquet file in"):
        read_all(tmp_path)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1PAR1", b"a,label\n1,2\n" * 10, b"PAR1" + bytes(200) + b"PAR1"])
def test_what_is_not_parquet_is_refused(tmp_path, data):
    (tmp_path / "table.parquet").write_bytes(data)
    with pytest.raises(DataError, match=r"table\.parquet.* not readable Parquet"):
        read_all(tmp_path / "table.parquet")


def test_a_parquet_file_cut_off_anywhere_is_refused(tmp_path):
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table(part(1, 2, 3)), path, row_group_size=2)
    data = path.read_bytes()
    for end in range(0, len(data), 5):
        path.write_bytes(data[:end])
        with pytest.raises(DataError, match=r"table\.parquet"):
            read_all(path)


@pytest.mark.parametrize("damaged", ["a.parquet", "b.parquet"])
def test_a_damaged_file_of_a_folder_is_named(tmp_path, damaged):
    folder = write_folder(tmp_path / "set", {"a.parquet": part(1, 2), "b.parquet": part(3, 4)})
    (folder / damaged).write_bytes((folder / damaged).read_bytes()[:-20])
    with pytest.raises(DataError, match=damaged):
        read_all(folder)


def test_a_page_that_does_not_unpack_is_damage(tmp_path):
    path = tmp_path / "table.parquet"
    values = np.random.default_rng(0).integers(0, 5, 5000)
    pq.write_table(pa.table({"a": values, "label": values}), path, compression="zstd", use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[4:40] = b"\xff" * 36
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"table\.parquet, after row 0: .*damaged"):
        read_all(path)


def test_a_name_that_is_no_utf8_is_damage(tmp_path):
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"ab": [1], "label": [1]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"ab", b"\xff\xfe"))
    with pytest.raises(DataError, match=r"table\.parquet"):
        read_all(path)


def test_a_label_that_is_no_utf8_is_damage(tmp_path):
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"a": [1], "label": ["label text"]}), path, compression="none")
    path.write_bytes(path.read_bytes().replace(b"label text", b"label \xff\xfe\xfd\xfc"))
    with pytest.raises(DataError, match=r"table\.parquet, .*label"):
        read_all(path)


# Pieces


@given(number=st.integers(1, 1000), bad=st.integers(1, 1000), text_=st.sampled_from(["red", "", "1;2", "0x1"]))
def test_the_first_text_of_a_column_is_found(number, bad, text_):
    columns = tables.choose(("a", "label"), None, (), "f")
    rows = ["1.5,x"] * number
    rows[bad % number] = f"{text_},x"
    rows.append("later,x")
    with pytest.raises(DataError, match=rf"^f, line {bad % number + 5}, column 'a'"):
        csv_files.parse(chunk_of("\n".join(rows).encode(), "f", 5), csv_files.CsvFormat(columns, ","))


def test_a_row_group_is_never_in_memory_as_a_whole(tmp_path):
    """A million rows in one group: a process that reads them keeps far below what they occupy."""
    width = 40
    rows = np.random.default_rng(0).random(1_000_000)
    table = pa.table({f"f{number}": rows for number in range(width)} | {"label": np.arange(1_000_000) % 2})
    pq.write_table(table, tmp_path / "table.parquet", row_group_size=1_000_000, use_dictionary=False)
    code = f"""
from workflows.data import parquet_files
from workflows.data.sources import open_source
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1000
before = peak()
source = open_source({str(tmp_path / "table.parquet")!r})
assert sum(len(part) for task in source.tasks for part in source.read(task, "float32")) == 1_000_000
print(peak() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert float(done.stdout) < 1_000_000 * width * 8 / 1e6 / 2


# For a model that is asked

NAMED = tables.Inputs(2, ("a", "b"))
UNNAMED = tables.Inputs(2)


@pytest.mark.parametrize(
    ("inputs", "names", "options", "label", "features"),
    [
        (NAMED, ("b", "id", "a"), {}, None, ("a", "b")),
        (NAMED, ("b", "label", "a"), {}, "label", ("a", "b")),
        (NAMED, ("b", "", "a", "y"), {"label": "y", "dropped": ("",)}, "y", ("a", "b")),
        (tables.Inputs(2, ("label", "a")), ("a", "label"), {}, None, ("label", "a")),
        (UNNAMED, ("b", "a"), {}, None, ("b", "a")),
        (UNNAMED, ("b", "label", "a"), {}, "label", ("b", "a")),
        (UNNAMED, ("b", "id", "a"), {"dropped": ("id",)}, None, ("b", "a")),
        (UNNAMED, ("b", "label", "a"), {"dropped": ("label",)}, None, ("b", "a")),
    ],
)
def test_a_model_gets_the_columns_it_knows_and_a_label_is_not_needed(inputs, names, options, label, features):
    chosen = tables.choose_for(inputs, names, **({"label": None, "dropped": ()} | options), source="f")
    assert chosen == tables.Columns(names, label, features)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_without_labels_are_read_for_a_model_alone(tmp_path, kind):
    frame = pd.DataFrame({"b": [2.0, 4.0, 6.0], "label": ["x", None, "NaN"], "a": [1.0, 3.0, 5.0]})
    path = tmp_path / f"table.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, index=False)
    source = open_source(str(path), inputs=NAMED)
    (part,) = (part for task in source.tasks for part in source.read(task, np.float32))
    assert part.matrix.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert part.codes.tolist() == [0, -1, -1]
    assert part.classes == ("x",)
    with pytest.raises(DataError, match="the label is missing"):
        read_all(path)
