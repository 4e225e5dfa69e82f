"""Predictions are the model's own decisions on the raw rows, in their order, from whatever file they come."""

import bz2
import gzip
import lzma
import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prepared import class_blocks, prepared, write_csv, write_libsvm, write_parquet
from scipy.sparse import csr_array

from mmbsgd import BudgetedModel
from mmbsgd.errors import ModelFileError
from mmbsgd.scaling import Scaling
from workflows.data import sources, text
from workflows.errors import DataError
from workflows.export import c_source, libsvm_model, onnx_graph
from workflows.export.reading import open_model
from workflows.prediction.feed import Request, open_feed, predictions

NAMES = ["f0", "f1", "f2", "f3"]


def model_of(width=4, names=None, scaling=None, classes=(-1, 1), seed=0):
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(6, width)).astype(np.float32)
    metadata = {} if names is None else {"features": names}
    return BudgetedModel(vectors, generator.normal(size=6), 0.1, 0.3, classes, metadata, scaling)


def rows_of(seed=0, rows=50, density=1.0):
    matrix, labels = class_blocks(seed, rows=rows, density=density)
    matrix[:, -1] /= rows
    return matrix, labels


STANDARD = Scaling("standard", np.array([0.1, -2.0, 0.0, 0.5]), np.array([1.3, 0.5, 2.0, 1.0]))


def predicted(model, data, home=Path("home"), **options):
    """(scores, the rows' own labels as positions, notes)."""
    feed = open_feed(model, Request(str(data), **options), home)
    blocks = list(predictions(feed, lambda stage, done, total: None))
    scores = np.concatenate([np.empty(0), *(block.scores for block in blocks)])
    known = np.concatenate([np.empty(0, np.int8), *(block.known for block in blocks)])
    return scores, known, feed.notes


def refused(model, data, **options):
    with pytest.raises(DataError) as caught:
        predicted(model, data, **options)
    return str(caught.value)


@pytest.mark.parametrize("scaling", [None, STANDARD, Scaling("unit")], ids=lambda one: one.method if one else "none")
@pytest.mark.parametrize("kind", ["libsvm", "csv", "parquet"])
def test_scores_are_the_decisions_on_the_raw_rows(tmp_path, kind, scaling):
    matrix, labels = rows_of(1)
    write = {"libsvm": write_libsvm, "csv": write_csv, "parquet": write_parquet}[kind]
    path = write(tmp_path / (f"rows.{kind}" if kind != "libsvm" else "rows"), matrix, labels)
    model = model_of(scaling=scaling)
    scores, known, _ = predicted(model, path)
    expected = model.decision_function(matrix.astype(np.float64))
    # Lengths of sparse rows are summed in another order.
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6 if scaling and scaling.method == "unit" else 0)
    assert known.tolist() == (labels > 0).astype(int).tolist()


def test_zeros_of_sparse_rows_are_shifted_too(tmp_path, monkeypatch):
    monkeypatch.setattr("mmbsgd.scaling._MOST", 30)  # a few rows at a time
    matrix, labels = rows_of(10, density=0.3)
    path = write_libsvm(tmp_path / "rows", matrix, labels)
    model = model_of(scaling=STANDARD)
    assert predicted(model, path)[0].tolist() == model.decision_function(matrix.astype(np.float64)).tolist()


@pytest.mark.parametrize("compress", [bz2.compress, gzip.compress, lzma.compress])
def test_compressed_files_are_read_too(tmp_path, compress):
    matrix, labels = rows_of(2)
    plain = Path(write_csv(tmp_path / "rows.csv", matrix, labels))
    (tmp_path / "rows.csv.packed").write_bytes(compress(plain.read_bytes()))
    scores, _, _ = predicted(model_of(), tmp_path / "rows.csv.packed", kind="csv")
    assert scores.tolist() == predicted(model_of(), plain)[0].tolist()


@pytest.mark.parametrize("size", [300, 5000])
@pytest.mark.parametrize("kind", ["libsvm", "csv"])
def test_rows_keep_their_order_through_many_chunks(tmp_path, monkeypatch, kind, size):
    matrix, labels = rows_of(3, rows=400)
    path = (write_libsvm if kind == "libsvm" else write_csv)(tmp_path / f"rows.{kind}", matrix, labels)
    monkeypatch.setattr(text, "chunks", partial(text.chunks, size=size))
    assert predicted(model_of(), path)[0].tolist() == model_of().decision_function(matrix).tolist()


def test_a_folder_of_parquet_is_one_table(tmp_path):
    matrix, labels = rows_of(4, rows=90)
    for number in range(3):
        part = slice(30 * number, 30 * number + 30)
        write_parquet(tmp_path / f"{number}.parquet", matrix[part], labels[part], row_group_size=7)
    scores, known, _ = predicted(model_of(names=NAMES), tmp_path)
    assert scores.tolist() == model_of().decision_function(matrix).tolist()
    assert known.tolist() == (labels > 0).astype(int).tolist()


def test_a_file_by_its_address_is_read(tmp_path):
    matrix, labels = rows_of(5)
    path = write_csv(tmp_path / "rows.csv", matrix, labels)
    assert predicted(model_of(), f"file://{path}")[0].tolist() == predicted(model_of(), path)[0].tolist()


def test_the_demo_is_predicted():
    model = model_of(width=2)
    points = next(sources.open_source("demo", rows=100).read(sources.DemoTask(100, 0, 0), np.float32)).matrix
    scores, known, notes = predicted(model, "demo", rows=100)
    assert scores.tolist() == model.decision_function(points).tolist()
    assert set(known) == {0, 1}
    assert notes == ()
    assert "the demo has 2 features, and the model takes 4" in refused(model_of(), "demo")


@pytest.mark.parametrize("name", ["native", "onnx", "libsvm", "c", "mlflow"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_are_found_by_their_names(tmp_path, kind, name):
    matrix, _ = rows_of(6)
    columns = {name: matrix[:, NAMES.index(name)].astype(np.float64) for name in ("f2", "f0", "f3", "f1")}
    columns = {"": range(50), "city": ["Bonn"] * 50, **columns, "answer": ["?"] * 50}
    table = pa.table(list(columns.values()), names=list(columns))
    if kind == "parquet":
        pq.write_table(table, tmp_path / "rows.parquet")
    else:
        lines = [",".join(columns), *(",".join(map(str, row.values())) for row in table.to_pylist())]
        (tmp_path / "rows.csv").write_text("\n".join(lines))
    (tmp_path / "saved").mkdir()
    model = open_model(saved(model_of(names=NAMES), tmp_path / "saved", name))
    scores, known, notes = predicted(model, tmp_path / f"rows.{kind}")
    np.testing.assert_allclose(scores, model_of().decision_function(matrix), atol=1e-4)
    assert (known == -1).all()
    assert notes == ("Columns that the model does not know are ignored: '', 'city', 'answer'.",)


def test_columns_are_taken_in_their_order_where_the_model_knows_no_names(tmp_path):
    matrix, labels = rows_of(7)
    path = write_csv(tmp_path / "rows.csv", matrix, labels, names=["w", "x", "y", "z"], label="target")
    scores, known, notes = predicted(model_of(), path, label="target")
    assert scores.tolist() == model_of().decision_function(matrix).tolist()
    assert (known >= 0).all()
    assert notes == ("The model file has no names of features: columns are taken in their order.",)
    scores, known, _ = predicted(model_of(), path, dropped=("target",))
    assert scores.tolist() == model_of().decision_function(matrix).tolist()
    assert (known == -1).all()


@pytest.mark.parametrize(
    ("header", "names", "options", "message"),
    [
        ("f0,f1,label", NAMES, {}, "rows.csv lacks 'f2', 'f3', which the model needs; columns are: f0, f1, label"),
        ("f0,f1,f2,f3", NAMES, {"dropped": ("f1",)}, "the model needs 'f1' of rows.csv"),
        ("f0,f1,f2,f3", NAMES, {"label": "f3"}, "it can be neither dropped nor the label"),
        ("f0,f1,f2,f3", NAMES, {"label": "class"}, "label column 'class' not found in rows.csv"),
        ("f0,f1,f2,f3", NAMES, {"dropped": ("class",)}, "column to drop 'class' not found in rows.csv"),
        ("a,b,c,label", None, {}, "rows.csv has 3 columns of features, and the model takes 4"),
        ("a,b,c,d,target", None, {}, "say which to leave out, --label COLUMN or --drop COLUMN"),
        (",b,c,d", None, {}, "column 1 of rows.csv has no name"),
        ("f0,f0,f1,f2,f3", NAMES, {}, "more than one column 'f0'"),
    ],
)
def test_columns_that_do_not_fit_are_named(tmp_path, monkeypatch, header, names, options, message):
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text(f"{header}\n")
    assert message in refused(model_of(names=names), "rows.csv", **options)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("rows.csv", "f0,f1,f2,f3\n1,2,3,4\n1,,3,4\n", "rows.csv, line 3, column 'f1': the value is missing"),
        ("rows.csv", "f0,f1,f2,f3\n1,2,red,4\n", "rows.csv, line 2, column 'f2': 'red' is text, not a number"),
        ("rows.csv", "f0,f1,f2,f3\n1,2,3,inf\n", "rows.csv, line 2, column 'f3': inf is not a finite number"),
        ("rows.csv", "f0,f1,f2,f3\n1,2,3\n", "rows.csv, line 2: 3 values where the header names 4 columns"),
        ("rows.csv", 'f0,f1,f2,f3,t\n1,2,3,4,"x\n1,2,3,4,y\n', "a quotation mark is opened and never closed"),
        ("rows", "1 1:1\n\n1 2:1 5:2\n", "rows, line 3: feature 5, and the model takes 4"),
        ("rows", "1 2:x\n", "rows, line 1: not 'label index:value index:value …'"),
        ("rows.csv", "", "rows.csv is empty"),
    ],
)
@pytest.mark.parametrize("scaling", [None, STANDARD], ids=["raw", "scaled"])
def test_a_value_that_is_no_number_is_named_by_its_place(tmp_path, monkeypatch, name, data, message, scaling):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(data)
    assert message in refused(model_of(names=NAMES, scaling=scaling), name)


def test_a_quotation_mark_that_is_a_letter_loses_no_row_without_a_label(tmp_path):
    (tmp_path / "rows.csv").write_text('f0,f1,f2,f3,pipe\n1,2,3,4,5" wide\n2,3,4,5,6 wide\n')
    expected = model_of().decision_function(np.array([[1, 2, 3, 4], [2, 3, 4, 5]]))
    assert predicted(model_of(names=NAMES), tmp_path / "rows.csv")[0].tolist() == expected.tolist()


def test_rows_may_have_fewer_features_than_the_model(tmp_path):
    (tmp_path / "rows").write_text("0 1:1\n0\nnan 2:0.5\n")
    scores, known, _ = predicted(model_of(), tmp_path / "rows")
    expected = model_of().decision_function(csr_array(np.array([[1, 0, 0, 0], [0, 0, 0, 0], [0, 0.5, 0, 0]])))
    assert scores.tolist() == expected.tolist()
    assert known.tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    ("name", "data"), [("rows.csv", "f0,f1,f2,f3\n"), ("rows", "# nothing\n\n"), ("rows.parquet", None)]
)
def test_no_rows_have_no_predictions(tmp_path, name, data):
    if data is None:
        pq.write_table(pa.table({one: pa.array([], pa.float64()) for one in NAMES}), tmp_path / name)
    else:
        (tmp_path / name).write_text(data)
    assert len(predicted(model_of(names=NAMES), tmp_path / name)[0]) == 0


@pytest.mark.parametrize(
    ("classes", "written", "known"),
    [
        ((0, 1), ["0", "+1", "1.0", "", "2"], [0, 1, 1, -1, -1]),
        ((0.5, 2.0), ["0.5", "2", "2.0", "na", "x"], [0, 1, 1, -1, -1]),
        ((False, True), ["False", "True", "0", "1", "?"], [0, 1, -1, -1, -1]),
        (("no", "yes"), ["no", "yes", "Yes", "NaN", "1"], [0, 1, -1, -1, -1]),
    ],
)
def test_labels_are_compared_as_users_write_them(tmp_path, classes, written, known):
    lines = [f"1,2,3,4,{label}" for label in written]
    (tmp_path / "rows.csv").write_text("\n".join(["f0,f1,f2,f3,label", *lines]))
    assert predicted(model_of(classes=classes), tmp_path / "rows.csv")[1].tolist() == known


@pytest.mark.parametrize(
    "column", [pa.array([1, None, -1]), pa.array([None, None, None], pa.string()), pa.nulls(3)], ids=str
)
def test_missing_labels_of_parquet_are_no_mistake(tmp_path, column):
    table = pa.table({name: [1.0, 2.0, 3.0] for name in NAMES} | {"label": column})
    pq.write_table(table, tmp_path / "rows.parquet")
    expected = [{1: 1, -1: 0, None: -1}[value] for value in column.to_pylist()]
    assert predicted(model_of(names=NAMES), tmp_path / "rows.parquet")[1].tolist() == expected


# Prepared folders


@pytest.fixture
def board(tmp_path):
    """A prepared folder with a scaling, and a model that goes with it."""
    matrix, labels = rows_of(8, rows=200)
    source = write_csv(tmp_path / "rows.csv", matrix, labels)
    data = prepared(tmp_path / "board", source, scale="standard", rows_per_partition=30)
    return data, model_of(names=NAMES, scaling=data.manifest.scaling.scaling())


@pytest.mark.parametrize("splits", [(), ("test",), ("train", "validation")])
def test_rows_of_a_prepared_folder_are_not_scaled_again(board, splits):
    data, model = board
    scores, codes = data.split(*(splits or data.manifest.splits)).decide(model.without_scaling())
    found, known, _ = predicted(model, data.folder.path, splits=splits)
    assert found.tobytes() == scores.tobytes()
    assert known.tolist() == codes.tolist()


@pytest.mark.parametrize("other", [None, STANDARD, Scaling("unit")])
def test_a_folder_that_was_scaled_otherwise_is_refused(board, other):
    data, model = board
    message = refused(replace(model, scaling=other), data.folder.path)
    assert "was scaled otherwise than what the model was trained on: predict the raw rows it was made of" in message
    assert "rows.csv" in message


def test_an_old_model_of_the_same_data_takes_its_rows_as_they_are(board):
    data, model = board
    old = replace(model, scaling=None, metadata={"data": data.manifest.fingerprint})
    assert predicted(old, data.folder.path)[0].tolist() == predicted(model, data.folder.path)[0].tolist()


def test_a_folder_of_other_features_is_refused(board):
    data, model = board
    assert "4 features, and the model takes 2" in refused(model_of(width=2), data.folder.path)
    turned = replace(model, metadata={"features": NAMES[::-1]})
    assert "their order differs" in refused(turned, data.folder.path)
    assert "it lacks 'x'" in refused(replace(model, metadata={"features": ["x", *NAMES[1:]]}), data.folder.path)


def test_splits_and_columns_are_said_where_there_are_some(board):
    data, model = board
    assert "has no split 'dev'; it has: train, validation, test" in refused(model, data.folder.path, splits=("dev",))
    assert "is prepared already" in refused(model, data.folder.path, label="label")
    assert "leave out --split" in refused(model, data.manifest.sources[0].name, splits=("test",))


# Formats


MODULES = {"onnx": onnx_graph, "libsvm": libsvm_model, "c": c_source}


def saved(model, folder, name):
    if name == "native":
        model.save(folder / "model.arrow")
        return folder / "model.arrow"
    if name == "mlflow":
        (folder / "artifacts").mkdir()
        (folder / "MLmodel").write_text("flavors:\n  python_function:\n    loader_module: os\n")
        onnx_graph.write(model, folder / "artifacts" / onnx_graph.FILE)
        return folder
    return MODULES[name].write(model, folder / MODULES[name].FILE)[0]


@pytest.mark.parametrize("classes", [("no", "yes"), (-1, 1), (False, True), (0.5, 1.5)], ids=str)
@pytest.mark.parametrize("name", ["native", "onnx", "libsvm", "c", "mlflow"])
def test_a_model_of_any_format_predicts_alike(tmp_path, board, name, classes):
    data, model = board
    model = replace(model, classes=classes)
    (tmp_path / "saved").mkdir()
    path = saved(model, tmp_path / "saved", name)
    found = open_model(path)
    assert found.classes == classes
    matrix, _ = rows_of(8, rows=200)
    for rows in (tmp_path / "rows.csv", write_libsvm(tmp_path / "rows", matrix, np.ones(200, int))):
        np.testing.assert_allclose(predicted(found, rows)[0], predicted(model, rows)[0], atol=1e-4)
    folder = data.folder.path
    np.testing.assert_allclose(predicted(found, folder)[0], predicted(model, folder)[0], atol=1e-4)


@pytest.mark.parametrize("name", ["native", "onnx", "libsvm", "c"])
def test_the_bytes_decide_what_a_file_is_not_its_name(tmp_path, name):
    path = saved(model_of(), tmp_path, name).rename(tmp_path / "model.bin")
    matrix, _ = rows_of(9)
    np.testing.assert_allclose(
        open_model(path).decision_function(matrix), model_of().decision_function(matrix), atol=1e-4
    )


@pytest.mark.parametrize("name", ["native", "onnx", "libsvm", "c", "mlflow"])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_file_that_was_cut_off_is_refused(tmp_path, name, share):
    path = saved(model_of(), tmp_path, name)
    file = path / "artifacts" / "model.onnx" if name == "mlflow" else path
    file.write_bytes(file.read_bytes()[: int(file.stat().st_size * share)])
    with pytest.raises(ModelFileError, match="model"):
        open_model(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it is empty"),
        (b"PAR1....", "MODEL comes first, then DATA"),
        (b"\x80\x04\x95 a pickle", "which are never opened"),
        (b"+1 1:0.5\n", "is not a model"),
        (b"svm_type nu_svr\n", "c_svc, rbf"),
        (b"/* mine */ int predict(void);\n", "fingerprint"),
        (b"\x08\x07\x12\x07pytorch", "fingerprint"),
        (b"ARROW1\x00\x00", "not a complete model file"),
        (b"MZ\x90\x00", "is not a model"),
    ],
)
def test_a_foreign_file_is_refused_with_a_reason(tmp_path, data, message):
    (tmp_path / "model").write_bytes(data)
    with pytest.raises(ModelFileError) as caught:
        open_model(tmp_path / "model")
    assert message in str(caught.value)
    assert str(tmp_path / "model") in str(caught.value)


def test_a_missing_model_is_refused_with_what_is_possible(tmp_path):
    with pytest.raises(ModelFileError, match="No such file or directory; a model is a file that 'mmbsgd train --out'"):
        open_model(tmp_path / "nowhere.arrow")


@pytest.mark.parametrize("name", ["onnx", "libsvm", "c"])
def test_a_pipe_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="pipe"):
        MODULES[name].load(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="pipe"):
        open_model(tmp_path / "pipe")


def test_folders_that_are_no_model_are_refused_with_advice(tmp_path):
    with pytest.raises(ModelFileError, match="a folder without a model"):
        open_model(tmp_path)
    saved(model_of(), tmp_path, "onnx")
    with pytest.raises(ModelFileError, match=r"say which model in it, such as .*model\.onnx"):
        open_model(tmp_path)
    (tmp_path / "MLmodel").write_text("flavors: {}\n")
    with pytest.raises(ModelFileError, match="an MLflow model without artifacts"):
        open_model(tmp_path)


def test_the_code_of_an_mlflow_model_is_not_run(tmp_path):
    path = saved(model_of(), tmp_path, "mlflow")
    (path / "code").mkdir()
    (path / "code" / "served.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (path / "python_model.pkl").write_bytes(b"cos\nsystem\n(S'touch ran'\ntR.")
    open_model(path)
    assert not (tmp_path / "ran").exists()
