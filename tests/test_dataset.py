"""Prepared data, opened: mapped when visited, two partitions at a time; to the solver the same as rows in memory."""

import gc
import json
import pickle
import shutil
import threading
import weakref

import numpy as np
import pytest
from prepared import class_blocks, dense, gathered, lies_in, mapped_ranges, outcome, prepared, write_libsvm
from scipy.sparse import csr_array, issparse, vstack

from mmbsgd import MultiMergeSVC
from workflows.data import PreparedData, Split
from workflows.data.manifest import FILE, Manifest
from workflows.data.partitions import fingerprint
from workflows.errors import DataError

LAYOUTS = ["dense", "sparse"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same rows in one and in several partitions, dense and sparse."""
    root = tmp_path_factory.mktemp("prepared")
    matrix, labels = class_blocks(1, rows=150, width=6, density=0.4)
    matrix[:, -1] /= len(matrix)
    source = write_libsvm(root / "in.svm", matrix, labels)
    for layout in LAYOUTS:
        prepared(root / f"{layout}-one", source, layout=layout)
        prepared(root / f"{layout}-many", source, layout=layout, rows_per_partition=20)
    return root


def opened(folders, layout, how):
    return PreparedData.open(folders / f"{layout}-{how}")


def in_memory(split):
    """(matrix, labels) of a split, copied."""
    parts, labels = [], []

    def add(partition):
        parts.append(csr_array(partition.matrix) if issparse(partition.matrix) else np.array(partition.matrix))
        labels.append(np.asarray(partition.labels)[partition.codes])

    split.each(add)
    return vstack(parts, format="csr") if issparse(parts[0]) else np.concatenate(parts), np.concatenate(labels)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("class_weight", [None, "balanced", {-1: 1.0, 1: 2.5}])
def test_one_partition_trains_to_the_same_bits_as_its_rows_in_memory(folders, layout, class_weight):
    split = opened(folders, layout, "one").split("train")
    assert len(split) == 1
    options = {"budget": 10, "epochs": 2, "class_weight": class_weight, "random_state": 5}
    streamed = MultiMergeSVC(**options).fit_portions(split)
    whole = MultiMergeSVC(**options).fit(*in_memory(split))
    assert outcome(streamed) == outcome(whole)
    assert streamed.classes_.tolist() == whole.classes_.tolist() == [-1, 1]


def test_dense_and_sparse_partitions_train_to_the_same_bits(folders):
    for how in ("one", "many"):
        dense_, sparse = (
            MultiMergeSVC(budget=10, random_state=5).fit_portions(opened(folders, layout, how).split("train"))
            for layout in LAYOUTS
        )
        assert outcome(dense_) == outcome(sparse)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_several_partitions_make_a_model_as_good(folders, layout):
    options = {"budget": 30, "epochs": 5, "random_state": 5}
    accuracies = []
    for how in ("one", "many"):
        data = opened(folders, layout, how)
        model = MultiMergeSVC(**options).fit_portions(data.split("train", "validation")).model_
        scores, codes = data.split("test").decide(model)
        accuracies.append(np.mean((scores > 0) == codes))
    assert min(accuracies) > 0.85


class Watched(PreparedData):
    """Remembers which partitions are alive whenever one more is read."""

    def __init__(self, *parts, **options):
        super().__init__(*parts, **options)
        self.living, self.most, self.read = weakref.WeakSet(), 0, []
        self.lock = threading.Lock()

    def partition(self, record):
        found = super().partition(record)
        with self.lock:
            self.living.add(found)
            self.most = max(self.most, len(self.living))
            self.read.append(record.file)
        return found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_at_most_two_partitions_are_alive(folders, layout):
    data = Watched.open(folders / f"{layout}-many")
    files = [folders / f"{layout}-many" / record.file for record in data.manifest.partitions]
    assert len(files) == 9
    mapped = []

    class Looking(Split):
        def visit(self, order, visitor):
            def look(rows, signs):
                mapped.append(sum(bool(mapped_ranges(file)) for file in files))
                visitor(rows, signs)

            super().visit(order, look)

    split = Looking(data, data.split("train").records)
    estimator = MultiMergeSVC(budget=10, epochs=3, random_state=1).fit_portions(split)
    assert estimator.training_.steps == 3 * split.rows
    assert len(mapped) == 5 * len(split), "gamma, three epochs, and the bias"
    assert data.most <= 2
    assert max(mapped) <= 2
    gc.collect()
    assert len(data.living) == 0
    assert not any(mapped_ranges(file) for file in files)


def test_an_epoch_reads_each_partition_once_in_an_order_that_follows_the_seed(folders):
    def reads(seed):
        data = Watched.open(folders / "dense-many")
        split = data.split("train")
        MultiMergeSVC(budget=10, epochs=4, gamma=1.0, random_state=seed).fit_portions(split)
        files = [record.file for record in split.records]
        epochs = [data.read[begin : begin + len(split)] for begin in range(0, len(data.read), len(split))]
        assert len(epochs) == 5
        assert all(sorted(epoch) == sorted(files) for epoch in epochs)
        return epochs[:4]

    first = reads(1)
    assert len({tuple(epoch) for epoch in first}) > 1
    assert reads(1) == first
    assert reads(2) != first


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_solver_sees_the_mapped_memory_itself(folders, layout):
    data = opened(folders, layout, "many")
    split, seen = data.split("train"), []

    def look(rows, signs):
        path = data.folder.child(split.records[len(seen)].file).path
        arrays = [rows.values] if layout == "dense" else [rows.values, rows.features]
        seen.append(all(lies_in(array, path) for array in arrays))

    split.visit(range(len(split)), look)
    assert seen == [True] * len(split)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_decisions_equal_those_in_memory(folders, layout):
    data = opened(folders, layout, "many")
    model = MultiMergeSVC(budget=10, random_state=1).fit_portions(data.split("train")).model_
    for splits in (["test"], ["validation", "test"], ["train"]):
        scores, codes = data.split(*splits).decide(model)
        matrix, labels = in_memory(data.split(*splits))
        assert scores.tobytes() == model.decision_function(matrix).tobytes()
        assert np.asarray(data.labels)[codes].tolist() == labels.tolist()
        assert np.mean((scores > 0) == codes) == np.mean(model.predict(matrix) == labels)


def test_splits_have_the_sizes_that_the_manifest_says(folders):
    data = opened(folders, "dense", "many")
    assert data.split("train").rows == 96
    assert data.split("train", "validation").rows == 120
    assert data.split("train").counts == data.manifest.counts("train")
    assert data.split("train").width == 6
    assert data.split("train").classes == data.labels == (-1, 1)
    rows, labels = gathered(data, "train")
    assert len(rows) == 96
    assert tuple(np.bincount(labels > 0)) == data.split("train").counts


def test_an_unknown_split_is_refused_with_those_there_are(folders):
    with pytest.raises(DataError, match=r"no split 'dev'; it has: train, validation, test"):
        opened(folders, "dense", "one").split("train", "dev")


def test_the_order_of_a_visit_is_the_one_asked_for(folders):
    data = opened(folders, "dense", "many")
    split, sizes = data.split("train", "test"), []
    split.each(lambda partition: sizes.append(len(partition)), [5, 0, 2])
    assert sizes == [split.records[number].rows for number in (5, 0, 2)]


def test_a_visit_to_nothing_shows_nothing(folders):
    seen = []
    opened(folders, "dense", "many").split("train").each(seen.append, [])
    assert seen == []


def test_an_error_of_the_visitor_comes_through(folders):
    split = opened(folders, "dense", "many").split("train")

    def fail(partition):
        raise ZeroDivisionError("in the visitor")

    with pytest.raises(ZeroDivisionError, match="in the visitor"):
        split.each(fail)


@pytest.fixture
def copied(folders, tmp_path):
    shutil.copytree(folders / "dense-many", tmp_path / "copy")
    return tmp_path / "copy"


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("position", [0, 2, -1])
def test_a_damaged_partition_is_found_at_the_first_visit(copied, position):
    data = PreparedData.open(copied)
    split = data.split("train")
    damage(copied / split.records[position].file)
    with pytest.raises(DataError, match=rf"{split.records[position].file} is damaged"):
        MultiMergeSVC(budget=5).fit_portions(split)
    data.split("test").decide(MultiMergeSVC(budget=5).fit_portions(data.split("test")).model_)


def test_a_partition_is_checked_again_by_whoever_opens_the_folder_again(copied):
    data = PreparedData.open(copied)
    data.split("train").each(len)
    damage(copied / data.manifest.partitions[0].file)
    with pytest.raises(DataError, match="damaged"):
        PreparedData.open(copied).split("train").each(len)


def test_a_partition_is_checked_only_once(copied):
    data = PreparedData.open(copied)
    data.split("train").each(len)
    damage(copied / data.manifest.partitions[0].file)
    data.split("train").each(len)


def test_a_failed_check_is_not_taken_for_a_passed_one(copied):
    data = PreparedData.open(copied)
    damage(copied / data.manifest.partitions[0].file)
    for _ in range(2):
        with pytest.raises(DataError, match="damaged"):
            data.split("train").each(len)


def test_a_missing_partition_is_named(copied):
    data = PreparedData.open(copied)
    (copied / data.manifest.partitions[1].file).unlink()
    with pytest.raises(DataError, match=rf"cannot read .*{data.manifest.partitions[1].file}"):
        data.split("train").each(len)


def test_exchanged_partitions_are_noticed(copied):
    data = PreparedData.open(copied)
    first, second = (copied / record.file for record in data.manifest.partitions[:2])
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        data.split("train").each(len)


def forged(folder, change):
    """The manifest changed, its fingerprint made to fit."""
    content = json.loads((folder / FILE).read_text())
    change(content)
    kept = {key: value for key, value in content.items() if key in Manifest.model_fields}
    content["fingerprint"] = Manifest.model_validate_json(json.dumps(kept)).fingerprint
    (folder / FILE).write_text(json.dumps(content))


def test_a_manifest_forged_for_other_rows_is_refused(copied):
    def change(content):
        first, second = content["partitions"][:2]
        for record, more in ((first, 1), (second, -1)):
            record["rows"] += more
            record["counts"][0] += more

    forged(copied, change)
    with pytest.raises(DataError, match=r"rows, the manifest of .* says"):
        PreparedData.open(copied).split("train").each(len)


def test_a_manifest_forged_for_another_width_is_refused(copied):
    def change(content):
        content["width"] += 1

    forged(copied, change)
    with pytest.raises(DataError, match="damaged"):
        PreparedData.open(copied).split("train").each(len)


def test_a_partition_forged_together_with_the_manifest_is_walked_safely(copied):
    """A flipped bit of a value, with size and fingerprint recomputed: other rows, but sound ones."""
    data = PreparedData.open(copied)
    file = data.manifest.partitions[0].file
    damage(copied / file)

    def change(content):
        content["partitions"][0]["fingerprint"] = fingerprint((copied / file).read_bytes())

    forged(copied, change)
    rows = []
    PreparedData.open(copied).split("train").each(lambda partition: rows.append(dense(partition.matrix)))
    assert np.isfinite(np.concatenate(rows)).all()


def test_opened_data_survives_pickling(folders):
    data = opened(folders, "sparse", "many")
    again = pickle.loads(pickle.dumps(data))
    assert gathered(again, "train")[0].tobytes() == gathered(data, "train")[0].tobytes()


def test_a_moved_folder_is_the_same_data(folders, copied):
    assert PreparedData.open(copied).manifest == opened(folders, "dense", "many").manifest
    assert gathered(PreparedData.open(copied))[0].tobytes() == gathered(opened(folders, "dense", "many"))[0].tobytes()
