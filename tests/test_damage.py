"""Damaged and hostile input: rows of finite numbers or a DataError, never anything else."""

import bz2
import gzip
import io
import lzma

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import read_all

from workflows.errors import DataError

LIBSVM = b"+1 1:0.5 3:-2\n-1 2:1e-3\n+1 # a comment\n\n-1 1:7 2:8 3:9\n"
CSV = b'a,"b c",text,label\n1,2.5,"x\ny",yes\n-3,4e2,plain,no\n0,.5,"q""q",yes\n'


def parquet(**options):
    table = pa.table({"a": [0.5, -1.25, 3e7], "b": [1, 2, 3], "c": [True, False, True], "label": ["no", "yes", "no"]})
    stream = io.BytesIO()
    pq.write_table(table, stream, row_group_size=2, **options)
    return stream.getvalue()


FILES = {
    "rows.txt": LIBSVM,
    "rows.bz2": bz2.compress(LIBSVM),
    "rows.gz": gzip.compress(LIBSVM, mtime=0),
    "rows.xz": lzma.compress(LIBSVM),
    "rows.csv": CSV,
    "rows.csv.gz": gzip.compress(CSV, mtime=0),
    "rows.parquet": parquet(),
    "plain.parquet": parquet(compression="none", use_dictionary=False),
    "second.parquet": parquet(compression="zstd", data_page_version="2.0"),
}
OPTIONS = {"rows.csv": {"dropped": ("text",)}, "rows.csv.gz": {"dropped": ("text",)}}


def truncated(data, begin, end, byte):
    return data[:begin]


def flipped(data, begin, end, byte):
    return data[:begin] + bytes([data[begin] ^ (byte or 1)]) + data[begin + 1 :] if data else data


def inserted(data, begin, end, byte):
    return data[:begin] + bytes([byte]) * (end - begin) + data[begin:]


def deleted(data, begin, end, byte):
    return data[:begin] + data[end:]


def doubled(data, begin, end, byte):
    return data[:end] + data[begin:end] + data[end:]


damages = st.tuples(
    st.sampled_from([truncated, flipped, inserted, deleted, doubled]),
    st.floats(0, 1, exclude_max=True),
    st.integers(1, 20),
    st.one_of(st.sampled_from(b'\n\r ,;"\x00\xff#:+-eEx.01'), st.integers(0, 255)),
)


def damaged(data, steps):
    for damage, where, length, byte in steps:
        begin = int(where * len(data))
        data = damage(data, begin, min(begin + length, len(data)), byte)
    return data


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("damage")


@pytest.mark.parametrize("name", FILES)
def test_the_undamaged_file_is_read(folder, name):
    (folder / name).write_bytes(FILES[name])
    found = read_all(folder / name, **OPTIONS.get(name, {}))
    assert len(found.labels) == len(found.matrix) >= 3


def assert_rows_or_refusal(path, data, **options):
    path.write_bytes(data)
    try:
        read_all(path, **options)
    except DataError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", FILES)
def test_damage_gives_rows_or_a_refusal(folder, name):
    @settings(max_examples=100)
    @given(steps=st.lists(damages, min_size=1, max_size=3))
    def check(steps):
        message = assert_rows_or_refusal(folder / name, damaged(FILES[name], steps), **OPTIONS.get(name, {}))
        assert message is None or name in message

    check()


@given(data=st.binary(max_size=300), name=st.sampled_from(["rows", "rows.parquet"]))
def test_junk_gives_rows_or_a_refusal(folder, data, name):
    assert_rows_or_refusal(folder / name, data)


@given(data=st.binary(max_size=300), name=st.sampled_from(["rows.csv", "rows.tsv"]))
def test_junk_as_a_table_gives_rows_or_a_refusal(folder, data, name):
    assert_rows_or_refusal(folder / name, data)


letters = st.text('\n\r\t "#+-.,;:01eEnaif', max_size=60)


@given(body=letters)
@settings(max_examples=120)
def test_text_in_the_shape_of_libsvm_gives_rows_or_a_refusal(folder, body):
    assert_rows_or_refusal(folder / "rows", body.encode())


@given(body=letters)
@settings(max_examples=120)
def test_text_in_the_shape_of_a_table_gives_rows_or_a_refusal(folder, body):
    assert_rows_or_refusal(folder / "rows.csv", b"a,b,label\n" + body.encode())


JUNK = np.random.default_rng(0).bytes(500)
REFUSED = DataError


def corpus(*entries):
    """(name, bytes, labels of the rows or REFUSED)."""
    return [pytest.param(*entry, id=entry[0]) for entry in entries]


@pytest.mark.parametrize(
    ("case", "data", "outcome"),
    corpus(
        ("binary junk", JUNK, REFUSED),
        ("newlines", b"\n" * 1000, []),
        ("carriage returns", b"\r" * 1000, []),
        ("spaces", b" " * 1000, []),
        ("lines of spaces", b"  \n\t\n \r\n", []),
        ("NUL", b"\x00", REFUSED),
        ("NULs", b"\x00" * 1000, REFUSED),
        ("NUL in a value", b"1 1:2\x00\n", REFUSED),
        ("NUL in a label", b"1\x00 1:2\n", REFUSED),
        ("NUL line", b"1 1:2\n\x00\n", REFUSED),
        ("plus", b"+", REFUSED),
        ("minus", b"-\n", REFUSED),
        ("plus and point", b"+. 1:1\n", REFUSED),
        ("two signs", b"+-1 1:1\n", REFUSED),
        ("pair without label", b"1:2", REFUSED),
        ("pair without label after a row", b"1 1:2\n1:2 2:3\n", REFUSED),
        ("label alone", b"1", [1]),
        ("labels alone", b"1\n-1\n", [1, -1]),
        ("word", b"hello world\n", REFUSED),
        ("colon", b":", REFUSED),
        ("colons", b"1 ::::\n", REFUSED),
        ("comment at the end", b"1 1:1 #c", [1]),
        ("comment without space", b"1 1:1#c\n-1 1:1#\n", [1, -1]),
        ("comment alone", b"#", []),
        ("query id", b"1 qid:3 1:2\n", [1]),
        ("query id later", b"1 1:2 qid:3\n", REFUSED),
        ("several labels", b"1,2 1:2\n", REFUSED),
        ("hexadecimal index", b"1 0x10:5\n", REFUSED),
        ("hexadecimal value", b"1 1:0x10\n", REFUSED),
        ("index with an exponent", b"1 1e3:1\n", REFUSED),
        ("index with a fraction", b"1 1.0:1\n", REFUSED),
        ("largest index", b"1 2147483647:1\n", [1]),
        ("index beyond 32 bits", b"1 2147483648:1\n", REFUSED),
        ("index that wraps to 1", b"1 4294967297:1\n", REFUSED),
        ("index beyond 64 bits", b"1 18446744073709551617:1\n", REFUSED),
        ("index of 5000 digits", b"1 " + b"9" * 5000 + b":1\n", REFUSED),
        ("value of 5000 digits", b"1 1:" + b"9" * 5000 + b"\n", REFUSED),
        ("fraction of 5000 digits", b"1 1:0." + b"9" * 5000 + b"\n", [1]),
        ("label of 5000 digits", b"9" * 5000 + b" 1:1\n", REFUSED),
        ("token of a megabyte", b"1 " + b"x" * (1 << 20), REFUSED),
        ("value too small for float64", b"1 1:1e-999\n", [1]),
        ("value too large for float64", b"1 1:1e999\n", REFUSED),
        ("unclosed quote", b'1 1:1\n"1 1:1\n', REFUSED),
        ("no-break space", "1 1:1\u00a02:2\n".encode(), REFUSED),
        ("digits of another script", "١ ١:١\n".encode(), REFUSED),
        ("fullwidth digits", "１ １:１\n".encode(), REFUSED),
        ("typographic minus", "−1 1:1\n".encode(), REFUSED),
        ("line separator", "1 1:1\u20281 1:1\n".encode(), REFUSED),
        ("old line ends", b"1 1:1\r-1 1:1\r", REFUSED),
        ("Windows line ends", b"1 1:1\r\n-1 1:1\r\n\r\n", [1, -1]),
        ("end-of-file letter", b"1 1:1\n\x1a", REFUSED),
        ("UTF-8 mark", b"\xef\xbb\xbf1 1:1\n", [1]),
        ("UTF-16", "1 1:1\n".encode("utf-16"), REFUSED),
        ("UTF-16 without a mark", "1 1:1\n".encode("utf-16-le"), REFUSED),
        ("UTF-32", "1 1:1\n".encode("utf-32"), REFUSED),
        ("a table", CSV, REFUSED),
        ("HTML", b"<!DOCTYPE html>\n<html>404 Not Found</html>\n", REFUSED),
        ("JSON", b'{"label": 1}\n', REFUSED),
        ("zip", b"PK\x03\x04" + JUNK, REFUSED),
        ("zstd", b"\x28\xb5\x2f\xfd" + JUNK, REFUSED),
        ("magic of bz2", b"BZh", REFUSED),
        ("magic of gzip", b"\x1f\x8b", REFUSED),
        ("magic of xz", b"\xfd7zXZ\x00", REFUSED),
        ("bz2 in gzip", gzip.compress(bz2.compress(b"1 1:1\n"), mtime=0), REFUSED),
        ("compressed nothing", bz2.compress(b""), []),
        ("compressed junk", lzma.compress(JUNK), REFUSED),
        ("gzip and more", gzip.compress(b"1 1:1\n", mtime=0) + b"more", REFUSED),
    ),
)
def test_nasty_libsvm_text(tmp_path, case, data, outcome):
    check(tmp_path / "rows.txt", data, outcome)


@pytest.mark.parametrize(
    ("case", "data", "outcome"),
    corpus(
        ("binary junk", JUNK, REFUSED),
        ("NULs", b"\x00" * 1000, REFUSED),
        ("newlines", b"\n" * 1000, REFUSED),
        ("spaces", b" " * 100, REFUSED),
        ("commas", b"," * 100, REFUSED),
        ("quotation mark", b'"', REFUSED),
        ("unclosed quote in the header", b'a,"label\n1,2\n', REFUSED),
        ("line break in a name", b'"a\nb",label\n1,x\n', REFUSED),
        ("unclosed quote in a number", b'a,label\n"1,2\n3,4\n', REFUSED),
        ("unclosed quote in a label", b'a,label\n1,"x\n2,y\n', REFUSED),
        ("quote in the middle", b'a,label\n1,5" pipe\n2,x\n', ['5" pipe', "x"]),
        ("text after a quote", b'a,label\n1,"x"y\n', ["xy"]),
        ("NUL in a number", b"a,label\n1\x00,x\n", REFUSED),
        ("header after blank lines", b"\n\na,label\n1,x\n", REFUSED),
        ("line of spaces", b"a,label\n1,x\n   \n", REFUSED),
        ("line of commas", b"a,label\n1,x\n,\n", REFUSED),
        ("only commas", b"a,label\n,\n", REFUSED),
        ("numbers for names", b"1,2\n3,4\n", REFUSED),
        ("trailing commas", b"a,label,\n1,x,\n", REFUSED),
        ("one column too few", b"a,b,label\n1,x\n", REFUSED),
        ("hexadecimal", b"a,label\n0x1F,x\n", REFUSED),
        ("underscore", b"a,label\n1_000,x\n", REFUSED),
        ("thousands", b'a,label\n"1,000",x\n', REFUSED),
        ("percent", b"a,label\n5%,x\n", REFUSED),
        ("date", b"a,label\n2026-01-01,x\n", REFUSED),
        ("comment", b"# made by hand\na,label\n1,x\n", REFUSED),
        ("long number", b"a,label\n0." + b"1" * 5000 + b",x\n", ["x"]),
        ("long text", b"a,label\n" + b"x" * 5000 + b",1\n", REFUSED),
        ("long label", b"a,label\n1," + b"x" * 5000 + b"\n", ["x" * 5000]),
        ("UTF-16", "a,label\n1,x\n".encode("utf-16"), REFUSED),
        ("UTF-8 mark", b"\xef\xbb\xbfa,label\n1,x\n", ["x"]),
        ("LIBSVM", LIBSVM, REFUSED),
        ("HTML", b"<!DOCTYPE html>\n<html>404 Not Found</html>\n", REFUSED),
        ("Latin-1 label", "a,label\n1,é\n".encode("latin-1"), REFUSED),
        ("Latin-1 name", "é,label\n1,x\n".encode("latin-1"), REFUSED),
        ("gzip cut off", gzip.compress(CSV, mtime=0)[:-9], REFUSED),
    ),
)
def test_nasty_tables(tmp_path, case, data, outcome):
    check(tmp_path / "rows.csv", data, outcome)


def check(path, data, outcome):
    path.write_bytes(data)
    if outcome is REFUSED:
        with pytest.raises(DataError, match=path.name) as refused:
            read_all(path)
        assert len(str(refused.value)) < 500 + len(str(path))
    else:
        found = read_all(path)
        assert found.labels == outcome
        assert all(part.matrix.shape[0] == len(part) for part in found.parts)
