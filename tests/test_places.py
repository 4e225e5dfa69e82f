"""Places: paths and URIs behind one face, failures in one line, secrets in none."""

import os
import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prepared import mapped_ranges

from workflows.data.places import Place, place, speaking, without_secrets
from workflows.errors import DataError


def test_a_path_is_shown_as_the_user_wrote_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = place("data/set")
    assert here.name == "data/set"
    assert here.path == str(tmp_path / "data/set")
    assert here.local
    assert here.child("manifest.json").name == "data/set/manifest.json"
    assert here.child("manifest.json").path == str(tmp_path / "data/set/manifest.json")
    assert here.base_name == "set"


def test_a_home_folder_is_meant_by_a_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert place("~/data").path == str(tmp_path / "data")


def test_the_home_of_an_unknown_user_is_a_message():
    with pytest.raises(DataError, match="nosuchuser"):
        place("~nosuchuser/data")


def test_a_file_uri_is_a_local_place(tmp_path):
    there = place(f"file://{tmp_path}/x")
    assert there.local
    assert there.path == str(tmp_path / "x")


def test_a_place_is_taken_as_it_is(tmp_path):
    there = place(tmp_path)
    assert place(there) is there


def test_a_written_file_is_read_back(tmp_path):
    there = place(tmp_path / "file")
    assert not there.exists()
    there.write(b"some bytes")
    assert there.exists()
    assert there.is_file()
    assert not there.is_folder()
    assert there.size() == 10
    assert there.buffer().to_pybytes() == b"some bytes"
    with there.reader() as stream:
        assert stream.read() == b"some bytes"
    there.remove()
    assert not there.exists()
    there.remove()


def test_a_local_file_is_mapped_not_read(tmp_path):
    there = place(tmp_path / "file")
    there.write(bytes(10_000))
    buffer = there.buffer()
    [(begin, end)] = mapped_ranges(tmp_path / "file")
    assert begin <= buffer.address
    assert buffer.address + buffer.size <= end


def test_mapped_memory_is_let_go_with_the_buffer(tmp_path):
    there = place(tmp_path / "file")
    there.write(bytes(10_000))
    buffer = there.buffer()
    del buffer
    assert mapped_ranges(tmp_path / "file") == []


def test_an_empty_file_has_an_empty_buffer(tmp_path):
    (tmp_path / "file").touch()
    assert place(tmp_path / "file").buffer().size == 0


def test_folders_are_made_with_their_parents_and_removed_with_what_they_hold(tmp_path):
    folder = place(tmp_path / "a" / "b")
    folder.make_folder()
    folder.child("x").write(b"1")
    assert folder.is_folder()
    place(tmp_path / "a").remove()
    assert list(tmp_path.iterdir()) == []


def test_files_are_listed_sorted_without_hidden_and_unfinished_ones(tmp_path):
    for name in ("b", "a", "sub/c", ".hidden", "_SUCCESS", "_temporary/part", "sub/.hidden", ".git/config"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [file.path for file in place(tmp_path).files()] == [str(tmp_path / name) for name in ("a", "b", "sub/c")]


def test_a_place_survives_pickling(tmp_path):
    there = pickle.loads(pickle.dumps(place(tmp_path / "file")))
    there.write(b"x")
    assert isinstance(there, Place)
    assert (tmp_path / "file").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://bucket/path", "s3://bucket/path"),
        ("s3://KEY:SECRET@bucket/path?region=eu", "s3://***@bucket/path?region=eu"),
        ("s3://KEY:SEC%2FRET@bucket", "s3://***@bucket"),
        ("gs://bucket/x?access_token=SECRET&retry=3", "gs://bucket/x?access_token=***&retry=3"),
        ("abfs://c@account/x?account_key=SECRET", "abfs://***@account/x?account_key=***"),
        ("hdfs://user:SECRET@host/x?Password=SECRET", "hdfs://***@host/x?Password=***"),
    ],
)
def test_a_uri_is_shown_without_its_secrets(uri, shown):
    assert without_secrets(uri) == shown


@given(secret=st.text(st.sampled_from("abcXYZ0129+-._~%=/@:"), min_size=4, max_size=30))
def test_no_letter_of_a_secret_is_shown_whatever_is_in_it(secret):
    assert secret not in without_secrets(f"s3://KEY:{secret}@bucket/path?region=eu")
    assert without_secrets(f"s3://KEY:{secret}@bucket/path").endswith("***@bucket/path")


@pytest.mark.parametrize(
    "uri",
    [
        "s3://KEY:SECRET@bu cket/x",
        "s3://KEY:SECRET@bucket/x?unknown=1",
        "nosuch://KEY:SECRET@bucket/x",
        "s3://KEY:SECRET@bucket/x?secret_key=SECRET",
        "s3://KEY:SEC/SECRET@bucket/x",
        "s3://KEY:SEC@SECRET@bucket/x",
    ],
)
def test_a_uri_that_cannot_be_used_is_refused_without_its_secrets(uri):
    with pytest.raises(DataError, match="cannot use") as refused:
        place(uri)
    assert "SECRET" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_children_of_a_uri_keep_its_options(tmp_path):
    there = Place(place(tmp_path).filesystem, "bucket/set", "s3://bucket/set?region=eu")
    assert there.child("a").name == "s3://bucket/set/a?region=eu"
    assert there.child("a").path == "bucket/set/a"


@pytest.mark.parametrize(
    ("work", "named"),
    [
        (lambda there: there.child("gone").buffer(), "cannot read"),
        (lambda there: there.child("gone").reader(), "cannot read"),
        (lambda there: there.child("gone").child("x").write(b""), "cannot write"),
        (lambda there: there.buffer(), "cannot read"),
        (lambda there: there.child("gone").files(), "cannot list"),
    ],
)
def test_a_failure_is_one_line_that_names_the_place(tmp_path, work, named):
    with pytest.raises(DataError, match=named) as failed:
        work(place(tmp_path))
    assert str(tmp_path) in str(failed.value)
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize(
    ("error", "reason", "advice"),
    [
        (OSError(28, "x"), "No space left on device", "free some space"),
        (OSError(122, "x"), "Disk quota exceeded", "quota"),
        (PermissionError(13, "x"), "Permission denied", "choose another folder"),
        (OSError(30, "x"), "Read-only file system", "choose another folder"),
        (OSError("two\n lines"), "two lines", ""),
        (pa.ArrowInvalid("broken"), "broken", ""),
    ],
)
def test_failures_say_what_why_and_what_helps(error, reason, advice):
    with pytest.raises(DataError, match="cannot write x: ") as failed, speaking("cannot write x"):
        raise error
    assert reason in str(failed.value)
    assert advice in str(failed.value)


def test_other_errors_pass(tmp_path):
    with pytest.raises(ZeroDivisionError), speaking("cannot"):
        _ = 1 / 0


def test_a_name_need_not_be_utf8(tmp_path):
    os.mkdir(os.fsencode(tmp_path) + b"/\xff")
    folder = place(tmp_path / os.fsdecode(b"\xff"))
    with pytest.raises(DataError, match="cannot"):
        folder.child("gone").buffer()
