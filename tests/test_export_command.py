"""`mmbsgd export`: from a study to files that answer alike; wrong requests say what is possible instead."""

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import numpy as np
import pytest
from mlflow_servers import HOST, free_port
from prepared import prepared, write_csv
from running import Command, eventually, loaded
from test_docs import blocks
from tracked import quiet

from mmbsgd import BudgetedModel
from workflows.cli import main
from workflows.commands.sync import looked_up
from workflows.data import PreparedData
from workflows.export import c_source, libsvm_model, mlflow_model, native, onnx_graph
from workflows.export.once import KEY
from workflows.study.job import Job
from workflows.study.job import run as tune

pytestmark = [quiet, pytest.mark.compiled_only]
ALL = "native,onnx,libsvm,mlflow,c"


def points(rows=900):
    generator = np.random.default_rng(3)
    matrix = generator.normal([3.0, -70.0, 0.5], [2.0, 30.0, 0.01], size=(rows, 3)).astype(np.float32)
    inside = np.hypot((matrix[:, 0] - 3.0) / 2.0, (matrix[:, 1] + 70.0) / 30.0) < 1.1
    return matrix, np.where(inside, "near", "far")


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    """A study of scaled data with named columns and labels."""
    folder = tmp_path_factory.mktemp("studied")
    source = write_csv(folder / "rings.csv", *points(), names=["width", "height", "depth"])
    prepared(folder / "rings", source, scale="standard")
    tune(
        Job(str(folder / "rings"), study="rings", trials=12, confirm=1, workers=0, tracking=False, home=folder / "home")
    )
    return folder


@pytest.fixture
def place(studied, tmp_path, monkeypatch):
    """A copy of the study for a test of its own; commands run in this folder."""
    shutil.copytree(studied / "home", tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def export(place, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "300")

    def run(*options, study="rings"):
        words = ["mmbsgd", "export", study, "--home", str(place / "home"), "--seeds", "3", *map(str, options)]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return ended.value.code, said.out, said.err

    return run


def test_five_formats_that_agree(export, place):
    code, output, errors = export("--format", ALL, "--pick", "most-accurate", "--out", "out")
    assert code == 0, errors
    out = place / "out"
    expected = BudgetedModel.load(out / "model.arrow")
    matrix, labels = points()
    scores = expected.decision_function(matrix)
    assert np.mean(expected.predict(matrix) == labels) > 0.7
    for module in (native, onnx_graph, libsvm_model, c_source, mlflow_model):
        found = module.load(out / module.FILE)
        assert tuple(found.classes) == ("far", "near")
        np.testing.assert_allclose(found.decision_function(matrix), scores, atol=1e-4)
        assert module.NAME in output
    seen = looked_up("rings", place / "home", None)
    assert expected.metadata["data"] == seen.settings.fingerprint
    assert expected.metadata["features"] == ["width", "height", "depth"]
    assert expected.scaling.method == "standard"
    assert {file.name for file in out.iterdir()} >= {"model-card.md", "front.svg"}


def test_the_card_tells_where_the_model_comes_from_and_how_good_it_is(export, place):
    code, output, errors = export("--format", "native,onnx", "--pick", "most-accurate", "--out", "out")
    assert code == 0, errors
    card = (place / "out" / "model-card.md").read_text()
    seen = looked_up("rings", place / "home", None)
    data = PreparedData.open(seen.settings.data)
    model = BudgetedModel.load(place / "out" / "model.arrow")
    decided, codes = data.split("test").decide(model.without_scaling())
    accuracy = f"{np.mean((decided > 0) == codes):.2%}"
    assert f"accuracy on the test rows: {accuracy}" in output
    assert f"| accuracy on the test rows | {accuracy} |" in card
    for fact in (
        seen.settings.fingerprint,
        "the most accurate",
        "![The front that it was chosen from](front.svg)",
        "| onnx | `model.onnx` |",
        "standard scaling",
        f"{data.split('train', 'validation').rows:,} rows",
        *(f"`{name}`" for name in seen.front[0].parameters),
    ):
        assert fact in card, fact
    assert "Chosen as the most accurate" in output


def test_the_test_rows_are_used_once_and_the_card_tells_when_they_were_not(export, place):
    first, second = (trial.number for trial in looked_up("rings", place / "home", None).complete[:2])
    assert export("--trial", first, "--out", "a")[0] == 0
    assert export("--trial", first, "--out", "b", "--format", "c")[0] == 0
    code, _, errors = export("--trial", second, "--out", "c")
    assert code == 2
    assert f"for trial {first}" in errors
    assert "--again" in errors
    assert not (place / "c").exists()
    code, output, errors = export("--trial", second, "--out", "c", "--again")
    assert code == 0, errors
    assert "other models were tested too: 1" in output
    assert f"used for other models too** (trial {first} on" in (place / "c" / "model-card.md").read_text()
    assert export("--trial", first, "--out", "d", "--format", "c")[0] == 0
    assert f"used for other models too** (trial {second} on" in (place / "d" / "model-card.md").read_text()


def test_data_without_test_rows_is_told_and_none_are_invented(tmp_path, monkeypatch, capsys):
    source = write_csv(tmp_path / "rings.csv", *points(300))
    prepared(tmp_path / "rings", source, test_size=0)
    home = tmp_path / "home"
    tune(Job(str(tmp_path / "rings"), trials=4, confirm=0, workers=0, tracking=False, home=home))
    monkeypatch.setattr(sys, "argv", ["mmbsgd", "export", "rings", "--home", str(home), "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert "no test rows" in capsys.readouterr().out
    assert "was not measured" in (tmp_path / "out" / "model-card.md").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--min-accuracy", "1.0"], "what can be reached: accuracy "),
        (["--max-seconds", "1e-9"], "what can be reached:"),
        (["--max-budget", "1"], "support vectors"),
        (["--max-latency-us", "0.0001"], "µs a row"),
        (["--trial", "999"], "trial 999 of 'rings' does not exist: those of the front are"),
        (["--format", "pickle"], "the formats are native, onnx, libsvm, mlflow, c"),
        (["--format", ""], "the formats are native"),
        (["--pick", "knee", "--trial", "1"], "one of them"),
        (["--register", "name"], "need --format mlflow"),
        (["--alias", "champion", "--format", "mlflow"], "--register NAME"),
        (["--register", "a/b", "--format", "mlflow"], "neither '/' nor ':'"),
        (["--register", " ", "--format", "mlflow"], "not empty"),
        (["--register", "a", "--alias", "v1", "--format", "mlflow"], "neither 'latest' nor a version"),
        (["--register", "a", "--alias", "not good", "--format", "mlflow"], "letters, digits"),
        (["--out", "home/studies/rings.journal/x"], "cannot write"),
        (["--out", "/proc/nowhere/x"], "cannot write"),
    ],
)
def test_wrong_requests_say_what_is_possible(export, place, options, message):
    before = sorted(place.rglob("*"))
    code, _, errors = export(*options)
    assert code == 2
    assert message in errors
    assert sorted(place.rglob("*")) == before


def test_an_unknown_study_is_named_with_those_there_are(export):
    code, _, errors = export(study="nowhere")
    assert code == 2
    assert "no study 'nowhere'" in errors
    assert "there are: rings" in errors


def test_a_name_that_is_taken_is_left_alone_unless_it_is_an_export(export, place):
    (place / "out").mkdir()
    (place / "out" / "precious").write_text("mine")
    for options in ([], ["--replace"]):
        code, _, errors = export("--out", "out", *options)
        assert code == 2
        assert "out is" in errors
    assert (place / "out" / "precious").read_text() == "mine"
    assert export("--out", "model", "--format", "c")[0] == 0
    assert "there already" in export("--out", "model")[2]
    assert export("--out", "model", "--replace", "--format", "native")[0] == 0
    assert not (place / "model" / "model.c").exists()
    assert sorted(file.name for file in place.iterdir()) == ["home", "model", "out"]


def test_an_empty_folder_is_as_good_as_none(export, place):
    (place / "out").mkdir()
    assert export("--out", "out", "--format", "c")[0] == 0
    assert (place / "out" / "model.c").is_file()


def test_a_killed_export_leaves_nothing_that_the_next_one_does_not_clear_away(export, place):
    words = ["export", "rings", "--home", place / "home", "--seeds", "100000", "--out", "out"]
    command = Command(*words, cwd=place)
    eventually(lambda: list(place.glob(".out.*")))
    assert command.kill()[0] == -signal.SIGKILL
    assert [file.name for file in place.iterdir() if file.name != "home"] == [next(place.glob(".out.*")).name]
    code, _, errors = export("--out", "out")
    assert code == 0, errors
    assert sorted(file.name for file in place.iterdir()) == ["home", "out"]


def test_a_full_disk_is_a_message_and_leaves_nothing(export, disk):
    code, _, errors = export("--out", disk / "out", "--format", ALL)
    assert code == 2
    assert "No space left on device" in errors
    assert list(disk.iterdir()) == []


def test_a_study_with_folds_trains_on_all_of_them(tmp_path, monkeypatch, capsys):
    source, home = write_csv(tmp_path / "rings.csv", *points(400)), tmp_path / "home"
    tune(Job(str(source), study="rings", folds=3, trials=4, confirm=0, workers=0, tracking=False, home=home))
    words = ["export", "rings", "--home", str(home), "--out", str(tmp_path / "out"), "--format", "native,libsvm"]
    monkeypatch.setattr(sys, "argv", ["mmbsgd", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0, capsys.readouterr().err
    text = (tmp_path / "out" / "model-card.md").read_text()
    assert "| trained on | fold-0 + fold-1 + fold-2, " in text
    assert "accuracy on the test rows" in text


def test_a_study_is_exported_from_anywhere(tmp_path, monkeypatch, capsys):
    """It was tuned with a path that means something in one folder only."""
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "rings.csv", *points(300))
    home = tmp_path / "home"
    tune(Job("rings.csv", study="rings", trials=4, confirm=0, workers=0, tracking=False, home=home))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr(sys, "argv", ["mmbsgd", "export", "rings", "--home", str(home), "--format", "native"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0, capsys.readouterr().err


def test_rows_of_unit_length_are_refused_for_libsvm_before_any_work(tmp_path, monkeypatch, capsys):
    prepared(tmp_path / "rings", write_csv(tmp_path / "rings.csv", *points(300)), scale="unit")
    home = tmp_path / "home"
    tune(Job(str(tmp_path / "rings"), trials=4, confirm=0, workers=0, tracking=False, home=home))
    words = ["export", "rings", "--home", str(home), "--format", ALL, "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["mmbsgd", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "unit length" in capsys.readouterr().err
    assert KEY not in loaded(home / "studies" / "rings.journal", "rings")[1]


def test_a_study_that_is_not_tracked_stays_so(export, place):
    code, output, errors = export("--format", "mlflow", "--out", "out")
    assert code == 0, errors
    assert "MLflow (" not in output
    assert not list((place / "home").glob("mlflow*"))
    assert {"model-card.md", "front.svg"} <= {file.name for file in (place / "out" / "mlflow").iterdir()}


def test_the_chosen_model_is_marked_in_its_picture(export, place):
    assert export("--out", "out", "--format", "c")[0] == 0
    assert "chosen" in (place / "out" / "front.svg").read_text()


def test_values_that_float32_cannot_tell_apart_are_said_so(tmp_path, monkeypatch, capsys):
    matrix, labels = points(300)
    names = ["width", "height", "depth"]
    shifted = matrix.astype(np.float64) + np.array([0.0, 1.7e9, 0.0])
    prepared(tmp_path / "rings", write_csv(tmp_path / "rings.csv", shifted, labels, names=names), scale="standard")
    home = tmp_path / "home"
    tune(Job(str(tmp_path / "rings"), trials=4, confirm=0, workers=0, tracking=False, home=home))
    for name, code in (("onnx", 2), ("c", 2), ("native,libsvm", 0)):
        words = ["export", "rings", "--home", str(home), "--format", name, "--out", str(tmp_path / name)]
        monkeypatch.setattr(sys, "argv", ["mmbsgd", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == code
        assert code == 0 or "such as a timestamp" in capsys.readouterr().err


def test_data_that_has_changed_is_refused(studied, export, place, monkeypatch):
    journal = place / "home" / "studies" / "rings.journal"
    kept = looked_up("rings", place / "home", None).settings.fingerprint
    journal.write_text(journal.read_text().replace(kept, "xxh3:another"))
    code, _, errors = export()
    assert code == 2
    assert "is not what the study 'rings' was made on" in errors


def test_a_registered_model_has_its_card_and_alias_and_the_study_s_run_stays_as_it_was(export, place):
    from mlflow import MlflowClient

    from workflows.tracking.address import address

    code, output, errors = export("--format", "mlflow", "--register", "rings", "--alias", "champion", "--out", "out")
    assert code == 0, errors
    client = MlflowClient(address(None, place / "home").uri)
    version = client.get_model_version_by_alias("rings", "champion")
    card = (place / "out" / "model-card.md").read_text()
    assert "## Files" in version.description
    assert "front.svg" not in version.description  # MLflow's page could not show it
    assert version.description.splitlines()[:5] == card.splitlines()[:5]
    assert f"version {version.version} of rings, alias champion" in output
    run = client.get_run(version.run_id)
    assert run.data.tags["mmbsgd.exported"] == str(BudgetedModelOf(place).trial)
    assert run.info.status == "FINISHED"
    ended = run.info.end_time
    (folder,) = client.list_artifacts(version.run_id, "export")  # one for every model
    assert folder.path.startswith(f"export/trial-{BudgetedModelOf(place).trial}-")
    names = {file.path.rpartition("/")[2] for file in client.list_artifacts(version.run_id, folder.path)}
    assert {"model-card.md", "front.svg", "mlflow"} <= names
    code, output, errors = export("--format", "mlflow", "--register", "rings", "--alias", "champion", "--out", "new")
    assert code == 0, errors
    assert client.get_model_version_by_alias("rings", "champion").version == version.version + 1
    assert client.get_run(version.run_id).info.end_time == ended
    client._tracking_client.store.engine.dispose()


class BudgetedModelOf:
    """What the exported MLflow model says of itself."""

    def __init__(self, place):
        import yaml

        told = yaml.safe_load((place / "out" / "mlflow" / "MLmodel").read_text())
        self.trial = told["metadata"]["mmbsgd"]["trial"]
        self.requirements = (place / "out" / "mlflow" / "requirements.txt").read_text()


ASK = """
import json, sys
for name in ("mmbsgd", "workflows", "numba", "sklearn", "pyarrow.dataset"):
    sys.modules[name] = None
import mlflow, pandas as pd
model = mlflow.pyfunc.load_model(sys.argv[1])
print(json.dumps(model.predict(pd.DataFrame(json.loads(sys.argv[2]))).to_dict("list")))
"""


def test_the_mlflow_model_answers_without_this_package(export, place):
    assert export("--format", "native,mlflow", "--out", "out")[0] == 0
    matrix, _ = points(5)
    columns = {name: matrix[:, number].tolist() for number, name in enumerate(["width", "height", "depth"])}
    mixed = dict(reversed(columns.items()))  # by name, not by place
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(place / "out" / "mlflow"), json.dumps(mixed)],
        capture_output=True,
        text=True,
        check=False,
        cwd=place,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    expected = BudgetedModel.load(place / "out" / "model.arrow")
    assert answer["label"] == expected.predict(matrix).tolist()
    np.testing.assert_allclose(answer["score"], expected.decision_function(matrix), atol=1e-4)
    assert "onnxruntime==" in BudgetedModelOf(place).requirements


@contextmanager
def served(model, folder):
    """As the README says it; the address to ask."""
    port = free_port()
    words = ["models", "serve", "-m", str(model), "--env-manager", "local", "--host", HOST, "--port", str(port)]
    with open(folder / "serve.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", *words],
            stdout=log,
            stderr=log,
            cwd=folder,
            env=os.environ | {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"},
            start_new_session=True,
        )
    try:
        eventually(lambda: process.poll() is not None or _answer(f"http://{HOST}:{port}/ping") is not None)
        assert process.poll() is None, (folder / "serve.log").read_text()
        yield f"http://{HOST}:{port}/invocations"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _answer(url, content=None):
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
            return answer.read()
    except OSError:
        return None


@pytest.mark.long
def test_mlflow_serves_the_model_over_http(export, place):
    assert export("--format", "native,mlflow", "--out", "out")[0] == 0
    matrix, _ = points(40)
    rows = {"dataframe_split": {"columns": ["width", "height", "depth"], "data": matrix.astype(float).tolist()}}
    with served(place / "out" / "mlflow", place) as address:
        answer = json.loads(_answer(address, rows))["predictions"]
        assert _answer(address, {"dataframe_split": {"columns": ["width"], "data": [[1.0]]}}) is None
        missing = {"columns": ["width", "height", "depth"], "data": [[1.0, None, 2.0]]}
        assert _answer(address, {"dataframe_split": missing}) is None
    expected = BudgetedModel.load(place / "out" / "model.arrow")
    assert [row["label"] for row in answer] == expected.predict(matrix).tolist()
    np.testing.assert_allclose([row["score"] for row in answer], expected.decision_function(matrix), atol=1e-4)


def test_the_readme_s_own_server_answers(export, place):
    assert export("--format", "native,onnx", "--out", "demo-model")[0] == 0
    (program,) = blocks("python serving")
    port, (matrix, _) = free_port(), points(7)
    process = subprocess.Popen([sys.executable, "-c", program.replace("8000", str(port))], stderr=subprocess.DEVNULL)
    with process:
        try:
            answers = []
            eventually(lambda: answers.append(_answer(f"http://{HOST}:{port}/", matrix.tolist())) or answers[-1])
        finally:
            process.kill()
    answer = json.loads(answers[-1])
    expected = BudgetedModel.load(place / "demo-model" / "model.arrow")
    assert answer["label"] == expected.predict(matrix).tolist()
    np.testing.assert_allclose(answer["score"], expected.decision_function(matrix), atol=1e-4)
