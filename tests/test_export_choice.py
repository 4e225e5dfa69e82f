"""Which model of a front is taken: by name, by number, within limits; and what is said when there is none."""

import math
from dataclasses import replace

import pytest
from snapshots import study_of

from workflows.errors import StudyError
from workflows.export.choice import Limits, choose, described
from workflows.selection import fastest, knee, most_accurate


@pytest.fixture(scope="module")
def seen():
    found = study_of(200)
    assert len(found.front) >= 4
    return found


@pytest.mark.parametrize(("pick", "best"), [("knee", knee), ("fastest", fastest), ("most-accurate", most_accurate)])
def test_a_model_is_taken_by_name(seen, pick, best):
    choice = choose(seen, pick=pick)
    assert choice.member == best(seen.front)
    assert pick.replace("-", " ") in choice.why


def test_without_a_word_it_is_the_knee_and_its_meaning_is_told(seen):
    choice = choose(seen)
    assert choice.member == knee(seen.front)
    assert "straight line" in choice.why


def test_a_trial_is_taken_by_number_on_the_front_or_not(seen):
    on_front = {member.number for member in seen.front}
    assert choose(seen, trial=seen.front[0].number).member == seen.front[0]
    other = next(trial for trial in seen.complete if trial.number not in on_front)
    member = choose(seen, trial=other.number).member
    assert (member.parameters, member.values, member.runs) == (other.parameters, other.values, 0)


@pytest.mark.parametrize("number", [10**6, "stopped"])
def test_a_trial_without_a_model_is_refused_with_those_that_have_one(seen, number):
    if number == "stopped":
        number = next(trial.number for trial in seen.trials if trial.state != "complete")
    with pytest.raises(StudyError, match=rf"trial {number} .*front are {seen.front[0].number}"):
        choose(seen, trial=number)


def test_the_cheapest_that_is_accurate_enough(seen):
    for member in seen.front:
        limit = member.values[0]
        chosen = choose(seen, limits=Limits(min_accuracy=limit)).member
        reached = [other for other in seen.front if other.values[0] >= limit]
        assert chosen.values[1] == min(other.values[1] for other in reached)


@pytest.mark.parametrize("name", ["max_seconds", "max_budget", "max_latency_us"])
def test_the_most_accurate_within_a_limit(seen, name):
    def has(member):
        return {
            "max_seconds": member.values[1],
            "max_budget": member.parameters["budget"],
            "max_latency_us": 1e6 * member.counters["latency"],
        }[name]

    for member in seen.front:
        chosen = choose(seen, limits=Limits(**{name: has(member)})).member
        within = [other for other in seen.front if has(other) <= has(member)]
        assert chosen.values[0] == max(other.values[0] for other in within)


def test_limits_add_up(seen):
    middle = sorted(seen.front, key=lambda member: member.values[1])[len(seen.front) // 2]
    limits = Limits(min_accuracy=middle.values[0], max_seconds=middle.values[1])
    assert choose(seen, limits=limits).member == middle


def test_what_cannot_be_reached_is_said_with_what_can(seen):
    best = most_accurate(seen.front).values[0]
    with pytest.raises(StudyError, match=rf"at least accuracy 99\.90%; what can be reached: accuracy {best:.2%}"):
        choose(seen, limits=Limits(min_accuracy=0.999))
    quick, exact = fastest(seen.front), most_accurate(seen.front)
    with pytest.raises(StudyError, match="one by one, not all at once"):
        choose(seen, limits=Limits(min_accuracy=exact.values[0], max_seconds=quick.values[1]))


def test_seconds_mean_nothing_where_work_is_counted(seen):
    counted = replace(seen, settings=replace(seen.settings, cost="work"))
    with pytest.raises(StudyError, match="counts kernel evaluations"):
        choose(counted, limits=Limits(max_seconds=1.0))


@pytest.mark.parametrize("share", [-0.1, 93.0, math.nan])
def test_an_accuracy_is_a_share(seen, share):
    with pytest.raises(StudyError, match=r"is a share, such as 0.9"):
        choose(seen, limits=Limits(min_accuracy=share))


def test_one_way_of_choosing_at_a_time(seen):
    with pytest.raises(StudyError, match="one of them"):
        choose(seen, pick="knee", trial=3)
    with pytest.raises(StudyError, match="one of them"):
        choose(seen, pick="knee", limits=Limits(max_budget=100))


def test_a_study_without_a_front_says_what_to_do(seen):
    with pytest.raises(StudyError, match=r"no front yet.*go on with 'mmbsgd tune'"):
        choose(replace(seen, front=()))


def test_the_neighbours_are_the_next_cheaper_and_the_next_better(seen):
    by_cost = sorted(seen.front, key=lambda member: member.values[1])
    for place, member in enumerate(by_cost):
        choice = choose(seen, trial=member.number)
        assert choice.cheaper == (by_cost[place - 1] if place else None)
        assert choice.better == (by_cost[place + 1] if place + 1 < len(by_cost) else None)


def test_a_model_is_described_with_its_figures_and_parameters(seen):
    member = seen.front[0]
    text = described(member, seen.settings)
    assert f"trial {member.number}: accuracy {member.values[0]:.2%}" in text
    assert f"budget {member.parameters['budget']}" in text
