"""A trial is a pure function of its spec and the data; looking at it changes nothing, and nothing it does gets out."""

import math
import statistics
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from prepared import prepared
from sklearn import metrics

from mmbsgd import MultiMergeSVC
from mmbsgd.bias import calibrated_bias
from workflows.data import PreparedData
from workflows.records import Bar, Point, TrialResult, TrialSpec
from workflows.stopping import SHARES
from workflows.trial import PROBE_ROWS, _probe, _seed, _Watcher, attempt, run_trial, score_of

PARAMETERS = {"C": 10.0, "gamma": 8.0, "budget": 15, "mergees": 3, "polish": 0}
SPEC = TrialSpec(3, PARAMETERS, seed=7, cost="work")
ANYTHING_GOES = Bar(shortest=0.0)
"""Looks at every trial and stops none."""
UNREACHABLE = Bar(front=((0.0, 2.0),), slack=tuple((share, 0.0) for share in SHARES), shortest=0.0)
"""Something finished is better than anything can be, at no cost."""
METRICS = ["accuracy", "balanced-accuracy", "f1", "roc-auc"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("trial") / "data"
    prepared(out, rows=900, rows_per_partition=60, validation_size=0.3)
    return out


@pytest.fixture
def any_look_pays(monkeypatch):
    """Small as the data is, a look costs more than the training: usually there would be none."""
    monkeypatch.setattr("workflows.trial.LARGEST_SHARE_OF_LOOKS", math.inf)


@pytest.fixture(scope="module")
def data(folder):
    return PreparedData.open(folder, keep=True)


@pytest.fixture(scope="module")
def folded(tmp_path_factory):
    return prepared(tmp_path_factory.mktemp("trial") / "folds", rows=600, folds=3)


def trained(data, seed, splits=("train",), **parameters):
    return MultiMergeSVC(**PARAMETERS | parameters, random_state=seed).fit_portions(data.split(*splits))


def measured(result):
    """All of a result that no clock has a part in."""
    clocks = {"latency", "maintenance_share"}
    counters = {
        name: value for name, value in result.counters.items() if name not in clocks and not name.endswith("seconds")
    }
    return result.score, result.spread, result.costs["work"], counters, result.model, result.curve, result.state


class Blinded:
    """Prepared data without the splits that a trial must not see."""

    def __init__(self, data):
        self._data = data

    def __getattr__(self, name):
        return getattr(self._data, name)

    def split(self, *names):
        assert "test" not in names
        return self._data.split(*names)


@pytest.mark.usefixtures("any_look_pays")
@pytest.mark.parametrize("bar", [None, ANYTHING_GOES])
def test_the_same_spec_gives_the_same_bits_whether_the_data_is_kept_or_not(folder, data, bar):
    spec = replace(SPEC, bar=bar, repeats=2)
    first = measured(run_trial(spec, data))
    assert measured(run_trial(spec, data)) == first
    assert measured(run_trial(spec, PreparedData.open(folder))) == first


def test_another_seed_gives_another_model(data):
    models = {run_trial(replace(SPEC, seed=seed), data).model for seed in range(5)}
    assert len(models) == 5


def test_the_number_of_a_trial_has_no_part_in_it(data):
    one, other = (run_trial(replace(SPEC, number=number), data) for number in (0, 99))
    assert (one.number, other.number) == (0, 99)
    assert measured(one) == measured(other)


@pytest.mark.usefixtures("any_look_pays")
def test_a_trial_never_sees_the_test_split(data):
    assert "test" in data.manifest.splits
    assert run_trial(replace(SPEC, bar=ANYTHING_GOES), Blinded(data)).state == "complete"


@pytest.mark.parametrize("metric", METRICS)
def test_the_score_is_that_of_the_validation_split(data, metric):
    result = run_trial(replace(SPEC, metric=metric), data)
    scores, codes = data.split("validation").decide(trained(data, _seed(7, 0)).model_)
    assert result.score == pytest.approx(expected_score(metric, scores, codes), rel=1e-12)
    assert 0.5 < result.score <= 1.0


def expected_score(metric, scores, codes):
    decided = (scores > 0).astype(int)
    return {
        "accuracy": lambda: metrics.accuracy_score(codes, decided),
        "balanced-accuracy": lambda: metrics.balanced_accuracy_score(codes, decided),
        "f1": lambda: metrics.f1_score(codes, decided),
        "roc-auc": lambda: metrics.roc_auc_score(codes, scores),
    }[metric]()


@pytest.mark.parametrize("metric", METRICS)
def test_metrics_are_scikit_learns(metric):
    generator = np.random.default_rng(4)
    for count in (2, 3, 50):
        codes = generator.integers(0, 2, count).astype(np.int8)
        codes[:2] = 0, 1
        scores = generator.normal(size=count).round(1)
        scores[0] = 0.0  # belongs to the first class
        assert score_of(metric, scores, codes) == pytest.approx(expected_score(metric, scores, codes))


@pytest.mark.parametrize("metric", METRICS)
def test_what_is_not_defined_is_nan_and_no_warning(metric):
    codes = np.ones(4, np.int8)
    found = score_of(metric, np.array([1.0, -1.0, 2.0, 3.0]), codes)
    assert math.isnan(found) == (metric in ("balanced-accuracy", "roc-auc"))
    assert score_of("f1", -np.ones(4), np.zeros(4, np.int8)) == 0.0
    for broken in (math.nan, math.inf):
        assert math.isnan(score_of(metric, np.array([1.0, broken]), np.array([0, 1], np.int8)))


def test_repeats_are_trainings_with_seeds_of_their_own(data):
    result = run_trial(replace(SPEC, repeats=4), data)
    models = [trained(data, _seed(7, repeat)) for repeat in range(4)]
    scores = [score_of("accuracy", *data.split("validation").decide(model.model_)) for model in models]
    assert len(set(scores)) > 1
    assert result.score == pytest.approx(statistics.fmean(scores))
    assert result.spread == pytest.approx(statistics.pstdev(scores))
    work = [model.training_.kernel_evaluations for model in models]
    assert result.costs["work"] == pytest.approx(statistics.fmean(work))


def test_a_single_run_has_no_spread(data):
    assert run_trial(SPEC, data).spread == 0.0


def test_every_fold_is_scored_by_a_model_that_has_not_seen_it(folded):
    names = ["fold-0", "fold-1", "fold-2"]
    folds = tuple((tuple(other for other in names if other != name), (name,)) for name in names)
    result = run_trial(replace(SPEC, folds=folds), folded)
    scores = []
    for trained_on, scored_on in folds:
        model = trained(folded, _seed(7, 0), trained_on).model_
        scores.append(score_of("accuracy", *folded.split(*scored_on).decide(model)))
    assert result.score == pytest.approx(statistics.fmean(scores))
    assert result.spread == pytest.approx(statistics.pstdev(scores))
    assert result.counters["steps"] == pytest.approx(statistics.fmean([folded.split(*on).rows for on, _ in folds]))


def test_all_costs_and_counters_are_kept_whatever_the_objective(data):
    for cost in ("cpu", "wall", "work"):
        result = run_trial(replace(SPEC, cost=cost), data)
        assert set(result.costs) == {"cpu", "wall", "work"}
        assert all(value > 0.0 for value in result.costs.values())
        assert result.costs["work"] == int(result.costs["work"])
        assert result.counters["size"] == result.counters["support_vectors"] <= 15
        assert result.counters["steps"] == data.split("train").rows
        assert result.counters["latency"] > 0.0
        assert "seconds" not in result.counters, "it is among the costs"


@pytest.mark.usefixtures("any_look_pays")
def test_watching_changes_no_bit_of_the_model_and_costs_nothing(data):
    for epochs in (1, 3):
        spec = replace(SPEC, parameters=PARAMETERS | {"epochs": epochs})
        alone, watched = run_trial(spec, data), run_trial(replace(spec, bar=ANYTHING_GOES), data)
        assert len(watched.curve) > 5
        assert alone.curve == ()
        assert watched.model == alone.model
        assert watched.score == alone.score
        assert watched.costs["work"] == alone.costs["work"]


@pytest.mark.usefixtures("any_look_pays")
@pytest.mark.parametrize("cost", ["cpu", "wall"])
def test_the_clock_stands_still_while_somebody_looks(data, monkeypatch, cost):
    """Clocks that only the looks move: no cost contains them."""
    passed = 0.0
    look = _Watcher._score

    def slow_look(self, model, rows):
        nonlocal passed
        passed += 1000.0
        return look(self, model, rows)

    monkeypatch.setattr(_Watcher, "_score", slow_look)
    monkeypatch.setattr("mmbsgd.training.time.perf_counter", lambda: passed)
    monkeypatch.setattr("mmbsgd.training.time.thread_time", lambda: passed)
    result = run_trial(replace(SPEC, cost=cost, bar=ANYTHING_GOES), data)
    assert passed >= 5000.0
    assert result.costs["cpu"] == result.costs["wall"] == 0.0
    assert {point.cost for point in result.curve} == {0.0}


@pytest.mark.usefixtures("any_look_pays")
def test_the_curve_rises_in_share_and_cost_and_ends_as_the_trial_did(data):
    result = run_trial(replace(SPEC, bar=ANYTHING_GOES, parameters=PARAMETERS | {"epochs": 2}), data)
    shares, costs = [point.share for point in result.curve], [point.cost for point in result.curve]
    assert shares == sorted(set(shares))
    assert costs == sorted(set(costs))
    assert result.curve[-1] == Point(1.0, result.costs["work"], result.score)
    between = [[share for share in shares if begin <= share < end] for begin, end in pairwise([*SHARES, 1.0])]
    assert max(map(len, between)) == 1, "one look each"
    assert min(map(len, between[2:])) == 1, "portions are smaller than these"


@pytest.mark.parametrize("bar", [None, ANYTHING_GOES])
def test_every_epoch_has_a_point_and_the_last_is_the_real_end(data, bar):
    for epochs in (1, 3):
        result = run_trial(replace(SPEC, bar=bar, parameters=PARAMETERS | {"epochs": epochs}), data)
        assert [point.share for point in result.epochs] == pytest.approx([(k + 1) / epochs for k in range(epochs)])
        assert result.epochs[-1].score == result.score
        assert result.epochs[-1].cost == result.costs[SPEC.cost]
        assert all(abs(point.score - result.score) < 0.2 for point in result.epochs)
        assert TrialResult.from_dict(result.as_dict()) == result


@pytest.mark.usefixtures("any_look_pays")
@pytest.mark.parametrize("bias", ["none", "calibrated"])
def test_a_look_scores_the_model_as_if_it_ended_then(data, bias):
    looks = {}

    def watch(trainer):
        model, (matrix, codes) = trainer.model(), _probe(data, ("validation",))
        shift = 0.0
        if bias == "calibrated":
            training, signs = _probe(data, ("train",))
            shift = calibrated_bias(model.decision_function(training).astype(np.float32), 2.0 * signs - 1.0)
        looks[trainer.steps] = score_of("accuracy", model.decision_function(matrix) + shift, codes)

    estimator = MultiMergeSVC(**PARAMETERS, bias=bias, random_state=_seed(7, 0))
    estimator.fit_portions(data.split("train"), watch=watch)
    result = run_trial(replace(SPEC, parameters=PARAMETERS | {"bias": bias}, bar=ANYTHING_GOES), data)
    rows = data.split("train").rows
    assert [looks[round(point.share * rows)] for point in result.curve[:-1]] == [
        point.score for point in result.curve[:-1]
    ]


def test_the_probe_is_some_rows_of_the_splits(data):
    matrix, codes = _probe(data, ("validation",))
    assert len(matrix) == len(codes) == data.split("validation").records[0].rows
    assert set(np.unique(codes)) == {0, 1}


@pytest.mark.usefixtures("any_look_pays")
def test_a_hopeless_trial_stops_and_reports_what_it_measured(data):
    full = run_trial(replace(SPEC, bar=ANYTHING_GOES), data)
    result = run_trial(replace(SPEC, bar=UNREACHABLE), data)
    assert result.state == "stopped"
    assert result.number == 3
    assert len(result.curve) == 1
    assert result.curve[0] == full.curve[0]
    assert result.score == result.curve[0].score
    assert result.costs["work"] == result.curve[0].cost < 0.3 * full.costs["work"]
    assert result.counters["steps"] == round(result.curve[0].share * data.split("train").rows)
    assert set(result.counters) == set(full.counters) - {"latency", "bytes", "score_without_bias"}
    assert f"after {result.curve[0].share:.0%}" in result.reason


@pytest.mark.usefixtures("any_look_pays")
def test_one_that_will_be_polished_is_not_stopped(data):
    spec = replace(SPEC, parameters=PARAMETERS | {"polish": 3}, bar=UNREACHABLE)
    result = run_trial(spec, data)
    assert (result.state, result.curve) == ("complete", ())
    assert result.counters["polish_passes"] == 3


@pytest.mark.usefixtures("any_look_pays")
def test_it_stops_at_the_first_look_that_is_hopeless(data):
    """The bar lies at what a full run cost at its fifth look: until then nothing finished is cheaper."""
    full = run_trial(replace(SPEC, bar=ANYTHING_GOES), data)
    fifth = full.curve[4]
    result = run_trial(replace(SPEC, bar=replace(UNREACHABLE, front=((fifth.cost, 2.0),))), data)
    assert result.state == "stopped"
    assert result.curve == full.curve[:5]


def test_looks_cost_a_small_part_of_the_training(data, monkeypatch):
    """Counted in kernel evaluations, as far as the training has come; a look that would cost more is left out."""
    evaluations, watched = [], _Watcher._score

    def counted(self, model, rows):
        if rows == PROBE_ROWS:  # looks after an epoch are counted by nobody
            evaluations[-1] += len(model.coefficients) * sum(
                len(codes) for _, codes in (self._training, self._held_out)
            )
        return watched(self, model, rows)

    monkeypatch.setattr(_Watcher, "_score", counted)
    for share in (0.0, 0.05, 0.5, 5.0):
        monkeypatch.setattr("workflows.trial.LARGEST_SHARE_OF_LOOKS", share)
        evaluations.append(0)
        spec = replace(SPEC, bar=ANYTHING_GOES, parameters=PARAMETERS | {"epochs": 8})
        result = run_trial(spec, data)
        assert evaluations[-1] <= share * result.costs["work"]
        assert bool(result.curve) == bool(evaluations[-1])
    assert evaluations == sorted(set(evaluations))


@pytest.mark.usefixtures("any_look_pays")
@pytest.mark.parametrize("repeats", [1, 2])
def test_short_trials_are_left_alone(data, repeats):
    result = run_trial(replace(SPEC, repeats=repeats, bar=replace(UNREACHABLE, shortest=1e12)), data)
    assert result.state == "complete"
    assert result.curve == ()
    assert measured(result) == measured(run_trial(replace(SPEC, repeats=repeats), data))


@pytest.mark.usefixtures("any_look_pays")
def test_only_the_first_training_of_a_trial_is_watched(data):
    """A trial that got through its first training is worth its others."""
    one, several = (run_trial(replace(SPEC, bar=ANYTHING_GOES, repeats=repeats), data) for repeats in (1, 3))
    assert several.curve == one.curve


def test_a_score_that_is_not_finite_ends_the_trial_at_once(data, monkeypatch):
    trainings = []
    monkeypatch.setattr("workflows.trial.score_of", lambda *_: trainings.append(1) or math.nan)
    result = run_trial(replace(SPEC, repeats=5), data)
    assert math.isnan(result.score)
    assert result.spread == 0.0
    assert len(trainings) == 1, "the others would not mend it"


def test_an_exception_becomes_a_failed_result_that_says_why():
    def run(spec):
        raise ValueError("the matrix\n  is singular")

    result = attempt(run, SPEC, "node-1")
    assert (result.number, result.state, result.node) == (3, "failed", "node-1")
    assert result.reason.startswith("ValueError: the matrix is singular (test_trial.py, line ")
    assert math.isnan(result.score)
    assert result.seconds > 0.0


def test_a_silent_exception_has_a_reason_too():
    def run(spec):
        raise MemoryError

    assert attempt(run, SPEC).reason.startswith("MemoryError: no message")


def test_ctrl_c_is_no_failure_of_the_trial():
    def run(spec):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt(run, SPEC)


def test_what_succeeds_is_passed_on_with_where_and_how_long(data):
    result = attempt(lambda spec: run_trial(spec, data), SPEC, "here")
    assert result.node == "here"
    assert result.seconds > result.costs["wall"] > 0.0
    assert measured(result) == measured(run_trial(SPEC, data))


def test_parameters_that_the_solver_refuses_fail(data):
    result = attempt(lambda spec: run_trial(spec, data), replace(SPEC, parameters={"budget": -1}))
    assert result.state == "failed"
    assert "budget" in result.reason


@pytest.mark.usefixtures("any_look_pays")
@pytest.mark.parametrize("bar", [None, ANYTHING_GOES, UNREACHABLE])
def test_a_result_survives_being_written_down(data, bar):
    result = run_trial(replace(SPEC, bar=bar), data)
    assert TrialResult.from_dict(result.as_dict()) == result
    assert TrialResult.from_dict(result.as_dict() | {"of a later version": 1}) == result


def test_a_seed_among_the_parameters_is_the_trials_seed(data):
    mine = run_trial(replace(SPEC, parameters=PARAMETERS | {"seed": 11}), data)
    assert mine.model == run_trial(replace(SPEC, seed=11), data).model
    assert mine.model != run_trial(SPEC, data).model


def test_a_parameter_without_a_value_is_as_if_it_were_not_there(data):
    mine = run_trial(replace(SPEC, parameters=PARAMETERS | {"epochs": None, "method": None}), data)
    assert measured(mine) == measured(run_trial(SPEC, data))


def test_the_score_without_the_bias_is_that_of_a_model_that_has_none(data):
    mine = run_trial(SPEC, data)
    bare = run_trial(replace(SPEC, parameters=PARAMETERS | {"bias": "none"}), data)
    assert mine.counters["score_without_bias"] == bare.score == bare.counters["score_without_bias"]


def test_a_trace_follows_the_theorem_to_the_end_and_changes_nothing(data):
    plain, traced = run_trial(SPEC, data), run_trial(replace(SPEC, trace=True), data)
    assert measured(replace(traced, trace=())) == measured(plain)
    assert plain.trace == ()
    steps = [step.steps for step in traced.trace]
    assert steps == sorted(set(steps))
    assert steps[-1] <= traced.counters["steps"] <= 1.2 * steps[-1] + 128
    errors = [step.mean_gradient_error for step in traced.trace]
    assert errors[-1] == pytest.approx(traced.counters["mean_gradient_error"], rel=0.5)
    assert TrialResult.from_dict(traced.as_dict()) == traced


def test_rows_to_be_scored_on_may_be_the_test_rows(data):
    folds = ((("train", "validation"), ("test",)),)
    result = run_trial(replace(SPEC, folds=folds), data)
    estimator = trained(data, _seed(SPEC.seed, 0), ("train", "validation"))
    scores, codes = data.split("test").decide(estimator.model_)
    assert result.score == np.mean((scores > 0) == codes)
