"""A model as a LIBSVM file: svm-predict and LIBSVM's Python package answer as the model does."""

import hashlib
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from exported import (
    FOREIGN,
    LABELS,
    ODD_LABELS,
    ODD_NAMES,
    assert_close,
    assert_same_labels,
    damages,
    expected_of,
    model_of,
    models,
    module,
    noise_of,
    rows_of,
    run,
    tool,
    trained,
)
from hypothesis import given, settings
from scipy.sparse import csr_matrix

from mmbsgd import BudgetedModel, ModelFileError
from mmbsgd.scaling import Scaling
from workflows.errors import ExportError
from workflows.export import libsvm_model, shared
from workflows.export.check import check, summary

EXPRESSIBLE = ("none", "equal", "sparse", "standard")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("libsvm")


def exported(model, folder):
    return libsvm_model.load(libsvm_model.write(model, folder / libsvm_model.FILE)[0])


def lines_of(rows):
    """As LIBSVM reads rows: zeros are left out."""
    return "".join(
        "0 " + " ".join(f"{place + 1}:{float(row[place]):.17g}" for place in np.flatnonzero(row)) + "\n" for row in rows
    )


def prepared(files, rows, folder):
    """The rows in a file, through svm-scale where the model needs it."""
    lines = folder / "rows.txt"
    lines.write_text(lines_of(rows))
    ranges = [file for file in files if file.name.endswith(".range")]
    if ranges:
        scaled = run(tool("svm-scale", "libsvm-tools"), "-r", ranges[0], lines).stdout
        lines.write_bytes(scaled)
    return lines


def labels_of_the_command(files, lines, folder):
    run(tool("svm-predict", "libsvm-tools"), lines, files[0], folder / "found.txt")
    return [int(word) for word in (folder / "found.txt").read_text().split()]


def values_of_the_command(files, lines, folder):
    """As regression svm-predict prints the values themselves."""
    kept = [line for line in files[0].read_text().splitlines() if not line.startswith(("svm_type", "label", "nr_sv"))]
    (folder / "values.libsvm").write_text("\n".join(["svm_type epsilon_svr", *kept]) + "\n")
    run(tool("svm-predict", "libsvm-tools"), lines, folder / "values.libsvm", folder / "found.txt")
    return np.loadtxt(folder / "found.txt", ndmin=1)


def six_digits(model, rows):
    """What svm-scale's six digits may cost."""
    scaled = model.scaling.apply(rows).astype(np.float64)
    moved = 5e-6 * np.linalg.norm(scaled, axis=1).max() * np.sqrt(model.gamma)
    return 0.86 * moved * np.abs(model.coefficients).sum()


@given(models(EXPRESSIBLE))
def test_it_answers_as_the_plain_sum(folder, model):
    rows = rows_of(model)
    found = exported(model, folder)
    assert (found.classes, found.width) == (model.classes, model.width)
    assert_close(found.decision_function(rows), expected_of(model, rows, rounded=False))


@pytest.mark.compiled_only
@given(models(EXPRESSIBLE))
def test_it_answers_as_the_native_model(folder, model):
    rows = rows_of(model)
    native = model.decision_function(rows)
    scores = exported(model, folder).decision_function(rows)
    assert np.abs(scores - native).max() <= 1e-4 * max(1.0, np.abs(native).max()) + noise_of(model, rows)


@settings(max_examples=15)
@given(models(EXPRESSIBLE))
def test_the_command_line_gives_the_same_values_and_labels(folder, model):
    rows = rows_of(model)
    files = libsvm_model.write(model, folder / "asked.libsvm")
    lines = prepared(files, rows, folder)
    expected = expected_of(model, rows, rounded=False)
    lost = six_digits(model, rows) if files[-1].name.endswith(".range") else 0.0
    tolerance = 1e-4 * max(1.0, np.abs(expected).max()) + lost
    assert np.abs(values_of_the_command(files, lines, folder) - expected).max() <= tolerance
    clear = np.abs(expected) > tolerance
    found = np.array(labels_of_the_command(files, lines, folder))
    assert np.array_equal(found[clear], np.array(written_labels(files))[(expected[clear] > 0).astype(int)])


def written_labels(files):
    high, low = files[0].read_text().partition("\nlabel ")[2].partition("\n")[0].split()
    return int(low), int(high)


@settings(max_examples=10)
@given(models(("none", "equal")))
def test_libsvms_python_package_gives_the_same_values_and_labels(folder, model):
    svmutil = module("libsvm.svmutil", "libsvm-official")
    rows = rows_of(model)
    files = libsvm_model.write(model, folder / "asked.libsvm")
    nodes = [dict(enumerate(row, 1)) for row in rows.tolist()]
    labels, _, values = svmutil.svm_predict([], nodes, svmutil.svm_load_model(str(files[0])), "-q")
    expected = expected_of(model, rows, rounded=False)
    assert_close(np.array(values)[:, 0], expected)
    assert labels == [written_labels(files)[int(value > 0)] for (value,) in values]


@pytest.mark.parametrize("factor", [np.full(6, 0.5), np.array([3.0, 1, 0.1, 1, 1, 1])], ids=["folded", "range"])
def test_a_trained_model_and_its_file_agree_to_a_ten_thousandth(folder, factor):
    model, rows = trained((3, 7), Scaling("standard", np.arange(6.0), factor))
    native = model.decision_function(rows)
    files = libsvm_model.write(model, folder / libsvm_model.FILE)
    assert [file.name for file in files] == ["model.libsvm", *(["model.libsvm.range"] if factor[0] == 3.0 else [])]
    np.testing.assert_allclose(libsvm_model.load(files[0]).decision_function(rows), native, rtol=0, atol=1e-4)
    lines = prepared(files, rows, folder)
    assert_same_labels(labels_of_the_command(files, lines, folder), model, native)
    np.testing.assert_allclose(values_of_the_command(files, lines, folder), native, rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    "labels", [*LABELS, *ODD_LABELS, (5, -(2**31)), (2**31 - 1, 123456789), (0, 2**31), (-1.0, 1.0)], ids=repr
)
def test_labels_are_the_users_own_or_0_and_1_with_a_file_that_tells(folder, labels):
    model = model_of(labels=labels)
    files = libsvm_model.write(model, folder / "labels.libsvm")
    own = all(type(label) is int and -(2**31) <= label < 2**31 for label in labels)
    written = labels if own or labels == (-1.0, 1.0) else (0, 1)
    assert [file.name for file in files] == ["labels.libsvm", *([] if own else ["labels.libsvm.labels"])]
    assert libsvm_model.load(files[0]).classes == labels
    if not own:
        assert json.loads(files[1].read_text()) == list(labels)
    rows = rows_of(model, 50)
    expected = expected_of(model, rows)
    found = labels_of_the_command(files, prepared(files, rows, folder), folder)
    assert found == [written[int(value > 0)] for value in expected]


def test_names_of_features_are_kept_in_a_file_of_their_own(folder):
    model = model_of(names=ODD_NAMES)
    files = libsvm_model.write(model, folder / "named.libsvm")
    assert [file.name for file in files] == ["named.libsvm", "named.libsvm.features"]
    assert json.loads(files[1].read_text()) == ODD_NAMES
    assert libsvm_model.load(files[0]).features == tuple(ODD_NAMES)
    assert exported(model_of(), folder).features is None
    rows = rows_of(model, 50)
    files[1].unlink()
    found = labels_of_the_command(files, prepared(files, rows, folder), folder)
    assert found == [model.classes[int(value > 0)] for value in expected_of(model, rows)]
    with pytest.raises(ModelFileError, match=r"named\.libsvm\.features.*keep both in one folder"):
        libsvm_model.load(files[0])


@pytest.mark.parametrize("names", ['["a"]', '["a", 2]', '{"a": 1}', "[" * 100_000])
def test_names_that_make_no_sense_are_refused_though_the_fingerprint_fits(folder, names):
    files = libsvm_model.write(model_of(width=2, names=["a", "b"]), folder / "misnamed.libsvm")
    body = files[0].read_text().rpartition("# mmbsgd")[0]
    digest = hashlib.sha256("\0".join([body, names]).encode()).hexdigest()
    files[0].write_text(f"{body}# mmbsgd sha256={digest} beside=features\n")
    files[1].write_text(names)
    with pytest.raises(ModelFileError, match=r"misnamed\.libsvm.*name"):
        libsvm_model.load(files[0])


@pytest.mark.parametrize("labels", [*LABELS, (7, -3)], ids=repr)
@pytest.mark.parametrize("scaling", EXPRESSIBLE)
def test_libsvms_own_package_is_what_is_checked_and_timed(folder, scaling, labels):
    module("libsvm.svmutil", "libsvm-official")
    model = model_of(labels=labels, scaling=scaling, vectors=50)
    rows = rows_of(model, 50)
    files = libsvm_model.write(model, folder / "checked.libsvm")
    running = libsvm_model.run(files[0])
    ready = running.prepared(csr_matrix(rows))
    expected = expected_of(model, rows, rounded=False)
    assert_close(running.decision_function(ready), expected, 1e-9)
    assert_same_labels(running.predict(ready), model, expected)
    checked = check("libsvm", libsvm_model.load(files[0]), model, rows, files)
    assert 0.0 < 1000 * checked.row == pytest.approx(checked.batch)
    assert checked.difference <= checked.allowed


def test_a_package_that_answers_otherwise_is_found(folder, monkeypatch):
    svmutil = module("libsvm.svmutil", "libsvm-official")
    model = model_of()
    files = libsvm_model.write(model, folder / "other.libsvm")
    others = libsvm_model.write(replace(model, bias=model.bias + 1.0), folder / "another.libsvm")
    load = svmutil.svm_load_model
    monkeypatch.setattr(svmutil, "svm_load_model", lambda path: load(str(others[0])))
    with pytest.raises(ExportError, match="the libsvm model is not the same: its decision values differ by 1"):
        check("libsvm", libsvm_model.load(files[0]), model, rows_of(model), files)
    monkeypatch.setattr(svmutil, "svm_load_model", lambda path: None)
    with pytest.raises(ExportError, match=r"LIBSVM does not load other\.libsvm; please report it"):
        check("libsvm", libsvm_model.load(files[0]), model, rows_of(model), files)


def test_without_the_package_answers_are_checked_and_times_are_not_measured(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "libsvm.svmutil", None)
    model = model_of(scaling="standard")
    files = libsvm_model.write(model, folder / "unmeasured.libsvm")
    checked = check("libsvm", libsvm_model.load(files[0]), model, rows_of(model), files)
    assert (checked.row, checked.batch) == (None, None)
    assert summary({"libsvm": checked})[0][2:4] == ("not measured", "not measured")
    with pytest.raises(ExportError, match="decision values differ"):
        check("libsvm", libsvm_model.load(files[0]), replace(model, bias=model.bias + 1.0), rows_of(model), files)


def test_nothing_of_a_number_is_lost(folder):
    model = BudgetedModel(np.array([[0.1, 1e-30], [3e7, -0.0]]), [1 / 3, -1e-300], 2 / 3, np.pi)
    found = exported(model, folder)
    assert (found.bias, found.gamma) == (2 / 3, np.pi)
    assert found.coefficients.tolist() == [1 / 3, -1e-300]
    assert np.array_equal(found.vectors, model.support_vectors)


def test_sparse_rows_are_scaled_as_dense_ones_are(folder):
    model = model_of(scaling="sparse", labels=("no", "yes"))
    rows = rows_of(model)
    found = exported(model, folder)
    np.testing.assert_array_equal(found.decision_function(csr_matrix(rows)), found.decision_function(rows))
    assert_close(found.decision_function(rows), model.decision_function(csr_matrix(rows)))


def test_a_feature_without_a_range_is_left_out_by_svm_scale(folder):
    """Whatever its value, its factor of zero makes it zero."""
    model = BudgetedModel(
        np.array([[0.5, 0.0]]), [1.0], 0.0, 1.0, (1, 2), scaling=Scaling("minmax", [5.0, 7.0], [2.0, 0.0])
    )
    files = libsvm_model.write(model, folder / "flat.libsvm")
    rows = np.array([[5.25, 7.0], [5.25, 100.0], [0.0, 0.0]], np.float32)
    values = values_of_the_command(files, prepared(files, rows, folder), folder)
    np.testing.assert_allclose(values, expected_of(model, rows), atol=1e-5)
    np.testing.assert_allclose(libsvm_model.load(files[0]).decision_function(rows), expected_of(model, rows), atol=1e-7)


def test_rows_of_unit_length_are_refused_with_the_formats_that_can(folder):
    with pytest.raises(ExportError, match=r"unit length.*choose the format onnx, c, mlflow or native$"):
        libsvm_model.write(model_of(scaling="unit"), folder / "unit.libsvm")
    assert not (folder / "unit.libsvm").exists()


def test_a_factor_that_no_range_can_hold_is_refused(folder):
    model = BudgetedModel(np.zeros((1, 2)), [1.0], 0.0, 1.0, scaling=Scaling("minmax", [0.0, 0.0], [1e-310, 1.0]))
    with pytest.raises(ExportError, match=r"feature 1: choose the format"):
        libsvm_model.write(model, folder / "range.libsvm")


@pytest.mark.parametrize("part", ["", ".labels", ".features", ".range"])
def test_damaged_files_are_refused(folder, part):
    model = model_of(vectors=3, width=3, scaling="standard", labels=("no", "yes"), seed=2, names=["a", "b", "c"])
    files = libsvm_model.write(model, folder / "whole.libsvm")
    assert len(files) == 4
    path = folder / f"whole.libsvm{part}"
    data = path.read_bytes()
    for damaged in [*damages(data), *FOREIGN]:
        if damaged != data:
            path.write_bytes(damaged)
            with pytest.raises(ModelFileError, match=r"whole\.libsvm.*export the model again"):
                libsvm_model.load(files[0])


def test_files_of_the_model_that_was_there_before_are_taken_away(folder):
    model = model_of(scaling="standard", labels=("no", "yes"), seed=2, names=ODD_NAMES)
    old = libsvm_model.write(model, folder / "again.libsvm")
    new = libsvm_model.write(model_of(), folder / "again.libsvm")
    assert [file.exists() for file in old] == [True, False, False, False]
    assert libsvm_model.load(new[0]).classes == (-1, 1)


def test_a_file_that_was_left_behind_is_asked_for(folder):
    files = libsvm_model.write(model_of(labels=("no", "yes")), folder / "alone.libsvm")
    files[1].unlink()
    with pytest.raises(ModelFileError, match=r"alone\.libsvm\.labels.*keep both in one folder"):
        libsvm_model.load(files[0])


def test_a_file_of_svm_train_is_another_kind(folder):
    lines = folder / "train.txt"
    lines.write_text("1 1:1\n-1 1:-1\n1 1:2\n-1 1:-2\n")
    run(tool("svm-train", "libsvm-tools"), "-q", lines, folder / "train.libsvm")
    with pytest.raises(ModelFileError, match="not the fingerprint"):
        libsvm_model.load(folder / "train.libsvm")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("total_sv 3", "total_sv 4"),
        ("nr_sv", "nr_sv 1"),
        ("rbf", "linear"),
        ("gamma 0.5", "gamma -0.5"),
        ("gamma 0.5", "gamma 1e+999"),
        ("1:1 2:2", "2:2 1:1"),
        ("1:1 2:2", "0:1 2:2"),
        ("1:1 2:2", "1:1 2:nan"),
        ("1:1 2:2", "1:1 2000000000:2"),
        ("1:1 2:2", "1:1 2:__import__('os')"),
        ("1:1 2:2", "1:1 2:1_0"),
        ("1:3 2:4", "1:3 3:4"),
    ],
)
def test_a_file_of_nonsense_is_refused_though_its_fingerprint_fits(folder, old, new):
    model = BudgetedModel(np.array([[1.0, 2], [3, 4], [5, 6]]), [1.0, 1.0, -1.0], 0.0, 0.5)
    (path,) = libsvm_model.write(model, folder / "signed.libsvm")
    body = path.read_text().rpartition("# mmbsgd")[0]
    assert old in body
    body = body.replace(old, new)
    path.write_text(f"{body}# mmbsgd sha256={hashlib.sha256(body.encode()).hexdigest()} beside=none\n")
    with pytest.raises(ModelFileError, match="signed"):
        libsvm_model.load(path)


def test_a_file_that_is_missing_or_too_large_is_refused(folder, monkeypatch):
    with pytest.raises(ModelFileError, match=r"cannot read model .*away\.libsvm"):
        libsvm_model.load(folder / "away.libsvm")
    (path,) = libsvm_model.write(model_of(), folder / "large.libsvm")
    monkeypatch.setattr(shared, "LARGEST", 100)
    with pytest.raises(ModelFileError, match="more than any model"):
        libsvm_model.load(path)
