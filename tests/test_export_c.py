"""A model as C: it compiles without a warning, as C and as C++, and answers as the model does."""

import hashlib
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
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
    run,
    tool,
    trained,
)
from hypothesis import given
from scipy.sparse import csr_matrix

from mmbsgd import BudgetedModel, ModelFileError
from mmbsgd.scaling import Scaling
from workflows.errors import ExportError
from workflows.export import c_compiled, c_source, shared
from workflows.export.check import check, summary

STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-O2")
LANGUAGES = {"c": ("cc", "gcc", ("-std=c99",)), "c++": ("c++", "g++", ("-x", "c++", "-std=c++17"))}

MAIN = r"""
#include "model.c"
#include <stdio.h>

int main(void)
{
    float x[FEATURES];
    double score;

    while (fread(x, sizeof x[0], FEATURES, stdin) == FEATURES) {
        if (predict(x, NULL) != predict(x, &score))
            return 1;
        PRINT(predict(x, &score));
        printf("%c%a%c", 0, score, 0);
    }
    return 0;
}
"""
PRINTS = {
    int: '#define PRINT(label) printf("%ld", label)',
    float: '#define PRINT(label) printf("%a", label)',
    bool: '#define PRINT(label) printf("%d", label)',
    str: '#define PRINT(label) printf("%s", label)',
}
READS = {int: int, float: float.fromhex, bool: lambda word: bool(int(word)), str: str}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("c")


def exported(model, folder):
    (path,) = c_source.write(model, folder / c_source.FILE)
    return c_source.load(path)


def compiled(model, folder, language="c", options=()):
    """A program that answers for rows."""
    compiler, package, standard = LANGUAGES[language]
    command = tool(compiler, package)
    c_source.write(model, folder / c_source.FILE)
    (folder / "main.c").write_text(PRINTS[type(model.classes[0])] + MAIN)
    done = run(command, *standard, *STRICT, *options, "main.c", "-o", "program", "-lm", cwd=folder)
    assert done.stderr == b""
    return folder / "program"


def sanitizers(folder):
    options = ("-fsanitize=undefined,address", "-fno-sanitize-recover=all")
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    command = [tool("cc", "gcc"), *options, "empty.c", "-o", "empty"]
    if subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode:
        pytest.skip("no sanitizers: apt install gcc, or libclang-rt-dev for clang")
    return options


def asked(program, model, rows):
    """(labels, scores)"""
    words = run(program, input=rows.astype(np.float32).tobytes()).stdout.decode().split("\0")[:-1]
    read = READS[type(model.classes[0])]
    return [read(word) for word in words[::2]], np.array([float.fromhex(word) for word in words[1::2]])


@given(models())
def test_it_answers_as_the_plain_sum(folder, model):
    rows = rows_of(model)
    found = exported(model, folder)
    assert (found.classes, found.width) == (model.classes, model.width)
    assert_close(found.decision_function(rows), expected_of(model, rows), 1e-6)


@pytest.mark.compiled_only
@given(models())
def test_it_answers_as_the_native_model(folder, model):
    rows = rows_of(model)
    native = model.decision_function(rows)
    scores = exported(model, folder).decision_function(rows)
    assert np.abs(scores - native).max() <= 1e-4 * max(1.0, np.abs(native).max()) + noise_of(model, rows)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("scaling", "labels"), list(zip(SCALINGS, LABELS, strict=True)))
def test_the_program_answers_as_the_plain_sum(folder, language, scaling, labels):
    model = model_of(scaling=scaling, labels=labels, width=5 + len(scaling))
    rows = rows_of(model, 50)
    model = replace(model, bias=model.bias - float(np.median(expected_of(model, rows))))
    found, scores = asked(compiled(model, folder, language), model, rows)
    assert_close(scores, expected_of(model, rows), 1e-9)
    assert found == [labels[int(score > 0)] for score in scores]
    assert set(found) == set(labels)
    np.testing.assert_allclose(c_source.load(folder / c_source.FILE).decision_function(rows), scores, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("width", "vectors", "gamma", "size", "reach"),
    [(1, 0, 1.0, 1.0, 1.0), (1, 1, 1e-6, 1e6, 10.0), (30, 60, 1e3, 1e6, 100.0)],
)
def test_small_and_extreme_models_run_without_undefined_behaviour(folder, width, vectors, gamma, size, reach):
    model = model_of(1, width, vectors, gamma, size, "standard", ("no", "yes"), reach)
    rows = rows_of(model, 50)
    program = compiled(model, folder, options=sanitizers(folder))
    assert_close(asked(program, model, rows)[1], expected_of(model, rows), 1e-9)


def test_a_trained_model_and_its_program_agree_to_a_ten_thousandth(folder):
    model, rows = trained(scaling=Scaling("standard", np.arange(6.0), np.array([3.0, 1, 0.1, 1, 1, 1])))
    native = model.decision_function(rows)
    found, scores = asked(compiled(model, folder), model, rows)
    np.testing.assert_allclose(scores, native, rtol=0, atol=1e-4)
    assert_same_labels(found, model, native)


@pytest.mark.parametrize("labels", LABELS + ODD_LABELS, ids=repr)
def test_labels_are_read_back(folder, labels):
    found = exported(model_of(labels=labels), folder).classes
    assert found == labels
    assert [type(label) for label in found] == [type(label) for label in labels]


@pytest.mark.parametrize("language", LANGUAGES)
def test_odd_labels_survive_the_compiler(folder, language):
    """One program for all of them, with trigraphs on."""
    compiler, package, standard = LANGUAGES[language]
    command, calls, pieces = tool(compiler, package), [], []
    for number, labels in enumerate(ODD_LABELS):
        for sign in (1.0, -1.0):
            name = f"odd{len(calls)}"
            model = BudgetedModel(np.zeros((0, 1)), [], sign, 1.0, labels)
            (path,) = c_source.write(model, folder / f"odd{number}.c")
            names = ("predict", "FEATURES", "VECTORS", "GAMMA", "BIAS", "LABELS", "COEFFICIENTS", "SUPPORT")
            pieces.append("".join(f"#undef {old}\n#define {old} {name}_{old}\n" for old in names) + path.read_text())
            calls.append(f"fputs({name}_predict(&x, NULL), stdout); putchar(0);")
    main = f"#include <stdio.h>\nint main(void) {{ const float x = 0.0f; {' '.join(calls)} return 0; }}\n"
    (folder / "odd.c").write_text("".join(pieces) + main)
    trigraphs = () if language == "c" else ("-trigraphs",)
    done = run(command, *standard, *trigraphs, *STRICT, "odd.c", "-o", "odd", "-lm", cwd=folder)
    assert done.stderr == b""
    answers = run(folder / "odd").stdout.decode().split("\0")[:-1]
    assert answers == [label for low, high in ODD_LABELS for label in (high, low)]


@pytest.mark.parametrize("labels", [("a\0b", "c"), ("a", "b" * 5000)])
def test_labels_that_are_no_strings_in_c_are_refused(folder, labels):
    with pytest.raises(ExportError, match="cannot be a string in C"):
        c_source.write(model_of(labels=labels), folder / "none.c")
    assert not (folder / "none.c").exists()


@pytest.mark.parametrize("language", LANGUAGES)
def test_names_of_features_are_kept_whatever_they_are(folder, language):
    model = model_of(names=ODD_NAMES)
    rows = rows_of(model, 50)
    assert_close(asked(compiled(model, folder, language), model, rows)[1], expected_of(model, rows), 1e-9)
    assert (folder / c_source.FILE).read_bytes().isascii()
    assert c_source.load(folder / c_source.FILE).features == tuple(ODD_NAMES)
    assert exported(model_of(), folder).features is None


def test_of_a_value_that_is_missing_the_score_is_no_number_and_the_label_the_first(folder):
    for scaling in SCALINGS:
        model = model_of(scaling=scaling, labels=("no", "yes"))
        rows = rows_of(model, 5)
        rows[:, 2] = np.nan
        found, scores = asked(compiled(model, folder), model, rows)
        assert np.isnan(scores).all()
        assert found == ["no"] * 5
    assert "Values must be finite: where one is NaN" in (folder / c_source.FILE).read_text()


@pytest.mark.parametrize("labels", [*LABELS, ("žluťoučký", "日本語 🐎"), (1, 2.5)], ids=repr)
def test_the_compiled_file_is_what_is_checked_and_timed(folder, labels):
    tool("cc", "gcc")
    model = model_of(labels=labels, scaling="standard")
    rows = rows_of(model, 50)
    files = c_source.write(model, folder / "checked.c")
    running = c_compiled.run(files[0])
    ready = running.prepared(csr_matrix(rows))
    assert_close(running.decision_function(ready), expected_of(model, rows), 1e-9)
    assert_same_labels(running.predict(ready), model, expected_of(model, rows))
    checked = check("c", c_source.load(files[0]), model, rows, files)
    assert 0.0 < 1000 * checked.row == pytest.approx(checked.batch)
    assert checked.difference <= checked.allowed < 1e-2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("value > 0.0 ? 1 : 0", "value > 0.0 ? 0 : 1", "other labels"),
        ("double value = BIAS;", "double value = -BIAS;", "decision values differ"),
        ("return LABELS", "return SABELS", r"cc does not compile model\.c.*SABELS.*please report it"),
    ],
)
def test_code_that_is_wrong_is_found_though_its_tables_are_right(folder, monkeypatch, old, new, message):
    tool("cc", "gcc")
    monkeypatch.setattr(c_source, "_CODE", c_source._CODE.replace(old, new))
    model = model_of()
    files = c_source.write(model, folder / c_source.FILE)
    with pytest.raises(ExportError, match=f"(?s){message}"):
        check("c", c_source.load(files[0]), model, rows_of(model), files)


def no_compiler(monkeypatch):
    monkeypatch.setattr(c_compiled, "COMPILERS", ("nowhere",))


def compiler_that_fails(monkeypatch):
    monkeypatch.setattr(c_compiled, "COMPILERS", ("false",))


def file_that_is_too_large(monkeypatch):
    monkeypatch.setattr(c_compiled, "MOST_BYTES", 100)


def folder_that_nothing_is_run_from(monkeypatch):
    def refused(path):
        raise OSError(f"{path}: failed to map segment from shared object")

    monkeypatch.setattr(c_compiled.ctypes, "CDLL", refused)


@pytest.mark.parametrize(
    "hindrance", [no_compiler, compiler_that_fails, file_that_is_too_large, folder_that_nothing_is_run_from]
)
def test_where_it_cannot_be_compiled_answers_are_checked_and_times_are_not_measured(folder, monkeypatch, hindrance):
    hindrance(monkeypatch)
    model = model_of()
    files = c_source.write(model, folder / c_source.FILE)
    checked = check("c", c_source.load(files[0]), model, rows_of(model), files)
    assert (checked.row, checked.batch) == (None, None)
    assert summary({"c": checked})[0][2:4] == ("not measured", "not measured")
    with pytest.raises(ExportError, match="decision values differ"):
        check("c", c_source.load(files[0]), replace(model, bias=model.bias + 1.0), rows_of(model), files)


def test_nothing_of_a_number_is_lost(folder):
    points = np.array([[0.1, 1e-45], [3.4e38, -0.0]], np.float32)
    model = BudgetedModel(
        points, [1 / 3, -5e-324], 2 / 3, np.pi, scaling=Scaling("minmax", [0.1, 1e300], [1e-300, 3.0])
    )
    found = exported(model, folder)
    assert (found.bias, found.gamma) == (2 / 3, np.pi)
    assert found.coefficients.tolist() == [1 / 3, -5e-324]
    assert np.array_equal(found.vectors, points)


def test_rows_are_rounded_to_float_first_and_sparse_ones_are_the_same(folder):
    model = model_of(scaling="sparse")
    rows = rows_of(model).astype(np.float64)
    found = exported(model, folder)
    expected = found.decision_function(rows)
    np.testing.assert_array_equal(found.decision_function(rows + 1e-12 * rows), expected)
    np.testing.assert_array_equal(found.decision_function(csr_matrix(rows)), expected)


def test_damaged_files_are_refused(folder):
    (path,) = c_source.write(model_of(vectors=3, width=3, names=["a", "b", "c"]), folder / "whole.c")
    data = path.read_bytes()
    for damaged in [*damages(data), *FOREIGN]:
        if damaged != data:
            path.write_bytes(damaged)
            with pytest.raises(ModelFileError, match=r"whole\.c .*export the model again"):
                c_source.load(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("VECTORS = 2", "VECTORS = 3"),
        ("VECTORS = 2", "VECTORS = 2000000000"),
        ("FEATURES = 2", "FEATURES = 0"),
        ("GAMMA = 0x1p-1", "GAMMA = -0x1p-1"),
        ("GAMMA = 0x1p-1", "GAMMA = 0x1p+99999"),
        ("GAMMA", "DELTA"),
        ("0x1p+1f", "nan"),
        ("0x1p+1f", "12"),
        ("0x1p+1f", "0x1p+999f"),
        ("0x1p+1f", "system(0)"),
        ("{-1L, 1L}", "{-1L}"),
        ("{-1L, 1L}", "{-1L, x}"),
        ("SHIFT[FEATURES]", "SHAFT[FEATURES]"),
        ("- SHIFT[k]", "+ SHIFT[k]"),
        ("mmbsgd", "somebody"),
        ("#endif\n\nenum", "#endif\n#include <x>\n\nenum"),
        ('["a",\n"b"]', '["a"]'),
        ('["a",\n"b"]', '["a",\n2]'),
        ('["a",\n"b"]', '["a", "b"]'),
        ('["a",\n"b"]', '["a",\n"b"'),
        ('["a",\n"b"]', '["a",\n"b"] */ int x; /* []'),
        ('["a",\n"b"]', "[" * 100_000 + "]"),
    ],
)
def test_a_file_of_nonsense_is_refused_though_its_fingerprint_fits(folder, old, new):
    points, scaling = np.array([[1.0, 2.0], [3.0, 4.0]]), Scaling("minmax", [1.0, 2.0], [3.0, 4.0])
    model = BudgetedModel(points, [1.0, -1.0], 0.0, 0.5, metadata={"features": ["a", "b"]}, scaling=scaling)
    (path,) = c_source.write(model, folder / "signed.c")
    body = path.read_text().rpartition("/* sha256")[0]
    assert old in body
    body = body.replace(old, new)
    path.write_text(f"{body}/* sha256 {hashlib.sha256(body.encode()).hexdigest()} */\n")
    with pytest.raises(ModelFileError, match="signed"):
        c_source.load(path)


def test_a_file_that_is_missing_or_too_large_is_refused(folder, monkeypatch):
    with pytest.raises(ModelFileError, match=r"cannot read model .*away\.c"):
        c_source.load(folder / "away.c")
    os.mkfifo(folder / "pipe.c")
    for special in (folder / "pipe.c", folder, Path("/dev/zero")):
        with pytest.raises(ModelFileError, match="is a folder, pipe or device: give the file of a model"):
            c_source.load(special)
    (path,) = c_source.write(model_of(), folder / "large.c")
    monkeypatch.setattr(shared, "LARGEST", 100)
    with pytest.raises(ModelFileError, match="more than any model"):
        c_source.load(path)
