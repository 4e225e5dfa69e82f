"""A trained model: immutable, decides like the naive sum, and survives a file bit for bit or not at all."""

import dataclasses
import json
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import naive
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_matrix, csr_matrix

from mmbsgd import BudgetedModel, InputError, ModelFileError
from mmbsgd.model import FORMAT, FORMAT_VERSION
from mmbsgd.model import _fingerprint as fingerprint
from mmbsgd.scaling import Scaling

SCALINGS = [
    Scaling("minmax", np.array([0.5, -1e6, 3.0]), np.array([2.0, 1e-6, 0.25])),
    Scaling("standard", np.zeros(3), np.array([1e3, 0.1, 1.0])),
    Scaling("unit"),
]


def model_of(seed=0, vectors=5, width=3, **options):
    generator = np.random.default_rng(seed)
    options = {"bias": 0.1, "gamma": 0.7, "classes": ("no", "yes"), "metadata": {"source": "a test"}, **options}
    points = generator.normal(size=(vectors, width)).astype(np.float32)
    return BudgetedModel(points, generator.normal(size=vectors), **options)


def assert_same_bits(left, right):
    assert left.support_vectors.tobytes() == right.support_vectors.tobytes()
    assert left.support_vectors.shape == right.support_vectors.shape
    assert left.coefficients.tobytes() == right.coefficients.tobytes()
    assert float(left.bias).hex() == float(right.bias).hex()
    assert float(left.gamma).hex() == float(right.gamma).hex()
    assert left.classes == right.classes
    assert left.metadata == right.metadata
    assert (left.scaling and left.scaling.as_dict()) == (right.scaling and right.scaling.as_dict())


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.arrow"
    model_of().save(path)
    return path


@given(seed=st.integers(0, 10**6), vectors=st.integers(1, 70), width=st.integers(1, 6), sparse=st.booleans())
def test_the_decision_function_equals_the_naive_sum(seed, vectors, width, sparse):
    model = model_of(seed, vectors, width)
    rows = np.random.default_rng(seed + 1).normal(size=(9, width)).astype(np.float32)
    expected = naive.margins(rows, model.support_vectors, model.coefficients, 0.7) + 0.1
    scores = model.decision_function(csr_matrix(rows) if sparse else rows)
    np.testing.assert_allclose(scores, expected, atol=1e-5 * np.abs(model.coefficients).sum())


def test_dense_and_csr_rows_get_the_same_bits():
    rows = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    rows[rows < 0] = 0.0
    model = model_of(vectors=40)
    expected = model.decision_function(rows).tobytes()
    assert model.decision_function(csr_matrix(rows)).tobytes() == expected
    assert model.decision_function(coo_matrix(rows)).tobytes() == expected
    assert model.decision_function(rows.astype(np.float64)).tobytes() == expected
    assert model.decision_function(np.asfortranarray(rows)).tobytes() == expected


def test_a_batch_of_no_rows_has_no_scores():
    assert model_of().decision_function(np.empty((0, 3))).shape == (0,)
    assert model_of().decision_function(csr_matrix((0, 3))).shape == (0,)


def test_positive_scores_are_the_second_class():
    model = BudgetedModel(np.array([[0.0]]), [1.0], -0.5, 1.0, ("no", "yes"))
    assert list(model.predict(np.array([[0.0], [5.0]]))) == ["yes", "no"]


def test_coefficients_of_any_size_neither_overflow_nor_vanish():
    for scale in (1e-300, 1e-30, 1e60, 1e300):
        model = BudgetedModel(np.array([[0.0]]), [scale], 0.0, 1.0)
        assert model.decision_function(np.zeros((1, 1)))[0] == pytest.approx(scale, rel=1e-6)


def test_a_model_without_vectors_answers_its_bias():
    model = BudgetedModel(np.empty((0, 4), np.float32), [], 0.25, 1.0)
    assert model.width == 4
    assert np.array_equal(model.decision_function(np.ones((2, 4))), [0.25, 0.25])


@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda scaling: scaling.method)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_model_with_a_scaling_takes_raw_rows(scaling, sparse, tmp_path):
    raw = np.random.default_rng(0).normal(size=(9, 3))
    rows = csr_matrix(raw) if sparse else raw
    model = model_of(scaling=scaling)
    bare = model.without_scaling()
    assert bare.scaling is None
    expected = bare.decision_function(scaling.apply(raw))
    np.testing.assert_allclose(model.decision_function(rows), expected, rtol=0, atol=1e-6)
    model.save(tmp_path / "model.arrow")
    loaded = BudgetedModel.load(tmp_path / "model.arrow")
    assert_same_bits(loaded, model)
    np.testing.assert_array_equal(loaded.decision_function(rows), model.decision_function(rows))


def test_large_raw_values_are_scaled_before_they_are_narrowed():
    """Float32 would round them to the same number."""
    raw = 1.7e9 + np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]])
    model = model_of(scaling=Scaling("standard", np.full(3, 1.7e9), np.ones(3)))
    expected = model.without_scaling().decision_function(raw - 1.7e9)
    np.testing.assert_array_equal(model.decision_function(raw), expected)


def test_a_scaling_that_does_nothing_is_none_and_one_of_another_width_is_refused():
    assert model_of(scaling=Scaling("none")).scaling is None
    with pytest.raises(InputError, match="for 2 features, not 3"):
        model_of(scaling=Scaling("minmax", np.zeros(2), np.ones(2)))


@pytest.mark.parametrize(
    ("method", "numbers"),
    [
        ("often", {}),
        ("minmax", {}),
        ("unit", {"shift": np.ones(3), "factor": np.ones(3)}),
        ("minmax", {"shift": np.array([np.nan]), "factor": np.ones(1)}),
    ],
)
def test_a_scaling_that_makes_no_sense_is_refused(method, numbers):
    with pytest.raises(InputError, match="scaling"):
        Scaling(method, **numbers)


def test_a_model_is_loaded_and_asked_without_scipy_and_scikit_learn(saved):
    code = (
        "import sys; sys.modules['scipy'] = sys.modules['sklearn'] = None; import numpy as np; "
        "from mmbsgd import BudgetedModel; print(BudgetedModel.load(sys.argv[1]).predict(np.zeros((1, 3)))[0])"
    )
    done = subprocess.run([sys.executable, "-c", code, saved], capture_output=True, text=True, check=False)
    assert done.stdout.strip() in ("no", "yes"), done.stderr


def test_a_file_of_the_first_version_is_read(saved, tmp_path):
    model = model_of()
    with pa.OSFile(str(saved)) as file:
        header = json.loads(pa.ipc.open_file(file).schema.metadata[b"model"])
    del header["scaling"]
    written = json.dumps(header)
    sha256 = fingerprint(written.encode(), model.coefficients, model.support_vectors)
    rewritten(saved, tmp_path / "old", version="1", model=written, sha256=sha256)
    assert_same_bits(BudgetedModel.load(tmp_path / "old"), model)


@pytest.mark.parametrize("size", [1.0, 1e4], ids=["products", "differences"])
def test_threads_share_a_model(size):
    points = np.random.default_rng(0).normal(size=(300, 20)) * size
    batches = [points + np.random.default_rng(i).normal(size=points.shape) for i in range(16)]
    models = [BudgetedModel(points, np.ones(300), 0.0, 0.01) for _ in range(2)]
    expected = [models[0].decision_function(batch) for batch in batches]
    models[1].decision_function(batches[0][:1])
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(models[1].decision_function, batches))
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("shape", [(2, 4), (2, 2), (3,)])
def test_rows_of_another_width_are_refused(shape):
    with pytest.raises(InputError, match="3 features"):
        model_of().decision_function(np.zeros(shape))


def test_as_many_coefficients_as_vectors_are_needed():
    with pytest.raises(InputError, match="as many coefficients"):
        BudgetedModel(np.zeros((2, 3)), [1.0], 0.0, 1.0)


def test_a_model_cannot_be_changed():
    points, coefficients = np.zeros((2, 3), np.float32), np.ones(2)
    model = BudgetedModel(points, coefficients, 0.0, 1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.bias = 1.0
    with pytest.raises(ValueError, match="read-only"):
        model.support_vectors[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        model.coefficients[0] = 3.0
    points[:], coefficients[:] = 7.0, 7.0
    assert not model.support_vectors.any()
    assert np.array_equal(model.coefficients, [1.0, 1.0])


def test_a_model_can_be_pickled_before_and_after_its_first_decision():
    model, rows = model_of(), np.ones((2, 3))
    fresh = pickle.loads(pickle.dumps(model))
    expected = model.decision_function(rows)
    used = pickle.loads(pickle.dumps(model))
    assert np.array_equal(fresh.decision_function(rows), expected)
    assert np.array_equal(used.decision_function(rows), expected)


@given(
    seed=st.integers(0, 10**6),
    vectors=st.integers(0, 40),
    width=st.integers(1, 5),
    bias=st.floats(allow_nan=False, allow_infinity=False),
    gamma=st.floats(1e-300, 1e300),
    classes=st.sampled_from([(-1, 1), (0, 1), ("no", "yes"), (False, True), (0.5, 1.5), ("ä", "𝄞"), (-(2**60), 2**60)]),
)
def test_saved_then_loaded_is_the_same_bit_for_bit(tmp_path_factory, seed, vectors, width, bias, gamma, classes):
    path = tmp_path_factory.mktemp("model") / "model.arrow"
    model = model_of(seed, vectors, width, bias=bias, gamma=gamma, classes=classes)
    model.save(path)
    loaded = BudgetedModel.load(path)
    assert_same_bits(model, loaded)
    assert [type(label) for label in loaded.classes] == [type(label) for label in classes]


def test_a_loaded_model_predicts_the_same_bits(saved):
    rows = np.random.default_rng(3).normal(size=(100, 3))
    expected = model_of().decision_function(rows)
    assert BudgetedModel.load(saved).decision_function(rows).tobytes() == expected.tobytes()
    assert not BudgetedModel.load(saved).coefficients.flags.writeable


def test_labels_of_numpy_types_are_saved_as_plain_ones(tmp_path):
    model_of(classes=(np.int64(3), np.int64(8))).save(tmp_path / "m")
    assert BudgetedModel.load(tmp_path / "m").classes == (3, 8)


@pytest.mark.parametrize("label", [None, (1, 2), float("nan"), b"bytes"])
def test_labels_that_a_file_cannot_hold_are_refused(tmp_path, label):
    with pytest.raises(InputError, match="label must be"):
        model_of(classes=(0, label)).save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_every_truncation_is_refused(saved, tmp_path):
    data, cut = saved.read_bytes(), tmp_path / "cut.arrow"
    for length in range(len(data)):
        cut.write_bytes(data[:length])
        with pytest.raises(ModelFileError, match=r"cut\.arrow"):
            BudgetedModel.load(cut)


def test_every_flipped_bit_is_refused_or_harmless(saved, tmp_path):
    data, flipped, original = saved.read_bytes(), tmp_path / "flipped.arrow", model_of()
    for place in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[place // 8] ^= 1 << (place % 8)
        flipped.write_bytes(damaged)
        try:
            loaded = BudgetedModel.load(flipped)
        except ModelFileError:
            continue
        assert_same_bits(loaded, original)


@pytest.mark.parametrize("content", [b"", b"hello\n" * 100, b"ARROW1\x00\x00", b"\x80\x04." * 10, bytes(5000)])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(ModelFileError, match="other"):
        BudgetedModel.load(tmp_path / "other")


def test_an_arrow_file_of_another_kind_is_refused(tmp_path):
    batch = pa.record_batch({"a": [1, 2]})
    with pa.OSFile(str(tmp_path / "other"), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(ModelFileError, match="not a model"):
        BudgetedModel.load(tmp_path / "other")


@pytest.mark.parametrize("version", [str(FORMAT_VERSION + 1), "99", "", "\u00e9"])
def test_a_newer_or_unknown_version_is_refused_with_advice(saved, tmp_path, version):
    rewritten(saved, tmp_path / "newer", version=version)
    with pytest.raises(ModelFileError, match="upgrade mmbsgd"):
        BudgetedModel.load(tmp_path / "newer")


@pytest.mark.parametrize("header", ["{}", "[]", "null", "3", "{", '{"bias": 1}', '{"sha256": 5}'])
def test_a_header_that_makes_no_sense_is_refused(saved, tmp_path, header):
    rewritten(saved, tmp_path / "odd", model=header)
    with pytest.raises(ModelFileError, match="damaged"):
        BudgetedModel.load(tmp_path / "odd")


def rewritten(source, target, **changes):
    """The same file with other metadata."""
    with pa.OSFile(str(source)) as file:
        table = pa.ipc.open_file(file).read_all()
    metadata = {**table.schema.metadata, **{key.encode(): value for key, value in changes.items()}}
    assert metadata[b"format"] == FORMAT.encode()
    table = table.replace_schema_metadata(metadata)
    with pa.OSFile(str(target), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(ModelFileError, match="nowhere"):
        BudgetedModel.load(tmp_path / "nowhere")
    with pytest.raises(ModelFileError, match="cannot read"):
        BudgetedModel.load(tmp_path)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        model_of(seed=9).save(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_saving_over_a_folder_fails_without_leftovers(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        model_of().save(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_metadata_that_json_cannot_hold_leaves_nothing_behind(tmp_path):
    with pytest.raises(TypeError):
        model_of(metadata={"a": object()}).save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_a_saved_file_has_the_permissions_of_a_new_file(saved):
    plain = saved.parent / "plain"
    plain.touch()
    assert saved.stat().st_mode == plain.stat().st_mode


def test_another_process_reads_the_same_model(saved):
    code = f"from mmbsgd import BudgetedModel; print(BudgetedModel.load({str(saved)!r}).coefficients.tobytes().hex())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == model_of().coefficients.tobytes().hex()


@pytest.mark.parametrize(
    "change", [{"gamma": -1.0}, {"gamma": np.nan}, {"bias": np.nan}, {"classes": (1, 1)}, {"classes": (1, 2, 3)}]
)
def test_a_model_that_could_not_decide_is_refused(change):
    parts = {"support_vectors": np.eye(2), "coefficients": np.ones(2), "bias": 0.0, "gamma": 1.0} | change
    with pytest.raises(InputError):
        BudgetedModel(**parts)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_a_model_refuses_values_it_cannot_compare(value):
    model = BudgetedModel(np.eye(2), np.ones(2), 0.0, 1.0)
    with pytest.raises(InputError, match="scale the data first"):
        model.predict([[value, 0.0]])
