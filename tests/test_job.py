"""A job says what cannot work before anything is started."""

from pathlib import Path

import numpy as np
import pytest
from prepared import prepared

from workflows.errors import StudyError
from workflows.study import Job, ready, run


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"metric": "nonsense"}, "metric='nonsense' is none of accuracy, balanced-accuracy, f1, roc-auc"),
        ({"cost": "money"}, "cost='money' is none of cpu, wall, work"),
        ({"third": "colour"}, "third='colour' is none of none, size, latency"),
        ({"sampler": "oracle"}, "sampler='oracle' is none of auto, tpe, nsga2, random, grid"),
        ({"trials": 0}, "trials=0 must be at least 1"),
        ({"workers": -1}, "workers=-1 must be at least 0"),
        ({"confirm": -1}, "confirm=-1 must be at least 0"),
        ({"space": {"C": 1}}, "is neither a space nor the name of one nor a function"),
        ({"folds": 1}, "--folds 1: take 2 or more"),
    ],
)
def test_a_mistake_is_told_at_once(options, said):
    with pytest.raises(StudyError, match=said):
        Job("demo", **options)


def test_a_job_without_limits_has_100_trials_and_a_grid_all():
    assert Job("demo").limits.trials == 100
    assert Job("demo", timeout=3.0).limits.trials is None
    assert Job("demo", sampler="grid").limits.trials is None


def test_a_study_is_named_after_its_data_and_an_unusual_space(tmp_path):
    prepared(tmp_path / "board", rows=200)
    board = str(tmp_path / "board")
    assert ready(Job(board)).study == "board"
    assert ready(Job(board, study="mine")).study == "mine"
    assert ready(Job(board, space=lambda trial: {})).study == "board--lambda-"


def numpy_space(trial):
    budget = trial.suggest_int("budget", 5, 20)
    return {"C": np.float64(1.0), "gamma": np.float32(2.0), "budget": np.int64(budget), "mergees": 2}


def test_a_space_may_be_a_function_and_its_parameters_numpys(tmp_path):
    prepared(tmp_path / "board", rows=200)
    outcome = run(
        Job(
            str(tmp_path / "board"),
            space=numpy_space,
            trials=4,
            workers=0,
            confirm=1,
            tracking=False,
            home=tmp_path / "home",
        )
    )
    assert outcome.progress.complete == 4
    for member in outcome.front:
        assert 5 <= member.parameters["budget"] <= 20
        assert all(type(value) in (int, float) for value in member.parameters.values())


def test_a_function_that_returns_no_parameters_is_told(tmp_path):
    prepared(tmp_path / "board", rows=200)
    with pytest.raises(StudyError, match="the space must return the parameters as a dict, not None"):
        run(Job(str(tmp_path / "board"), space=lambda trial: None, workers=0, tracking=False, home=tmp_path / "home"))


def test_other_commands_are_told_which_data_it_is():
    assert Job("demo", rows=300).environment["data.rows"] == "300"
    job = Job("a b.csv", label="is it?", home=Path("my home"))
    assert job.environment["data.label"] == "is it?"
    assert job.where == "--home 'my home'"
    assert Job("adult").where == ""
