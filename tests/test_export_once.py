"""The test rows judge one model per study: whoever looks again must say so, and it is told."""

import json

import pytest
from running import SETTINGS, SPACE, toy

from workflows.errors import StudyError
from workflows.export.once import KEY, HeldOutRows, Look, looks_of
from workflows.study.tuning import Watcher, held, looked_at


@pytest.fixture
def home(tmp_path):
    toy(tmp_path, trials=6)
    return tmp_path


def rows_of(home, *, trial=1, seeds=5, again=False):
    return HeldOutRows("toy", home, None, Look(trial, "", seeds, "median", 0.0), again=again)


def look(home, model, score=0.9, **options):
    return rows_of(home, **options).look_once(model, lambda: score)


def refused():
    raise AssertionError("the test rows were looked at")


def test_the_first_look_is_kept_with_the_study(home):
    tested = look(home, "a", trial=4)
    assert (tested.score, tested.others) == (0.9, ())
    with looked_at("toy", home, None) as ledger:
        (kept,) = looks_of(ledger)
    assert (kept.trial, kept.model, kept.score) == (4, "a", 0.9)


def test_another_model_is_refused_with_the_one_that_had_its_turn(home):
    look(home, "a", trial=4, seeds=3)
    with pytest.raises(StudyError, match=r"for trial 4 \(90\.00%\).*--trial 4 --seeds 3 --keep median.*--again"):
        rows_of(home, trial=5).look_once("b", refused)


def test_the_same_model_is_not_judged_twice(home):
    look(home, "a")
    tested = rows_of(home).look_once("a", refused)
    assert (tested.score, tested.others) == (0.9, ())


def test_who_insists_gets_a_score_and_every_model_tells_of_the_others(home):
    look(home, "a", trial=4)
    tested = look(home, "b", 0.8, trial=5, again=True)
    assert tested.score == 0.8
    assert [look.trial for look in tested.others] == [4]
    assert [look.trial for look in look(home, "a", trial=4).others] == [5]


def test_what_will_be_refused_is_refused_before_any_work(home):
    rows_of(home, trial=4).check()
    look(home, "a", trial=4)
    rows_of(home, trial=4).check()
    rows_of(home, trial=5, again=True).check()
    for options in ({"trial": 5}, {"trial": 4, "seeds": 9}):
        with pytest.raises(StudyError, match="--trial 4 --seeds 5 --keep median"):
            rows_of(home, **options).check()


def test_a_study_that_is_being_tuned_is_waited_for(home):
    busy = held("toy", home, None, SETTINGS, SPACE, Watcher())
    with busy, pytest.raises(StudyError, match="another driver is running the study"):
        rows_of(home).check()


def test_a_look_counts_though_the_process_died_in_it(home):
    def dies():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rows_of(home, trial=2).look_once("a", dies)
    with pytest.raises(StudyError, match=r"were used on .* for trial 2:"):
        look(home, "b")
    assert look(home, "b", 0.6, again=True).score == 0.6
    tested = look(home, "a", 0.7)  # the same model is owed its score
    assert (tested.score, [look.model for look in tested.others]) == (0.7, ["b"])
    with looked_at("toy", home, None) as ledger:
        assert [(one.model, one.score) for one in looks_of(ledger)] == [("b", 0.6), ("a", 0.7)]


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
