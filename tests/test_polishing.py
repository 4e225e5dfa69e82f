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

from mmbsgd import BudgetedModel, MultiMergeSVC, kernel_features, polishing, smoothed_hinge
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
@given(
    seed=st.integers(0, 10**6),
    passes=st.integers(1, 6),
    size=st.sampled_from([1e-3, 1.0, 50.0]),
    cost=st.sampled_from([2.0, 1e6, 1e8]),
)
def test_the_objective_never_rises(seed, passes, size, cost):
    matrix, labels = blobs(seed, 50)
    model = start_of(seed, matrix[:10], 0.5, size)
    before = value_of(model, matrix, labels, cost)
    found = polished(model, matrix, labels, cost, passes, bias="optimal")
    assert found.passes <= passes
    assert value_of(found.model, matrix, labels, cost) <= before * (1.0 + ROUNDING)


@pytest.mark.compiled_only
@given(
    seed=st.integers(0, 10**6),
    cost=st.sampled_from([1e6, 1e8, 1e10]),
    size=st.sampled_from([0.0, 1.0, 1e3, 1e8]),
    overlap=st.sampled_from([0.2, 1.0, 2.0]),
)
def test_with_a_large_cost_it_gets_from_any_start_to_the_end(seed, cost, size, overlap):
    """And is never worse than no model at all, whose objective is 1."""
    matrix, labels = blobs(seed, 60, overlap=overlap)
    model = start_of(seed, matrix[:8], 0.5, size)
    values = [polished(model, matrix, labels, cost, passes).objective for passes in (1, 7, 400)]
    assert values[0] <= 1.0 + 1e-9
    assert values[0] >= values[1] >= values[2]
    found = polished(model, matrix, labels, cost, 400)
    assert 0.0 <= found.gap <= GAP


@pytest.mark.compiled_only
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("count", "vectors", "cost"), [(200, 30, 32.0), (60, 10, 1e3), (300, 20, 2.0), (100, 8, 1e6)])
def test_more_passes_are_never_worse(seed, count, vectors, cost):
    matrix, labels = blobs(seed, count)
    model = start_of(seed, matrix[:vectors], 0.5)
    found = [polished(model, matrix, labels, cost, passes) for passes in range(1, 22)]
    values, gaps = [one.objective for one in found], [one.gap for one in found]
    assert (np.diff(values) <= 0.0).all()
    assert (np.diff(gaps) <= 0.0).all()
    assert values[-1] < 0.7 * values[0]


@pytest.mark.parametrize("bias", ["optimal", "none"])
def test_the_gap_is_a_part_of_the_objective_from_the_first_pass_on(bias):
    matrix, labels = blobs(3, 100)
    gaps = [polished(start_of(3, matrix[:10], 0.5), matrix, labels, 1e4, passes, bias=bias).gap for passes in (1, 2, 3)]
    assert min(gaps) > 0.0
    assert max(gaps) <= 1.0


@given(total=st.floats(0.0, 1e9), length=st.floats(0.0, 1e9))
def test_the_bound_is_that_of_the_best_multiple(total, length):
    values = [size * total - 0.5 * size * size * length for size in np.linspace(0.0, 1.0, 1001)]
    found = polishing._best_multiple(total, length)
    assert max(values) <= found * (1.0 + 1e-9)
    assert found <= max(values) + 1e-6 * length


@pytest.mark.parametrize("seed", [1, 3])
@pytest.mark.parametrize("cost", [1.0, 1e3, 1e6])
def test_the_first_step_from_zero_sees_all_rows(seed, cost):
    matrix, labels = blobs(seed, 100)
    found = polished(BudgetedModel(matrix[:10], np.zeros(10), 0.0, 0.5), matrix, labels, cost, 2)
    assert found.objective < 0.5


def test_a_start_that_is_too_large_is_made_smaller():
    matrix, labels = blobs(3, 100)
    model = start_of(3, matrix[:10], 0.5)
    large = dataclasses.replace(model, coefficients=30.0 * model.coefficients, bias=30.0 * model.bias)
    best = min(
        value_of(
            dataclasses.replace(model, coefficients=size * model.coefficients, bias=size * model.bias), matrix, labels
        )
        for size in np.linspace(0.0, 30.0, 2000)
    )
    found = polished(large, matrix, labels, passes=1, bias="optimal")
    assert value_of(found.model, matrix, labels) <= 1.05 * best
    assert best < 0.2 * value_of(large, matrix, labels)


@pytest.mark.parametrize("cost", [1e-30, 1e-15, 1e-3])
def test_with_a_tiny_cost_the_bias_is_still_found(cost):
    matrix, labels = blobs(4, 60)
    found = polished(start_of(4, matrix[:8], 0.5, cost), matrix, labels, cost, 20, bias="optimal")
    assert found.gap <= GAP
    assert found.objective <= 2.0 * min((labels > 0).mean(), (labels < 0).mean()) * (1.0 + GAP)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("cost", [1e6, 1e10, 1e12])
def test_separable_rows_with_a_large_cost_are_no_overflow(cost):
    matrix, labels = blobs(0, 200, overlap=0.25)
    found = polished(start_of(0, matrix[:20], 0.5, cost), matrix, labels, cost)
    assert 0.0 <= found.gap <= 10 * GAP


@pytest.mark.compiled_only
@pytest.mark.parametrize("bias", ["optimal", "none"])
@pytest.mark.parametrize("seed", [1, 4, 5, 8])
def test_the_certificate_is_free_of_what_large_sums_leave_behind(seed, bias):
    """At first all rows pull, by 10^11 each; in the end a few do, by less than 10."""
    matrix, labels = blobs(seed, 500, overlap=0.25)
    found = polished(start_of(seed, matrix[:30], 0.3, 0.0), matrix, labels, 1e11, bias=bias)
    assert 0.0 <= found.gap <= 0.05


def test_a_direction_that_leads_nowhere_ends_it(monkeypatch):
    """Uphill no part of the way is good."""
    solved = polishing._solved
    monkeypatch.setattr(polishing, "_solved", lambda *arguments: -solved(*arguments))
    matrix, labels = blobs(0, 50)
    found = polished(start_of(0, matrix[:5], 0.5), matrix, labels, passes=30)
    assert found.passes == 1
    assert found.gap > GAP


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
    weights = np.where(labels > 0, labels, 0.2 * labels).astype(np.float32)
    model = start_of(5, matrix[:20], 0.5)
    found = {bias: polished(model, matrix, weights, bias=bias) for bias in ("calibrated", "optimal", "none")}
    scores = {bias: one.model.decision_function(matrix) for bias, one in found.items()}
    errors = {bias: naive.weighted_error(values, weights, 0.0) for bias, values in scores.items()}
    assert errors["calibrated"] < errors["optimal"]
    assert errors["calibrated"] == pytest.approx(naive.least_error(scores["optimal"], weights), rel=0.01)
    assert polished(model, matrix, weights).model.bias == found["calibrated"].model.bias != found["optimal"].model.bias
    assert found["calibrated"].model.coefficients.tobytes() == found["optimal"].model.coefficients.tobytes()
    assert found["none"].model.bias == 0.0


@pytest.mark.parametrize(("share", "shifts"), [(0.5e-4, False), (2e-4, True)])
def test_the_bias_is_shifted_for_more_than_luck(share, shifts):
    """One light row on the wrong side, in the empty space between two classes."""
    matrix, labels = blobs(6, 300, overlap=0.2)
    model = start_of(6, matrix[:20], 0.1)
    way = np.linspace(-1.0, 1.0, 201, dtype=np.float32)[:, None] * np.ones(3, np.float32)
    scores = polished(model, matrix, labels, bias="optimal").model.decision_function(way)
    stray = way[np.argmin(np.abs(scores - 0.3))]
    matrix, weights = np.vstack([matrix, stray]), np.append(labels, -300 * share).astype(np.float32)
    optimal, found = (polished(model, matrix, weights, bias=bias).model for bias in ("optimal", "calibrated"))
    assert optimal.decision_function(stray[None])[0] > 0.0
    assert (found.bias != optimal.bias) == shifts
    assert (found.decision_function(stray[None])[0] <= 0.0) == shifts


@pytest.mark.parametrize("bias", ["calibrated", "optimal", "none"])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_one_class_alone_has_no_bias(bias, sign):
    """As without polishing: it would be all that there is."""
    matrix, labels = blobs(7, 80)
    weights = np.where(labels == sign, labels, 0.0).astype(np.float32)
    found = polished(start_of(7, matrix[:10], 0.5), matrix, weights, bias=bias)
    assert found.gap <= GAP
    assert found.model.bias == 0.0
    assert (sign * found.model.decision_function(matrix[labels == sign]) > 0.0).all()


def test_an_optimum_of_almost_nothing_is_one():
    matrix, labels = blobs(7, 80)
    weights = np.where(labels > 0, 1e-20, -1.0).astype(np.float32)
    found = polished(start_of(7, matrix[:10], 0.5), matrix, weights)
    assert found.objective < 1e-17
    assert found.passes < 20


@pytest.mark.compiled_only
@pytest.mark.parametrize("bias", ["calibrated", "none"])
def test_rows_in_portions_that_are_never_kept_give_the_same(monkeypatch, bias):
    matrix, labels = blobs(2, 400)
    model = start_of(2, matrix[:25], 0.5)
    whole = polished(model, matrix, labels, bias=bias)
    parts = polish(model, Parts(matrix, labels, [100, 250]), cost=2.0, passes=200, bias=bias)
    monkeypatch.setattr(kernel_features, "LARGEST_CACHE", 0)
    streamed = polish(model, Parts(matrix, labels, [100, 250]), cost=2.0, passes=200, bias=bias)
    monkeypatch.setattr(kernel_features, "LARGEST_CACHE", 4 * 26 * 170)
    partly = polish(model, Parts(matrix, labels, [100, 250]), cost=2.0, passes=200, bias=bias)
    assert streamed.model.coefficients.tobytes() == parts.model.coefficients.tobytes()
    assert partly.model.coefficients.tobytes() == parts.model.coefficients.tobytes()
    assert streamed.kernel_evaluations > partly.kernel_evaluations > parts.kernel_evaluations == 400 * 25
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
    modules = (polishing, kernel_features, smoothed_hinge)
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


@pytest.mark.compiled_only
def test_a_weight_of_five_is_five_times_the_cost():
    matrix, labels = blobs(13, 300)
    options = {"budget": 20, "polish": 50, "bias": "optimal", "random_state": 0}
    heavy = MultiMergeSVC(C=1.0, **options).fit(matrix, labels, sample_weight=np.full(300, 5.0))
    dear = MultiMergeSVC(C=5.0, **options).fit(matrix, labels)
    np.testing.assert_allclose(heavy.decision_function(matrix), dear.decision_function(matrix), atol=1e-4)
    assert heavy.training_.objective == pytest.approx(dear.training_.objective, rel=1e-4)


@pytest.mark.compiled_only
def test_the_objective_is_a_part_of_all_weights_and_costs():
    matrix, labels = blobs(14, 200)
    weights = np.random.default_rng(14).uniform(0.5, 9.0, 200)
    svc = MultiMergeSVC(C=2.0, budget=20, polish=50, bias="optimal", random_state=0, class_weight={-1.0: 3.0, 1.0: 0.5})
    model = svc.fit(matrix, labels, sample_weight=weights).model_
    all_weights = labels * weights * np.where(labels > 0, 0.5, 3.0)
    value = value_of(model, matrix, all_weights, 2.0)
    assert svc.training_.objective == pytest.approx(value / (2.0 * np.abs(all_weights).sum()), rel=1e-3)


@pytest.mark.compiled_only
def test_after_polishing_sgd_goes_on_from_its_own_coefficients():
    matrix, labels = blobs(15, 300)
    fine, plain = (MultiMergeSVC(budget=20, polish=polish, random_state=0).fit(matrix, labels) for polish in (20, 0))
    fitted = fine.training_
    for estimator in (fine, plain):
        estimator.partial_fit(matrix[:100], labels[:100])
    assert fine.model_.coefficients.tobytes() == plain.model_.coefficients.tobytes()
    assert fine.model_.bias == plain.model_.bias
    report = fine.training_
    assert report.polish_seconds == fitted.polish_seconds
    assert report.polish_passes == fitted.polish_passes
    assert report.kernel_evaluations > fitted.kernel_evaluations
    assert np.isnan([report.objective, report.gap]).all()


def test_partial_fit_does_not_polish():
    matrix, labels = blobs(12, 200)
    estimator = MultiMergeSVC(budget=20, polish=50, random_state=0).partial_fit(matrix, labels)
    assert estimator.training_.polish_passes == 0
    fitted = MultiMergeSVC(budget=20, polish=0, random_state=0).fit(matrix, labels)
    assert estimator.model_.coefficients.tobytes() == fitted.model_.coefficients.tobytes()
