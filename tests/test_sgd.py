"""A pass of budgeted SGD equals the naive walk over the same rows in the same order."""

import naive
import numpy as np
import pytest
from builders import assert_consistent, assert_same_vectors, blobs, columns_of, outcome, train, trainer_of, vectors_of
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from mmbsgd.merging import TABLE_ERROR
from mmbsgd.portions import Whole
from mmbsgd.rows import rows_of
from mmbsgd.support import BLOCKS, COUNT

GAMMA = 0.3
STRATEGIES = ["cascade", "gradient", "projection", "removal"]
ENGINES = ["fast", "paper"]
seeds = st.integers(0, 10**6)


def orders_of(seed, count, epochs):
    generator = np.random.default_rng(seed)
    return [generator.permutation(count) for _ in range(epochs)]


def both_runs(seed, rows, weights, budget, mergees=2, maintenance="cascade", engine="fast", epochs=1, C=1.0):
    regularization, orders = 1.0 / (len(rows) * C), orders_of(seed, len(rows), epochs)
    # Gradient ascent and brute force find the same summit where there is one: all points within each other's reach.
    gamma = 0.05 if maintenance == "gradient" else GAMMA
    slow = naive.train(
        rows, weights, np.concatenate(orders), regularization, gamma, budget, count=mergees, maintenance=maintenance
    )
    quick = train(
        rows, weights, orders, regularization, gamma, budget, mergees=mergees, maintenance=maintenance, engine=engine
    )
    return slow, quick


def assume_no_close_decision(slow):
    """Where rounding decides, two right implementations part ways."""
    assume(slow.closest_margin > 2e-3)
    assume(slow.closest_choice > 3 * TABLE_ERROR)


def assert_same_training(slow, quick, tolerance=5e-3):
    report = quick.report()
    assert report.steps == slow.steps
    assert report.margin_violations == slow.violations
    assert report.maintenance_calls == slow.maintenance_calls
    assert_consistent(quick.support)
    assert_same_vectors(*vectors_of(quick.support), np.array(slow.points), np.array(slow.betas), tolerance)
    expected = np.sqrt(slow.losses).sum() / slow.steps if slow.losses else 0.0
    assert report.mean_gradient_error == pytest.approx(expected, rel=1e-2, abs=1e-4)


@given(
    seed=seeds,
    budget=st.integers(1, 8),
    mergees=st.integers(2, 5),
    maintenance=st.sampled_from(STRATEGIES),
    engine=st.sampled_from(ENGINES),
    weighted=st.booleans(),
)
def test_training_equals_the_naive_walk(seed, budget, mergees, maintenance, engine, weighted):
    rows, labels = blobs(seed, count=16)
    weights = labels * np.random.default_rng(seed).uniform(0.5, 1.5, 16).astype(np.float32) if weighted else labels
    slow, quick = both_runs(seed, rows, weights, budget, mergees, maintenance, engine, C=2.0)
    assume_no_close_decision(slow)
    assert_same_training(slow, quick)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("maintenance", STRATEGIES)
def test_two_epochs_with_every_strategy_equal_the_naive_walk(maintenance, engine):
    compared = 0
    for seed in range(40):
        rows, labels = blobs(seed, count=14)
        slow, quick = both_runs(seed, rows, labels, 5, 3, maintenance, engine, epochs=2, C=2.0)
        if slow.closest_margin > 2e-3 and slow.closest_choice > 3 * TABLE_ERROR and slow.maintenance_calls > 2:
            assert_same_training(slow, quick)
            compared += 1
        if compared == 3:
            return
    pytest.fail("too few walks without a close decision to compare")


@given(seed=seeds, budget=st.integers(2, 8), engine=st.sampled_from(ENGINES))
def test_two_mergees_are_plain_bsgd(seed, budget, engine):
    rows, labels = blobs(seed, count=14)
    slow, quick = both_runs(seed, rows, labels, budget, 2, "cascade", engine, C=4.0)
    assume_no_close_decision(slow)
    assert quick.report().merges <= quick.report().maintenance_calls
    assert_same_training(slow, quick)


@given(
    seed=seeds,
    count=st.integers(2, 40),
    extra=st.integers(0, 30),
    maintenance=st.sampled_from(STRATEGIES),
    engine=st.sampled_from(ENGINES),
    epochs=st.integers(1, 3),
)
def test_a_budget_of_all_rows_is_kernel_pegasos_without_a_budget(seed, count, extra, maintenance, engine, epochs):
    rows, labels = blobs(seed, count)
    regularization, orders = 1.0 / count, orders_of(seed, count, epochs)
    trainer = train(rows, labels, orders, regularization, GAMMA, count + extra, maintenance=maintenance, engine=engine)
    walk = naive.train(rows, labels, np.concatenate(orders), regularization, GAMMA, count + extra)
    assume(walk.closest_margin > 1e-4)
    counts = naive.pegasos(rows, labels, np.concatenate(orders), regularization, GAMMA)
    assert trainer.report().maintenance_calls == 0
    violated = counts > 0
    model = trainer.model()
    expected = counts[violated] * labels[violated] / (regularization * count * epochs)
    assert_same_vectors(model.support_vectors, model.coefficients, rows[violated], expected, 1e-6)


@given(
    seed=seeds,
    budget=st.integers(1, 12),
    mergees=st.integers(2, 20),
    maintenance=st.sampled_from(STRATEGIES),
    engine=st.sampled_from(ENGINES),
    across_signs=st.booleans(),
    duplicates=st.booleans(),
)
def test_the_budget_is_never_exceeded(seed, budget, mergees, maintenance, engine, across_signs, duplicates):
    rows, labels = blobs(seed, count=30, overlap=4.0)
    if duplicates:
        rows = np.round(rows)
    options = {"mergees": mergees, "maintenance": maintenance, "engine": engine, "across_signs": across_signs}
    trainer = trainer_of(rows, 1e-3, GAMMA, budget, seed, **options)
    for i in range(len(rows)):
        trainer.run(rows_of(rows[i : i + 1]), labels[i : i + 1])
        assert trainer.support.state[COUNT] <= budget
        assert_consistent(trainer.support)
    assert len(trainer.model().coefficients) <= budget


@given(
    seed=seeds,
    budget=st.integers(1, 70),
    maintenance=st.sampled_from(STRATEGIES),
    engine=st.sampled_from(ENGINES),
    scale=st.sampled_from([1.0, 1e4]),
)
def test_dense_and_csr_rows_train_the_same_bits(seed, budget, maintenance, engine, scale):
    rows, labels = blobs(seed, count=40, width=6)
    rows[np.random.default_rng(seed).random(rows.shape) < 0.5] = 0.0
    rows *= np.float32(scale)
    results = []
    for matrix in (rows, csr_matrix(rows)):
        trainer = trainer_of(rows, 0.01, GAMMA, budget, seed, maintenance=maintenance, engine=engine)
        trainer.run(rows_of(matrix), labels)
        trainer.calibrate(Whole(rows_of(matrix), labels))
        results.append(outcome(trainer))
    assert results[0] == results[1]


@given(seed=seeds, maintenance=st.sampled_from(STRATEGIES), engine=st.sampled_from(ENGINES))
def test_the_same_seed_gives_the_same_bits(seed, maintenance, engine):
    rows, labels = blobs(seed, count=30)
    results = []
    for _ in range(2):
        trainer = trainer_of(rows, 0.01, GAMMA, 8, seed, maintenance=maintenance, engine=engine)
        for _ in range(2):
            trainer.run(rows_of(rows), labels)
        results.append(outcome(trainer))
    assert results[0] == results[1]


def test_another_seed_gives_another_order():
    rows, labels = blobs(0, count=30)
    results = []
    for seed in (0, 1):
        trainer = trainer_of(rows, 0.01, GAMMA, 8, seed)
        trainer.run(rows_of(rows), labels)
        results.append(outcome(trainer))
    assert results[0] != results[1]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("width", [1, 3, 8, 20, 50])
@pytest.mark.parametrize("scale", [1.0, 1e5])
def test_a_row_seen_again_adds_to_its_vector_and_takes_no_second_place(engine, width, scale):
    rows, _ = blobs(1, count=20, width=width)
    rows *= np.float32(scale)
    labels = np.ones(20)
    # lambda t is beyond any margin: every visit is a violation.
    trainer = train(rows, labels, [np.arange(20)] * 3, 1e6, GAMMA, 40, engine=engine)
    points, betas = vectors_of(trainer.support)
    assert_same_vectors(points, betas, rows, np.full(20, 3.0), 0.0)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_merged_vector_that_stayed_on_a_row_still_coincides_with_it(engine):
    generator = np.random.default_rng(3)
    rows = (generator.normal(size=(4, 17)) * 30).astype(np.float32)
    orders = [[0, 1, 2, 3], [0, 1, 2, 3]]
    trainer = train(rows, np.ones(4), orders, 1e6, 1.0, 3, engine=engine)
    points, _ = vectors_of(trainer.support)
    assert len({point.tobytes() for point in points}) == len(points)


@pytest.mark.parametrize("maintenance", STRATEGIES)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_with_both_labels_cancels_and_frees_its_place(maintenance, engine):
    rows = np.array([[1.0, 2.0], [1.0, 2.0], [5.0, 1.0]], np.float32)
    weights = [1.0, -1.0, 1.0]
    trainer = train(rows, weights, [[0, 1, 2]], 1e6, GAMMA, 3, maintenance=maintenance, engine=engine)
    points, betas = vectors_of(trainer.support)
    assert np.array_equal(points, rows[2:])
    assert np.array_equal(betas, [1.0])
    trainer.generator.orders = [np.array([0, 0, 0])]
    trainer.run(rows_of(rows), np.asarray(weights, np.float32))
    assert_same_vectors(*vectors_of(trainer.support), rows[[2, 0]], [1.0, 3.0], 0.0)


def test_projection_goes_on_after_a_cancelled_vector():
    rows, _ = blobs(5, count=8)
    rows[1] = rows[0]
    weights = np.array([1.0, -1.0, 1.2, -0.9, 1.1, -1.3, 0.8, 0.7], np.float32)
    order = [0, 1, 2, 3, 4, 5, 6, 7]
    slow = naive.train(rows, weights, order, 1e3, GAMMA, 4, maintenance="projection")
    quick = train(rows, weights, [order], 1e3, GAMMA, 4, maintenance="projection")
    assert slow.maintenance_calls > 1
    assert_same_training(slow, quick)


@pytest.mark.parametrize("engine", ENGINES)
def test_all_zero_rows_are_rows_like_others(engine):
    rows = np.zeros((4, 3), np.float32)
    rows[2:] = [[1, 0, 0], [0, 1, 0]]
    weights = np.array([1, 1, -1, -1], np.float32)
    for matrix in (rows, csr_matrix(rows)):
        trainer = trainer_of(rows, 1e6, GAMMA, 10, engine=engine)
        trainer.run(rows_of(matrix), weights)
        assert_same_vectors(*vectors_of(trainer.support), rows[1:], [2.0, -1.0, -1.0], 0.0)


def test_rows_of_weight_zero_count_as_steps_and_change_nothing():
    rows, labels = blobs(2, count=20)
    weights = labels.copy()
    weights[::2] = 0.0
    slow, quick = both_runs(2, rows, weights, 20)
    assert quick.report().steps == 20
    assert_same_training(slow, quick)
    assert not {row.tobytes() for row in rows[::2]} & {
        point.astype(np.float32).tobytes() for point in vectors_of(quick.support)[0]
    }


def test_kernel_evaluations_count_every_vector_at_every_step():
    rows, _ = blobs(3, count=10)
    trainer = train(rows, np.ones(10), [np.arange(10)], 1e6, GAMMA, 4, mergees=2)
    assert trainer.report().kernel_evaluations == sum(min(i, 4) for i in range(10))


def test_every_merge_of_a_multi_merge_is_counted():
    rows, _ = blobs(3, count=10)
    trainer = train(rows, np.ones(10), [np.arange(10)], 1e6, GAMMA, 9, mergees=4)
    assert (trainer.report().maintenance_calls, trainer.report().merges) == (1, 3)


@pytest.mark.compiled_only
@pytest.mark.parametrize("mergees", [2, 4])
def test_columns_and_norms_have_not_drifted_after_100_000_merges(mergees):
    """Norms are computed afresh at every merge: their error is that of one float32 sum, 1e-6 of the norm."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(150_000 * mergees, 7)).astype(np.float32)
    labels = generator.choice(np.array([-1.0, 1.0], np.float32), len(rows))
    trainer = trainer_of(rows, 1.0 / len(rows), GAMMA, 40, seed=1, mergees=mergees)
    trainer.run(rows_of(rows), labels)
    assert trainer.report().merges >= 100_000
    support = trainer.support
    assert_consistent(support)
    occupied = np.flatnonzero(support.beta[:41])
    assert np.array_equal(columns_of(support)[occupied], support.points[occupied])
    exact = np.square(support.points[occupied], dtype=np.float64).sum(axis=1)
    np.testing.assert_allclose(support.norms[occupied], exact, rtol=1e-6)
    assert support.state[BLOCKS] == 2
