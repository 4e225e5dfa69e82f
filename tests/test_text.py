"""Text in chunks: nothing lost, lines and quotes never cut, damage told."""

import bz2
import gzip
import io
import lzma
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from workflows.data import text
from workflows.data.places import place
from workflows.errors import DataError

COMPRESSIONS = {
    "plain": bytes,
    "bz2": bz2.compress,
    "gz": partial(gzip.compress, mtime=0),
    "xz": lzma.compress,
}
MAGIC = {"bz2": b"BZh", "gz": b"\x1f\x8b", "xz": b"\xfd7zXZ\x00"}
MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", *MAGIC.values())
LINES = b"".join(b"+1 %d:%d\n" % (k, k * k) for k in range(1, 9))

any_text = st.one_of(
    st.binary(max_size=120),
    st.text('ab\n"', max_size=120).map(str.encode),
    st.lists(st.text("01:é ", max_size=20), max_size=20).map(lambda lines: "\r\n".join(lines).encode()),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("text") / "lines.txt"


def chunks_of(path, data, quoted=False, size=text.CHUNK_BYTES):
    path.write_bytes(data)
    return list(text.chunks(place(path), quoted=quoted, size=size))


def joined(chunks):
    return b"".join(chunk.data for chunk in chunks)


@given(data=any_text, kind=st.sampled_from(sorted(COMPRESSIONS)), size=st.integers(1, 150), quoted=st.booleans())
@example(data=b"", kind="plain", size=1, quoted=False)
@example(data=b"no end of line", kind="gz", size=3, quoted=True)
def test_the_chunks_are_the_file_whatever_their_size(path, data, kind, size, quoted):
    assume(not data.startswith(MARKS))
    chunks = chunks_of(path, COMPRESSIONS[kind](data), quoted, size)
    assert joined(chunks) == data
    assert all(chunk.data for chunk in chunks)
    assert all(chunk.data.endswith(b"\n") for chunk in chunks[:-1])
    line = 1
    for chunk in chunks:
        assert chunk.name == str(path)
        assert chunk.first_line == line
        line += chunk.data.count(b"\n")


@given(kind=st.sampled_from(sorted(COMPRESSIONS)), size=st.integers(1, 100))
def test_the_position_grows_up_to_the_size_of_the_file(path, kind, size):
    chunks = chunks_of(path, COMPRESSIONS[kind](LINES), size=size)
    positions = [chunk.position for chunk in chunks]
    assert all(0 < before <= after for before, after in pairwise(positions))
    assert positions[-1] == path.stat().st_size


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_chunks_are_about_as_large_as_asked(path, kind):
    sizes = [len(chunk.data) for chunk in chunks_of(path, COMPRESSIONS[kind](LINES * 100), size=1000)]
    assert len(sizes) > 5
    assert max(sizes) < 1020


fields = st.text('a,\n"', max_size=6)


@given(rows=st.lists(st.lists(fields, min_size=1, max_size=4), min_size=1, max_size=6), size=st.integers(1, 60))
@example(rows=[["1", "a\nb", "c\nd", "2"]], size=14)
def test_line_breaks_between_quotation_marks_end_no_chunk(path, rows, size):
    lines = [",".join('"{}"'.format(field.replace('"', '""')) for field in row) for row in rows]
    data = "\n".join(lines).encode()
    chunks = chunks_of(path, data, quoted=True, size=size)
    assert joined(chunks) == data
    assert all(chunk.data.count(b'"') % 2 == 0 for chunk in chunks)


@given(size=st.integers(1, 60))
def test_a_row_with_one_field_of_several_lines_stays_whole(path, size):
    rows = [b'1,"one\ntwo\nthree",x\n', b"2,plain,y\n", b'3,"\n",z\n']
    chunks = chunks_of(path, b"".join(rows), quoted=True, size=size)
    starts = {0, len(rows[0]), len(rows[0] + rows[1])}
    assert {sum(len(chunk.data) for chunk in chunks[:number]) for number in range(len(chunks))} <= starts


def test_quotation_marks_hold_up_no_line_where_they_mean_nothing(path):
    chunks = chunks_of(path, b'1 "\n2\n3\n', quoted=False, size=1)
    assert [chunk.data for chunk in chunks] == [b'1 "\n', b"2\n", b"3\n"]


@pytest.mark.parametrize("kind", COMPRESSIONS)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 1000])
def test_a_utf8_mark_is_taken_off(path, kind, size):
    data = "\ufeff1 1:2\n\ufeff2 1:3\n".encode()
    chunks = chunks_of(path, COMPRESSIONS[kind](data), size=size)
    assert joined(chunks) == data[3:]
    assert chunks[0].first_line == 1


def test_a_file_of_a_utf8_mark_is_empty(path):
    assert chunks_of(path, b"\xef\xbb\xbf") == []


@pytest.mark.parametrize("size", [1, 3])
def test_a_second_utf8_mark_is_part_of_the_text_whatever_the_chunks(path, size):
    assert joined(chunks_of(path, b"\xef\xbb\xbf" * 2 + b"1\n", size=size)) == b"\xef\xbb\xbf1\n"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_refused_by_name(path, encoding):
    with pytest.raises(DataError, match=r"lines\.txt is UTF-16.*save it as UTF-8"):
        chunks_of(path, "\ufeff1 1:2\n".encode(encoding) if encoding != "utf-16" else "1 1:2\n".encode(encoding))


@pytest.mark.parametrize("kind", MAGIC)
def test_a_compressed_file_cut_off_anywhere_is_refused(path, kind):
    data = COMPRESSIONS[kind](LINES)
    magic = len(MAGIC[kind])
    for end in range(magic, len(data)):
        with pytest.raises(DataError, match=r"lines\.txt: the compressed file is damaged or cut off"):
            chunks_of(path, data[:end])
    for end in range(magic):  # too short to be known as compressed
        assert joined(chunks_of(path, data[:end])) == data[:end]


@pytest.mark.parametrize("kind", MAGIC)
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_no_changed_byte_of_a_compressed_file_changes_the_text_unnoticed(path, kind, mask):
    data = COMPRESSIONS[kind](LINES)
    refused = 0
    for place_ in range(len(data)):
        damaged = bytearray(data)
        damaged[place_] ^= mask
        try:
            read = joined(chunks_of(path, bytes(damaged)))
        except DataError:
            refused += 1
        else:
            assert read == (LINES if damaged.startswith(MAGIC[kind]) else damaged)
    assert refused > len(data) // 2


@pytest.mark.parametrize("kind", MAGIC)
def test_chunks_before_the_damage_are_given(path, kind):
    data = COMPRESSIONS[kind](bytes(LINES) * 3000)
    path.write_bytes(data[:-1])
    stream = text.chunks(place(path), quoted=False, size=1000)
    assert next(stream).data.startswith(LINES)
    with pytest.raises(DataError, match="cut off"):
        list(stream)


@pytest.mark.parametrize("kind", MAGIC)
def test_a_file_of_several_compressed_streams_is_read_to_its_end(path, kind):
    compress = COMPRESSIONS[kind]
    assert joined(chunks_of(path, compress(LINES) + compress(b"-1\n"))) == LINES + b"-1\n"


def test_a_file_without_line_ends_is_refused_at_its_line(path, monkeypatch):
    monkeypatch.setattr(text, "LONGEST_LINE", 100)
    assert joined(chunks_of(path, b"a\nb\n" + b"c" * 90, size=10)).endswith(b"c" * 90)
    with pytest.raises(DataError, match=r"lines\.txt, line 3: no line ends within"):
        chunks_of(path, b"a\nb\n" + b"c" * 120, size=10)


def test_quotes_that_never_close_are_refused_at_their_line(path, monkeypatch):
    monkeypatch.setattr(text, "LONGEST_LINE", 100)
    data = b'1,"x"\n2,"y\n' + b"3,z\n" * 30
    assert joined(chunks_of(path, data, quoted=False, size=10)) == data
    with pytest.raises(DataError, match=r"lines\.txt, line 2: .*are its quotes closed"):
        chunks_of(path, data, quoted=True, size=10)


def test_an_empty_file_has_no_chunks(path):
    assert chunks_of(path, b"") == []


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(DataError, match="nowhere"):
        list(text.chunks(place(tmp_path / "nowhere"), quoted=False))


def test_a_failing_disk_is_a_message():
    class Disk(io.BytesIO):
        def read(self, size):
            if size > 8:
                raise OSError("the disk is gone")
            return super().read(size)

    source = SimpleNamespace(name="lines.txt", reader=lambda: Disk(LINES))
    with pytest.raises(DataError, match=r"lines\.txt: reading failed \(the disk is gone\)"):
        list(text.chunks(source, quoted=False))
