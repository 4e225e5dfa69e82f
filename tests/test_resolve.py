"""DATA of a command: a prepared folder as it is; anything else prepared once, and again when it has changed."""

import os

import numpy as np
import pytest
from prepared import class_blocks, entries, gathered, multiset, prepared, write_csv, write_libsvm, write_parquet

from workflows.data.known import KNOWN
from workflows.data.resolve import open_data
from workflows.errors import DataError


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def opened(home):
    """Opens data and tells how often something was prepared."""

    def open_(name, **options):
        stages = []
        data = open_data(str(name), home, lambda stage, done, total: stages.append(stage), **({"rows": 300} | options))
        return data, "writing partitions" in stages

    return open_


def test_a_prepared_folder_is_opened_where_it_is(tmp_path, home, opened):
    prepared(tmp_path / "out", rows=200)
    data, made = opened(tmp_path / "out")
    assert data.manifest.rows == 200
    assert not made
    assert not home.exists()


@pytest.mark.parametrize(
    ("name", "write"), [("in.csv", write_csv), ("in.svm", write_libsvm), ("in.parquet", write_parquet)]
)
def test_a_file_is_prepared_once(tmp_path, home, opened, name, write):
    matrix, labels = class_blocks(1)
    source = write(tmp_path / name, matrix, labels)
    first, made = opened(source)
    assert made
    assert multiset(*gathered(first)) == multiset(matrix, labels)
    second, made = opened(source)
    assert not made
    assert second.folder.path == first.folder.path
    assert second.manifest == first.manifest
    assert len(entries(home / "data")) == 1


def test_a_changed_file_is_prepared_again(tmp_path, opened):
    source = write_csv(tmp_path / "in.csv", *class_blocks(1))
    assert opened(source)[1]
    matrix, labels = class_blocks(2, rows=90)
    write_csv(tmp_path / "in.csv", matrix, labels)
    data, made = opened(source)
    assert made
    assert multiset(*gathered(data)) == multiset(matrix, labels)


def test_a_file_of_the_same_size_but_another_time_is_prepared_again(tmp_path, opened):
    source = write_csv(tmp_path / "in.csv", *class_blocks(1))
    before = os.stat(source)
    assert opened(source)[1]
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000))
    assert opened(source)[1]


def test_files_of_the_same_name_in_other_folders_are_not_mixed_up(tmp_path, opened):
    matrix, labels = class_blocks(1)
    turned = np.c_[matrix[:, :-1], matrix[::-1, -1]]
    sizes = set()
    for number, rows in enumerate((matrix, turned)):
        (tmp_path / str(number)).mkdir()
        source = write_csv(tmp_path / str(number) / "in.csv", rows, labels)
        os.utime(source, ns=(0, 0))
        sizes.add(os.stat(source).st_size)
        data, made = opened(source)
        assert made
        assert multiset(*gathered(data)) == multiset(rows, labels)
    assert len(sizes) == 1


def test_another_label_column_is_another_data_set(tmp_path, opened):
    matrix, labels = class_blocks(1, rows=80)
    matrix[:, 0] = labels > 0
    matrix[::3, 0] = 1 - matrix[::3, 0]
    source = write_csv(tmp_path / "in.csv", matrix, labels, names=["other", "a", "b", "c"])
    assert opened(source)[0].labels == (-1, 1)
    data, made = opened(source, label="other")
    assert made
    assert data.labels == (0, 1)
    assert data.manifest.features == ["a", "b", "c", "label"]


def test_a_folder_of_parquet_files_is_prepared_and_again_when_one_is_added(tmp_path, opened):
    (tmp_path / "in").mkdir()
    write_parquet(tmp_path / "in" / "a.parquet", *class_blocks(1))
    data, made = opened(tmp_path / "in")
    assert made
    assert data.manifest.rows == 120
    assert not opened(tmp_path / "in")[1]
    write_parquet(tmp_path / "in" / "b.parquet", *class_blocks(2))
    data, made = opened(tmp_path / "in")
    assert made
    assert data.manifest.rows == 240


def test_the_demo_is_prepared_once_per_size(opened):
    assert opened("demo")[1]
    assert not opened("demo")[1]
    data, made = opened("demo", rows=400)
    assert made
    assert data.manifest.rows == 400


def test_an_unknown_name_is_refused_with_advice(opened, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"nonsense does not exist; 'demo' .*mmbsgd data list"):
        opened("nonsense")
    assert entries(tmp_path) == []


def test_a_known_set_that_is_not_here_says_how_to_get_it(opened, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in KNOWN:
        with pytest.raises(DataError, match=f"not here yet: get it with 'mmbsgd data get {name}'"):
            opened(name)


def test_a_known_set_is_opened_by_its_name(opened, home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepared(home / "data" / "adult", rows=200)
    data, made = opened("adult")
    assert data.manifest.rows == 200
    assert not made


def test_a_file_that_cannot_be_prepared_leaves_nothing_in_the_home(tmp_path, home, opened):
    (tmp_path / "in.svm").write_text("+1 1:x\n")
    with pytest.raises(DataError, match=r"in\.svm, line 1"):
        opened(tmp_path / "in.svm")
    assert entries(home / "data") == []


def test_a_damaged_prepared_folder_is_not_prepared_over(tmp_path, opened):
    prepared(tmp_path / "out")
    (tmp_path / "out" / "manifest.json").write_text("{")
    with pytest.raises(DataError, match=r"manifest\.json is damaged"):
        opened(tmp_path / "out")
