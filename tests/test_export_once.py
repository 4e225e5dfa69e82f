"""The test rows judge one model per study: whoever looks again must say so, and it is told."""

import json

import pytest
from running import toy

from workflows.errors import StudyError
from workflows.export.once import KEY, look_once, looks_of
from workflows.study.tuning import looked_at


@pytest.fixture
def home(tmp_path):
    toy(tmp_path, trials=6)
    return tmp_path


def look(home, model, score=0.9, *, trial=1, again=False):
    return look_once("toy", home, None, trial=trial, model=model, score=lambda: score, again=again)


def refused():
    raise AssertionError("the test rows were looked at")


def test_the_first_look_is_kept_with_the_study(home):
    tested = look(home, "a", trial=4)
    assert (tested.score, tested.earlier) == (0.9, ())
    with looked_at("toy", home, None) as ledger:
        (kept,) = looks_of(ledger)
    assert (kept.trial, kept.model, kept.score) == (4, "a", 0.9)


def test_another_model_is_refused_with_the_one_that_had_its_turn(home):
    look(home, "a", trial=4)
    with pytest.raises(StudyError, match=r"used on .* for trial 4 \(90\.00%\).*--trial 4.*--again"):
        look_once("toy", home, None, trial=5, model="b", score=refused, again=False)


def test_the_same_model_is_not_judged_twice(home):
    look(home, "a")
    tested = look_once("toy", home, None, trial=1, model="a", score=refused, again=False)
    assert (tested.score, tested.earlier) == (0.9, ())


def test_who_insists_gets_a_score_and_is_told_of_the_looks_before(home):
    look(home, "a", trial=4)
    tested = look(home, "b", 0.8, trial=5, again=True)
    assert tested.score == 0.8
    assert [look.trial for look in tested.earlier] == [4]
    assert look(home, "a").earlier == ()


def test_a_look_counts_though_the_process_died_in_it(home):
    def dies():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        look_once("toy", home, None, trial=2, model="a", score=dies, again=False)
    with pytest.raises(StudyError, match=r"were used on .* for trial 2:"):
        look(home, "b")
    assert look(home, "b", 0.6, again=True).score == 0.6
    tested = look(home, "a", 0.7)  # the same model is owed its score
    assert (tested.score, tested.earlier) == (0.7, ())
    with looked_at("toy", home, None) as ledger:
        assert [(one.model, one.score) for one in looks_of(ledger)] == [("a", 0.7), ("b", 0.6)]


def test_going_on_with_the_study_forgets_nothing(home):
    look(home, "a", trial=4)
    toy(home, trials=9)
    with looked_at("toy", home, None) as ledger:
        assert json.dumps(ledger.notes()[KEY]).count('"trial": 4') == 1
    with pytest.raises(StudyError, match="for trial 4"):
        look(home, "b")


def test_an_unknown_study_is_named(tmp_path):
    with pytest.raises(StudyError, match="no study 'toy'"):
        look(tmp_path, "a")
