"""Verdicts follow from the data by rules that are fixed before: made-up data has the verdict that it was made for."""

import pytest
from reproduced import measured

from workflows.reproduction.claims import (
    CLAIMS,
    gamma_matters_more,
    plain_bsgd_dominated,
    share_of_merging,
    strategies_level,
    time_saved,
    verdicts,
)
from workflows.reproduction.experiments import EXPERIMENTS

SEEDS = (0, 1, 2)


def shares(*by_mergees):
    return [
        measured(seed=seed, mergees=m, maintenance_seconds=share + 0.001 * (seed - 1))
        for m, share in zip((2, 3, 5, 11), by_mergees, strict=True)
        for seed in SEEDS
    ]


@pytest.mark.parametrize(
    ("by_mergees", "outcome"),
    [
        ((0.5, 0.3, 0.2, 0.1), "holds"),
        ((0.3, 0.2, 0.1, 0.05), "holds in part"),  # it falls, but was never so large
        ((0.5, 0.6, 0.2, 0.1), "holds"),  # what counts is the end
        ((0.5, 0.3, 0.2, 0.5), "holds in part"),  # large, but it is no smaller at the end
        ((0.1, 0.2, 0.3, 0.4), "does not hold"),
    ],
)
def test_merging_takes_much_of_the_time_and_less_with_more_mergees(by_mergees, outcome):
    found = share_of_merging(shares(*by_mergees), "paper")
    assert found.outcome == outcome
    assert f"{100 * by_mergees[0]:.1f}" in found.figure


@pytest.mark.parametrize(
    ("third", "tenth", "elsewhere", "outcome"),
    [
        (0.6, 0.15, 0.65, "holds"),
        (0.6, 0.5, 0.65, "holds in part"),  # M = 10 is only twice as fast
        (0.6, 0.5, 0.9, "holds in part"),  # M = 3 saves enough in one case of two
        (0.9, 0.8, 0.9, "does not hold"),
        (0.9, 0.1, 0.9, "holds in part"),  # M = 10 alone
    ],
)
def test_time_that_is_saved(third, tenth, elsewhere, outcome):
    rows = [
        measured(seed=seed, budget=budget, mergees=m, cpu=cpu)
        for seed in SEEDS
        for budget, part in ((100, third), (500, elsewhere))
        for m, cpu in ((2, 1.0), (3, part), (10, tenth), (11, 0.01))
    ]
    assert time_saved(rows, "paper").outcome == outcome


@pytest.mark.parametrize(
    ("difference", "time", "outcome"),
    [
        (0.001, 0.9, "holds"),
        (0.001, 1.2, "holds in part"),
        (0.03, 0.9, "holds in part"),
        (0.03, 1.2, "does not hold"),
    ],
)
def test_cascade_and_gradient(difference, time, outcome):
    rows = []
    for seed in SEEDS:
        for budget in (120, 600):
            rows.append(measured(seed=seed, budget=budget, accuracy=0.83 + 0.0005 * seed))
            accuracy = 0.83 + difference + 0.0005 * seed
            cpu = time + 0.01 * seed
            rows.append(measured(seed=seed, budget=budget, maintenance="gradient", accuracy=accuracy, cpu=cpu))
    assert strategies_level(rows, "paper").outcome == outcome


def test_a_gain_of_time_within_the_noise_is_none():
    rows = []
    for seed, cpu in enumerate((0.9, 1.0, 1.09)):
        rows += [measured(seed=seed), measured(seed=seed, maintenance="gradient", cpu=cpu)]
    assert strategies_level(rows, "paper").outcome == "holds in part"


def test_a_difference_within_the_noise_is_none():
    rows = []
    for seed, noise in enumerate((-0.05, 0.0, 0.05)):
        rows.append(measured(seed=seed, accuracy=0.80 + noise))
        rows.append(measured(seed=seed, maintenance="gradient", accuracy=0.82 - noise, cpu=0.9))
    assert strategies_level(rows, "paper").outcome == "holds"


def trade_off(*models):
    return [
        measured(budget=budget, mergees=m, accuracy=accuracy, cpu=cpu, seed=seed)
        for budget, m, accuracy, cpu in models
        for seed in SEEDS
    ]


@pytest.mark.parametrize(
    ("models", "outcome"),
    [
        # Three mergees with the larger budget are faster and better than two with the smaller one.
        ([(100, 2, 0.80, 1.0), (100, 3, 0.79, 0.5), (500, 2, 0.85, 2.0), (500, 3, 0.84, 0.9)], "holds"),
        # Beaten, but by many mergees only.
        ([(100, 2, 0.80, 1.0), (500, 2, 0.85, 2.0), (500, 9, 0.84, 0.9)], "holds in part"),
        # Of two budgets one.
        (
            [(50, 2, 0.75, 0.3), (100, 2, 0.80, 1.0), (500, 2, 0.85, 2.0), (500, 3, 0.84, 0.9)],
            "holds in part",
        ),
        ([(100, 2, 0.80, 1.0), (100, 3, 0.79, 0.5), (500, 2, 0.85, 2.0), (500, 3, 0.84, 1.5)], "does not hold"),
    ],
)
def test_plain_bsgd_is_dominated(models, outcome):
    assert plain_bsgd_dominated(trade_off(*models), "paper").outcome == outcome


def test_a_model_that_is_as_accurate_but_for_noise_is_beaten_by_a_faster_one():
    for noise, outcome in ((0.05, "holds"), (0.001, "does not hold")):
        rows = trade_off((100, 2, 0.80, 1.0), (500, 2, 0.85, 2.0), (500, 3, 0.79, 0.9))
        noisy = [row | {"accuracy": row["accuracy"] + noise * (row["seed"] - 1)} for row in rows]
        assert plain_bsgd_dominated(noisy, "paper").outcome == outcome


def test_a_model_that_is_faster_by_chance_beats_none():
    rows = trade_off((100, 2, 0.80, 1.0), (500, 2, 0.85, 2.0), (500, 3, 0.84, 0.9))
    noisy = [row | {"cpu": row["cpu"] + 0.5 * (row["seed"] - 1)} for row in rows]
    assert plain_bsgd_dominated(noisy, "paper").outcome == "does not hold"


def test_other_sets_have_no_part_in_a_verdict_on_the_papers():
    rows = trade_off((100, 2, 0.80, 1.0), (500, 2, 0.85, 2.0), (500, 3, 0.84, 0.9))
    others = [row | {"set": "skin", "accuracy": 0.5, "cpu": 9.0} for row in rows]
    assert plain_bsgd_dominated(others + rows, "paper") == plain_bsgd_dominated(rows, "paper")


@pytest.mark.parametrize("claim", CLAIMS)
def test_without_results_there_is_no_verdict(claim):
    assert claim.judge([measured(engine="paper")], "fast").outcome == "not judged"


@pytest.mark.parametrize(
    ("by_gamma", "by_cost", "noisy", "outcome"),
    [
        (0.05, 0.01, 2.0, "holds"),
        (0.05, 0.01, 8.0, "holds in part"),
        (0.01, 0.05, 2.0, "holds in part"),
        (0.01, 0.05, 8.0, "does not hold"),
    ],
)
def test_gamma_and_c(by_gamma, by_cost, noisy, outcome):
    rows = []
    for c in (2.0, 8.0):
        for gamma in (2.0, 8.0):
            for seed in SEEDS:
                noise = (0.02 if gamma == noisy else 0.001) * (seed - 1)
                accuracy = 0.9 + by_gamma * (gamma == 8.0) + by_cost * (c == 8.0) + noise
                rows.append(measured(set="phishing", C=c, gamma=gamma, accuracy=accuracy, seed=seed))
    rows.append({"set": "phishing", "method": "svc", "C": 2.0, "gamma": 2.0, "accuracy": 0.9})
    assert gamma_matters_more(rows, "paper").outcome == outcome


def test_every_claim_is_judged_by_an_experiment_in_both_engines():
    assert len(CLAIMS) == 5
    assert {claim.needs for claim in CLAIMS} <= set(EXPERIMENTS)
    rows = [row | {"engine": engine} for engine in ("paper", "fast") for row in shares(0.5, 0.3, 0.2, 0.1)]
    lines, rules = (part.splitlines()[2:] for part in verdicts({"merge-share": rows}).split("\n\n", 1))
    assert len(lines) == 4, "two claims, two engines"
    assert [rule[:2] for rule in rules] == ["1.", "2."], "and when they hold"
    assert all("hold" in line for line in lines)
    assert verdicts({}) == ""
