"""The trainer's report counts what happened, and Theorem 1's bound is the paper's formula."""

import dataclasses
import json
import math
import time

import naive
import numpy as np
import pytest
from builders import blobs, train, trainer_of
from hypothesis import given
from hypothesis import strategies as st

from mmbsgd.portions import Whole
from mmbsgd.rows import rows_of
from mmbsgd.training import ENGINES, theorem_bound


def trained(engine="fast", **options):
    rows, labels = blobs(0, count=60)
    trainer = trainer_of(rows, 1 / 60, 0.3, 10, engine=engine, **options)
    trainer.run(rows_of(rows), labels)
    trainer.calibrate(Whole(rows_of(rows), labels))
    return trainer, rows, labels


@given(regularization=st.floats(1e-6, 100.0), steps=st.integers(1, 10**9), error=st.floats(0.0, 1.0))
def test_the_bound_is_that_of_theorem_1(regularization, steps, error):
    radius = 2 / regularization if regularization <= 4 else 1 / math.sqrt(regularization)
    expected = (regularization * radius + 2) ** 2 * (math.log(steps) + 1) / (2 * regularization * steps)
    assert theorem_bound(regularization, steps, error) == pytest.approx(expected + 2 * radius * error)


def test_the_bound_of_a_worked_example():
    # lambda = 1/2: U = 4, (2 + 2)^2 (ln 1 + 1) / (2 * 1/2 * 1) + 2 * 4 * 1/4
    assert theorem_bound(0.5, 1, 0.25) == pytest.approx(18.0)


def test_nothing_is_promised_before_the_first_step():
    assert theorem_bound(0.5, 0, 0.0) == math.inf


@pytest.mark.parametrize("engine", ENGINES)
def test_the_report_counts_what_happened(engine):
    trainer, rows, _ = trained(engine, mergees=2)
    report = trainer.report()
    assert report.steps == len(rows)
    assert 10 <= report.margin_violations <= 60
    assert 0 < report.maintenance_calls < report.margin_violations
    assert report.merges == report.maintenance_calls
    assert report.support_vectors == len(trainer.model().coefficients) == 10
    assert report.kernel_evaluations > 60 * 10
    assert report.seconds > 0.0
    assert 0.0 <= report.maintenance_seconds <= report.seconds
    assert 0.0 < report.bias_seconds < report.seconds
    assert 0.0 < report.mean_gradient_error <= report.largest_gradient_error
    assert report.theorem_bound == theorem_bound(1 / 60, 60, report.mean_gradient_error)


def test_the_report_is_frozen_and_becomes_a_plain_dict():
    report = trained()[0].report()
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.steps = 0
    assert report.as_dict()["steps"] == 60
    assert report.as_dict()["maintenance_share"] == report.maintenance_share
    assert 0.0 <= report.maintenance_share <= 1.0


@pytest.mark.parametrize("polish", [0, 3])
def test_the_report_is_valid_json(polish):
    trainer, rows, labels = trained()
    if polish:
        trainer.polish(Whole(rows_of(rows), labels), polish, "calibrated")
    said = json.dumps(trainer.report().as_dict(), allow_nan=False)
    assert ("objective" in json.loads(said)) == ("gap" in json.loads(said)) == bool(polish)


def test_polishing_twice_is_reported_as_two():
    trainer, rows, labels = trained()
    reports = []
    for _ in range(2):
        trainer.polish(Whole(rows_of(rows), labels), 2, "calibrated")
        reports.append(trainer.report())
    assert [report.polish_passes for report in reports] == [2, 4]
    assert reports[1].kernel_evaluations >= reports[0].kernel_evaluations + 60 * 10
    assert reports[1].polish_seconds > reports[0].polish_seconds


def test_watching_polishing_takes_no_time_and_comes_after_every_pass():
    trainer, rows, labels = trained()
    seen = []

    def watch(watched):
        seen.append((watched.polish_passes, watched.report().polish_seconds))
        time.sleep(0.2)

    trainer.watch = watch
    trainer.polish(Whole(rows_of(rows), labels), 4, "calibrated")
    assert [passes for passes, _ in seen] == [1, 2, 3, 4]
    assert (np.diff([seconds for _, seconds in seen]) > 0.0).all()
    assert trainer.report().polish_seconds - seen[0][1] < 0.5


def test_a_watcher_that_raises_ends_polishing_and_leaves_the_model_of_sgd():
    trainer, rows, labels = trained()
    before = trainer.model()

    def stop(watched):
        raise StopIteration

    trainer.watch = stop
    with pytest.raises(StopIteration):
        trainer.polish(Whole(rows_of(rows), labels), 4, "calibrated")
    assert trainer.model().coefficients.tobytes() == before.coefficients.tobytes()
    assert math.isnan(trainer.report().objective)
    assert trainer.report().polish_seconds > 0.0


def test_the_report_of_nothing_is_all_zero():
    report = trainer_of(np.zeros((1, 2), np.float32), 1.0, 1.0, 5).report()
    assert (report.steps, report.support_vectors, report.maintenance_share) == (0, 0, 0.0)
    assert report.theorem_bound == math.inf


@pytest.mark.parametrize("engine", ENGINES)
def test_scores_are_the_margins_of_all_rows(engine):
    trainer, rows, _ = trained(engine)
    occupied = np.flatnonzero(trainer.support.beta)
    points, betas = trainer.support.points[occupied], trainer.support.beta[occupied]
    np.testing.assert_allclose(
        trainer.scores(rows_of(rows), len(rows)), naive.margins(rows, points, betas, 0.3), atol=1e-4
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_the_models_scores_are_alpha_not_beta(engine):
    trainer, rows, _ = trained(engine)
    shrinking = 1 / (1 / 60 * 60)
    expected = (trainer.scores(rows_of(rows), len(rows)) + trainer.bias) * shrinking
    np.testing.assert_allclose(trainer.model().decision_function(rows), expected, atol=1e-4)


def test_calibration_reaches_the_least_training_error():
    trainer, rows, labels = trained()
    scores = trainer.scores(rows_of(rows), len(rows))
    assert naive.weighted_error(scores, labels, trainer.bias) == naive.least_error(scores, labels)


def test_portions_in_a_given_order_are_one_walk():
    rows, labels = blobs(4, count=30)
    whole = train(rows, labels, [np.arange(30)], 0.02, 0.3, 8)
    parts = train(rows[:20], labels[:20], [np.arange(20)], 0.02, 0.3, 8)
    parts.generator.orders = [np.arange(10)]
    parts.run(rows_of(rows[20:]), labels[20:])
    assert whole.model().coefficients.tobytes() == parts.model().coefficients.tobytes()
    assert whole.model().support_vectors.tobytes() == parts.model().support_vectors.tobytes()
