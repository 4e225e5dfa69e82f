"""The manifest: says what a prepared folder holds, comes back as it was written, and is refused when it was changed."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prepared import class_blocks, prepared, write_csv
from pydantic import ValidationError

from workflows.data import PreparedData
from workflows.data.manifest import FILE, FORMAT, VERSION, Manifest, PartitionRecord, ScalingRecord, SourceRecord
from workflows.data.places import place
from workflows.errors import DataError

UNREAD = {"sources", "mmbsgd", "splits"}
"""Where the rows came from and who prepared them say nothing about the rows; `splits` is for people."""


def manifest_of(labels=(-1, 1), width=3, **options):
    options = {
        "sources": [SourceRecord(name="in.csv", kind="csv", bytes=100)],
        "seed": 3,
        "layout": "dense",
        "rows": 10,
        "width": width,
        "density": 0.5,
        "features": [f"f{column}" for column in range(width)],
        "labels": labels,
        "scaling": ScalingRecord(method="standard", shift=[0.1] * width, factor=[3.0] * width),
        "partitions": [
            PartitionRecord(file="a.arrow", split="train", rows=6, counts=(4, 2), bytes=90, fingerprint="xxh3:1"),
            PartitionRecord(file="b.arrow", split="test", rows=4, counts=(1, 3), bytes=70, fingerprint="xxh3:2"),
        ],
        **options,
    }
    return Manifest(**options)


@pytest.fixture
def folder(tmp_path):
    manifest_of().save(place(tmp_path))
    return tmp_path


def content_of(folder):
    return json.loads((folder / FILE).read_text())


def rewritten(folder, content):
    (folder / FILE).write_text(json.dumps(content))


def refused(folder, match):
    with pytest.raises(DataError, match=match) as error:
        Manifest.load(place(folder))
    assert "\n" not in str(error.value)
    return str(error.value)


@given(
    labels=st.sampled_from([(-1, 1), (False, True), (0.5, 1.5), ("no", "yes"), (1, "x"), (1, 2.5), ("ä", "𝄞")]),
    numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3),
    density=st.floats(0, 1),
    seed=st.integers(0, 2**70),
    features=st.none() | st.lists(st.text(' aÄ𝄞"\\\n', max_size=9), min_size=3, max_size=3),
)
def test_saved_then_loaded_is_the_same(tmp_path_factory, labels, numbers, density, seed, features):
    folder = place(tmp_path_factory.mktemp("folder"))
    scaling = ScalingRecord(method="minmax", shift=numbers, factor=numbers[::-1])
    manifest = manifest_of(labels, scaling=scaling, density=density, seed=seed, features=features)
    manifest.save(folder)
    loaded = Manifest.load(folder)
    assert loaded == manifest
    assert loaded.fingerprint == manifest.fingerprint
    assert [type(label) for label in loaded.labels] == [type(label) for label in labels]


def test_the_file_says_what_a_user_asks(tmp_path):
    matrix, labels = class_blocks(0, rows=100, density=0.9)
    source = write_csv(tmp_path / "in.csv", matrix, labels)
    data = prepared(tmp_path / "out", source, scale="standard", rows_per_partition=30, seed=4)
    content = content_of(tmp_path / "out")
    assert content["format"] == FORMAT
    assert content["version"] == VERSION
    assert content["rows"] == 100
    assert content["width"] == 4
    assert content["density"] == np.count_nonzero(matrix) / matrix.size
    assert content["features"] == ["f0", "f1", "f2", "f3"]
    assert content["labels"] == [-1, 1]
    assert content["layout"] == "dense"
    assert content["seed"] == 4
    assert content["scaling"]["method"] == "standard"
    assert len(content["scaling"]["shift"]) == len(content["scaling"]["factor"]) == 4
    assert content["sources"] == [
        {"name": source, "kind": "csv", "bytes": (tmp_path / "in.csv").stat().st_size},
    ]
    assert content["splits"] == {
        "train": {"rows": 64, "counts": [38, 26]},
        "validation": {"rows": 16, "counts": [10, 6]},
        "test": {"rows": 20, "counts": [12, 8]},
    }
    assert sum(part["rows"] for part in content["partitions"]) == 100
    for part in content["partitions"]:
        file = tmp_path / "out" / part["file"]
        assert part["bytes"] == file.stat().st_size
        assert part["fingerprint"].startswith("xxh3:")
        assert part["split"] in content["splits"]
    assert content["fingerprint"] == data.manifest.fingerprint


def test_splits_and_counts_follow_the_partitions():
    manifest = manifest_of()
    assert list(manifest.splits) == ["train", "test"]
    assert [record.file for record in manifest.splits["test"]] == ["b.arrow"]
    assert manifest.counts() == (5, 5)
    assert manifest.counts("test") == (1, 3)
    assert manifest.counts("train", "test") == (5, 5)


def test_the_fingerprint_is_of_the_rows_not_of_where_they_came_from():
    plain = manifest_of()
    moved = manifest_of(sources=[SourceRecord(name="elsewhere", kind="csv", bytes=1)], mmbsgd="9")
    assert moved.fingerprint == plain.fingerprint
    assert manifest_of(labels=(0, 1)).fingerprint != plain.fingerprint
    assert manifest_of(scaling=ScalingRecord(method="none")).fingerprint != plain.fingerprint


def leaves(content, path=()):
    if isinstance(content, dict):
        for key, value in content.items():
            yield from leaves(value, (*path, key))
    elif isinstance(content, list):
        for position, value in enumerate(content):
            yield from leaves(value, (*path, position))
    else:
        yield path, content


def at(content, path):
    for part in path:
        content = content[part]
    return content


def other(value):
    if isinstance(value, str):
        return value + "x"
    return value + 1


def test_every_edited_number_and_word_is_noticed(folder):
    content = content_of(folder)
    edited = 0
    for path, value in list(leaves(content)):
        if path[0] in UNREAD:
            continue
        at(content, path[:-1])[path[-1]] = other(value)
        rewritten(folder, content)
        refused(folder, "manifest.json|newer mmbsgd")
        at(content, path[:-1])[path[-1]] = value
        edited += 1
    assert edited > 20
    rewritten(folder, content)
    Manifest.load(place(folder))


@pytest.mark.parametrize("kind", [None, True, -1, 1.5, "text", [], {}, [[1]], 10**400])
def test_values_of_any_other_kind_are_refused_or_mean_the_same(folder, kind):
    content = content_of(folder)
    fingerprint = content["fingerprint"]
    for path, value in [*leaves(content), *(((key,), value) for key, value in content.items())]:
        at(content, path[:-1])[path[-1]] = kind
        rewritten(folder, content)
        at(content, path[:-1])[path[-1]] = value
        try:
            loaded = Manifest.load(place(folder))
        except DataError:
            continue
        assert loaded.fingerprint == fingerprint


def test_missing_fields_are_named(folder):
    for key in ("seed", "layout", "rows", "width", "density", "features", "labels", "scaling", "partitions"):
        content = content_of(folder)
        del content[key]
        (folder / "other").mkdir(exist_ok=True)
        rewritten(folder / "other", content)
        assert key in refused(folder / "other", "damaged")
    content = content_of(folder)
    del content["partitions"][1]["fingerprint"]
    rewritten(folder, content)
    refused(folder, r"partitions\.1\.fingerprint")


def test_fields_of_a_later_minor_version_do_no_harm(folder):
    content = content_of(folder)
    content["comment"] = "from the future"
    content["partitions"][0]["sorted"] = True
    rewritten(folder, content)
    assert Manifest.load(place(folder)) == manifest_of()


@pytest.mark.parametrize("version", [VERSION + 1, 99])
def test_a_newer_version_is_refused_with_advice(folder, version):
    rewritten(folder, content_of(folder) | {"version": version, "mmbsgd": "7.0"})
    assert "7.0" in refused(folder, "upgrade mmbsgd, or prepare the data again")


@given(data=st.data())
def test_a_cut_or_flipped_file_is_refused_or_means_the_same(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("folder")
    manifest_of().save(place(folder))
    content = bytearray((folder / FILE).read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = data.draw(st.just(len(content)) | st.integers(0, len(content)))
    (folder / FILE).write_bytes(content[:cut])
    try:
        loaded = Manifest.load(place(folder))
    except DataError:
        return
    assert loaded.fingerprint == manifest_of().fingerprint


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "3", '"mmbsgd.data"', "{}", '{"format": "other"}', "\x00"])
def test_json_of_another_kind_is_refused(tmp_path, content):
    (tmp_path / FILE).write_text(content)
    refused(tmp_path, r"manifest\.json is (damaged|not the manifest)")


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / FILE).write_bytes(b"\xff\xfe\x00\x80" * 10)
    refused(tmp_path, "damaged")


@pytest.mark.parametrize(
    "content",
    [
        "[" * 100_000,
        '{"format": "mmbsgd.data", "version": 1' + "0" * 5000 + "}",
        '{"format": "mmbsgd.data", "version": NaN}',
    ],
)
def test_json_that_means_harm_is_refused(tmp_path, content):
    (tmp_path / FILE).write_text(content)
    refused(tmp_path, ".")


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "..",
        ".",
        "",
        "/etc/passwd",
        "a/b",
        "a\\b",
        ".hidden",
        "a\n",
        "a\x00",
        "s3://bucket/x",
        "~",
        "a?b",
        "C:x",
    ],
)
def test_file_names_that_leave_the_folder_are_refused(folder, name):
    content = content_of(folder)
    content["partitions"][0]["file"] = name
    rewritten(folder, content)
    refused(folder, r"partitions\.0\.file")
    with pytest.raises(ValidationError):
        PartitionRecord(file=name, split="train", rows=6, counts=(4, 2), bytes=90, fingerprint="xxh3:1")


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 11},
        {"labels": (1, 1)},
        {"features": ["a"]},
        {"scaling": ScalingRecord(method="minmax", shift=[1.0], factor=[1.0] * 3)},
        {"partitions": []},
    ],
)
def test_a_manifest_that_does_not_add_up_cannot_be_made(change):
    with pytest.raises(ValidationError):
        manifest_of(**change)


@pytest.mark.parametrize("counts", [(0, 0), (40, 2), (-1, 7)])
def test_counts_that_do_not_add_up_to_the_rows_cannot_be_made(counts):
    with pytest.raises(ValidationError):
        PartitionRecord(file="a.arrow", split="train", rows=6, counts=counts, bytes=90, fingerprint="xxh3:1")


def test_a_folder_without_a_manifest_is_not_a_data_set(tmp_path):
    with pytest.raises(DataError, match=r"not a prepared data set: .*mmbsgd prepare"):
        PreparedData.open(tmp_path)
    with pytest.raises(DataError, match="gone does not exist"):
        PreparedData.open(tmp_path / "gone")
