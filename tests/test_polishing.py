"""Polishing: the least objective over the support vectors there are, with a certificate that is true."""

import dataclasses

import naive
import numpy as np
import pytest
from builders import blobs
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.svm import SVC
from test_kernel_features import Parts

from mmbsgd import BudgetedModel, MultiMergeSVC, kernel_features, polishing
from mmbsgd.polishing import GAP, compile_kernels, polish
from mmbsgd.portions import Whole
from mmbsgd.rows import rows_of

ROUNDING = 1e-4
"""What float32 kernel values may change of an objective."""


def best_in_span(rows, signed_weights, points, gamma, cost):
    """(coefficients, bias) of the least objective: an SVM whose kernel is projected onto the span of the points."""
    inverse = np.linalg.inv(
        naive.gaussian_kernel(points, points, gamma) + naive.RIDGE_OF_POLISHING * np.eye(len(points))
    )
    features = naive.gaussian_kernel(rows, points, gamma)
    exact = SVC(C=cost, kernel="precomputed", tol=1e-6, cache_size=10)
    exact.fit(features @ inverse @ features.T, np.sign(signed_weights), np.abs(signed_weights).astype(np.float64))
    duals = np.zeros(len(rows))
    duals[exact.support_] = exact.dual_coef_[0]
    return inverse @ features.T @ duals, float(exact.intercept_[0])


def start_of(seed, points, gamma, size=1.0):
    generator = np.random.default_rng(seed)
    return BudgetedModel(points, size * generator.normal(size=len(points)), float(generator.normal()), gamma)


def polished(model, matrix, weights, cost=2.0, passes=200, **options):
    return polish(model, Whole(rows_of(matrix), weights), cost=cost, passes=passes, **options)


def value_of(model, matrix, weights, cost=2.0):
    return naive.objective(matrix, weights, model.support_vectors, model.coefficients, model.bias, model.gamma, cost)


@pytest.mark.compiled_only
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(4, 60),
    vectors=st.integers(1, 12),
    gamma=st.sampled_from([1e-6, 1e-2, 0.3, 3.0, 1e4]),
    cost=st.sampled_from([0.01, 1.0, 32.0]),
    size=st.sampled_from([0.0, 1.0, 1e3]),
    copies=st.booleans(),
)
def test_it_reaches_the_optimum_and_knows_how_near_it_is(seed, count, vectors, gamma, cost, size, copies):
    matrix, labels = blobs(seed, count)
    generator = np.random.default_rng(seed)
    weights = (labels * generator.uniform(0.2, 2.0, count)).astype(np.float32)
    points = matrix[:vectors] + (0.0 if copies else generator.normal(size=(len(matrix[:vectors]), 3)))
    points = np.concatenate([points, points[:1]]) if copies else points
    model = start_of(seed, points, gamma, size)
    found = polished(model, matrix, weights, cost, bias="optimal")
    value = value_of(found.model, matrix, weights, cost)
    optimum = value_of(
        BudgetedModel(model.support_vectors, *best_in_span(matrix, weights, model.support_vectors, gamma, cost), gamma),
        matrix,
        weights,
        cost,
    )
    assert found.gap <= GAP
    assert found.objective * cost * np.abs(weights).sum() == pytest.approx(value, rel=ROUNDING)
    assert value <= optimum * (1.0 + GAP + ROUNDING)
    assert value - found.gap * value <= optimum * (1.0 + ROUNDING)


@pytest.mark.compiled_only
@given(seed=st.integers(0, 10**6), passes=st.integers(1, 6), size=st.sampled_from([1e-3, 1.0, 50.0]))
def test_the_objective_never_rises(seed, passes, size):
    matrix, labels = blobs(seed, 50)
    model = start_of(seed, matrix[:10], 0.5, size)
    before = value_of(model, matrix, labels)
    found = polished(model, matrix, labels, passes=passes, bias="optimal")
    assert found.passes <= passes
    assert value_of(found.model, matrix, labels) <= before * (1.0 + ROUNDING)


@pytest.mark.compiled_only
def test_more_passes_are_never_worse():
    matrix, labels = blobs(3, 200)
    model = start_of(3, matrix[:30], 0.5)
    values = [polished(model, matrix, labels, 32.0, passes).objective for passes in range(1, 30)]
    assert (np.diff(values) <= 0.0).all()
    assert values[-1] < 0.5 * values[0]


@pytest.mark.parametrize("weighted", [True, False])
def test_with_all_rows_as_support_vectors_it_is_the_exact_machine(monkeypatch, weighted):
    """Within 0.002, where decision values are about 1."""
    monkeypatch.setattr(polishing, "GAP", 1e-7)
    matrix, labels = blobs(1, 120)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 120) if weighted else np.ones(120)
    exact = SVC(C=2.0, gamma=0.4, tol=1e-6).fit(matrix, labels, sample_weight=weights)
    found = polished(start_of(1, matrix, 0.4), matrix, (labels * weights).astype(np.float32), bias="optimal")
    np.testing.assert_allclose(found.model.decision_function(matrix), exact.decision_function(matrix), atol=2e-3)


def test_without_a_bias_it_is_the_optimum_too():
    matrix, labels = blobs(1, 60)
    model = start_of(1, matrix[:8], 0.4)
    found = polished(model, matrix, labels, bias="none")
    shifts = np.random.default_rng(0).normal(scale=0.02, size=(200, 8))
    value = value_of(found.model, matrix, labels)
    others = [dataclasses.replace(found.model, coefficients=found.model.coefficients + shift) for shift in shifts]
    assert found.model.bias == 0.0
    assert value <= min(value_of(other, matrix, labels) for other in others) * (1.0 + GAP)


def test_the_bias_is_calibrated_unless_asked_otherwise():
    matrix, labels = blobs(5, 300, overlap=1.5)
    model = start_of(5, matrix[:20], 0.5)
    found = {bias: polished(model, matrix, labels, bias=bias) for bias in ("calibrated", "optimal", "none")}
    errors = {bias: np.mean((one.model.decision_function(matrix) > 0) != (labels > 0)) for bias, one in found.items()}
    assert errors["calibrated"] <= errors["optimal"]
    assert found["calibrated"].model.coefficients.tobytes() == found["optimal"].model.coefficients.tobytes()
    assert found["none"].model.bias == 0.0


@pytest.mark.compiled_only
@pytest.mark.parametrize("bias", ["calibrated", "none"])
def test_rows_in_portions_that_are_never_kept_give_the_same(monkeypatch, bias):
    matrix, labels = blobs(2, 400)
    model = start_of(2, matrix[:25], 0.5)
    whole = polished(model, matrix, labels, bias=bias)
    parts = polish(model, Parts(matrix, labels, [100, 250]), cost=2.0, passes=200, bias=bias)
    monkeypatch.setattr(kernel_features, "LARGEST_CACHE", 0)
    streamed = polish(model, Parts(matrix, labels, [100, 250]), cost=2.0, passes=200, bias=bias)
    assert streamed.model.coefficients.tobytes() == parts.model.coefficients.tobytes()
    assert streamed.kernel_evaluations > parts.kernel_evaluations == 400 * 25
    assert parts.objective == pytest.approx(whole.objective, rel=2 * GAP)
    np.testing.assert_allclose(parts.model.decision_function(matrix), whole.model.decision_function(matrix), atol=0.05)


def test_dense_and_csr_rows_give_the_same_bits():
    matrix, labels = blobs(4, 150)
    matrix[matrix < 0.3] = 0.0
    model = start_of(4, matrix[:15], 0.5)
    dense, sparse = (polished(model, form, labels).model for form in (matrix, csr_matrix(matrix)))
    assert dense.coefficients.tobytes() == sparse.coefficients.tobytes()
    assert dense.bias == sparse.bias


def test_a_row_twice_is_a_row_of_twice_the_weight_and_one_without_weight_is_none():
    matrix, labels = blobs(6, 80)
    model = start_of(6, matrix[:12], 0.5)
    heavy, light = labels.copy(), labels.copy()
    heavy[:40] *= 2.0
    light[40:] = 0.0
    twice = polished(model, np.concatenate([matrix, matrix[:40]]), np.concatenate([labels, labels[:40]]))
    np.testing.assert_allclose(twice.model.coefficients, polished(model, matrix, heavy).model.coefficients, rtol=1e-6)
    left = polished(model, matrix[:40], labels[:40], bias="optimal")
    np.testing.assert_allclose(
        polished(model, matrix, light, bias="optimal").model.coefficients, left.model.coefficients, rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("gamma", [1e-12, 1e12])
@pytest.mark.parametrize("copies", [1, 7])
def test_degenerate_vectors_have_finite_coefficients(gamma, copies):
    matrix, labels = blobs(7, 60)
    points = np.repeat(matrix[:2], copies, axis=0)
    found = polished(start_of(7, points, gamma), matrix, labels)
    assert np.isfinite(found.model.coefficients).all()
    assert np.isfinite(found.model.decision_function(matrix)).all()
    assert found.gap <= GAP


def test_a_model_without_vectors_gets_a_bias():
    matrix, labels = blobs(8, 50)
    labels[:30] = 1.0
    found = polished(BudgetedModel(np.empty((0, 3)), np.empty(0), 0.0, 1.0), matrix, labels, bias="optimal")
    assert found.model.bias == pytest.approx(1.0, abs=0.01)


@pytest.mark.compiled_only
def test_kernels_are_compiled_before_the_clock_runs():
    compile_kernels()
    modules = (polishing, kernel_features)
    kernels = [one for module in modules for one in vars(module).values() if hasattr(one, "signatures")]
    kernels = [one for one in kernels if one.py_func.__module__ in {module.__name__ for module in modules}]
    before = [len(one.signatures) for one in kernels]
    for form in (np.asarray, csr_matrix):
        matrix, labels = blobs(9, 300)
        MultiMergeSVC(budget=20, polish=30, random_state=0).fit(form(matrix), labels)
    assert [len(one.signatures) for one in kernels] == before


# The estimator


@pytest.mark.compiled_only
def test_the_report_tells_what_polishing_did():
    matrix, labels = blobs(10, 400)
    plain, fine = (MultiMergeSVC(budget=30, polish=polish, random_state=0).fit(matrix, labels) for polish in (0, 50))
    assert plain.training_.polish_passes == plain.training_.polish_seconds == 0
    assert np.isnan([plain.training_.objective, plain.training_.gap]).all()
    report = fine.training_
    assert 1 < report.polish_passes <= 50
    assert 0.0 < report.gap <= GAP
    assert report.seconds > report.polish_seconds > 0.0
    assert report.kernel_evaluations > plain.training_.kernel_evaluations
    assert report.objective == pytest.approx(polishing_objective(fine, matrix, labels), rel=0.01)
    assert fine.support_vectors_.tobytes() == plain.support_vectors_.tobytes()


def polishing_objective(estimator, matrix, labels):
    model = estimator.set_params(bias="optimal").fit(matrix, labels).model_
    return value_of(model, matrix, labels, 1.0) / len(labels)


@pytest.mark.compiled_only
def test_the_same_seed_gives_the_same_bits_and_class_weights_count():
    matrix, labels = blobs(11, 300, overlap=2.0)
    first, again = (MultiMergeSVC(budget=20, random_state=1).fit(matrix, labels).model_ for _ in range(2))
    assert first.coefficients.tobytes() == again.coefficients.tobytes()
    heavy = MultiMergeSVC(budget=20, class_weight={1.0: 20.0}, random_state=1).fit(matrix, labels)
    assert (heavy.predict(matrix) > 0).mean() > (first.decision_function(matrix) > 0).mean()


def test_partial_fit_does_not_polish():
    matrix, labels = blobs(12, 200)
    estimator = MultiMergeSVC(budget=20, polish=50, random_state=0).partial_fit(matrix, labels)
    assert estimator.training_.polish_passes == 0
    fitted = MultiMergeSVC(budget=20, polish=0, random_state=0).fit(matrix, labels)
    assert estimator.model_.coefficients.tobytes() == fitted.model_.coefficients.tobytes()
