"""What is written of a study: the same whenever it is written, in names that MLflow takes, with nothing secret."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, unquote

import pytest
from conftest import CHECKOUT
from hypothesis import given
from hypothesis import strategies as st
from tracked import SETTINGS, made_up

from workflows.errors import TrackingError
from workflows.records import Point, TrialResult
from workflows.study.confirmation import Member
from workflows.study.ledger import DRIVER_DIED
from workflows.study.snapshot import Ended
from workflows.tracking.address import EMBEDDED, Address, address
from workflows.tracking.names import metric_name, parameter_name
from workflows.tracking.note import note
from workflows.tracking.runs import LONGEST_TEXT, NOTE, STUDY, TRIAL, child, confirmed, parent, progress
from workflows.tracking.views import charts_page, front_page, report_page, study_page, trials_page, view

HOME = Path("/somewhere/home")
TAKEN = 8000
"""Letters of a tag that MLflow takes."""


def ended(number=0, state="complete", values=(0.9, 100.0), **options):
    costs = {"cpu": 0.5, "wall": 1.0, "work": values[1] if values else 7.0}
    result = TrialResult(number, state, score=values[0] if values else math.nan, costs=costs, **options)
    return Ended(number, number, 1, {"C": 1.5, "budget": 20}, state, values, result, 100.0 + number, 101.0 + number)


def values_of(run):
    return {value.name: value.value for value in run.metrics if value.step == 0}


def test_a_complete_trial_has_its_parameters_objectives_costs_and_counters():
    counters = {"size": 12.0, "support_vectors": 12.0, "merges": 8.0, "kernel_evaluations": 100.0}
    run = child(ended(3, counters=counters, node="node-7", seconds=2.0), made_up(0))
    assert (run.name, run.status, run.began, run.ended) == ("trial 3", "FINISHED", 103_000, 104_000)
    assert run.parameters == {"C": "1.5", "budget": "20", "seed": str(SETTINGS.seed_of(3, 0))}
    assert values_of(run) == {
        "accuracy": 0.9,
        "kernel_evaluations": 100.0,
        "cpu_seconds": 0.5,
        "wall_seconds": 1.0,
        "support_vectors": 12.0,
        "merges": 8.0,
        "busy_seconds": 2.0,
    }
    assert run.tags == {
        STUDY: "identity of made-up",
        TRIAL: "3",
        "state": "complete",
        "retries": "0",
        "node": "node-7",
        "pareto": "false",
    }


def test_the_objectives_of_a_study_are_metrics_of_its_trials():
    """Whichever they are: the dashboard's columns and charts name them."""
    for cost in ("cpu", "wall", "work"):
        for third in ("none", "size", "latency"):
            settings = replace(SETTINGS, cost=cost, third=third, metric="roc-auc")
            trial = ended(counters={"size": 3.0, "support_vectors": 3.0, "latency": 0.1, "kernel_evaluations": 100.0})
            names = set(values_of(child(trial, made_up(0, settings=settings))))
            assert {metric_name(name) for name in settings.names} <= names


def test_a_learning_curve_is_a_metric_by_epoch():
    epochs = tuple(Point(share, 10 * share, score) for share, score in ((0.5, 0.6), (1.0, 0.8)))
    run = child(ended(epochs=epochs), made_up(0, settings=replace(SETTINGS, metric="balanced-accuracy")))
    assert [(value.step, value.value) for value in run.metrics if value.name == "balanced_accuracy_by_epoch"] == [
        (1, 0.6),
        (2, 0.8),
    ]


@pytest.mark.parametrize(
    ("state", "reason", "status"),
    [
        ("complete", "", "FINISHED"),
        ("stopped", "it can only end dominated", "KILLED"),
        ("failed", "out of memory", "FAILED"),
        ("failed", DRIVER_DIED, "KILLED"),
    ],
)
def test_states_and_reasons_are_shown(state, reason, status):
    run = child(ended(state=state, values=(0.9, 1.0) if state == "complete" else (), reason=reason), made_up(0))
    assert run.status == status
    assert run.tags["state"] == state
    assert run.tags.get("reason", "") == reason
    assert ("accuracy" in values_of(run)) == (state == "complete")


def test_another_try_names_the_first_and_has_its_seed():
    run = child(replace(ended(5), origin=2, attempt=3), made_up(0))
    assert (run.tags["retries"], run.tags["again"]) == ("2", "trial 2")
    assert run.parameters["seed"] == str(SETTINGS.seed_of(2, 0))


@given(score=st.floats(), cost=st.floats(), reason=st.text(max_size=20), node=st.text(max_size=5))
def test_whatever_a_trial_measured_only_numbers_are_metrics(score, cost, reason, node):
    run = child(ended(values=(score, cost), reason=reason, node=node), made_up(0))
    assert all(math.isfinite(value.value) for value in run.metrics)
    assert all(run.tags.values())
    assert child(ended(values=(score, cost), reason=reason, node=node), made_up(0)) == run


def test_long_texts_are_cut():
    run = child(replace(ended(reason="x" * 9000), parameters={"C": "y" * 9000}), made_up(0))
    assert len(run.tags["reason"]) == len(run.parameters["C"]) == LONGEST_TEXT


def test_confirmation_is_means_and_deviations_over_so_many_runs():
    member = Member(0, {}, (0.9, 100.0), (0.01, math.nan), runs=3)
    found = {value.name: (value.value, value.step) for value in confirmed(member, ended(), ["accuracy", "work"])}
    assert found == {
        "confirmed_runs": (3.0, 3),
        "confirmed_accuracy": (0.9, 3),
        "confirmed_accuracy_deviation": (0.01, 3),
        "confirmed_kernel_evaluations": (100.0, 3),
    }
    assert confirmed(replace(member, runs=0, deviations=()), ended(), ["accuracy", "work"]) == []


def test_the_parent_run_is_the_study():
    seen = made_up(4, seed=1)
    run = parent(seen, status="FINISHED", note="a note")
    assert run.parameters == {
        "data": "made-up",
        "data_fingerprint": "f00",
        "search_space": "toy",
        "objectives": "accuracy, work",
        "folds": "0",
        "scored": "on validation rows",
        "repeats": "1",
        "seed": "3",
        **{f"space.{name}": str(spread) for name, spread in seen.space.items()},
    }
    assert run.tags == seen.environment | {
        STUDY: seen.identity,
        NOTE: "a note",
        "mlflow.source.git.commit": "c0ffee",
    }
    assert run.began == min(round(1000 * trial.began) for trial in seen.trials)
    assert run.ended == max(round(1000 * trial.ended) for trial in seen.trials)


@given(count=st.integers(0, 40), cut=st.integers(0, 40), seed=st.integers(0, 20))
def test_progress_is_the_same_in_one_go_and_in_pieces(count, cut, seed):
    seen = made_up(count, seed=seed)
    whole = list(progress(seen, 0))
    first = replace(seen, trials=seen.trials[:cut])
    assert list(progress(first, 0)) + list(progress(seen, len(first.trials))) == whole
    steps = {name: [value.step for value in whole if value.name == name] for name in {each.name for each in whole}}
    assert steps.get("trials", []) == list(range(1, count + 1))
    assert set(steps) <= {"trials", "hypervolume", "front_size", "best_accuracy", "trials_per_second"}
    assert all(math.isfinite(value.value) for value in whole)


def test_progress_ends_where_the_study_stands():
    seen = made_up(30, seed=2, confirm=0)
    last = {value.name: value.value for value in progress(seen, 29)}
    assert last["trials"] == 30
    assert last["front_size"] == len(seen.front)
    assert last["best_accuracy"] == max(trial.values[0] for trial in seen.complete)
    window = seen.trials[29].ended - seen.trials[9].ended
    assert last["trials_per_second"] == pytest.approx(20 / window)
    volumes = [value.value for value in progress(seen, 0) if value.name == "hypervolume"]
    assert 0 < volumes[-1] <= 1


@given(st.text(max_size=30))
def test_any_parameter_has_a_name_that_mlflow_takes(name):
    from mlflow.utils.validation import _validate_param_name

    _validate_param_name(parameter_name(name))
    assert parameter_name(parameter_name(name)) == parameter_name(name)


def test_names_of_parameters_stay_as_they_are_where_they_can():
    for name in ("C", "gamma", "budget", "mergees", "learning rate", "a.b-c/d:e"):
        assert parameter_name(name) == name


def test_links_lead_to_the_pages_of_the_study():
    base = "http://127.0.0.1:5000"
    assert study_page(base, "7", "abc").startswith(f"{base}/#/experiments/7/runs/abc?")
    assert study_page(base, "7", "") == trials_page(base, "7")
    assert report_page(base, "7", "abc").startswith(f"{base}/#/experiments/7/runs/abc/artifacts/report.html?")
    assert charts_page(base, "7").startswith(trials_page(base, "7"))
    asked = parse_qs(front_page(base, "7", "accuracy").partition("?")[2])
    assert asked["searchFilter"] == ["tags.pareto = 'true'"]
    assert asked["orderByKey"] == ["metrics.`accuracy`"]
    assert asked["orderByAsc"] == ["false"]
    assert "=" not in unquote(trials_page("", "7").partition("viewStateShareKey=")[2])


def test_the_view_names_every_objective_and_parameter():
    content = json.loads(view(made_up(5, settings=replace(SETTINGS, third="size"))))
    columns = content["selectedColumns"]
    for name in ("accuracy", "kernel_evaluations", "support_vectors"):
        assert f"metrics.`{name}`" in columns
    for name in ("x", "y", "engine"):
        assert f"params.`{name}`" in columns
    parallel, scatter = content["compareRunCharts"]
    assert parallel["selectedParams"] == ["x", "y", "engine"]
    assert (scatter["xaxis"]["key"], scatter["yaxis"]["key"]) == ("kernel_evaluations", "accuracy")
    assert json.loads(view(made_up(0)))["selectedColumns"]


def test_the_note_has_a_row_for_every_member_and_links():
    seen = made_up(30, seed=2)
    text = note(seen, "7", "abc")
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert [int(row.split("|")[2]) for row in rows] == [member.number for member in seen.front]
    for link in (report_page("", "7", "abc"), trials_page("", "7"), charts_page("", "7")):
        assert f"({link})" in text
    assert note(made_up(0), "7", "abc").endswith("No trial is complete yet.")


@pytest.mark.parametrize("members", [1, 60, 400])
def test_a_note_fits_into_a_tag_with_whole_rows(members):
    seen = made_up(30, seed=2)
    front = tuple(replace(seen.front[0], number=number) for number in range(members))
    text = note(replace(seen, front=front), "7", "abc")
    assert len(text) <= TAKEN
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in rows}) == 1
    assert "Knee:" in text


@given(st.text(alphabet="ab_*`[]()|<>#!{}\\", min_size=1, max_size=20))
def test_names_cannot_change_the_note_s_form(name):
    seen = replace(made_up(5, seed=1), settings=replace(SETTINGS, data=name))
    plain = replace(seen, settings=replace(SETTINGS, data="plain"))
    text = note(seen, "7", "abc")
    assert len(text.splitlines()) == len(note(plain, "7", "abc").splitlines())
    written = text.partition("model of ")[2].partition(" is worth")[0]
    assert "".join(written[1::2]) == name or written.replace("\\", "") == name.replace("\\", "")


def test_without_a_uri_there_is_a_database_in_the_home_folder():
    for uri in (None, EMBEDDED):
        found = address(uri, HOME)
        assert found == Address(f"sqlite:///{HOME}/mlflow.db", EMBEDDED, artifacts=f"{HOME}/artifacts")
        assert found.embedded
        assert not found.server


@pytest.mark.parametrize(
    ("uri", "bare", "shown", "login"),
    [
        ("http://host:5000", "http://host:5000", "http://host:5000", ("", "")),
        ("https://host/mlflow/", "https://host/mlflow", "https://host/mlflow", ("", "")),
        ("http://me:SECRET@host:1", "http://host:1", "http://me:***@host:1", ("me", "SECRET")),
        ("http://me:S%40CRET@host:1", "http://host:1", "http://me:***@host:1", ("me", "S@CRET")),
    ],
)
def test_a_server_is_taken_apart(uri, bare, shown, login):
    found = address(uri, HOME)
    assert (found.uri, found.shown, (found.username, found.password)) == (bare, shown, login)
    assert found.server
    assert found.artifacts is None
    assert Address(**found.as_dict()) == found


def test_a_database_keeps_its_password_to_itself():
    found = address("postgresql://me:SECRET@host/base?password=SECRET", HOME)
    assert found.uri == "postgresql+psycopg://me:SECRET@host/base?password=SECRET"
    assert found.shown == "postgresql+psycopg://me:***@host/base"
    assert found.clean("SECRET\n said\n  SECRET (Background on this") == "*** said ***"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("./mlruns", "not a URL such as http://HOST:PORT"),
        ("", "not a URL such as"),
        ("file:///tmp/mlruns", "file:… is not supported: use http://"),
        ("mysql://me:SECRET@host/x", "mysql:… is not supported"),
        ("databricks", "not a URL"),
        ("http://", "names no host"),
        ("http://host:port", "not a URL"),
        ("http://host?password=SECRET", "has a question mark"),
        ("sqlite://", "names no database"),
        ("sqlite:///:memory:", "names no database"),
        ("postgresql://me:SECRET@host", "names no database"),
        ("postgresql://me:SEC@RET@host/x", "write an @ in the password as %40"),
        ("http://me:SEC@RET@host", "write an @ in the password as %40"),
    ],
)
def test_what_is_no_address_is_a_message_without_its_password(uri, message):
    with pytest.raises(TrackingError) as failed:
        address(uri, HOME)
    assert message in str(failed.value)
    assert "SEC" not in str(failed.value).replace("SECONDS", "")


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="*"), min_size=6, max_size=12))
def test_no_password_is_ever_shown(password):
    from urllib.parse import quote

    for scheme in ("http", "postgresql"):
        found = address(f"{scheme}://me:{quote(password, safe='')}@host:1/x", HOME)
        assert password not in found.shown.replace("postgresql+psycopg://me:", "")
        assert found.clean(f"<<{password}>>") == "<<***>>"
        assert found.clean(f"<<{quote(password, safe='')}>>") == "<<***>>"


def test_every_module_of_tracking_can_be_imported_first():
    script = (
        "import importlib, pkgutil, sys, workflows.tracking as package\n"
        "names = [name for _, name, _ in pkgutil.iter_modules(package.__path__, 'workflows.tracking.')]\n"
        "for name in names:\n"
        "    for loaded in [one for one in sys.modules if one.startswith('workflows')]:\n"
        "        del sys.modules[loaded]\n"
        "    importlib.import_module(name)\n"
        "print(len(names), 'mlflow' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=CHECKOUT, check=False)
    assert done.returncode == 0, done.stderr
    count, heavy = done.stdout.split()
    assert int(count) >= 10
    assert heavy == "False"
