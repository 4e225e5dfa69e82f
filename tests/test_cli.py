"""The mmbsgd command: it trains, explains itself, and answers mistakes with a message and exit code 2."""

import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from prepared import class_blocks, entries, prepared, unchanged, write_csv, write_libsvm

import mmbsgd
from mmbsgd import BudgetedModel, MultiMergeSVC
from workflows.cli import main
from workflows.data import PreparedData
from workflows.data.known import KNOWN, KnownSet


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Nothing is kept between tests."""
    monkeypatch.chdir(tmp_path)


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "workflows.cli", *arguments], capture_output=True, text=True, timeout=240, check=False
    )


def test_training_on_the_demo_prints_a_report():
    done = command("train", "demo", "--rows", "2000", "--epochs", "1")
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
    assert "support vectors" in done.stdout


def test_help_names_the_commands():
    done = command("--help")
    assert done.returncode == 0
    assert "train" in done.stdout


def test_version_is_that_of_the_package():
    done = command("--version")
    assert done.returncode == 0
    assert mmbsgd.__version__ in done.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["train", "nonsense"], "nonsense"),
        (["train", "demo", "--rows", "100", "--mergees", "1"], "mergees"),
        (["train", "demo", "--rows", "100", "--gamma", "-1"], "gamma"),
        (["train", "demo", "--rows", "many"], "rows"),
    ],
)
def test_a_mistake_is_a_message_and_exit_code_2(arguments, named):
    done = command(*arguments)
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def run_here(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["mmbsgd", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_the_entry_point_trains_and_ends_well(monkeypatch, capsys):
    assert run_here(monkeypatch, "train", "demo", "--rows", "300", "--epochs", "1") == 0
    assert "accuracy" in capsys.readouterr().out


def test_the_entry_point_ends_with_2_on_a_mistake(monkeypatch, capsys):
    assert run_here(monkeypatch, "train", "nonsense") == 2
    assert "nonsense" in capsys.readouterr().err


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs the command here, in an empty folder: (exit code, output, errors)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "500")

    def command_here(*arguments):
        code = run_here(monkeypatch, *arguments)
        said = capsys.readouterr()
        assert "Traceback" not in said.err + said.out
        return code, said.out, said.err

    return command_here


def cells(output):
    """The rows of a printed table."""
    lines = [line for line in output.splitlines() if line.startswith(("│", "┃"))]
    return [[cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")] for line in lines]


def test_prepare_shows_what_it_made(run, tmp_path):
    code, output, _ = run("prepare", "demo", "--rows", "1000", "--rows-per-partition", "300", "--out", "board")
    assert code == 0
    assert "board · 1,000 rows" in output
    assert "2 features, density 1, stored dense" in output
    shown = {row[0]: row[1:] for row in cells(output)}
    manifest = PreparedData.open(tmp_path / "board").manifest
    for split in ("train", "validation", "test"):
        first, second = manifest.counts(split)
        assert shown[split] == [str(first + second), str(first), str(second), str(len(manifest.splits[split]))]


def test_prepare_takes_all_its_options(run, tmp_path):
    matrix, _ = class_blocks(1, rows=150)
    words = np.array(["no", "yes", "maybe"])[np.arange(150) % 3]
    write_csv(tmp_path / "in.txt", matrix, words, names=["id", "a", "b", "c"], label="answer", delimiter=";")
    write_csv(
        tmp_path / "test.txt", matrix[:40], words[:40], names=["id", "a", "b", "c"], label="answer", delimiter=";"
    )
    code, output, errors = run(
        *("prepare", "in.txt", "--format", "csv", "--label", "answer", "--drop", "id", "--drop", "c"),
        *("--classes", "yes, no", "--test", "test.txt", "--folds", "2", "--scale", "minmax", "--layout", "sparse"),
        *("--rows-per-partition", "20", "--seed", "7", "--workers", "2", "--out", "out"),
    )
    assert code == 0, errors
    manifest = PreparedData.open(tmp_path / "out").manifest
    assert manifest.labels == ("yes", "no")
    assert manifest.features == ["a", "b"]
    assert manifest.layout == "sparse"
    assert manifest.scaling.method == "minmax"
    assert manifest.seed == 7
    assert {split: sum(manifest.counts(split)) for split in manifest.splits} == {"fold-0": 50, "fold-1": 50, "test": 27}
    assert max(part.rows for part in manifest.partitions) <= 20
    assert "scaling minmax" in " ".join(output.split())
    assert run("prepare", "demo", "--rows", "50", "--out", "out", "--replace")[0] == 0
    assert PreparedData.open(tmp_path / "out").manifest.rows == 50


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prepare", "nowhere.csv", "--out", "out"], "nowhere.csv does not exist"),
        (["prepare", "demo", "--out", "full"], "full holds other files: choose a new folder"),
        (["prepare", "demo", "--out", "full/file"], "full/file is a file"),
        (["prepare", "demo", "--out", "full/file/x/out"], "a part of that path is a file"),
        (["prepare", "table.csv", "--out", "out"], "which column of table.csv is the label? say --label COLUMN"),
        (["prepare", "three.csv", "--out", "out"], "more than two classes: 0, 1, 2; pick two of them"),
        (["prepare", "three.csv", "--classes", "1", "--out", "out"], "must be two labels"),
        (["prepare", "three.csv", "--classes", "1,1", "--out", "out"], "must be two labels"),
        (["prepare", "three.csv", "--classes", "1,2,0", "--out", "out"], "must be two labels"),
        (["prepare", "demo", "--folds", "1", "--out", "out"], "take 2 or more"),
        (["prepare", "demo", "--test-size", "200000", "--out", "out"], "100,000 rows cannot be split"),
        (["prepare", "s3://KEY:SECRET@bucket/in?x=1", "--out", "out"], "cannot use s3://***@bucket/in?x=1"),
        (["data", "show", "full"], "full is not a prepared data set"),
        (["data", "get", "mnist"], "no known data set 'mnist'"),
        (["train", "full/nothing"], "full/nothing does not exist"),
        (["train", "adult"], "get it with 'mmbsgd data get adult'"),
        (["train", "table.csv"], "say --label COLUMN"),
        (["train", "prepared", "--on", "dev"], "no split 'dev'; it has: train, validation, test"),
        (["train", "prepared", "--score-on", "train,dev"], "no split 'dev'"),
        (["train", "prepared", "--gamma", "wide"], "--gamma 'wide' is neither a number nor 'scale' or 'auto'"),
    ],
)
def test_a_mistake_about_data_is_one_line_and_exit_code_2(run, tmp_path, arguments, message):
    matrix, _ = class_blocks(2, rows=60)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    write_csv(tmp_path / "table.csv", matrix, matrix[:, 0] > 0, label="target")
    write_csv(tmp_path / "three.csv", matrix, np.arange(60) % 3)
    prepared(tmp_path / "prepared", rows=100)
    (tmp_path / "mmbsgd-home").mkdir()
    with unchanged(tmp_path):
        code, _, errors = run(*arguments)
    assert code == 2
    assert message in errors
    assert len(errors.strip().splitlines()) == 1
    assert "SECRET" not in errors


@pytest.mark.parametrize(
    "arguments", [["--rows", "3"], ["--scale", "log"], ["--layout", "wide"], ["--workers", "0"], ["--test-size", "-1"]]
)
def test_options_that_make_no_sense_are_refused(run, tmp_path, arguments):
    code, _, errors = run("prepare", "demo", "--out", "out", *arguments)
    assert code == 2
    assert arguments[0] in errors
    assert entries(tmp_path) == []


def test_a_message_is_one_line_in_a_pipe_too(run, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    _, _, errors = run("prepare", f"{'long/' * 30}in.csv", "--out", "out")
    assert len(errors.strip().splitlines()) == 1


@pytest.mark.parametrize("label", ["[bold]", "[/a]"])
def test_labels_are_shown_as_they_are(run, tmp_path, label):
    matrix, labels = class_blocks(3, rows=60)
    write_csv(tmp_path / "in.csv", matrix, np.where(labels > 0, label, "b"))
    code, output, _ = run("prepare", "in.csv", "--out", "out")
    assert code == 0
    assert label in output


def test_the_known_sets_are_listed_with_their_sizes(run):
    code, output, _ = run("data", "list")
    assert code == 0
    shown = {row[0]: row[1:] for row in cells(output)}
    assert shown["adult"][:5] == ["32,561", "16,281", "123", "32", "0.008"]
    assert shown["ijcnn"][:3] == ["49,990", "91,701", "22"]
    assert shown["web"][:3] == ["24,692", "25,057", "300"]
    assert shown["phishing"][:3] == ["8,315", "2,740", "68"]
    assert shown["skin"][:3] == ["164,788", "80,269", "3"]


def test_a_known_set_is_got_shown_and_trained_on(run, tmp_path, monkeypatch):
    (tmp_path / "files").mkdir()
    write_libsvm(tmp_path / "files" / "tiny", *class_blocks(4, rows=120))
    monkeypatch.setitem(KNOWN, "tiny", KnownSet("tiny", "tiny", None, 40, 80, 4, 2.0, 0.25, ("tiny",)))
    monkeypatch.setenv("MMBSGD_DATA", str(tmp_path / "files"))
    code, output, errors = run("data", "get", "tiny")
    assert code == 0, errors
    assert "mmbsgd train mmbsgd-home/data/tiny --C 2 --gamma 0.25 --on train,validation --score-on test" in " ".join(
        output.split()
    )
    code, again, _ = run("data", "show", "mmbsgd-home/data/tiny")
    assert code == 0
    assert cells(again) == cells(output)
    code, output, errors = run("train", "tiny", "--epochs", "1", "--budget", "10", "--out", "model")
    assert code == 0, errors
    assert BudgetedModel.load("model").gamma == 0.25
    code, output, _ = run("data", "get", "tiny")
    assert code == 0
    assert "It is here already; --replace" in output


def test_a_check_finds_a_damaged_partition(run, tmp_path):
    data = prepared(tmp_path / "out", rows=200)
    code, output, _ = run("data", "show", "out", "--check")
    assert code == 0
    assert "Every partition is as it was written." in output
    damaged = tmp_path / "out" / data.manifest.partitions[1].file
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    code, _, errors = run("data", "show", "out", "--check")
    assert code == 2
    assert f"{damaged.name} is damaged" in errors
    assert run("data", "show", "out")[0] == 0


def test_training_on_a_prepared_folder_saves_the_model_that_fit_portions_makes(run, tmp_path):
    matrix, labels = class_blocks(5, rows=200)
    source = write_csv(tmp_path / "in.csv", matrix, np.where(labels > 0, "good", "bad"))
    data = prepared(tmp_path / "out", source, rows_per_partition=50, scale="standard")
    options = ["--C", "3", "--gamma", "scale", "--budget", "15", "--mergees", "3", "--epochs", "2", "--seed", "4"]
    code, output, errors = run("train", "out", *options, "--out", "model.arrow")
    assert code == 0, errors
    assert "accuracy on validation (32 rows)" in output
    assert "out · 128 training rows" in output
    saved = BudgetedModel.load(tmp_path / "model.arrow")
    expected = MultiMergeSVC(C=3, budget=15, mergees=3, epochs=2, random_state=4).fit_portions(data.split("train"))
    assert saved.support_vectors.tobytes() == expected.support_vectors_.tobytes()
    assert saved.coefficients.tobytes() == expected.dual_coef_.tobytes()
    assert saved.classes == ("bad", "good")
    assert saved.metadata["data"] == data.manifest.fingerprint
    assert saved.metadata["features"] == ["f0", "f1", "f2", "f3"]
    assert saved.scaling.method == "standard"
    assert saved.scaling.factor.tolist() == data.manifest.scaling.factor
    scores, codes = data.split("validation").decide(saved.without_scaling())
    assert f"{np.mean((scores > 0) == codes):.2%}" in output
    rows = np.sort(
        np.concatenate([data.split(name).decide(saved.without_scaling())[0] for name in data.manifest.splits])
    )
    np.testing.assert_allclose(np.sort(saved.decision_function(matrix)), rows, atol=1e-5)


def test_the_report_of_a_polished_model_tells_how_near_the_optimum_it_is(run, tmp_path):
    data = prepared(tmp_path / "out", rows=400)
    options = ["train", "out", "--epochs", "2", "--budget", "20"]
    code, output, errors = run(*options)
    assert code == 0, errors
    assert "│   of it polishing" in output
    shown = dict(cells(output))
    names = list(shown)
    expected = MultiMergeSVC(budget=20, mergees=2, epochs=2, random_state=0).fit_portions(data.split("train")).training_
    assert names.index("training time") + 2 == names.index("of it polishing")
    assert shown["passes of polishing"] == str(expected.polish_passes)
    assert shown["objective"] == f"{expected.objective:.4g}"
    assert shown["above its optimum by at most"] == f"{expected.gap:.2%}"
    code, output, _ = run(*options, "--polish", "0")
    assert code == 0
    assert "polishing" not in output
    assert "objective" not in output
    assert "│   of it finding the bias" in output


@pytest.mark.parametrize("polish", [0, 3])
def test_training_and_polishing_are_stages_that_come_to_their_ends(run, tmp_path, monkeypatch, polish):
    prepared(tmp_path / "out", rows=400)
    seen = {}

    @contextmanager
    def progress():
        yield lambda stage, done, total: seen.setdefault(stage, []).append((done, total))

    monkeypatch.setattr("workflows.commands.train.progress", progress)
    code, _, errors = run("train", "out", "--epochs", "2", "--budget", "20", "--polish", str(polish))
    assert code == 0, errors
    stages = {stage: said for stage, said in seen.items() if "256 rows" in stage}
    assert list(stages) == ["training on 256 rows", "polishing 256 rows"][: 2 if polish else 1]
    for said in stages.values():
        assert said[0][0] == 0
        assert said[-1][0] == said[-1][1]
        assert (np.diff([done for done, _ in said]) >= 0).all()


@pytest.mark.parametrize(
    ("options", "trained", "scored"),
    [
        ([], 64, "accuracy on validation (16 rows)"),
        (["--on", "train,validation"], 80, "accuracy on test (20 rows)"),
        (["--on", "train", "--score-on", "validation,test"], 64, "accuracy on validation+test (36 rows)"),
        (["--on", "train,validation,test"], 100, "accuracy on test+train+validation (100 rows, seen in training)"),
    ],
)
def test_splits_to_train_and_score_on_can_be_chosen(run, tmp_path, options, trained, scored):
    prepared(tmp_path / "out", rows=100)
    code, output, errors = run("train", "out", "--epochs", "1", "--budget", "10", *options)
    assert code == 0, errors
    assert f"{trained} training rows" in output
    assert scored in output


def test_all_folds_are_trained_on(run, tmp_path):
    prepared(tmp_path / "out", rows=100, folds=4)
    code, output, errors = run("train", "out", "--epochs", "1", "--budget", "10")
    assert code == 0, errors
    assert "80 training rows" in output
    assert "accuracy on test (20 rows)" in output


def test_training_on_a_file_prepares_it_once(run, tmp_path):
    matrix, labels = class_blocks(6, rows=100)
    write_csv(tmp_path / "in.csv", matrix, labels, label="target")
    for _ in range(2):
        code, output, errors = run(
            *("train", "in.csv", "--label", "target", "--epochs", "1", "--budget", "10", "--home", "kept")
        )
        assert code == 0, errors
        assert "64 training rows" in output
    assert len(entries(tmp_path / "kept" / "data")) == 1


def test_a_model_that_cannot_be_saved_is_a_message(run, tmp_path):
    prepared(tmp_path / "out", rows=100)
    with unchanged(tmp_path):
        code, _, errors = run("train", "out", "--epochs", "1", "--budget", "10", "--out", "gone/model")
    assert code == 2
    assert "cannot write gone/model: the folder" in errors


def test_a_command_refuses_in_a_process_of_its_own(tmp_path):
    done = command("prepare", "demo", "--rows", "many", "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "--rows" in done.stderr
    assert entries(tmp_path) == []
