"""mmbsgd tune and mmbsgd front: every option does what it says, mistakes are messages, and output is for its reader."""

import json
import os
import signal
import sys

import pytest
from optuna.trial import TrialState
from prepared import prepared
from rich.console import Console
from running import SETTINGS, SPACE, loaded, run, toy

from workflows.cli import main
from workflows.commands.study_view import StudyView
from workflows.study.driver import Limits
from workflows.study.storages import journal_file
from workflows.study.tuning import Watcher, held

pytestmark = pytest.mark.compiled_only


@pytest.fixture(scope="module")
def boards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boards")
    prepared(folder / "board", rows=600)
    prepared(folder / "folded", rows=600, folds=3)
    (folder / "grid.toml").write_text(
        "C = 1.0\ngamma = 5.0\nbudget = { choices = [10, 20, 40] }\nmergees = { low = 2, high = 3 }\n"
    )
    return folder


@pytest.fixture
def command(boards, monkeypatch, capsys, tmp_path):
    """Runs the command here: (exit code, output, errors). The home is a new folder."""
    monkeypatch.chdir(boards)
    monkeypatch.setenv("COLUMNS", "300")

    def here(*arguments):
        monkeypatch.setattr(sys, "argv", ["mmbsgd", *map(str, arguments), "--home", str(tmp_path / "home")])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err + said.out
        return ended.value.code, said.out, said.err

    return here


@pytest.fixture
def tuned(command):
    """Tunes in this process and returns what --json says."""

    def tune(data, *options):
        code, output, errors = command("tune", data, "--no-tracking", "--workers", "0", "--json", *options)
        assert code == 0, errors
        return json.loads(output)

    return tune


def trials(tmp_path, study="board"):
    return loaded(journal_file(tmp_path / "home", study), study)[0]


def test_folds_and_repeats_score_every_trial_several_times(tuned, tmp_path):
    said = tuned("folded", "--trials", "3", "--folds", "3", "--repeats", "2", "--confirm", "0")
    assert said["trials"]["complete"] == 3
    results = [trial.user_attrs["result"] for trial in trials(tmp_path, "folded")]
    assert all(result["spread"] > 0 for result in results)


def test_demo_data_is_prepared_in_folds_when_asked_for(tuned, tmp_path):
    tuned("demo", "--rows", "300", "--folds", "2", "--trials", "1", "--confirm", "0")
    assert (tmp_path / "home" / "data" / "demo-300-2-folds").is_dir()


@pytest.mark.parametrize(
    ("metric", "cost", "third"),
    [("balanced-accuracy", "work", "size"), ("f1", "wall", "latency"), ("roc-auc", "cpu", "none")],
)
def test_objectives_are_chosen(tuned, metric, cost, third):
    said = tuned(*("board", "--trials", "4", "--metric", metric, "--cost", cost, "--third", third, "--confirm", "2"))
    names = [metric, cost] + ([] if third == "none" else [third])
    assert said["objectives"] == names
    for member in said["front"]:
        assert list(member["objectives"]) == names
        assert list(member["in the search"]) == names
        assert member["runs"] == 2
        assert 0.0 <= member["objectives"][metric] <= 1.0
        if third == "size":
            assert 0 < member["objectives"]["size"] <= member["parameters"]["budget"]


def test_a_grid_is_searched_once_and_completely(tuned, tmp_path):
    options = ("board", "--space", "grid.toml", "--sampler", "grid", "--confirm", "0", "--study", "grid")
    assert tuned(*options)["trials"]["complete"] == 6
    assert tuned(*options)["trials"]["complete"] == 6
    tried = [(trial.params["budget"], trial.params["mergees"]) for trial in trials(tmp_path, "grid")]
    assert tried == [(budget, mergees) for budget in (10, 20, 40) for mergees in (2, 3)]


@pytest.mark.parametrize("sampler", ["random", "tpe", "nsga2"])
def test_samplers_are_chosen(tuned, sampler):
    said = tuned("board", "--trials", "12", "--sampler", sampler, "--confirm", "0")
    assert said["trials"]["complete"] == 12
    assert all(member["runs"] == 0 for member in said["front"])


def test_enqueued_parameters_are_tried_first_and_once(tuned, tmp_path):
    wanted = [
        "--enqueue",
        "C=10 gamma=5 budget=30 mergees=3 epochs=1 polish=0",
        "--enqueue",
        "C=1,gamma=2,budget=20,mergees=2,epochs=2",
    ]
    for count in (3, 4):
        tuned("board", "--trials", count, "--confirm", "0", *wanted)
    found = [trial.params for trial in trials(tmp_path)]
    assert found[0] == {"C": 10, "gamma": 5, "budget": 30, "mergees": 3, "epochs": 1, "polish": 0}
    assert found[1] == {"C": 1, "gamma": 2, "budget": 20, "mergees": 2, "epochs": 2, "polish": 7}
    assert len(found) == 4
    assert found[2] not in found[:2]
    assert found[3] not in found[:2]


def test_a_study_without_growth_loses_patience(tuned):
    said = tuned("board", "--patience", "3", "--cost", "work", "--sampler", "random", "--confirm", "0")
    assert 4 <= said["trials"]["complete"] < 1000


def test_a_study_ends_in_time(tuned):
    assert tuned("board", "--timeout", "0.3", "--sampler", "random", "--confirm", "0")["trials"]["complete"] >= 1


def test_without_time_there_is_no_front(command):
    code, _, errors = command("tune", "board", "--no-tracking", "--workers", "0", "--timeout", "0")
    assert code == 2
    assert "no trial of the study 'board' was successful: there was no time" in errors


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_the_same_seed_gives_the_same_trials_and_models(tuned, tmp_path, sampler):
    options = ("--trials", "45", "--cost", "work", "--sampler", sampler, "--confirm", "0", "--no-early-stop")
    found = {}
    for study, seed in (("one", 3), ("two", 3), ("other", 4)):
        tuned("board", "--study", study, "--seed", seed, *options)
        found[study] = [
            (trial.params, trial.values, trial.user_attrs["result"]["model"]) for trial in trials(tmp_path, study)
        ]
    assert len(found["one"]) == 45
    assert all(model for _, _, model in found["one"])
    assert found["one"] == found["two"]
    assert not any(one == other for one, other in zip(found["one"], found["other"], strict=True))


def test_the_same_in_two_processes_and_only_json_on_stdout(boards, tmp_path):
    options = ("--workers", "0", "--cost", "work", "--sampler", "tpe", "--trials", "15", "--confirm", "1", "--json")
    fronts = []
    for home in (tmp_path / "one", tmp_path / "two"):
        code, output, errors = run("tune", "board", "--no-tracking", *options, "--home", home, cwd=boards)
        assert code == 0, errors
        fronts.append(json.loads(output)["front"])
        assert "\x1b" not in output + errors
    assert fronts[0] == fronts[1]
    models = [
        [trial.user_attrs["result"]["model"] for trial in loaded(journal_file(tmp_path / home, "board"), "board")[0]]
        for home in ("one", "two")
    ]
    assert models[0] == models[1]
    assert len(set(models[0])) == 15


def test_people_without_a_terminal_get_plain_lines_and_advice(command, tmp_path):
    code, output, errors = command(
        "tune", "board", "--no-tracking", "--workers", "0", "--trials", "5", "--confirm", "1"
    )
    assert code == 0, errors
    assert "\x1b" not in output
    assert "5 trials complete, 0 stopped early, 0 failed" in output
    assert "confirmed Pareto front" in output
    assert f"mmbsgd front board --home {tmp_path / 'home'}" in output
    assert "with --trials" in output
    code, output, errors = command("front", "board")
    assert code == 0, errors
    assert "board · confirmed Pareto front of 5 trials" in output
    assert "accuracy" in output
    assert any(letter in output for letter in "●○·•⠁⣀█▪+*"), "no picture"
    code, output, errors = command("front", "board", "--json")
    assert code == 0
    assert all(member["runs"] == 1 for member in json.loads(output))


def test_a_front_can_be_looked_at_while_its_driver_holds_the_study(tuned, command, tmp_path):
    tuned("board", "--trials", "5", "--confirm", "0", "--study", "mine")
    seen = []
    home = tmp_path / "home"
    toy(home, trials=6, study="toy", events={5: lambda: seen.append(command("front", "toy", "--json"))})
    [(code, output, errors)] = seen
    assert code == 0, errors
    assert json.loads(output)
    code, output, errors = command("front", "nothing")
    assert code == 2
    assert f"no study 'nothing' in {home}; there are: mine, toy" in errors


def test_a_front_without_a_complete_trial_says_so(command, tmp_path):
    with held("toy", tmp_path / "home", None, SETTINGS, SPACE, Watcher()):
        assert command("front", "toy")[:2] == (0, "The study toy has no complete trial yet.\n")
        assert json.loads(command("front", "toy", "--json")[1]) == []


GOOD = "C=10 gamma=5 budget=30 mergees=3 epochs=1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--space", "nowhere"], "nowhere"),
        (["--study", "a/b"], "--study 'a/b': a name is letters, digits"),
        (["--folds", "3"], "board has no fold-0, fold-1, fold-2 to score on"),
        (["--folds", "1"], "--folds 1: take 2 or more"),
        (["--ray-address", "127.0.0.1:1"], "--workers 0 runs trials in this process"),
        (["--trial-timeout", "3"], "--workers 0 runs trials in this process"),
        (["--enqueue", "budget"], "--enqueue 'budget': write NAME=VALUE"),
        (["--enqueue", "nonsense=1"], "the search space has no nonsense"),
        (["--enqueue", "C=1"], "it lacks gamma, budget, mergees"),
        (["--enqueue", GOOD.replace("C=10", "C=much")], "cannot try C = much"),
        (["--enqueue", GOOD.replace("C=10", "C=nan")], "cannot try C = nan"),
        (["--enqueue", GOOD.replace("C=10", "C=1e9")], "cannot try C = 1000000000.0: it is outside"),
        (["--enqueue", GOOD.replace("budget=30", "budget=10.5")], "cannot try budget = 10.5"),
        (["--sampler", "grid"], "a grid needs choices or whole numbers, but C is a continuous range"),
        (["--storage", "mysql://me:SECRET@host/db"], "mysql://… is not supported"),
        (["--storage", "postgresql://me:SECRET@no-such-host.invalid/db"], "cannot open --storage postgresql"),
        (["--storage", "nonsense"], "--storage is not a URL"),
        (["--storage", "sqlite:///grid.toml"], "not a database"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2_and_leaves_no_study(command, tmp_path, options, message):
    code, output, errors = command("tune", "board", "--no-tracking", "--workers", "0", *options)
    assert code == 2
    assert message in errors
    assert len(errors.strip().splitlines()) == 1
    assert "SECRET" not in errors + output
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("options", [["--metric", "nice"], ["--trials", "0"], ["--sampler", "gp"], ["--workers", "-1"]])
def test_options_that_make_no_sense_are_refused(command, options):
    code, _, errors = command("tune", "board", "--no-tracking", *options)
    assert code == 2
    assert options[0] in errors


def test_a_study_goes_on_only_as_it_was_begun(tuned, command, tmp_path):
    tuned("board", "--trials", "2", "--confirm", "0")
    before = journal_file(tmp_path / "home", "board").read_bytes()
    for options, message in (
        (["--metric", "f1"], "with metric accuracy instead of f1"),
        (["--seed", "1"], "with seed 0 instead of 1"),
        (["--third", "size"], "has other objectives"),
        (["--space", "grid.toml", "--study", "board"], "with other ranges in its search space"),
    ):
        code, _, errors = command("tune", "board", "--no-tracking", "--workers", "0", *options)
        assert code == 2
        assert message in errors
    code, _, errors = command("tune", "demo", "--no-tracking", "--rows", "300", "--study", "board", "--workers", "0")
    assert code == 2
    assert "the study 'board' was begun otherwise: on other data" in errors
    assert journal_file(tmp_path / "home", "board").read_bytes() == before


def test_a_home_that_cannot_be_written_and_a_damaged_journal_are_messages(boards, monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("mine")
    journal = journal_file(tmp_path / "home", "board")
    journal.parent.mkdir(parents=True)
    journal.write_text("{}\n")
    monkeypatch.chdir(boards)
    monkeypatch.setenv("COLUMNS", "300")
    for home, message in (
        (tmp_path / "file", "Not a directory"),
        ("/proc/nowhere", "No such file or directory"),  # closed to root as well
        (tmp_path / "home", "is damaged"),
    ):
        monkeypatch.setattr(
            sys, "argv", ["mmbsgd", "tune", "board", "--no-tracking", "--workers", "0", "--home", str(home)]
        )
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert ended.value.code == 2
        assert message in said.err
        assert "Traceback" not in said.err + said.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_ends_at_once(number):
    before = signal.getsignal(number)
    view = StudyView(Console(stderr=True), "toy", SETTINGS, Limits())
    with view.shown():
        os.kill(os.getpid(), number)
        assert view.interrupted
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before


def test_a_study_that_was_asked_to_end_gives_its_trials_back(tmp_path):
    watcher = Watcher()
    found = toy(tmp_path, trials=50, watcher=watcher, events={9: lambda: setattr(watcher, "interrupted", True)})
    assert found.interrupted
    states = [trial.state for trial in loaded(journal_file(tmp_path, "toy"), "toy")[0]]
    assert TrialState.RUNNING not in states
    assert states.count(TrialState.FAIL) >= 1
    assert toy(tmp_path, trials=50).progress.complete == 50
