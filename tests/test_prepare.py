"""Preparing: every row of the source lands in one split, shuffled and stratified, the same for the same seed."""

from collections import Counter
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prepared import (
    WRITERS,
    class_blocks,
    entries,
    fingerprints,
    gathered,
    multiset,
    prepared,
    unchanged,
    write_csv,
    write_libsvm,
    write_parquet,
)
from scipy.stats import chisquare

from workflows.data import Request, prepare, text
from workflows.data.demo import checkerboard
from workflows.errors import DataError


@pytest.fixture
def small_chunks(monkeypatch):
    """Text files come in chunks of a few rows."""
    monkeypatch.setattr(text, "chunks", partial(text.chunks, size=600))


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("density", [1.0, 0.2])
def test_every_row_appears_exactly_once(tmp_path, small_chunks, kind, density):
    matrix, labels = class_blocks(1, rows=200, width=6, density=density)
    matrix[:, -1] = np.arange(200) // 2  # some rows are alike, and one column has zeros
    matrix[100:104] = matrix[100]
    source = WRITERS[kind](tmp_path / f"in.{kind}", matrix, labels)
    data = prepared(tmp_path / "out", source, rows_per_partition=23)
    assert data.manifest.rows == 200
    assert multiset(*gathered(data)) == multiset(matrix, labels)
    assert data.manifest.density == pytest.approx(np.count_nonzero(matrix) / matrix.size)
    assert data.manifest.width == 6


def test_every_row_of_the_demo_appears_exactly_once(tmp_path):
    data = prepared(tmp_path / "out", rows=700, seed=5)
    expected = checkerboard(700, np.random.SeedSequence([5, 0]))
    assert multiset(*gathered(data)) == multiset(*expected)


def test_a_compressed_file_gives_the_same_partitions(tmp_path):
    import bz2

    source = write_libsvm(tmp_path / "in", *class_blocks(2))
    (tmp_path / "in.bz2").write_bytes(bz2.compress((tmp_path / "in").read_bytes()))
    plain, compressed = (prepared(tmp_path / f"out{end}", source + end).manifest for end in ("", ".bz2"))
    assert fingerprints(plain) == fingerprints(compressed)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_in_class_blocks_gives_partitions_of_both_classes_in_the_overall_share(tmp_path, small_chunks, kind):
    source = WRITERS[kind](tmp_path / f"in.{kind}", *class_blocks(3, rows=400, share=0.3))
    data = prepared(tmp_path / "out", source, rows_per_partition=25)
    assert len(data.manifest.partitions) >= 16
    for record in data.manifest.partitions:
        codes = data.partition(record).codes
        assert tuple(np.bincount(codes, minlength=2)) == record.counts
        assert min(record.counts) > 0
        assert abs(record.counts[1] - 0.3 * record.rows) <= 2
    for split, size in (("train", 256), ("validation", 64), ("test", 80)):
        assert sum(data.manifest.counts(split)) == size
        assert abs(data.manifest.counts(split)[1] - 0.3 * size) <= 1


def test_rows_within_a_partition_are_shuffled(tmp_path):
    source = write_libsvm(tmp_path / "in", *class_blocks(4, rows=600, width=1, share=0.5))
    data = prepared(tmp_path / "out", source, test_size=0.1, validation_size=0.1)
    rows, labels = gathered(data, "train")
    numbers, signs = rows[:, 0], labels.astype(float)
    limit = 4 / np.sqrt(len(rows))
    place = np.arange(len(rows))
    assert abs(np.corrcoef(numbers, place)[0, 1]) < limit
    assert abs(np.corrcoef(signs[1:], signs[:-1])[0, 1]) < limit
    within = numbers[signs > 0]
    assert abs(np.corrcoef(within, np.arange(len(within)))[0, 1]) < 4 / np.sqrt(len(within))


def test_where_a_row_lands_is_uniformly_random(tmp_path):
    """24 rows of one class and 12 of the other, 100 seeds: every row is equally often at every place."""
    matrix, labels = class_blocks(5, rows=36, width=1, share=1 / 3)
    source = write_parquet(tmp_path / "in.parquet", matrix, labels, row_group_size=10)
    repeats = 100
    landed = np.zeros((36, 3))
    halves = np.zeros((36, 2))
    for seed in range(repeats):
        data = prepared(tmp_path / f"out{seed}", source, seed=seed, workers=1, test_size=9, validation_size=9)
        for number, split in enumerate(("train", "validation", "test")):
            rows = gathered(data, split)[0][:, 0].astype(int) - 1
            landed[rows, number] += 1
            if split == "train":
                halves[rows[:9], 0] += 1
                halves[rows[9:], 1] += 1
    assert np.all(landed.sum(axis=1) == repeats)
    for table in (landed, halves):
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
        degrees = (table.shape[0] - 1) * (table.shape[1] - 1)
        fit = chisquare(table.ravel(), expected.ravel(), ddof=table.size - 1 - degrees)
        assert 1e-4 < fit.pvalue < 1 - 1e-4


@pytest.mark.parametrize("kind", [*WRITERS, "demo"])
@pytest.mark.parametrize("scale", ["none", "standard"])
def test_the_same_seed_gives_the_same_partitions_whatever_the_number_of_workers(tmp_path, small_chunks, kind, scale):
    source = "demo"
    if kind != "demo":
        matrix, labels = class_blocks(6, rows=150, density=0.5)
        options = {"row_group_size": 13} if kind == "parquet" else {}
        source = WRITERS[kind](tmp_path / f"in.{kind}", matrix, labels, **options)
    options = {"rows": 300, "rows_per_partition": 20, "scale": scale}
    made = [
        prepared(tmp_path / f"out{number}", source, workers=workers, seed=9, **options).manifest
        for number, workers in enumerate((1, 2, 7))
    ]
    assert fingerprints(made[0]) == fingerprints(made[1]) == fingerprints(made[2])
    assert len({manifest.fingerprint for manifest in made}) == 1
    other = prepared(tmp_path / "other", source, seed=10, **options).manifest
    assert not set(fingerprints(other)) & set(fingerprints(made[0]))
    assert other.fingerprint != made[0].fingerprint


def test_files_are_named_by_split_and_number_and_nothing_else_is_there(tmp_path):
    data = prepared(tmp_path / "out", rows=100, rows_per_partition=40)
    assert entries(tmp_path / "out") == sorted(["manifest.json", *(part.file for part in data.manifest.partitions)])
    assert entries(tmp_path) == ["out"]


def test_rows_per_partition_are_respected(tmp_path):
    data = prepared(tmp_path / "out", rows=1000, rows_per_partition=150)
    for records in data.manifest.splits.values():
        rows = [record.rows for record in records]
        assert max(rows) <= 150
        assert max(rows) - min(rows) <= 1
        assert len(records) == -(-sum(rows) // 150)
        for record in records:
            assert len(data.partition(record)) == record.rows


def test_one_row_per_partition_is_possible(tmp_path):
    data = prepared(tmp_path / "out", rows=40, rows_per_partition=1)
    assert len(data.manifest.partitions) == 40
    assert len(gathered(data)[0]) == 40


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, {"train": 64, "validation": 16, "test": 20}),
        ({"test_size": 0.5, "validation_size": 0.5}, {"train": 25, "validation": 25, "test": 50}),
        ({"test_size": 10, "validation_size": 30}, {"train": 60, "validation": 30, "test": 10}),
        ({"test_size": 0}, {"train": 80, "validation": 20}),
        ({"validation_size": 0}, {"train": 80, "test": 20}),
        ({"test_size": 0, "validation_size": 0}, {"train": 100}),
        ({"folds": 4}, {"fold-0": 20, "fold-1": 20, "fold-2": 20, "fold-3": 20, "test": 20}),
        ({"folds": 3, "test_size": 0}, {"fold-0": 33, "fold-1": 33, "fold-2": 34}),
        ({"folds": 3, "test_size": 20, "validation_size": 0.9}, {"fold-0": 26, "fold-1": 27, "fold-2": 27, "test": 20}),
    ],
)
def test_splits_have_the_sizes_asked_for(tmp_path, options, sizes):
    manifest = prepared(tmp_path / "out", rows=100, **options).manifest
    assert {split: sum(manifest.counts(split)) for split in manifest.splits} == sizes


def test_folds_are_parts_of_all_rows_with_both_classes(tmp_path):
    matrix, labels = class_blocks(7, rows=120)
    data = prepared(tmp_path / "out", write_csv(tmp_path / "in.csv", matrix, labels), folds=5)
    assert [split for split in data.manifest.splits if split.startswith("fold")] == [f"fold-{k}" for k in range(5)]
    for fold in range(5):
        assert abs(data.manifest.counts(f"fold-{fold}")[1] - 0.4 * sum(data.manifest.counts(f"fold-{fold}"))) <= 1
    assert multiset(*gathered(data)) == multiset(matrix, labels)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_separate_test_file_is_the_test_split(tmp_path, kind):
    train, test = class_blocks(8, rows=80), class_blocks(9, rows=50, share=0.2)
    source = WRITERS[kind](tmp_path / f"in.{kind}", *train)
    held = WRITERS[kind](tmp_path / f"test.{kind}", *test)
    data = prepared(tmp_path / "out", source, test=held, rows_per_partition=17)
    assert multiset(*gathered(data, "test")) == multiset(*test)
    assert multiset(*gathered(data, "train", "validation")) == multiset(*train)
    assert data.manifest.counts("test") == (40, 10)
    assert [source_.name for source_ in data.manifest.sources] == [source, held]


def test_a_test_file_may_show_one_class_only(tmp_path):
    source = write_csv(tmp_path / "in.csv", *class_blocks(8, rows=80))
    matrix, _ = class_blocks(9, rows=10)
    data = prepared(tmp_path / "out", source, test=write_csv(tmp_path / "test.csv", matrix, np.ones(10, int)))
    assert data.manifest.counts("test") == (0, 10)


def test_a_test_file_may_have_its_columns_in_another_order(tmp_path):
    train, (matrix, labels) = class_blocks(8, rows=80), class_blocks(9, rows=50)
    source = write_csv(tmp_path / "in.csv", *train, names=["a", "b", "c", "d"])
    held = write_csv(tmp_path / "test.csv", matrix[:, [2, 0, 3, 1]], labels, names=["c", "a", "d", "b"])
    data = prepared(tmp_path / "out", source, test=held)
    assert multiset(*gathered(data, "test")) == multiset(matrix, labels)
    assert data.manifest.features == ["a", "b", "c", "d"]


def test_a_narrower_libsvm_test_file_is_widened(tmp_path):
    train, (matrix, labels) = class_blocks(8, rows=80, width=6), class_blocks(9, rows=50, width=4)
    source, held = write_libsvm(tmp_path / "in", *train), write_libsvm(tmp_path / "test", matrix, labels)
    for layout in ("dense", "sparse"):
        data = prepared(tmp_path / layout, source, test=held, layout=layout)
        assert data.manifest.width == 6
        assert multiset(*gathered(data, "test")) == multiset(np.pad(matrix, ((0, 0), (0, 2))), labels)


def test_a_wider_libsvm_test_file_needs_a_word(tmp_path):
    source = write_libsvm(tmp_path / "in", *class_blocks(8, rows=80, width=4))
    held = write_libsvm(tmp_path / "test", *class_blocks(9, rows=50, width=6))
    with unchanged(tmp_path), pytest.raises(DataError, match=r"6 features, .* only 4: .*--width 6"):
        prepared(tmp_path / "out", source, test=held)
    assert prepared(tmp_path / "out", source, test=held, width=6).manifest.width == 6


def test_a_width_beyond_what_the_file_shows_adds_features_without_values(tmp_path):
    matrix, labels = class_blocks(8, rows=80, width=4)
    data = prepared(tmp_path / "out", write_libsvm(tmp_path / "in", matrix, labels), width=9, layout="dense")
    assert data.manifest.width == 9
    assert multiset(*gathered(data)) == multiset(np.pad(matrix, ((0, 0), (0, 5))), labels)


def test_a_width_beyond_the_columns_of_a_table_is_refused(tmp_path):
    source = write_csv(tmp_path / "in.csv", *class_blocks(8, rows=80, width=4))
    with pytest.raises(DataError, match="width"):
        prepared(tmp_path / "out", source, width=9)


@pytest.mark.parametrize("labels", [("a", "b", "c"), (1, 2, 3), (-1, 0, 1), (0.5, 1.5, 2.5)])
def test_two_of_three_classes_can_be_picked_in_the_order_wanted(tmp_path, labels):
    matrix, _ = class_blocks(10, rows=90)
    marks = np.asarray(labels)[np.arange(90) // 30]
    source = write_csv(tmp_path / "in.csv", matrix, marks)
    with pytest.raises(DataError, match="more than two classes") as refused:
        prepared(tmp_path / "out", source)
    assert all(repr(label) in str(refused.value) for label in labels)
    assert f"--classes {labels[0]},{labels[1]}" in str(refused.value)
    for number, pair in enumerate([(labels[0], labels[2]), (labels[2], labels[0])]):
        data = prepared(tmp_path / f"out{number}", source, classes=tuple(str(label) for label in pair))
        assert data.labels == pair
        kept = np.isin(marks, pair)
        assert multiset(*gathered(data)) == multiset(matrix[kept], marks[kept])
        assert data.manifest.counts() == (30, 30)


def test_the_order_of_labels_decides_which_class_is_positive(tmp_path):
    matrix, labels = class_blocks(10, rows=60)
    source = write_csv(tmp_path / "in.csv", matrix, np.where(labels > 0, "good", "bad"))
    assert prepared(tmp_path / "plain", source).labels == ("bad", "good")
    assert prepared(tmp_path / "same", source, classes=("bad", "good")).labels == ("bad", "good")
    turned = prepared(tmp_path / "turned", source, classes=("good", "bad"))
    assert turned.labels == ("good", "bad")
    assert turned.manifest.counts() == (24, 36)
    assert multiset(*gathered(turned)) == multiset(matrix, np.where(labels > 0, "good", "bad"))


def test_labels_that_are_truth_values_can_be_ordered(tmp_path):
    matrix, labels = class_blocks(10, rows=60)
    source = write_parquet(tmp_path / "in.parquet", matrix, labels > 0)
    assert prepared(tmp_path / "plain", source).labels == (False, True)
    assert prepared(tmp_path / "turned", source, classes=("True", "False")).labels == (True, False)


def test_labels_keep_their_kind(tmp_path):
    matrix, labels = class_blocks(11, rows=60)
    for number, marks in enumerate([labels > 0, labels.astype(float) / 2, np.where(labels > 0, "y", "n"), labels]):
        data = prepared(tmp_path / f"out{number}", write_parquet(tmp_path / "in.parquet", matrix, marks))
        expected = tuple(np.unique(marks).tolist())
        assert data.labels == expected
        assert [type(label) for label in data.labels] == [type(label) for label in expected]
        assert multiset(*gathered(data)) == multiset(matrix, marks)


def test_density_decides_the_layout_and_can_be_overruled(tmp_path):
    for density, layout in ((0.9, "dense"), (0.1, "sparse")):
        source = write_libsvm(tmp_path / "in", *class_blocks(12, rows=100, width=20, density=density))
        assert prepared(tmp_path / f"{layout}-auto", source).manifest.layout == layout
        for forced in ("dense", "sparse"):
            assert prepared(tmp_path / f"{layout}-{forced}", source, layout=forced).manifest.layout == forced


@pytest.mark.parametrize("scale", ["none", "unit"])
@pytest.mark.parametrize("density", [0.15, 0.6, 1.0])
def test_dense_and_sparse_layouts_hold_the_same_rows_in_the_same_order(tmp_path, scale, density):
    source = write_libsvm(tmp_path / "in", *class_blocks(13, rows=100, width=10, density=density))
    both = [
        prepared(tmp_path / layout, source, layout=layout, rows_per_partition=30, scale=scale)
        for layout in ("dense", "sparse")
    ]
    rows, labels = zip(*(gathered(data) for data in both), strict=True)
    assert labels[0].tolist() == labels[1].tolist()
    if scale == "none":
        assert np.array_equal(rows[0], rows[1])
    else:
        np.testing.assert_allclose(rows[0], rows[1], rtol=1e-6)
    assert both[0].manifest.density == both[1].manifest.density


def test_columns_are_dropped_and_the_label_found_by_name(tmp_path):
    matrix, labels = class_blocks(14, rows=60)
    source = write_csv(tmp_path / "in.csv", matrix, labels, names=["id", "x", "y", "z"], label="target")
    data = prepared(tmp_path / "out", source, label="target", dropped=("id", "z"))
    assert data.manifest.features == ["x", "y"]
    assert multiset(*gathered(data)) == multiset(matrix[:, [1, 2]], labels)


def test_progress_goes_from_reading_to_writing_and_never_back(tmp_path):
    seen = []
    source = write_csv(tmp_path / "in.csv", *class_blocks(15, rows=100))
    request = Request(source, str(tmp_path / "out"), rows_per_partition=10, scale="minmax", workers=2)
    prepare(request, lambda *report: seen.append(report))
    stages = list(dict.fromkeys(stage for stage, _, _ in seen))
    assert stages == [f"reading {source}", "learning the scaling", "writing partitions"]
    for stage in stages:
        done = [number for name, number, _ in seen if name == stage]
        totals = {total for name, _, total in seen if name == stage}
        assert done == sorted(done)
        assert len(totals) == 1
        assert done[-1] == totals.pop()


def mistakes(tmp_path):
    """(how it is called, what the message says)"""
    matrix, labels = class_blocks(16, rows=60)
    good = write_csv(tmp_path / "good.csv", matrix, labels)
    (tmp_path / "empty.csv").touch()
    (tmp_path / "header.csv").write_text("a,label\n")
    (tmp_path / "blank").write_text("\n\n\n")
    (tmp_path / "labels").write_text("+1\n-1\n" * 20)
    (tmp_path / "broken").write_text("+1 1:1\n-1 2:x\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "cut.csv.gz").write_bytes(b"\x1f\x8b\x08\x00")
    huge = matrix.astype(np.float64)
    huge[3, 1] = 1e20
    other = matrix[:, :3]
    return {
        "missing": ({"source": "nowhere.csv"}, "nowhere.csv does not exist"),
        "empty": ({"source": "empty.csv"}, "empty.csv is empty"),
        "header": ({"source": "header.csv"}, "header.csv has no rows"),
        "blank": ({"source": "blank"}, "blank has no rows"),
        "labels only": ({"source": "labels"}, "no features"),
        "broken": ({"source": "broken"}, "broken, line 2"),
        "folder": ({"source": "folder"}, "folder"),
        "cut": ({"source": "cut.csv.gz"}, "damaged or cut off"),
        "one class": ({"source": write_csv(tmp_path / "one.csv", matrix, labels * 0 + 7)}, "one class only, 7"),
        "picked one": ({"source": good, "classes": ("1", "9")}, "has the label 9"),
        "picked none": ({"source": good, "classes": ("8", "9")}, "no row of the classes 8, 9"),
        "few": (
            {"source": write_csv(tmp_path / "few.csv", matrix, np.arange(60) < 2)},
            "only 2 rows, too few for a share in each of train, validation, test",
        ),
        "sizes": ({"source": good, "test_size": 60}, "60 rows cannot be split into test 60"),
        "validation": ({"source": good, "validation_size": 0.999}, "48 rows cannot be split into validation 48"),
        "folds": ({"source": good, "folds": 50}, "only 24 rows"),
        "huge": ({"source": write_csv(tmp_path / "huge.csv", huge, labels)}, "--scale minmax"),
        "label": ({"source": good, "label": "target"}, "label column 'target' not found"),
        "drop": ({"source": good, "dropped": ("nothing",)}, "'nothing' not found"),
        "test missing": ({"source": good, "test": "nowhere.csv"}, "nowhere.csv does not exist"),
        "test columns": ({"source": good, "test": write_csv(tmp_path / "t.csv", other, labels)}, "lacks 'f3'"),
        "test labels": ({"source": good, "test": write_csv(tmp_path / "u.csv", matrix, labels * 3)}, "has labels that"),
        "three classes in the test file": (
            {"source": good, "test": write_csv(tmp_path / "w.csv", matrix, np.arange(60) % 3)},
            "more than two classes",
        ),
        "three classes": (
            {"source": write_csv(tmp_path / "y.csv", matrix, np.arange(60) % 3)},
            "more than two classes",
        ),
    }


MISTAKES = [
    *("missing", "empty", "header", "blank", "labels only", "broken", "folder", "cut", "one class", "picked one"),
    *("picked none", "few", "sizes", "validation", "folds", "huge", "label", "drop", "test missing", "test columns"),
    *("test labels", "three classes in the test file", "three classes"),
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(tmp_path, monkeypatch, mistake):
    monkeypatch.chdir(tmp_path)
    options, message = mistakes(tmp_path)[mistake]
    with unchanged(tmp_path), pytest.raises(DataError) as refused:
        prepared(tmp_path / "out", **options)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("size", [1e100, pytest.param(1e200)])
def test_a_value_that_only_scaling_makes_small_enough_is_taken_with_scaling(tmp_path, size):
    matrix, labels = class_blocks(16, rows=60)
    source = write_csv(tmp_path / "in.csv", matrix.astype(np.float64) * size, labels)
    assert np.abs(gathered(prepared(tmp_path / "out", source, scale="minmax"), "train")[0]).max() <= 1.0


def test_a_value_that_scaling_cannot_make_small_enough_is_refused(tmp_path):
    source = write_csv(tmp_path / "in.csv", np.array([[1e308], [-1e308]] * 20), [0, 1] * 20)
    with unchanged(tmp_path), pytest.raises(DataError, match="too large"):
        prepared(tmp_path / "out", source, scale="minmax")


@pytest.mark.parametrize("size", [float("nan"), float("inf")])
def test_sizes_that_are_no_numbers_are_refused(tmp_path, size):
    with pytest.raises(DataError, match="test"):
        prepared(tmp_path / "out", test_size=size)


def test_preparing_a_folder_of_parquet_files(tmp_path):
    matrix, labels = class_blocks(17, rows=90)
    (tmp_path / "in").mkdir()
    for number in range(3):
        rows = slice(number * 30, number * 30 + 30)
        table = {f"f{column}": matrix[rows, column] for column in range(4)} | {"label": labels[rows]}
        pq.write_table(pa.table(table), tmp_path / "in" / f"part{number}.parquet")
    data = prepared(tmp_path / "out", tmp_path / "in")
    assert multiset(*gathered(data)) == multiset(matrix, labels)


def test_a_prepared_folder_is_no_source(tmp_path):
    prepared(tmp_path / "out")
    with pytest.raises(DataError, match="out"):
        prepared(tmp_path / "again", tmp_path / "out")


def test_partitions_of_all_splits_are_disjoint(tmp_path):
    matrix, labels = class_blocks(18, rows=300)
    data = prepared(tmp_path / "out", write_csv(tmp_path / "in.csv", matrix, labels), rows_per_partition=50)
    counted = Counter()
    for split in data.manifest.splits:
        counted.update(gathered(data, split)[0][:, -1].astype(int).tolist())
    assert set(counted.values()) == {1}
    assert len(counted) == 300


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"folds": 1}, "2 or more"),
        ({"folds": -1}, "2 or more"),
        ({"scale": "foo"}, "scale='foo'"),
        ({"layout": "foo"}, "layout='foo'"),
        ({"kind": "foo"}, "kind='foo'"),
        ({"workers": -1}, "workers=-1"),
        ({"seed": -1}, "seed=-1"),
        ({"rows_per_partition": 0}, "rows_per_partition=0"),
        ({"test_size": -0.5}, "test_size=-0.5"),
        ({"classes": ("a",)}, "two labels"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_at_once(options, words):
    with pytest.raises(DataError, match=words):
        Request(source="demo", out="out", **options)


@pytest.mark.parametrize("size", [1.5, 7.25])
def test_a_size_is_a_share_or_a_whole_number(tmp_path, size):
    with pytest.raises(DataError, match="share below 1 or a number of rows"):
        prepared(tmp_path / "out", test_size=size)


def test_a_test_file_of_one_class_is_cut_like_any_other(tmp_path):
    matrix, labels = class_blocks(31, rows=90)
    train = write_csv(tmp_path / "train.csv", matrix, labels)
    held = write_csv(tmp_path / "test.csv", matrix[labels > 0], labels[labels > 0])
    data = prepared(tmp_path / "out", train, test=held, rows_per_partition=10)
    assert all(record.rows <= 10 for record in data.manifest.partitions)
    assert data.manifest.counts("test") == (0, int((labels > 0).sum()))


def test_labels_beyond_what_integers_hold_are_words(tmp_path):
    matrix, labels = class_blocks(32, rows=60)
    source = write_csv(tmp_path / "in.csv", matrix, np.where(labels > 0, "1" + "0" * 20, "1"))
    assert prepared(tmp_path / "out", source).labels == (1, "1" + "0" * 20)


def test_parquet_is_known_by_its_first_letters(tmp_path):
    matrix, labels = class_blocks(33, rows=60)
    write_parquet(tmp_path / "in.parquet", matrix, labels)
    (tmp_path / "in.parquet").rename(tmp_path / "in.data")
    assert prepared(tmp_path / "out", tmp_path / "in.data").manifest.rows == 60


def test_rows_that_no_disk_has_room_for_are_refused_before_they_are_written(tmp_path):
    lines = [f"{number % 2} 1:1 2147483647:1" for number in range(10_000)]
    (tmp_path / "wide").write_text("\n".join(lines))
    with unchanged(tmp_path), pytest.raises(DataError, match=r"dense rows take .* MB.*--layout sparse"):
        prepared(tmp_path / "out", tmp_path / "wide", layout="dense", rows_per_partition=1000)
    assert prepared(tmp_path / "out", tmp_path / "wide").manifest.layout == "sparse"
