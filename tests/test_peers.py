"""Peers are trained by the same trials as our own models: scikit-learn's classifiers as they are, on the same rows."""

from dataclasses import replace

import numpy as np
import pytest
from prepared import class_blocks, prepared, write_libsvm
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from mmbsgd import MultiMergeSVC
from workflows.data import PreparedData
from workflows.peers import METHODS, OURS, fit
from workflows.records import TrialSpec
from workflows.reproduction.experiments.peers import spaces
from workflows.reproduction.experiments.peers_compared import COLOURS
from workflows.trial import attempt, run_trial

PARAMETERS = {
    OURS: {"C": 2.0, "gamma": 20.0, "budget": 40, "mergees": 3, "epochs": 2, "polish": 7},
    "svc": {"C": 2.0, "gamma": 20.0},
    "linear-svc": {"C": 1.0, "tol": 1e-3},
    "nystroem-sgd": {"C": 2.0, "gamma": 20.0, "components": 40, "epochs": 5},
    "nystroem-svm": {"C": 2.0, "gamma": 20.0, "components": 40, "tol": 1e-3},
    "fourier-sgd": {"C": 2.0, "gamma": 20.0, "components": 40, "epochs": 5},
    "fourier-svm": {"C": 2.0, "gamma": 20.0, "components": 40, "tol": 1e-3},
    "boosted-trees": {"trees": 10, "rate": 0.3, "leaves": 8, "l2": 1.0},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("peers")
    prepared(folder / "board", rows=900, rows_per_partition=200)
    return PreparedData.open(folder / "board", keep=True)


@pytest.fixture(scope="module")
def sparse(tmp_path_factory):
    folder = tmp_path_factory.mktemp("peers")
    source = write_libsvm(folder / "rows", *class_blocks(3, rows=300, width=12, density=0.2))
    prepared(folder / "sparse", source, layout="sparse")
    return PreparedData.open(folder / "sparse", keep=True)


def gathered(data, *splits):
    matrices, codes = [], []
    data.split(*splits).each(lambda part: (matrices.append(np.array(part.matrix)), codes.append(np.array(part.codes))))
    return np.vstack(matrices), np.concatenate(codes)


def trial(method, seed=5, **options):
    return TrialSpec(0, PARAMETERS[method] | {"method": method}, seed=seed, **options)


def test_every_peer_can_be_tuned_drawn_and_tested():
    assert set(PARAMETERS) == set(METHODS)
    assert set(METHODS) == set(COLOURS) == set(spaces("adult"))
    for method, parameters in PARAMETERS.items():
        assert set(spaces("skin")[method]) == set(parameters)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["data", "sparse"])
def test_a_peer_is_trained_and_scored_as_a_trial(method, kind, request):
    data = request.getfixturevalue(kind)
    result = run_trial(trial(method), data)
    assert result.state == "complete"
    assert (0.5 if kind == "data" else 0.2) < result.score <= 1.0
    assert result.costs["cpu"] > 0
    assert result.costs["wall"] > 0
    assert result.counters["bytes"] > 100
    assert result.counters["latency"] > 0
    again = run_trial(trial(method), data)
    assert (again.score, again.model) == (result.score, result.model), "the same seed gives the same model"
    other = run_trial(trial(method, seed=6), data)
    assert METHODS[method].random or other.score == result.score


def test_the_exact_svm_is_scikit_learns_on_all_rows_though_equal_ones_are_weighted(tmp_path):
    """Rows on a coarse lattice: most of them are there several times, in both classes."""
    generator = np.random.default_rng(0)
    points = generator.integers(0, 6, size=(400, 2)).astype(np.float32)
    labels = np.where(points.sum(axis=1) + generator.normal(size=400) > 5, 1, -1)
    source = write_libsvm(tmp_path / "rows", points + 1, labels)
    data = prepared(tmp_path / "data", source, layout="dense")
    matrix, codes = gathered(data, "train")
    assert len(np.unique(matrix, axis=0)) < len(matrix) / 4
    mine = fit("svc", {"C": 1.5, "gamma": 0.3}, data, ("train",), 0)
    whole = SVC(C=1.5, gamma=0.3, tol=1e-6).fit(matrix, codes)
    np.testing.assert_allclose(mine.estimator.decision_function(matrix), whole.decision_function(matrix), atol=5e-3)
    assert 0 < mine.support_vectors < whole.n_support_.sum()


def test_a_feature_map_and_its_classifier_are_what_a_user_would_write(data):
    matrix, codes = gathered(data, "train", "validation")
    parameters = PARAMETERS["nystroem-sgd"]
    mine = fit("nystroem-sgd", parameters, data, ("train", "validation"), 9)
    theirs = make_pipeline(
        Nystroem(gamma=20.0, n_components=40, random_state=9),
        SGDClassifier(alpha=1 / (2.0 * len(codes)), max_iter=5, tol=None, average=True, random_state=9),
    ).fit(matrix, codes)
    np.testing.assert_array_equal(mine.estimator.decision_function(matrix), theirs.decision_function(matrix))


def test_our_own_estimator_is_fitted_as_its_users_do(data):
    matrix, codes = gathered(data, "train")
    mine = fit(OURS, PARAMETERS[OURS], data, ("train",), 4)
    theirs = MultiMergeSVC(**PARAMETERS[OURS], random_state=4).fit(matrix, codes)
    np.testing.assert_array_equal(mine.estimator.decision_function(matrix), theirs.decision_function(matrix))
    assert mine.cpu_seconds >= mine.estimator.training_.cpu_seconds, "checks of the input count"
    assert len(mine.saved) < 20_000, "the model, not what training needed"


@pytest.mark.parametrize("method", METHODS)
def test_what_is_loaded_or_compiled_first_is_not_timed(method, sparse, monkeypatch):
    """A fit of a few rows of each class comes first, once."""
    fits = []

    class Fitting:
        def fit(self, matrix, codes, **given):
            fits.append((matrix.shape[0], set(codes)))
            return self

    monkeypatch.setattr("workflows.peers._warm", set())
    monkeypatch.setitem(METHODS, method, replace(METHODS[method], build=lambda *_: Fitting()))
    for _ in range(2):
        fit(method, PARAMETERS[method], sparse, ("train",), 0)
    rows = sparse.split("train").rows
    assert [count for count, _ in fits] == [min(count for count, _ in fits), rows, rows]
    assert all(classes == {0, 1} for _, classes in fits)


def test_more_landmarks_than_rows_are_as_many_as_there_are_rows(sparse):
    parameters = PARAMETERS["nystroem-svm"] | {"components": 10_000}
    fitted = fit("nystroem-svm", parameters, sparse, ("train",), 0)
    assert fitted.estimator[0].components_.shape[0] == sparse.split("train").rows


def test_a_method_that_is_not_there_is_a_failed_trial(data):
    result = attempt(lambda spec: run_trial(spec, data), TrialSpec(0, {"method": "oracle"}, seed=0))
    assert result.state == "failed"
    assert "oracle" in result.reason
