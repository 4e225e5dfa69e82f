"""`mmbsgd predict`: labels in the user's own words, whole files or none, bounded memory, mistakes in one line."""

import csv
import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prepared import class_blocks, entries, prepared, unchanged, write_csv, write_libsvm
from running import Command

from mmbsgd import BudgetedModel
from workflows.cli import main
from workflows.prediction import file as predictions_file

NAMES = ["f0", "f1", "f2", "f3"]


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs the command here, in an empty folder: (exit code, output, errors)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "500")

    def command_here(*arguments):
        monkeypatch.setattr(sys, "argv", ["mmbsgd", "predict", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err + said.out
        return ended.value.code, said.out, said.err

    return command_here


def save_model(path, classes=(-1, 1), width=4, scaling=None, names=NAMES):
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(8, width)).astype(np.float32)
    coefficients = np.where(vectors.sum(axis=1) > 0, 1.0, -1.0)
    model = BudgetedModel(vectors, coefficients, 0.01, 0.2, classes, {"features": names} if names else {}, scaling)
    model.save(path)
    return model


def rows_of(rows=40):
    matrix, labels = class_blocks(0, rows=rows)
    matrix[:, -1] /= rows
    return matrix, labels


def test_labels_and_scores_go_to_standard_output_and_the_accuracy_does_not(run, tmp_path):
    model = save_model(tmp_path / "model.arrow")
    matrix, labels = rows_of()
    write_csv(tmp_path / "rows.csv", matrix, labels)
    code, output, errors = run("model.arrow", "rows.csv", "--scores")
    assert code == 0, errors
    scores = model.decision_function(matrix)
    header, *lines = output.splitlines()
    assert header == "label,score"
    assert [line.split(",")[0] for line in lines] == [str(label) for label in model.predict(matrix)]
    assert [float(line.split(",")[1]) for line in lines] == scores.tolist()
    right = np.mean((scores > 0) == (labels > 0))
    assert f"accuracy {right:.1%} on 40 labelled rows" in errors
    assert run("model.arrow", "rows.csv")[1].splitlines() == ["label", *(line.split(",")[0] for line in lines)]


@pytest.mark.parametrize(
    ("classes", "kind", "words"),
    [
        ((3, 7), pa.int64(), ["3", "7"]),
        ((0.5, 1.5), pa.float64(), ["0.5", "1.5"]),
        ((0.5, 2), pa.float64(), ["0.5", "2"]),
        ((False, True), pa.bool_(), ["False", "True"]),
        (("no", "yes"), pa.string(), ["no", "yes"]),
        (('say "no"', "yes,\nplease é"), pa.string(), ['say "no"', "yes,\nplease é"]),
        ((1, "other"), pa.string(), ["1", "other"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("scores", [False, True], ids=["labels", "scores"])
def test_labels_keep_their_values_and_their_type(run, tmp_path, classes, kind, words, scores):
    model = save_model(tmp_path / "model.arrow", classes)
    matrix, _ = rows_of()
    expected = model.decision_function(matrix)
    write_libsvm(tmp_path / "rows", matrix, np.zeros(40, int))
    options = ["--scores"] if scores else []
    for ending in ("csv", "csv.gz", "parquet"):
        code, output, errors = run("model.arrow", "rows", "--out", f"out.{ending}", *options)
        assert code == 0, errors
        assert output == f"The predictions of 40 rows are in out.{ending}.\n"
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names == ["label", "score"][: 1 + scores]
    assert table.schema.field("label").type == kind
    own = classes if kind != pa.string() else words
    assert table["label"].to_pylist() == [own[int(score > 0)] for score in expected]
    text = (tmp_path / "out.csv").read_bytes()
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()) == text
    header, *rows = csv.reader(text.decode().splitlines(keepends=True))
    assert header == table.column_names
    assert [row[0] for row in rows] == [words[int(score > 0)] for score in expected]
    if scores:
        np.testing.assert_array_equal(table["score"].to_numpy(), [float(row[1]) for row in rows])


def test_the_accuracy_counts_rows_whose_labels_the_model_knows(run, tmp_path):
    model = save_model(tmp_path / "model.arrow", ("no", "yes"))
    matrix, _ = rows_of()
    labels = np.array(["no", "yes", "maybe", ""])[np.arange(40) % 4]
    write_csv(tmp_path / "rows.csv", matrix, labels, label="answer")
    code, output, errors = run("model.arrow", "rows.csv", "--label", "answer", "--out", "out.csv")
    assert code == 0, errors
    right = np.mean((model.predict(matrix) == labels)[np.arange(40) % 4 < 2])
    assert f"accuracy {right:.1%} on 20 labelled rows" in output
    _, output, errors = run("model.arrow", "rows.csv", "--out", "out.csv")
    assert "accuracy" not in output
    assert errors.strip() == "Columns that the model does not know are ignored: 'answer'."


def test_a_prepared_folder_is_predicted_by_split(run, tmp_path):
    matrix, labels = rows_of(200)
    data = prepared(tmp_path / "board", write_csv(tmp_path / "rows.csv", matrix, labels), scale="standard")
    model = save_model(tmp_path / "model.arrow", scaling=data.manifest.scaling.scaling())
    code, output, errors = run("model.arrow", "board", "--split", "validation, test", "--scores")
    assert code == 0, errors
    scores, codes = data.split("validation", "test").decide(model.without_scaling())
    assert [float(line.split(",")[1]) for line in output.splitlines()[1:]] == scores.tolist()
    assert f"accuracy {np.mean((scores > 0) == codes):.1%} on {len(codes)} labelled rows" in errors


def test_a_known_set_is_found_in_the_home_folder(run, tmp_path):
    prepared(tmp_path / "kept" / "data" / "adult", rows=50)
    save_model(tmp_path / "model.arrow", width=2, names=None)
    code, output, errors = run("model.arrow", "adult", "--home", "kept")
    assert code == 0, errors
    assert len(output.splitlines()) == 51
    code, _, errors = run("model.arrow", "adult")
    assert code == 2
    assert "get it with 'mmbsgd data get adult'" in errors


def test_no_rows_give_a_header_alone(run, tmp_path):
    save_model(tmp_path / "model.arrow")
    (tmp_path / "rows.csv").write_text("f0,f1,f2,f3,label\n")
    code, output, errors = run("model.arrow", "rows.csv", "--scores")
    assert (code, output, errors.strip()) == (0, "label,score\n", "")
    assert run("model.arrow", "rows.csv", "--out", "out.parquet")[0] == 0
    assert pq.read_table(tmp_path / "out.parquet").schema == pa.schema([("label", pa.int64())])


def test_row_groups_are_large_whatever_the_blocks(run, tmp_path, monkeypatch):
    save_model(tmp_path / "model.arrow", width=2, names=None)
    monkeypatch.setattr(predictions_file, "ROWS_PER_GROUP", 300)
    prepared(tmp_path / "board", rows=700, rows_per_partition=100)
    assert run("model.arrow", "board", "--out", "out.parquet")[0] == 0
    found = pq.ParquetFile(tmp_path / "out.parquet").metadata
    assert found.num_rows == 700
    assert found.num_row_groups <= 3


def test_the_old_file_is_replaced_and_a_link_stays(run, tmp_path):
    save_model(tmp_path / "model.arrow", width=2, names=None)
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "out.csv").symlink_to("real.csv")
    with unchanged(tmp_path):
        assert run("model.arrow", "demo", "--rows", "20", "--out", "out.csv")[0] == 0
    assert (tmp_path / "out.csv").is_symlink()
    assert len((tmp_path / "real.csv").read_text().splitlines()) == 21


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.arrow", "rows.csv"], "cannot read model nowhere.arrow: No such file"),
        (["rows.csv", "model.arrow"], "rows.csv is not a model but a table: MODEL comes first, then DATA"),
        (["cut.arrow", "rows.csv"], "cut.arrow is not a complete model file"),
        (["model.arrow", "nowhere.csv"], "nowhere.csv does not exist"),
        (["model.arrow", "short.csv"], "short.csv lacks 'f3', which the model needs"),
        (["model.arrow", "bad.csv", "--out", "out.csv"], "bad.csv, line 3, column 'f2': 'red' is text, not a number"),
        (["model.arrow", "bad.csv", "--out", "out.parquet"], "bad.csv, line 3, column 'f2'"),
        (["model.arrow", "bad.csv", "--out", "out.csv.gz"], "bad.csv, line 3, column 'f2'"),
        (["model.arrow", "packed.csv.gz", "--out", "out.csv"], "the compressed file is damaged or cut off"),
        (["model.arrow", "rows.csv", "--out", "out.txt"], "predictions are written as .csv, .csv.gz, .parquet"),
        (["model.arrow", "rows.csv", "--out", "s3://bucket/out.csv"], "does not exist"),
        (["model.arrow", "rows.csv", "--out", "gone/out.csv"], "cannot write gone/out.csv: the folder"),
        (["model.arrow", "rows.csv", "--out", "folder.csv"], "cannot write folder.csv: it is no file"),
        (["model.arrow", "rows.csv", "--out", "rows.csv"], "--out rows.csv would replace rows.csv"),
        (["model.arrow", "rows.csv", "--split", "test"], "leave out --split"),
        (["model.arrow", "rows.csv", "--format", "libsvm"], "rows.csv, line 1: not 'label index:value"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2_and_leaves_nothing(run, tmp_path, arguments, message):
    save_model(tmp_path / "model.arrow")
    (tmp_path / "cut.arrow").write_bytes((tmp_path / "model.arrow").read_bytes()[:-100])
    matrix, labels = rows_of()
    whole = Path(write_csv(tmp_path / "rows.csv", matrix, labels)).read_bytes()
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(whole)[:-20])
    write_csv(tmp_path / "short.csv", matrix[:, :3], labels)
    (tmp_path / "bad.csv").write_text("f0,f1,f2,f3\n1,2,3,4\n1,2,red,4\n")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "out.csv").write_text("old")
    with unchanged(tmp_path):
        code, _, errors = run(*arguments)
    assert code == 2
    assert message in errors
    assert len(errors.strip().splitlines()) == 1
    assert (tmp_path / "out.csv").read_text() == "old"


def test_help_shows_examples(run):
    code, output, _ = run("--help")
    assert code == 0
    assert "mmbsgd predict demo-model/model.arrow new.csv --out labels.csv" in output


# In processes of their own


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A folder with a model, and a file that takes it a while."""
    folder = tmp_path_factory.mktemp("many")
    save_model(folder / "model.arrow")
    block = "".join(f"{row % 7 - 3},{row % 5},0.5,{row}e-6,{row % 2 * 2 - 1}\n" for row in range(100_000))
    with open(folder / "rows.csv", "w") as file:
        file.write("f0,f1,f2,f3,label\n")
        for _ in range(20):
            file.write(block)
    return folder


PEAK = """
import resource, sys
from workflows.cli import main
sys.argv = ["mmbsgd", "predict", *sys.argv[1:]]
try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def peak_of(folder, *arguments):
    """Megabytes, of a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stderr.split()[-1]) / 1024


@pytest.mark.compiled_only
def test_memory_does_not_grow_with_the_data(many, tmp_path):
    """What was kept of all rows, even their numbers alone, would be seen."""
    with open(many / "rows.csv", "rb") as whole:
        (tmp_path / "part.csv").write_bytes(whole.read(16 << 20).rpartition(b"\n")[0])
    options = ("--scores", "--out", tmp_path / "out.csv")
    small = peak_of(many, "model.arrow", tmp_path / "part.csv", *options)
    large = min(peak_of(many, "model.arrow", "rows.csv", *options) for _ in range(3))  # allocators vary
    rows = 2_000_000
    assert large - small < rows * 4 * 8 / 2**20 / 2
    assert (tmp_path / "out.csv").read_bytes().count(b"\n") == rows + 1


@pytest.mark.compiled_only
def test_an_interrupted_run_leaves_nothing(many, tmp_path):
    running = Command("predict", "model.arrow", "rows.csv", "--scores", "--out", tmp_path / "out.csv", cwd=many)
    running.until(lambda: any(path.stat().st_size for path in tmp_path.glob(".out.csv.*.part")))
    os.killpg(running.process.pid, signal.SIGINT)
    code, output, errors = running.end()
    assert code == 130
    assert "Traceback" not in errors + output
    assert entries(tmp_path) == []


@pytest.mark.compiled_only
def test_who_reads_may_stop_early(many):
    running = Command("predict", "model.arrow", "rows.csv", cwd=many)
    assert running.process.stdout.readline() == "label\n"
    running.process.stdout.close()
    assert running.process.stderr.read().strip() == ""
    running.process.stderr.close()
    running.process.wait(timeout=60)


@pytest.mark.compiled_only
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_a_full_disk_is_a_message_and_leaves_nothing(run, disk, tmp_path, ending):
    save_model(tmp_path / "model.arrow", width=2, names=None)
    code, output, errors = run("model.arrow", "demo", "--rows", 50_000, "--scores", "--out", f"disk/out.{ending}")
    assert code == 2
    assert errors.strip() == (
        f"Error: cannot write disk/out.{ending}: No space left on device; free some space or choose another disk"
    )
    assert output == ""
    assert entries(disk) == []


@pytest.mark.compiled_only
def test_a_full_disk_behind_standard_output_is_a_message_too(tmp_path):
    save_model(tmp_path / "model.arrow", width=2, names=None)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "workflows.cli", "predict", "model.arrow", "demo", "--rows", "1000"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            timeout=120,
            check=False,
        )
    assert done.returncode == 2
    assert "cannot write to standard output: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
