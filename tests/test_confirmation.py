"""A front is confirmed with fresh seeds: means and deviations, dominated members left out, and nothing run twice."""

import math
import statistics
from dataclasses import replace

import pytest
from optuna.storages import InMemoryStorage
from optuna.storages.journal import JournalStorage
from studies import SETTINGS, complete, driver_of, ledger_in, ledger_of, proposal

from workflows.backends.simulated import Simulated
from workflows.records import TrialResult
from workflows.study.confirmation import RETRIES, Member, confirm, members
from workflows.study.driver import Limits
from workflows.study.journal import Journal
from workflows.study.ledger import Entry


def searched(ledger, values):
    """Enters complete trials with these objectives."""
    for score, cost in values:
        number, _ = ledger.start(Entry(None, 1, proposal(C=1.0 + ledger.next_number)))
        ledger.end(complete(number, score, cost), (score, cost))


class Noisy:
    """Runs that score as a table says, by the trial's C, and note what was asked for."""

    def __init__(self, scores, ending="complete"):
        self.scores, self.specs = {trial: list(given) for trial, given in scores.items()}, []

    def __call__(self, spec):
        self.specs.append(spec)
        number = round(spec.parameters["C"]) - 1
        score = self.scores[number].pop(0)
        if isinstance(score, str):
            return TrialResult(spec.number, score, reason="so it goes", seconds=1.0)
        return complete(spec.number, score, 100.0 * (number + 1) + 10 * score, seconds=1.0)


def test_members_get_means_and_deviations_of_their_runs():
    ledger, scores = ledger_of(InMemoryStorage()), {0: [0.5, 0.6, 0.7], 1: [0.8, 0.8, 0.95]}
    searched(ledger, [(0.9, 100.0), (0.99, 200.0)])
    confirm([1, 0], 3, ledger, Simulated(Noisy(scores)), SETTINGS)
    best, other = members(ledger, SETTINGS, [0, 1])
    assert (best.number, other.number) == (1, 0)
    for member in (best, other):
        seen = scores[member.number]
        assert member.values[0] == pytest.approx(statistics.fmean(seen))
        assert member.deviations[0] == pytest.approx(statistics.stdev(seen))
        assert member.values[1] == pytest.approx(100 * (member.number + 1) + 10 * statistics.fmean(seen))
        assert member.deviations[1] == pytest.approx(10 * statistics.stdev(seen))
        assert member.runs == 3
    assert best.found == (0.99, 200.0), "what the search saw is kept"
    assert best.parameters == {"C": 2.0, "budget": 100, "mergees": 3, "engine": "fast"}


def test_members_that_turn_out_dominated_are_left_out():
    """The dearer one was lucky: confirmed, it is no better than the cheap one."""
    ledger = ledger_of(InMemoryStorage())
    searched(ledger, [(0.8, 100.0), (0.9, 200.0), (0.95, 300.0)])
    confirm([0, 1, 2], 2, ledger, Simulated(Noisy({0: [0.8, 0.8], 1: [0.7, 0.75], 2: [0.9, 0.9]})), SETTINGS)
    assert [member.number for member in members(ledger, SETTINGS, [0, 1, 2])] == [2, 0]


def test_seeds_are_fresh_and_the_same_next_time():
    made = []
    for _ in range(2):
        ledger, noisy = ledger_of(InMemoryStorage()), Noisy({0: [0.5] * 4, 1: [0.6] * 4})
        searched(ledger, [(0.5, 100.0), (0.6, 200.0)])
        confirm([0, 1], 4, ledger, Simulated(noisy), SETTINGS)
        made.append([spec.seed for spec in noisy.specs])
        assert all(spec.bar is None and spec.repeats == 1 for spec in noisy.specs), "run to the end, once each"
    search = {SETTINGS.seed_of(origin, 0) for origin in range(100)}
    assert made[0] == made[1]
    assert len(set(made[0])) == 8
    assert not search & set(made[0])


def test_repeats_of_the_search_do_not_repeat_here():
    ledger, noisy = ledger_of(InMemoryStorage()), Noisy({0: [0.5]})
    searched(ledger, [(0.5, 100.0)])
    confirm([0], 1, ledger, Simulated(noisy), replace(SETTINGS, repeats=5, folds=3))
    assert noisy.specs[0].repeats == 1
    assert len(noisy.specs[0].folds) == 3, "but every fold is a part of one run"


def test_what_was_confirmed_is_not_run_again(tmp_path):
    path, told = tmp_path / "one.journal", []
    with ledger_in(path) as ledger:
        searched(ledger, [(0.5, 100.0), (0.6, 200.0)])
        noisy, done = Noisy({0: [0.5] * 9, 1: [0.6] * 9}), []
        confirm(
            [0, 1],
            3,
            ledger,
            Simulated(noisy),
            SETTINGS,
            listener=lambda count, total: done.append(count),
            interrupted=lambda: bool(done and done[-1] >= 4),
        )
    assert len(noisy.specs) == 4
    with ledger_in(path) as ledger:
        assert [member.runs for member in members(ledger, SETTINGS, [0, 1])] == [2, 2], "round by round"
        again = Noisy({0: [0.5] * 9, 1: [0.6] * 9})
        confirm([0, 1], 3, ledger, Simulated(again), SETTINGS, listener=lambda *count: told.append(count))
        assert told == [(4, 6), (5, 6), (6, 6)]
        assert not {spec.seed for spec in noisy.specs} & {spec.seed for spec in again.specs}
    with ledger_in(path) as ledger:
        third = Noisy({0: [0.5] * 9, 1: [0.6] * 9})
        confirm([0, 1], 3, ledger, Simulated(third), SETTINGS)
        assert third.specs == []
        assert [member.runs for member in members(ledger, SETTINGS, [0, 1])] == [3, 3]


def test_every_run_survives_the_driver_as_soon_as_it_is_done(tmp_path):
    path = tmp_path / "one.journal"
    journal = Journal(path)
    ledger = ledger_of(JournalStorage(journal), journal.flush)
    searched(ledger, [(0.5, 100.0)])

    def listen(done, total):
        if done == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        confirm([0], 5, ledger, Simulated(Noisy({0: [0.5] * 5})), SETTINGS, listener=listen)
    journal._let_go()  # its process is gone
    with ledger_in(path) as ledger:
        assert [member.runs for member in members(ledger, SETTINGS, [0])] == [2]


@pytest.mark.parametrize("slots", [1, 3])
def test_runs_that_fail_are_tried_again_and_then_done_without(slots):
    ledger, told = ledger_of(InMemoryStorage()), []
    searched(ledger, [(0.5, 100.0), (0.6, 200.0), (0.7, 300.0)])
    noisy = Noisy({0: ["failed", 0.5, "failed", 0.5], 1: [math.nan, math.inf, "stopped", 0.6, 0.6], 2: ["failed"] * 99})
    backend = Simulated(noisy, slots)
    confirm([0, 1, 2], 2, ledger, backend, SETTINGS, listener=lambda *count: told.append(count))
    runs = {member.number: member.runs for member in members(ledger, SETTINGS, [0, 1, 2])}
    assert runs == {0: 2, 1: 2, 2: 0}
    assert len([spec for spec in noisy.specs if spec.parameters["C"] == 3.0]) == 2 * (RETRIES + 1)
    assert told[-1] == (6, 6)
    (unconfirmed,) = (member for member in members(ledger, SETTINGS, [0, 1, 2]) if member.number == 2)
    assert unconfirmed.values == (0.7, 300.0), "what the search saw is all there is"
    assert unconfirmed.deviations == ()


def test_one_run_has_no_deviation():
    ledger = ledger_of(InMemoryStorage())
    searched(ledger, [(0.5, 100.0)])
    confirm([0], 1, ledger, Simulated(Noisy({0: [0.6]})), SETTINGS)
    (member,) = members(ledger, SETTINGS, [0])
    assert all(map(math.isnan, member.deviations))
    assert len(member.deviations) == 2


def test_without_rounds_the_front_is_that_of_the_search():
    ledger = ledger_of(InMemoryStorage())
    searched(ledger, [(0.5, 100.0), (0.4, 200.0)])
    confirm([0], 0, ledger, Simulated(Noisy({})), SETTINGS)
    (member,) = members(ledger, SETTINGS, [0, 1])
    assert member == Member(0, member.parameters, (0.5, 100.0), found=(0.5, 100.0), counters={"size": 10.0})
    confirm([], 5, ledger, Simulated(Noisy({})), SETTINGS)
    assert members(ledger, SETTINGS, []) == []


def test_results_that_come_twice_or_from_the_search_count_once():
    class Repeating(Simulated):
        def wait(self, timeout):
            now = super().wait(timeout)
            return [*now, *now, complete(0, 0.0, 1.0)]

    ledger, told = ledger_of(InMemoryStorage()), []
    searched(ledger, [(0.5, 100.0)])
    confirm([0], 3, ledger, Repeating(Noisy({0: [0.5] * 3}), 2), SETTINGS, listener=lambda *count: told.append(count))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    (member,) = members(ledger, SETTINGS, [0])
    assert member.values[0] == pytest.approx(0.5)


def test_another_try_of_the_search_is_confirmed_as_the_same_trial():
    """The trial on the front was the second try of its parameters: seeds are those of the first one's number."""
    ledger, calls = ledger_of(InMemoryStorage()), []

    def outcome(spec):
        calls.append(spec)
        if len(calls) == 1:
            return TrialResult(spec.number, "failed", reason="so it goes")
        return complete(spec.number, 0.5, 10.0)

    progress = driver_of(ledger, Simulated(outcome), limits=Limits(trials=1)).run()
    assert [number for number, _ in progress.front] == [1]
    confirm([1], 1, ledger, Simulated(outcome), SETTINGS)
    assert calls[-1].parameters == calls[0].parameters
    assert calls[-1].seed == SETTINGS.seed_of(0, 1)
