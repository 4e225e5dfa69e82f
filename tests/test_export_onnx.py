"""A model as an ONNX graph: onnxruntime answers as the model does, in the user's own labels; and so does MLflow."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from exported import (
    FOREIGN,
    LABELS,
    ODD_LABELS,
    ODD_NAMES,
    SCALINGS,
    assert_close,
    assert_same_labels,
    damages,
    expected_of,
    model_of,
    models,
    noise_of,
    rows_of,
    trained,
)
from hypothesis import given
from mlflow.exceptions import MlflowException
from scipy.sparse import coo_matrix, csr_matrix

from mmbsgd import BudgetedModel, InputError, ModelFileError
from mmbsgd.scaling import Scaling
from workflows.errors import ExportError
from workflows.export import mlflow_model, onnx_graph, shared
from workflows.export.check import check
from workflows.tracking.store import quietly

NAMES = [f"column {number}" for number in range(7)]
PRECISIONS = ("single", "double", "differences")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("onnx")


def session_of(data):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def exported(model, folder):
    (path,) = onnx_graph.write(model, folder / onnx_graph.FILE)
    return onnx_graph.load(path)


@given(models())
def test_it_answers_as_the_plain_sum(folder, model):
    rows = rows_of(model)
    expected = expected_of(model, rows)
    found = exported(model, folder)
    assert (found.classes, found.width) == (model.classes, model.width)
    assert_close(found.decision_function(rows), expected)
    assert_same_labels(found.predict(rows), model, expected)


@pytest.mark.compiled_only
@given(models())
def test_it_answers_as_the_native_model(folder, model):
    rows = rows_of(model)
    native = model.decision_function(rows)
    scores = exported(model, folder).decision_function(rows)
    assert np.abs(scores - native).max() <= 1e-4 * max(1.0, np.abs(native).max()) + noise_of(model, rows)


@pytest.mark.parametrize("scaling", [None, Scaling("standard", np.arange(6.0), np.array([3.0, 1, 0.1, 1, 1, 1]))])
def test_a_trained_model_and_its_file_agree_to_a_ten_thousandth(folder, scaling):
    model, rows = trained(scaling=scaling)
    native = model.decision_function(rows)
    found = exported(model, folder)
    np.testing.assert_allclose(found.decision_function(rows), native, rtol=0, atol=1e-4)
    assert_same_labels(found.predict(rows), model, native)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("scaling", SCALINGS)
def test_every_precision_computes_the_same_sum(precision, scaling):
    model = model_of(scaling=scaling)
    rows = rows_of(model, 50)
    session = session_of(onnx_graph.graph_of(model, precision).SerializeToString())
    assert_close(session.run(["score"], {"rows": rows})[0], expected_of(model, rows), 1e-5)


def test_the_precision_is_the_fastest_that_is_exact_enough():
    assert onnx_graph.precision_of(model_of(vectors=0)) == "single"
    assert onnx_graph.precision_of(model_of(size=0.1)) == "single"
    assert onnx_graph.precision_of(model_of(size=1e3)) == "double"
    assert onnx_graph.precision_of(model_of(reach=1e3)) == "double"
    assert onnx_graph.precision_of(model_of(reach=1e6)) == "differences"


@pytest.mark.parametrize("copies", [1, 300])
@pytest.mark.parametrize("far", [0.0, 100.0])
def test_single_precision_is_chosen_only_where_it_is_enough(copies, far):
    """Vectors of one sign at one place, whose errors do not cancel, and data far from zero, which are centred."""
    for size in np.geomspace(1e-4, 1e4, 30):
        points = np.repeat(np.random.default_rng(0).normal(size=(3, 2)), copies, axis=0) + far
        model = BudgetedModel(points, np.full(len(points), size), 0.1, 2.0)
        if onnx_graph.precision_of(model) == "single":
            largest = model
    rows = rows_of(largest, 500)
    session = session_of(onnx_graph.graph_of(largest, "single").SerializeToString())
    np.testing.assert_allclose(session.run(["score"], {"rows": rows})[0], expected_of(largest, rows), rtol=0, atol=1e-4)


def test_large_values_far_from_zero_do_not_cancel(folder):
    model = BudgetedModel(np.array([[1000.0, 1000.0], [1000.5, 1000.0]]), [1.0, -1.0], 0.0, 1.0, scaling=None)
    rows = np.array([[1000.0, 1000.0], [1000.25, 1000.125]], np.float32)
    np.testing.assert_allclose(exported(model, folder).decision_function(rows), expected_of(model, rows), atol=1e-6)


@pytest.mark.parametrize("labels", LABELS + ODD_LABELS, ids=repr)
def test_labels_are_the_users_own_in_their_own_type(folder, labels):
    (path,) = onnx_graph.write(model_of(labels=labels), folder / "labels.onnx")
    model, session = model_of(labels=labels), session_of(path.read_bytes())
    kinds = {bool: "tensor(bool)", int: "tensor(int64)", float: "tensor(double)", str: "tensor(string)"}
    assert session.get_outputs()[0].type == kinds[type(labels[0])]
    rows = rows_of(model, 50)
    label, score = session.run(["label", "score"], {"rows": rows})
    assert label.shape == score.shape == (50,)
    assert label.tolist() == [labels[int(value > 0)] for value in score]
    assert set(label.tolist()) == set(labels)
    assert onnx_graph.load(path).classes == labels


def test_labels_of_numpy_and_mixed_numbers_are_plain_ones(folder):
    assert exported(model_of(labels=(np.str_("a"), np.str_("b"))), folder).classes == ("a", "b")
    assert exported(model_of(labels=(np.int64(3), np.int64(4))), folder).classes == (3, 4)
    assert exported(model_of(labels=(1, 2.5)), folder).classes == (1.0, 2.5)


@pytest.mark.parametrize("labels", [(0, "a"), (True, 2), (None, 1), (0, 2**63), (0.0, float("inf")), ("a", "\ud800")])
def test_labels_that_no_file_can_hold_are_refused(folder, labels):
    with pytest.raises(ExportError, match="label"):
        onnx_graph.write(model_of(labels=labels), folder / "none.onnx")
    assert not (folder / "none.onnx").exists()


def test_dense_equals_sparse_and_any_number_of_rows_is_taken(folder, monkeypatch):
    monkeypatch.setattr(onnx_graph, "ROWS", 7)
    model = model_of(scaling="sparse", labels=("no", "yes"))
    rows = rows_of(model, 50)
    found = exported(model, folder)
    expected = found.decision_function(rows)
    np.testing.assert_allclose(found.decision_function(csr_matrix(rows)), expected, atol=1e-6)
    np.testing.assert_allclose(found.decision_function(coo_matrix(rows)), expected, atol=1e-6)
    np.testing.assert_allclose(found.decision_function(np.asfortranarray(rows, np.float64)), expected, atol=1e-6)
    np.testing.assert_allclose(found.decision_function(rows[:1])[0], expected[0], atol=1e-6)
    assert found.decision_function(rows[:0]).shape == found.predict(rows[:0]).shape == (0,)


@pytest.mark.parametrize("rows", [np.zeros((2, 6)), np.zeros(7), np.full((1, 7), np.nan), np.full((1, 7), 1e39)])
def test_rows_that_make_no_sense_are_refused(folder, rows):
    with pytest.raises(InputError, match=r"rows"):
        exported(model_of(), folder).decision_function(rows)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("scaling", SCALINGS)
def test_of_a_value_that_is_missing_the_score_is_no_number_and_the_label_the_first(precision, scaling):
    model = model_of(scaling=scaling, labels=("no", "yes"))
    rows = rows_of(model, 5)
    rows[:, 2] = np.nan
    session = session_of(onnx_graph.graph_of(model, precision).SerializeToString())
    label, score = session.run(["label", "score"], {"rows": rows})
    assert np.isnan(score).all()
    assert label.tolist() == ["no"] * 5


def test_names_of_features_are_kept(folder):
    assert exported(model_of(names=ODD_NAMES), folder).features == tuple(ODD_NAMES)
    assert exported(model_of(), folder).features is None


def test_onnxruntimes_labels_are_checked_too(folder):
    model = model_of(labels=("no", "yes"))
    files = onnx_graph.write(replace(model, classes=("yes", "no")), folder / "turned.onnx")
    found = onnx_graph.load(files[0])
    with pytest.raises(ExportError, match="other labels"):
        check("onnx", found, model, rows_of(model), files)
    found.classes = ("no", "yes")
    with pytest.raises(ExportError, match="other labels"):
        check("onnx", found, model, rows_of(model), files)


def test_the_file_says_who_wrote_it_and_uses_standard_operators_only(folder):
    (path,) = onnx_graph.write(model_of(labels=("no", "yes")), folder / "sub" / onnx_graph.FILE)
    whole = onnx.load(path)
    onnx.checker.check_model(whole, full_check=True)
    facts = {entry.key: entry.value for entry in whole.metadata_props}
    assert facts["producer"] == whole.producer_name == "mmbsgd"
    assert facts["version"] == whole.producer_version
    assert json.loads(facts["classes"]) == ["no", "yes"]
    assert [(one.domain, one.version) for one in whole.opset_import] == [("", 13)]
    assert not any("SVM" in node.op_type or node.domain for node in whole.graph.node)
    assert [file.name for file in path.parent.iterdir()] == [onnx_graph.FILE]


def test_damaged_files_are_refused(folder):
    (path,) = onnx_graph.write(model_of(vectors=3), folder / "whole.onnx")
    data = path.read_bytes()
    for damaged in [*damages(data), *FOREIGN]:
        if damaged != data:
            path.write_bytes(damaged)
            with pytest.raises(ModelFileError, match=r"whole\.onnx .*export the model again"):
                onnx_graph.load(path)


def signed(whole, path):
    """As if it were one of ours."""
    body = whole.SerializeToString()
    entry = onnx.ModelProto()
    onnx.helper.set_model_props(entry, {"sha256": hashlib.sha256(body).hexdigest()})
    path.write_bytes(body + entry.SerializeToString())
    return path


def foreign_operator(whole):
    whole.graph.node[0].op_type = "Loop"


def foreign_domain(whole):
    whole.graph.node[0].domain = "com.microsoft"


def other_file(whole):
    tensor = whole.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")


def other_input(whole):
    whole.graph.input[0].name = whole.graph.node[0].input[0] = "lines"


def no_labels(whole):
    del whole.metadata_props[:]


def wrong_labels(whole):
    next(entry for entry in whole.metadata_props if entry.key == "classes").value = '[1, {"a": 2}]'


def cut_table(whole):
    tensor = next(one for one in whole.graph.initializer if one.name == "vectors")
    tensor.raw_data = tensor.raw_data[:-4]


@pytest.mark.parametrize(
    "change", [foreign_operator, foreign_domain, other_file, other_input, no_labels, wrong_labels, cut_table]
)
def test_a_graph_that_mmbsgd_does_not_write_is_not_run(folder, change):
    whole = onnx_graph.graph_of(model_of())
    assert onnx_graph.load(signed(whole, folder / "signed.onnx")).width == 7
    change(whole)
    with pytest.raises(ModelFileError, match="signed"):
        onnx_graph.load(signed(whole, folder / "signed.onnx"))


def test_a_file_that_is_missing_or_too_large_is_refused(folder, monkeypatch):
    with pytest.raises(ModelFileError, match=r"cannot read model .*away\.onnx"):
        onnx_graph.load(folder / "away.onnx")
    (path,) = onnx_graph.write(model_of(), folder / "large.onnx")
    monkeypatch.setattr(shared, "LARGEST", 100)
    with pytest.raises(ModelFileError, match="more than any model"):
        onnx_graph.load(path)
    monkeypatch.setattr(shared, "MOST", 100)
    with pytest.raises(ExportError, match="20 vectors of 7 features are too many for any format but native"):
        onnx_graph.write(model_of(), path)


# MLflow


def saved(model, folder):
    """Its files, and rows to ask it."""
    rows = rows_of(model, 50)
    return mlflow_model.write(model, folder / mlflow_model.FILE, rows[:5]), rows


@pytest.mark.parametrize("names", [None, NAMES], ids=["array", "columns"])
@pytest.mark.parametrize(("scaling", "labels"), list(zip(SCALINGS, LABELS, strict=True)))
def test_mlflows_own_answers_are_what_is_checked_and_timed(tmp_path, names, scaling, labels):
    model = model_of(scaling=scaling, labels=labels, names=names)
    files, rows = saved(model, tmp_path)
    running, expected = mlflow_model.run(files[0]), expected_of(model, rows)
    for form in (rows, csr_matrix(rows)):
        ready = running.prepared(form)
        assert_close(running.decision_function(ready), expected)
        assert_same_labels(running.predict(ready), model, expected)
        assert (list(ready.columns) == NAMES) if names else isinstance(ready, np.ndarray)
    checked = check("mlflow", mlflow_model.load(files[0]), model, rows, files)
    assert checked.difference <= checked.allowed
    assert min(checked.row, checked.batch) > 0.0


def test_code_that_answers_otherwise_is_found_though_its_graph_is_right(tmp_path, monkeypatch):
    other = tmp_path / "served.py"
    other.write_text(mlflow_model.CODE.read_text().replace('"score": score}', '"score": -score}'))
    monkeypatch.setattr(mlflow_model, "CODE", other)
    model = model_of()
    files, rows = saved(model, tmp_path)
    with pytest.raises(ExportError, match="the mlflow model is not the same: its decision values differ"):
        check("mlflow", mlflow_model.load(files[0]), model, rows, files)


@pytest.mark.parametrize("names", [None, NAMES], ids=["array", "columns"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_mlflow_answers_rows_that_are_not_finite_with_an_error(tmp_path, names, value):
    files, rows = saved(model_of(names=names), tmp_path)
    running = mlflow_model.run(files[0])
    with np.errstate(over="ignore"):
        rows = rows.astype(np.float64)
        rows[3, 2] = value
        ready = running.prepared(rows)
    with pytest.raises(MlflowException, match="row 4 has a value that is missing or no finite number") as caught:
        running.predict(ready)
    assert caught.value.get_http_status_code() == 400


@pytest.mark.parametrize("names", [None, NAMES], ids=["array", "columns"])
def test_a_server_answers_400_where_a_value_is_missing(tmp_path, names):
    files, rows = saved(model_of(names=names), tmp_path)
    with quietly():  # MLflow warns of its own type hints
        from mlflow.pyfunc import load_model, scoring_server

        model = load_model(str(files[0]))
    data = (
        {"dataframe_split": {"columns": names, "data": rows[:2].tolist()}} if names else {"inputs": rows[:2].tolist()}
    )

    def asked():
        return scoring_server.invocations(
            json.dumps(data), "application/json", model, model.metadata.get_input_schema()
        )

    assert len(json.loads(asked().response)["predictions"]) == 2
    (data["dataframe_split"]["data"] if names else data["inputs"])[1][2] = None
    with pytest.raises(MlflowException) as caught:
        asked()
    assert caught.value.get_http_status_code() == 400
