"""Proposals: repeatable, inside the space, quick however long the study, and better than chance."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState
from studies import DIRECTIONS, SPACE

from workflows.errors import StudyError
from workflows.front import front, hypervolume
from workflows.study import proposer as module
from workflows.study.proposer import Proposal, Proposer, grid

SAMPLERS = ["auto", "tpe", "nsga2", "random"]


def invented(parameters):
    """(score, cost): a larger budget is better and dearer."""
    return (1.0 - 1.0 / parameters["budget"] - 1e-3 * math.log(parameters["C"]) ** 2, parameters["budget"] * 0.01)


def asked(proposer, count, objectives=invented, first=0, busy=1.0):
    """So many proposals, each told before the next is asked for."""
    proposals = []
    for key in range(first, first + count):
        proposals.append(proposer.propose(key))
        proposer.told(key, proposals[-1], objectives(proposals[-1].parameters), stopped=False, busy=busy)
    return proposals


def in_view(proposer):
    """Values of the finished trials that the sampler sees, costs as they were told."""
    return [
        (trial.values[0], *map(math.exp, trial.values[1:]))
        for trial in proposer._trials()
        if trial.state == TrialState.COMPLETE
    ]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_same_seed_gives_the_same_proposals_and_another_one_others(sampler):
    first, again, other = (asked(Proposer(sampler, seed, SPACE, DIRECTIONS), 40) for seed in (3, 3, 4))
    assert first == again
    assert not [one for one in first if one in other]


def test_seeds_that_follow_each_other_share_nothing(monkeypatch):
    """A window that is renewed takes another seed: not that of the next study."""
    monkeypatch.setitem(module.WINDOWS, "random", 2)
    studies = [asked(Proposer("random", seed, SPACE, DIRECTIONS), 30) for seed in range(5)]
    drawn = [proposal.parameters["C"] for proposals in studies for proposal in proposals]
    assert len(set(drawn)) == len(drawn) == 150


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_proposals_lie_in_the_space(sampler):
    for proposal in asked(Proposer(sampler, 0, SPACE, DIRECTIONS), 80):
        assert proposal.parameters == proposal.sampled
        assert list(proposal.parameters) == list(proposal.distributions) == list(SPACE)
        assert 0.01 <= proposal.parameters["C"] <= 100.0
        assert 10 <= proposal.parameters["budget"] <= 500
        assert 2 <= proposal.parameters["mergees"] <= 11
        assert {type(proposal.parameters[name]) for name in ("budget", "mergees")} == {int}
        assert proposal.parameters["engine"] == "fast"


@pytest.mark.parametrize("sampler", SAMPLERS)
@settings(max_examples=10)
@given(st.data())
def test_whatever_comes_of_trials_and_in_whatever_order_there_is_a_next_proposal(sampler, data):
    proposer, running, key = Proposer(sampler, 1, SPACE, DIRECTIONS), {}, 0
    for _ in range(40):
        if not running or data.draw(st.booleans()):
            running[key] = proposer.propose(key)
            key += 1
        else:
            number = data.draw(st.sampled_from(sorted(running)))
            proposal, end = running.pop(number), data.draw(st.sampled_from(["complete", "stopped", "failed"]))
            values = invented(proposal.parameters) if end == "complete" else None
            proposer.told(number, proposal, values, stopped=end == "stopped", busy=0.5)
        proposer.reconsider(3)
    assert proposer.propose(key).parameters.keys() == SPACE.keys()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_trial_that_was_not_asked_for_here_counts_too(sampler):
    """Enqueued ones, and other tries of one that failed."""
    proposer = Proposer(sampler, 0, SPACE, DIRECTIONS)
    proposal = Proposal.of({"C": 1.0, "budget": 50, "mergees": 2, "engine": "fast"}, SPACE)
    proposer.told(99, proposal, (0.8, 2.0), stopped=False, busy=1.0)
    proposer.told(98, proposal, None, stopped=False, busy=1.0)
    assert in_view(proposer) == [pytest.approx((0.8, 2.0))]


def test_auto_changes_for_good_when_asking_costs_more_than_trials_leave(monkeypatch):
    proposer = Proposer("auto", 0, SPACE, DIRECTIONS)
    asked(proposer, module.POPULATION)
    monkeypatch.setattr(proposer, "_asking", 0.1)
    monkeypatch.setattr(proposer, "_busy", 1.0)
    assert not proposer.reconsider(10), "ten slots want ten proposals a second: that is just what it can do"
    assert proposer.name == "auto"
    before = in_view(proposer)
    assert proposer.reconsider(11)
    assert proposer.name == "nsga2"
    assert np.allclose(in_view(proposer), before, rtol=1e-9), "it knows what the other one knew"
    monkeypatch.setattr(proposer, "_busy", 1e9)
    assert not proposer.reconsider(1)
    assert proposer.name == "nsga2"


def test_auto_measures_what_asking_and_trials_take(monkeypatch):
    """A clock that ticks 20 ms whenever TPE is asked; trials of a second, then of 10 ms."""
    now = 0.0

    def clock():
        nonlocal now
        now += 0.02
        return now

    monkeypatch.setattr(module.time, "perf_counter", clock)
    proposer = Proposer("auto", 0, SPACE, DIRECTIONS)
    asked(proposer, 5, busy=1.0)
    assert not proposer.reconsider(40)
    asked(proposer, 30, first=5, busy=0.01)
    assert proposer.reconsider(1)


@pytest.mark.parametrize("sampler", ["tpe", "nsga2", "random"])
def test_only_auto_changes(sampler, monkeypatch):
    proposer = Proposer(sampler, 0, SPACE, DIRECTIONS)
    asked(proposer, 3, busy=1e-9)
    assert not proposer.reconsider(1000)
    assert proposer.name == sampler


def test_trials_asked_for_before_the_change_count_after_it():
    proposer, told = Proposer("auto", 0, SPACE, DIRECTIONS), module.POPULATION
    running = {key: proposer.propose(key) for key in range(told + 3)}
    for key in range(told):
        proposer.told(key, running[key], (0.1, 1.0), stopped=False, busy=1e-9)
    assert proposer.reconsider(1000)
    proposer.told(told, running[told], (0.2, 1.0), stopped=False, busy=1.0)
    proposer.told(told + 1, running[told + 1], None, stopped=True, busy=1.0)
    proposer.told(told + 2, running[told + 2], None, stopped=False, busy=1.0)
    assert in_view(proposer) == told * [pytest.approx((0.1, 1.0))] + [pytest.approx((0.2, 1.0))]


def test_auto_does_not_judge_by_the_first_questions():
    """The very first ones take longer: modules are imported."""
    proposer = Proposer("auto", 0, SPACE, DIRECTIONS)
    asked(proposer, module.POPULATION - 1, busy=1e-9)
    assert not proposer.reconsider(1000)


@pytest.mark.parametrize("sampler", ["nsga2", "random"])
def test_what_a_sampler_sees_stays_small_and_has_the_best_and_the_latest(sampler):
    """2,000 trials, some of them running all the time."""
    proposer, generator = Proposer(sampler, 0, SPACE, DIRECTIONS), np.random.default_rng(1)
    window, slots = module.WINDOWS[sampler], 20
    told, running = [], {}
    for key in range(2000):
        running[key] = proposer.propose(key)
        if len(running) > slots:
            number = list(running)[generator.integers(len(running))]
            values = tuple(generator.random(2) + 0.01)
            proposer.told(number, running.pop(number), values, stopped=False, busy=1.0)
            told.append(values)
        if key % 100 == 99:
            best = {told[position] for position in front(told)}
            assert len(proposer._trials()) <= window + len(best) + module.GROWTH + slots + 1
            seen = {(round(score, 9), round(cost, 9)) for score, cost in in_view(proposer)}
            assert {(round(score, 9), round(cost, 9)) for score, cost in {*best, *told[-window // 2 :]}} <= seen


def test_a_front_larger_than_the_window_does_not_make_every_trial_costly(monkeypatch):
    """Every trial is on the front: all of them stay in view, and the window is renewed now and then only."""
    monkeypatch.setitem(module.WINDOWS, "nsga2", 20)
    monkeypatch.setattr(module, "GROWTH", 20)
    proposer, renewals = Proposer("nsga2", 0, SPACE, DIRECTIONS), []
    renew = proposer._renew
    monkeypatch.setattr(proposer, "_renew", lambda: (renewals.append(1), renew()))
    values = [(number / 300, 1.0 + number) for number in range(300)]
    for key, pair in enumerate(values):
        proposer.told(key, proposer.propose(key), pair, stopped=False, busy=1.0)
    assert len(in_view(proposer)) == 300
    assert 5 < len(renewals) <= 25, "copies that were not tried count too"


def test_renewing_loses_no_member_of_the_front():
    proposer = Proposer("tpe", 0, SPACE, DIRECTIONS)
    generator = np.random.default_rng(2)
    proposals = [Proposer("random", 1, SPACE, DIRECTIONS).propose(0)] * 1200
    told = [tuple(values) for values in generator.random((1200, 2)) + 1e-3]
    proposer.remember(zip(proposals, told, strict=True))
    for _ in range(3):
        proposer._renew()
    seen = in_view(proposer)
    best = [told[position] for position in front(told)]
    assert [seen[position] for position in front(seen)] == [pytest.approx(values, rel=1e-9) for values in best]
    assert seen[-1] == pytest.approx(told[-1])
    assert len(seen) <= module.LARGEST_WINDOW + len(best)


def test_a_cost_of_nothing_is_no_trouble():
    for sampler in ("tpe", "nsga2"):
        proposer = Proposer(sampler, 0, SPACE, DIRECTIONS)
        asked(proposer, 20, lambda parameters: (0.5, 0.0))
        proposer._renew()
        assert proposer.propose(999).parameters


def hilly(parameters):
    """ZDT1 with a score to be high: the front lies where all but the first are 0."""
    first, *others = (parameters[f"x{axis}"] for axis in range(6))
    hill = 1.0 + 9.0 * statistics.fmean(others)
    return (10.0 - hill * (1.0 - math.sqrt(first / hill)), first + 0.01)


HILLY = {f"x{axis}": FloatDistribution(0.0, 1.0) for axis in range(6)}


def reached(sampler, seed, trials):
    values = []
    proposer = Proposer(sampler, seed, HILLY, DIRECTIONS)
    for key in range(trials):
        proposal = proposer.propose(key)
        values.append(hilly(proposal.parameters))
        proposer.told(key, proposal, values[-1], stopped=False, busy=1.0)
    return hypervolume(values, (0.0, 1.01))


def chance(seed, trials):
    points = np.random.default_rng(seed).random((trials, 6))
    return hypervolume([hilly(dict(zip(HILLY, point, strict=True))) for point in points], (0.0, 1.01))


def test_nsga2_with_a_window_finds_more_than_chance(monkeypatch):
    """For several seeds, with windows that are renewed now and then."""
    monkeypatch.setitem(module.WINDOWS, "nsga2", 100)
    luck = [chance(seed, 500) for seed in range(10)]
    found = [reached("nsga2", seed, 500) for seed in range(3)]
    best = reached_by_the_true_front()
    assert min(found) > max(luck)
    assert best - statistics.fmean(found) < 0.6 * (best - statistics.fmean(luck))


def test_tpe_finds_more_than_chance():
    assert statistics.fmean(reached("tpe", seed, 50) for seed in range(2)) > max(chance(seed, 50) for seed in range(3))


def narrow(parameters):
    """Cheap is whatever has a small budget; accurate is only what has everything right."""
    off = [abs(parameters[f"x{axis}"] - 0.8) for axis in range(1, 6)]
    return 1.0 - 0.1 * sum(off) - 0.3 * (1.0 - parameters["x0"]) ** 2, math.exp(6.0 * parameters["x0"])


def most_accurate(seed, trials=40):
    return max(
        narrow(proposal.parameters)[0] for proposal in asked(Proposer("tpe", seed, HILLY, DIRECTIONS), trials, narrow)
    )


def test_tpe_finds_the_accurate_end_of_the_front_too(monkeypatch):
    """Better than where all objectives are in mind all the time."""
    in_turns = [most_accurate(seed) for seed in range(8)]
    studies = Proposer._new_studies
    monkeypatch.setattr(Proposer, "_new_studies", lambda self: studies(self)[:1])
    at_once = [most_accurate(seed) for seed in range(8)]
    assert statistics.fmean(in_turns) > statistics.fmean(at_once) + 0.005


def test_both_studies_of_tpe_see_every_trial():
    proposer = Proposer("auto", 0, SPACE, DIRECTIONS)
    proposals = asked(proposer, 7)
    seen = [[trial.params for trial in study.trials] for study in proposer._studies]
    assert len(seen) == 2
    for params in seen:
        assert sorted(map(str, params)) == sorted(str(proposal.sampled) for proposal in proposals)
    assert [trial.values[0] for trial in proposer._studies[1].trials] == [
        trial.values[0] for trial in proposer._studies[0].trials
    ]
    proposer._renew()
    assert [len(study.trials) for study in proposer._studies] == [7, 7]


def reached_by_the_true_front():
    zeros = {f"x{axis}": 0.0 for axis in range(6)}
    return hypervolume([hilly(zeros | {"x0": first}) for first in np.linspace(0, 1, 500)], (0.0, 1.01))


def conditional(trial):
    """A space as a function: what is asked for depends on what came before, and more is returned than was asked."""
    engine = trial.suggest_categorical("engine", ["fast", "paper"])
    budget = trial.suggest_int("budget", 10, 500 if engine == "fast" else 50, log=True)
    return {"engine": engine, "budget": budget, "C": trial.suggest_float("log C", -2, 2) ** 2 + 0.1, "epochs": 2}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_space_may_be_a_function(sampler, monkeypatch):
    monkeypatch.setitem(module.WINDOWS, sampler, 10)
    proposer = Proposer(sampler, 0, conditional, DIRECTIONS)
    for proposal in asked(proposer, 60):
        assert proposal.parameters["epochs"] == 2
        assert proposal.parameters["C"] == proposal.sampled["log C"] ** 2 + 0.1
        assert proposal.parameters["budget"] <= (500 if proposal.parameters["engine"] == "fast" else 50)
        assert set(proposal.sampled) == set(proposal.distributions) == {"engine", "budget", "log C"}


def test_remembered_trials_are_taken_up_where_they_were_left():
    """NSGA-II breeds from what earlier drivers found instead of starting with chance again."""
    first = Proposer("nsga2", 0, HILLY, DIRECTIONS)
    known = [(proposal, hilly(proposal.parameters)) for proposal in asked(first, 300, hilly)]
    second = Proposer("nsga2", 1, HILLY, DIRECTIONS)
    second.remember(known)
    after = [hilly(proposal.parameters)[0] for proposal in asked(second, 30, hilly)]
    anew = [hilly(proposal.parameters)[0] for proposal in asked(Proposer("nsga2", 1, HILLY, DIRECTIONS), 30, hilly)]
    assert statistics.fmean(after) > max(statistics.fmean(anew), statistics.median(anew)) + 1.0


def test_a_grid_is_every_combination_once():
    space = {
        "budget": IntDistribution(10, 30, step=10),
        "mergees": CategoricalDistribution([2, 5]),
        "engine": CategoricalDistribution(["fast"]),
    }
    expected = [
        {"budget": budget, "mergees": mergees, "engine": "fast"} for budget in (10, 20, 30) for mergees in (2, 5)
    ]
    assert grid(space) == expected
    with pytest.raises(StudyError, match="but C is a continuous range: use choices"):
        grid(space | {"C": FloatDistribution(0, 1)})


def test_nothing_is_proposed_twice_while_there_is_anything_else():
    """NSGA-II breeds copies of good parents."""
    proposer, seen = Proposer("nsga2", 0, SPACE, DIRECTIONS), set()
    for key in range(400):
        proposal = proposer.propose(key)
        assert proposal.key not in seen
        seen.add(proposal.key)
        proposer.told(key, proposal, (proposal.parameters["budget"] / 1000, 1.0 + key), stopped=False, busy=1.0)
    assert Proposal.of({"C": 10, "budget": 5}, SPACE).key == Proposal.of({"budget": 5, "C": 10.0}, SPACE).key
