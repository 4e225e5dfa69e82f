"""MultiMergeSVC: a scikit-learn estimator that says what is wrong and gives the same bits for the same seed."""

import pickle
import warnings

import naive
import numpy as np
import pytest
from builders import blobs
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_svmlight_file, make_moons
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from mmbsgd import BudgetedModel, InputError, MultiMergeSVC
from mmbsgd.portions import Whole, scale_gamma
from mmbsgd.rows import rows_of
from mmbsgd.training import Trainer

STRATEGIES = ["cascade", "gradient", "projection", "removal"]
ENGINES = ["fast", "paper"]


@pytest.fixture(scope="module")
def data():
    return blobs(0, count=60)


def bits(estimator):
    return (
        estimator.support_vectors_.tobytes(),
        estimator.dual_coef_.tobytes(),
        estimator.intercept_.tobytes(),
        estimator.gamma_,
    )


def small(**options):
    return MultiMergeSVC(**{"gamma": 0.3, "budget": 12, "polish": 0, "random_state": 0, **options})


def expected_failures(_estimator):
    reason = (
        "a row of weight 2 is one step, two equal rows are two: other walks (scikit-learn's SGDClassifier says so too)"
    )
    return {
        "check_sample_weight_equivalence_on_dense_data": reason,
        "check_sample_weight_equivalence_on_sparse_data": reason,
    }


@pytest.mark.compiled_only
@parametrize_with_checks([MultiMergeSVC()], expected_failed_checks=expected_failures)
def test_scikit_learns_contract_is_kept(estimator, check):
    check(estimator)


@pytest.mark.parametrize("maintenance", STRATEGIES)
@pytest.mark.parametrize("engine", ENGINES)
def test_what_fit_leaves_behind_describes_one_model(data, maintenance, engine):
    X, y = data
    estimator = small(maintenance=maintenance, engine=engine).fit(X, y)
    assert estimator.support_vectors_.shape == (estimator.training_.support_vectors, 3)
    assert estimator.support_vectors_.shape[0] <= 12
    assert estimator.dual_coef_.shape == (1, len(estimator.support_vectors_))
    assert np.array_equal(estimator.classes_, [-1, 1])
    assert estimator.n_features_in_ == 3
    expected = naive.margins(X, estimator.support_vectors_, estimator.dual_coef_[0], 0.3) + estimator.intercept_[0]
    np.testing.assert_allclose(estimator.decision_function(X), expected, atol=1e-3)
    assert np.array_equal(estimator.predict(X), np.where(estimator.decision_function(X) > 0, 1, -1))
    assert np.array_equal(estimator.model_.predict(X), estimator.predict(X))
    assert estimator.training_.steps == 60


@pytest.mark.parametrize("labels", [("no", "yes"), (False, True), (3, 7), (1.0, 2.0), ("b", "a")])
def test_any_two_labels_come_back(data, labels):
    X, y = data
    named = np.array(labels)[(y > 0).astype(int)]
    estimator = small().fit(X, named)
    assert set(estimator.predict(X)) == set(labels)
    assert list(estimator.classes_) == sorted(labels)
    positive = estimator.decision_function(X) > 0
    assert np.array_equal(estimator.predict(X) == sorted(labels)[1], positive)


@pytest.mark.parametrize("maintenance", STRATEGIES)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_random_state_gives_the_same_bits(data, maintenance, engine):
    estimator = small(maintenance=maintenance, engine=engine, epochs=2)
    assert bits(clone(estimator).fit(*data)) == bits(clone(estimator).fit(*data))
    assert bits(clone(estimator).set_params(random_state=5).fit(*data)) != bits(clone(estimator).fit(*data))


def test_fitting_again_forgets_the_first_time(data):
    X, y = data
    estimator = small().fit(X[:, :2], -y)
    assert bits(estimator.fit(X, y)) == bits(small().fit(X, y))


@pytest.mark.parametrize("gamma", [0.3, "auto", "scale"])
@pytest.mark.parametrize("form", [csr_matrix, csr_array])
def test_dense_and_sparse_data_give_the_same_bits(data, gamma, form):
    X, y = data
    X = np.where(X > 0.3, X, 0).astype(np.float32)
    dense, sparse = small(gamma=gamma).fit(X, y), small(gamma=gamma).fit(form(X), y)
    assert bits(dense) == bits(sparse)
    assert dense.decision_function(X).tobytes() == sparse.decision_function(form(X)).tobytes()


def test_untidy_sparse_data_is_understood_and_left_as_it_is(data):
    X, y = data
    tidy = csr_matrix(X)
    reversed_rows = [np.arange(3)[::-1] + 3 * row for row in range(len(X))]
    untidy = csr_matrix(
        (tidy.data[np.ravel(reversed_rows)], tidy.indices[np.ravel(reversed_rows)], tidy.indptr), X.shape
    )
    before = untidy.indices.copy()
    assert bits(small().fit(untidy, y)) == bits(small().fit(tidy, y))
    assert np.array_equal(untidy.indices, before)


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_float32_input_is_neither_copied_nor_changed(data, form, monkeypatch):
    X, y = form(data[0]), data[1]
    memory = X if isinstance(X, np.ndarray) else X.data
    before, seen = memory.copy(), []
    run = Trainer.run
    monkeypatch.setattr(Trainer, "run", lambda self, rows, weights: (seen.append(rows), run(self, rows, weights)))
    small().fit(X, y)
    assert np.shares_memory(seen[0].values, memory)
    assert np.array_equal(memory, before)
    assert memory.flags.writeable


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_read_only_input_works(data, form):
    X, y = form(data[0].copy()), data[1].copy()
    for array in (X, y) if isinstance(X, np.ndarray) else (X.data, X.indices, X.indptr, y):
        array.flags.writeable = False
    assert bits(small().fit(X, y)) == bits(small().fit(*data))


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_partial_fit_k_times_on_the_same_data_is_fit_with_k_epochs(data, epochs):
    parts = small()
    for _ in range(epochs):
        parts.partial_fit(*data)
    assert bits(parts) == bits(small(epochs=epochs).fit(*data))
    assert parts.training_.steps == 60 * epochs


def test_n_total_sets_the_step_size_of_a_stream(data):
    X, y = data
    streamed = small(C=1.0).partial_fit(X, y, n_total=240)
    assert bits(streamed) == bits(small(C=4.0).fit(X, y))


def test_a_stream_of_portions_learns_all_of_them():
    X, y = make_moons(900, noise=0.15, random_state=0)
    estimator = small(gamma=2.0, budget=40, C=10.0)
    for start in range(0, 900, 300):
        estimator.partial_fit(X[start : start + 300], y[start : start + 300], classes=[0, 1], n_total=900)
    assert estimator.training_.steps == 900
    assert estimator.score(X, y) > 0.93


def test_a_first_portion_of_one_class_needs_the_classes(data):
    X, y = data
    one = y > 0
    with pytest.raises(ValueError, match="one class"):
        small().partial_fit(X[one], y[one])
    estimator = small().partial_fit(X[one], y[one], classes=[-1, 1], n_total=60)
    estimator.partial_fit(X[~one], y[~one])
    assert estimator.score(X, y) > 0.5


def test_later_portions_must_agree_with_the_first(data):
    X, y = data
    estimator = small().partial_fit(X, y)
    with pytest.raises(InputError, match="differ from those of the first call"):
        estimator.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(InputError, match="not among the classes"):
        estimator.partial_fit(X, np.where(y > 0, 1, 5))
    with pytest.raises(ValueError, match="features"):
        estimator.partial_fit(X[:, :2], y)
    with pytest.raises(InputError, match="n_total=0"):
        small().partial_fit(X, y, n_total=0)


def test_a_failed_first_portion_leaves_an_estimator_that_can_start(data):
    X, y = data
    estimator = small()
    with pytest.raises(InputError):
        estimator.partial_fit(X, y, n_total=0)
    assert bits(estimator.partial_fit(X, y)) == bits(small().partial_fit(X, y))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 0}, "budget"),
        ({"budget": 2.5}, "budget"),
        ({"mergees": 1}, "mergees"),
        ({"gamma": 0.0}, "gamma"),
        ({"gamma": -1.0}, "gamma"),
        ({"gamma": "wide"}, "gamma"),
        ({"gamma": float("nan")}, "gamma"),
        ({"gamma": float("inf")}, "gamma"),
        ({"C": 0.0}, "C"),
        ({"C": float("nan")}, "C"),
        ({"C": float("inf")}, "C"),
        ({"epochs": 0}, "epochs"),
        ({"epochs": True}, "epochs"),
        ({"polish": -1}, "polish"),
        ({"polish": True}, "polish"),
        ({"polish": np.True_}, "polish"),
        ({"polish": 2.5}, "polish"),
        ({"maintenance": "merge"}, "maintenance"),
        ({"engine": "turbo"}, "engine"),
        ({"bias": "some"}, "bias"),
        ({"class_weight": "heavy"}, "class_weight"),
        ({"across_signs": "maybe"}, "across_signs"),
    ],
)
def test_a_wrong_parameter_is_named(data, options, message):
    with pytest.raises(ValueError, match=f"'{message}'"):
        small(**options).fit(*data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (np.where(X[0, 0] == X, np.nan, X), y), "NaN"),
        (lambda X, y: (np.where(X[0, 0] == X, np.inf, X), y), "infinity"),
        (lambda X, y: (X * np.float32(1e16), y), "scale the data first"),
        (lambda X, y: (X, np.ones(len(y))), "pass rows of two classes"),
        (lambda X, y: (X, np.arange(len(y)) % 3), "OneVsRestClassifier"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X[:, 0], y), "Reshape your data"),
        (lambda X, y: (X, y + 0.37 * np.arange(len(y))), "continuous"),
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_data_that_cannot_be_trained_on_gets_an_error_that_says_what_to_do(data, change, message, sparse):
    X, y = change(*data)
    if sparse and X.ndim == 2:
        X = csr_matrix(X)
    with pytest.raises(ValueError, match=message):
        small().fit(X, y)


def test_rows_of_another_width_are_refused_at_prediction(data):
    estimator = small().fit(*data)
    with pytest.raises(ValueError, match="expecting 3 features"):
        estimator.predict(np.zeros((2, 4)))


@pytest.mark.parametrize("gamma", ["scale", "auto", 1e-12, 1.0, 1e12])
@pytest.mark.parametrize("scale", [1e-45, 1e-40, 1e-20, 1e6, 1e15 / 8])
@pytest.mark.parametrize("engine", ENGINES)
def test_values_of_any_scale_give_finite_scores(data, gamma, scale, engine):
    X, y = data
    X = (X[:30].astype(np.float64) * scale).astype(np.float32)
    for maintenance, mergees in [("cascade", 2), ("cascade", 3), ("gradient", 3), ("projection", 2), ("removal", 2)]:
        options = {"gamma": gamma, "budget": 5, "maintenance": maintenance, "mergees": mergees, "engine": engine}
        estimator = small(**options).fit(X, y[:30])
        assert np.all(np.isfinite(estimator.decision_function(X)))
        assert np.all(np.isfinite(estimator.dual_coef_))
        assert np.all(np.isfinite(estimator.support_vectors_))
        report = estimator.training_
        assert np.all(np.isfinite([report.mean_gradient_error, report.largest_gradient_error, report.theorem_bound]))


@pytest.mark.parametrize("across_signs", [False, True])
def test_columns_of_very_different_scale_give_finite_scores(data, across_signs):
    X, y = data
    X = X * np.array([1e-40, 1.0, 1e6], np.float32)
    estimator = small(across_signs=across_signs, budget=6).fit(X, y)
    assert np.all(np.isfinite(estimator.decision_function(X)))


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_rows_that_are_all_zero_or_all_alike_can_be_trained_on(form):
    y = np.array([0, 1, 1, 0, 1])
    for X in (np.zeros((5, 3), np.float32), np.full((5, 3), 2.0, np.float32)):
        estimator = MultiMergeSVC(random_state=0).fit(form(X), y)
        assert np.all(np.isfinite(estimator.decision_function(form(X))))
        assert len(estimator.support_vectors_) <= 1


def whole(matrix):
    return Whole(rows_of(matrix.astype(np.float32)), np.ones(matrix.shape[0], np.float32))


def test_scaled_gamma_is_that_of_scikit_learns_svc(data):
    X, y = data
    for matrix in (X, csr_matrix(np.where(X > 0, X, 0))):
        assert scale_gamma(whole(matrix)) == pytest.approx(SVC().fit(matrix, y)._gamma, rel=1e-5)
    assert MultiMergeSVC(gamma="auto", random_state=0).fit(X, y).gamma_ == pytest.approx(1 / 3)


def test_scaled_gamma_has_the_same_bits_for_dense_and_sparse_data():
    for seed in range(20):
        generator = np.random.default_rng(seed)
        X = generator.normal(size=(5000, 10)).astype(np.float32)
        X[generator.random(X.shape) < 0.5] = 0.0
        assert scale_gamma(whole(X)) == scale_gamma(whole(csr_matrix(X)))


def test_rows_of_weight_zero_are_never_support_vectors(data):
    X, y = data
    weights = np.arange(60) % 2
    estimator = small(budget=60).fit(X, y, sample_weight=weights)
    ignored = {row.tobytes() for row in X[weights == 0]}
    assert not ignored & {vector.tobytes() for vector in estimator.support_vectors_}


def test_a_weight_is_the_size_of_a_step(data):
    X, y = data
    order = np.random.default_rng(np.random.RandomState(0).randint(np.iinfo(np.int32).max)).permutation(60)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 60)
    estimator = small(budget=60, bias="none").fit(X, y, sample_weight=weights)
    walk = naive.train(X, y * weights, order, 1 / 60, 0.3, 60)
    assert sorted(estimator.dual_coef_[0]) == pytest.approx(sorted(walk.betas), rel=1e-5)


def test_class_weights_are_sample_weights_by_class(data):
    X, y = data
    by_class = small(class_weight={-1: 0.5, 1: 2.0}).fit(X, y)
    by_row = small().fit(X, y, sample_weight=np.where(y > 0, 2.0, 0.5))
    assert bits(by_class) == bits(by_row)
    balanced = small(class_weight="balanced").fit(X, y)
    counts = {label: np.sum(y == label) for label in (-1, 1)}
    by_row = small().fit(X, y, sample_weight=[30 / counts[label] for label in y])
    assert bits(balanced) == bits(by_row)


def test_a_heavy_class_is_predicted_more_often():
    X, y = blobs(2, count=300, overlap=3.0)
    plain, heavy = small(budget=50).fit(X, y), small(budget=50, class_weight={1: 20.0}).fit(X, y)
    assert np.sum(heavy.predict(X) == 1) > np.sum(plain.predict(X) == 1)


def test_impossible_weights_are_refused(data):
    X, y = data
    with pytest.raises(ValueError, match="zero"):
        small().fit(X, y, sample_weight=np.zeros(60))
    with pytest.raises(InputError, match="must be above 0"):
        small(class_weight={-1: 0.0, 1: 0.0}).fit(X, y)
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        small().fit(X, y, sample_weight=-np.ones(60))
    with pytest.raises(ValueError, match="NaN"):
        small().fit(X, y, sample_weight=np.full(60, np.nan))


def test_bias_none_leaves_the_intercept_at_zero_and_calibration_never_worsens_the_training_error(data):
    X, y = data
    plain, calibrated = small(bias="none", C=30.0).fit(X, y), small(C=30.0).fit(X, y)
    assert plain.intercept_[0] == 0.0
    assert calibrated.score(X, y) >= plain.score(X, y)
    assert np.array_equal(plain.dual_coef_, calibrated.dual_coef_)


def test_a_fitted_model_survives_its_file(data, tmp_path):
    X, y = data
    estimator = small().fit(X, np.where(y > 0, "yes", "no"))
    estimator.model_.save(tmp_path / "model.arrow")
    loaded = BudgetedModel.load(tmp_path / "model.arrow")
    assert loaded.decision_function(X).tobytes() == estimator.decision_function(X).tobytes()
    assert list(loaded.predict(X)) == list(estimator.predict(X))


def test_pickled_estimators_predict_and_go_on_learning_alike(data):
    X, y = data
    estimator = small().partial_fit(X, y)
    twin = pickle.loads(pickle.dumps(estimator))
    assert np.array_equal(twin.decision_function(X), estimator.decision_function(X))
    assert bits(twin.partial_fit(X, y)) == bits(estimator.partial_fit(X, y))


def test_clones_carry_parameters_and_nothing_learnt(data):
    estimator = small(C=3.0, mergees=4).fit(*data)
    twin = clone(estimator)
    assert twin.get_params() == estimator.get_params()
    assert not hasattr(twin, "model_")


@pytest.mark.compiled_only
def test_pipelines_searches_and_multiclass_wrappers_work():
    X, y = make_moons(600, noise=0.2, random_state=1)
    pipeline = make_pipeline(StandardScaler(), MultiMergeSVC(random_state=0, epochs=2))
    search = GridSearchCV(pipeline, {"multimergesvc__C": [1.0, 10.0], "multimergesvc__mergees": [2, 4]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.9
    three = np.where(X[:, 0] > 1.5, 2, y)
    assert OneVsRestClassifier(pipeline).fit(X, three).score(X, three) > 0.85


@pytest.mark.compiled_only
@pytest.mark.parametrize("maintenance", ["cascade", "gradient", "projection"])
def test_accuracy_is_close_to_the_exact_svm(maintenance):
    X, y = make_moons(4000, noise=0.25, random_state=0)
    unseen, truth = make_moons(4000, noise=0.25, random_state=1)
    exact = SVC(C=10.0, gamma=2.0).fit(X, y).score(unseen, truth)
    scores = [
        MultiMergeSVC(C=10.0, gamma=2.0, budget=60, epochs=5, maintenance=maintenance, random_state=seed)
        .fit(X, y)
        .score(unseen, truth)
        for seed in range(3)
    ]
    assert np.mean(scores) > exact - 0.015


@pytest.mark.compiled_only
@pytest.mark.parametrize("mergees", [2, 4])
def test_both_engines_reach_the_same_accuracy_over_seeds(mergees):
    X, y = make_moons(3000, noise=0.3, random_state=0)
    unseen, truth = make_moons(3000, noise=0.3, random_state=1)
    means = {}
    for engine in ENGINES:
        options = {"C": 5.0, "gamma": 2.0, "budget": 50, "mergees": mergees, "engine": engine, "epochs": 2}
        fits = [MultiMergeSVC(random_state=seed, **options).fit(X, y) for seed in range(6)]
        means[engine] = np.mean([fit.score(unseen, truth) for fit in fits])
    assert means["fast"] == pytest.approx(means["paper"], abs=0.01)


@pytest.mark.compiled_only
def test_adult_is_learnt_from_a_sparse_file(real_data):
    X, y = load_svmlight_file(str(real_data / "a9a.bz2"), n_features=123, dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator = MultiMergeSVC(C=32.0, gamma=0.008, budget=100, random_state=0).fit(X[:20000], y[:20000])
    assert estimator.score(X[20000:], y[20000:]) > 0.83


@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1e10, 1e30])
@pytest.mark.parametrize("maintenance", STRATEGIES)
@pytest.mark.compiled_only
def test_weights_of_any_size_are_a_matter_of_C(data, scale, maintenance):
    X, y = data
    weighted = MultiMergeSVC(C=1 / scale, budget=7, maintenance=maintenance, epochs=3, random_state=0)
    weighted.fit(X, y, sample_weight=np.full(len(y), scale))
    plain = MultiMergeSVC(C=1.0, budget=7, maintenance=maintenance, epochs=3, random_state=0).fit(X, y)
    assert len(weighted.support_vectors_) <= 7
    np.testing.assert_allclose(weighted.decision_function(X), plain.decision_function(X), rtol=1e-4, atol=1e-4)


@pytest.mark.compiled_only
@pytest.mark.parametrize("engine", ["fast", "paper"])
@pytest.mark.parametrize("maintenance", STRATEGIES)
def test_vanishing_weights_beside_ordinary_ones_keep_the_budget(data, maintenance, engine):
    X, y = data
    weights = np.where(np.arange(len(y)) % 2, 1.0, 1e-30)
    svc = MultiMergeSVC(budget=5, maintenance=maintenance, engine=engine, epochs=3, random_state=0)
    svc.fit(X, y, sample_weight=weights)
    assert len(svc.support_vectors_) <= 5
    assert np.isfinite(svc.decision_function(X)).all()


@pytest.mark.parametrize("weights", [{-1.0: -1.0, 1.0: 1.0}, {-1.0: 1.0, 1.0: np.nan}, {-1.0: np.inf, 1.0: 1.0}])
def test_class_weights_that_are_no_weights_are_refused(data, weights):
    with pytest.raises(InputError, match="finite weights of zero or more"):
        MultiMergeSVC(class_weight=weights).fit(*data)


@pytest.mark.compiled_only
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e5])
def test_the_scale_of_gamma_is_the_one_of_scikit_learn(offset):
    X = (np.random.default_rng(0).normal(size=(500, 4)) + offset).astype(np.float32)
    assert scale_gamma(whole(X)) == pytest.approx(1.0 / (4 * X.astype(np.float64).var()), rel=1e-3)


def test_a_fit_that_fails_leaves_the_fitted_model_alone(data):
    X, y = data
    svc = MultiMergeSVC(budget=5, random_state=0).fit(X, y)
    before = svc.predict(X)
    svc.set_params(class_weight={"p": -1.0, "q": 1.0})
    with pytest.raises(InputError):
        svc.fit(X, np.where(y > 0, "p", "q"))
    assert np.array_equal(svc.predict(X), before)


def test_a_portion_of_one_class_keeps_the_bias(data):
    X, y = data
    svc = MultiMergeSVC(budget=10, random_state=0).partial_fit(X, y, n_total=10_000)
    before = svc._trainer.bias
    svc.partial_fit(X[y > 0][:3], y[y > 0][:3])
    assert svc._trainer.bias == before


@pytest.mark.parametrize("passes", [0, 1], ids=["in SGD", "in polishing"])
def test_a_watcher_that_raises_is_gone_when_learning_goes_on(data, passes):
    X, y = data
    svc = MultiMergeSVC(budget=10, random_state=0)

    def stop(trainer):
        if trainer.polish_passes == passes:
            raise StopIteration

    with pytest.raises(StopIteration):
        svc.fit_portions(Whole(rows_of(X), y), watch=stop)
    assert not hasattr(svc, "model_")
    assert svc.partial_fit(X, y).training_.polish_passes == passes


def test_partial_fit_refuses_what_needs_all_rows(data):
    with pytest.raises(InputError, match="balanced"):
        MultiMergeSVC(class_weight="balanced").partial_fit(*data)
    with pytest.raises(InputError, match="n_total"):
        MultiMergeSVC().partial_fit(*data, n_total=float("nan"))
