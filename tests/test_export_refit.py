"""A chosen model is trained again on all but the test rows; of several seeds the median is kept."""

import numpy as np
import pytest
from prepared import prepared

from mmbsgd import MultiMergeSVC
from workflows.errors import StudyError
from workflows.export.refit import refit

PARAMETERS = {"C": 1.0, "gamma": 20.0, "budget": 30, "mergees": 3, "epochs": 1}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return prepared(tmp_path_factory.mktemp("board") / "board", rows=800)


def accuracy(data, model, *splits):
    scores, codes = data.split(*splits).decide(model)
    return float(np.mean((scores > 0) == codes))


def test_all_rows_but_the_test_rows_are_trained_on(data):
    refitted = refit(data, PARAMETERS, "accuracy")
    assert set(refitted.trained_on) == {"train", "validation"}
    assert refitted.rows == data.split("train", "validation").rows
    assert refitted.training.steps == refitted.rows


def test_the_median_of_the_seeds_is_kept(data):
    refitted = refit(data, PARAMETERS, "accuracy", seeds=5)
    assert len(refitted.scores) == 5
    assert refitted.scores[refitted.position] == sorted(refitted.scores)[2]
    assert accuracy(data, refitted.model, "train", "validation") == refitted.scores[refitted.position]


def test_the_best_on_validation_rows_has_not_seen_them(data):
    refitted = refit(data, PARAMETERS, "accuracy", keep="best-validation", seeds=4)
    assert refitted.trained_on == ("train",)
    assert refitted.scores[refitted.position] == max(refitted.scores)
    assert accuracy(data, refitted.model, "validation") == max(refitted.scores)


def test_the_same_request_gives_the_same_bits_and_other_seeds_others(data):
    first, second = (refit(data, PARAMETERS, "accuracy", seeds=3) for _ in range(2))
    assert first.model.coefficients.tobytes() == second.model.coefficients.tobytes()
    other = refit(data, PARAMETERS, "accuracy", seeds=3, seed=1)
    assert first.model.coefficients.tobytes() != other.model.coefficients.tobytes()


def test_one_seed_is_enough(data):
    refitted = refit(data, PARAMETERS, "accuracy", seeds=1)
    assert (refitted.position, len(refitted.scores)) == (0, 1)


def test_every_metric_of_a_study_can_decide(data):
    for metric in ("accuracy", "balanced-accuracy", "f1", "roc-auc"):
        assert 0.0 <= refit(data, PARAMETERS, metric, seeds=1).scores[0] <= 1.0


def test_progress_is_told_for_every_seed(data):
    told = []
    refit(data, PARAMETERS, "accuracy", seeds=3, report=lambda stage, done, total: told.append((done, total)))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_folds_are_trained_on_together_and_have_no_validation_rows(tmp_path):
    data = prepared(tmp_path / "folds", rows=200, folds=3)
    refitted = refit(data, PARAMETERS, "accuracy", seeds=1)
    assert refitted.trained_on == ("fold-0", "fold-1", "fold-2")
    with pytest.raises(StudyError, match="keep the median"):
        refit(data, PARAMETERS, "accuracy", keep="best-validation")


def test_the_model_is_the_estimators_own(data):
    refitted = refit(data, PARAMETERS, "accuracy", seeds=1)
    seed = int(np.random.SeedSequence([0, 0]).generate_state(1)[0] >> 1)
    expected = MultiMergeSVC(**PARAMETERS, random_state=seed).fit_portions(data.split(*refitted.trained_on))
    assert refitted.model.support_vectors.tobytes() == expected.support_vectors_.tobytes()
