"""The driver on a simulated cluster: every parameter set ends exactly once, whatever happens to trials and drivers."""

import math
from collections import Counter, defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.storages import InMemoryStorage
from optuna.storages.journal import JournalStorage
from studies import (
    DIRECTIONS,
    SETTINGS,
    complete,
    counts,
    driver_of,
    ends,
    ledger_in,
    ledger_of,
    proposal,
    trade_off,
)

from workflows.backends.in_process import InProcess
from workflows.backends.simulated import Simulated
from workflows.records import Bar, Point, TrialResult
from workflows.stopping import FEWEST_CURVES
from workflows.study.driver import Driver, Limits
from workflows.study.journal import Journal
from workflows.study.ledger import ATTEMPT, origin_of, result_of
from workflows.study.proposer import Proposal, Proposer, grid

RETRIES = 3
ENDINGS = ["complete", "complete", "stopped", "failed", "nan", "inf"]
BAD = ("failed", "nan", "inf")
many_examples = settings(max_examples=40, suppress_health_check=list(HealthCheck))


class Fate:
    """Outcomes as a list says, one after the other; remembers what befell each parameter set."""

    def __init__(self, endings, seconds=(1.0,)):
        self.endings, self.seconds, self.calls = endings, seconds, 0
        self.history, self.specs = defaultdict(list), []

    def __call__(self, spec):
        ending = self.endings[self.calls % len(self.endings)]
        seconds = self.seconds[self.calls % len(self.seconds)]
        self.calls += 1
        self.history[spec.seed].append(ending)
        self.specs.append(spec)
        if ending in ("failed", "stopped"):
            return TrialResult(spec.number, ending, reason=f"it {ending}", seconds=seconds)
        score = {"complete": 0.5 + 0.4 * math.sin(self.calls), "nan": math.nan, "inf": math.inf}[ending]
        return complete(spec.number, score, 10.0 + self.calls % 7, seconds=seconds)

    def expected(self):
        """What must have become of every parameter set: the first end that is none of the bad ones counts."""
        found = Counter()
        for befell in self.history.values():
            assert len(befell) <= RETRIES + 1
            assert all(ending in BAD for ending in befell[:-1])
            assert befell[-1] not in BAD or len(befell) == RETRIES + 1
            found["failed" if befell[-1] in BAD else befell[-1]] += 1
        return found


class Crash(Exception):
    pass


def lost(journal):
    """The driver's process is gone: nothing that it had not flushed is written, and its lock is free."""
    journal._let_go()


@many_examples
@given(
    endings=st.lists(st.sampled_from(ENDINGS), min_size=1, max_size=30),
    seconds=st.lists(st.sampled_from([0.0, 0.1, 1.0, 7.0]), min_size=1, max_size=5),
    slots=st.integers(1, 6),
    trials=st.integers(1, 12),
)
def test_every_parameter_set_ends_exactly_once(endings, seconds, slots, trials):
    ledger, fate = ledger_of(InMemoryStorage()), Fate(endings, seconds)
    progress = driver_of(ledger, Simulated(fate, slots), limits=Limits(trials=trials)).run()
    found, expected = Counter(ends(ledger).values()), fate.expected()
    assert found == expected
    assert counts(progress) == (expected["complete"], expected["stopped"], expected["failed"])
    assert progress.done == len(fate.history) == trials
    assert progress.running == 0
    assert progress.retries == fate.calls - trials
    assert len(ledger.trials()) == fate.calls


@many_examples
@given(
    endings=st.lists(st.sampled_from(ENDINGS), min_size=1, max_size=30),
    slots=st.integers(1, 4),
    trials=st.integers(1, 10),
)
def test_a_new_driver_counts_what_the_old_one_counted(endings, slots, trials):
    ledger = ledger_of(InMemoryStorage())
    before = driver_of(ledger, Simulated(Fate(endings, (1.0, 3.0)), slots), limits=Limits(trials=trials)).run()
    after = driver_of(ledger, Simulated(Fate(endings)), limits=Limits(trials=trials))
    assert counts(after.progress) == counts(before)
    assert after.progress.front == before.front
    assert after.progress.hypervolume == before.hypervolume
    assert after.progress.without_growth == before.without_growth
    assert after.progress.retries == before.retries
    assert after.progress.failures == before.failures
    assert counts(after.run()) == counts(before), "and has nothing left to do"


@many_examples
@given(data=st.data())
def test_a_study_survives_drivers_that_die_at_any_moment(tmp_path_factory, data):
    """An exception comes out of the listener, the backend or the heartbeat; the process is gone, the journal is not."""
    path = tmp_path_factory.mktemp("dying") / "one.journal"
    trials, fate = 6, Fate(data.draw(st.lists(st.sampled_from(ENDINGS), min_size=1, max_size=20)), (1.0, 2.0))
    seen = {}
    for _ in range(data.draw(st.integers(1, 4))):
        left = data.draw(st.integers(0, 25))

        def step(*_):
            nonlocal left
            left -= 1
            if left < 0:
                raise Crash

        class Dying(Simulated):
            def submit(self, spec, *, alone=False, step=step):
                step()
                super().submit(spec)

            def wait(self, timeout, step=step):
                step()
                return super().wait(timeout)

        journal = Journal(path)
        ledger = ledger_of(JournalStorage(journal), journal.flush)
        try:
            driver_of(ledger, Dying(fate, 3), limits=Limits(trials=trials), listener=step, beat=step).run()
        except Crash:
            lost(journal)
        journal.close()
        with ledger_in(path) as ledger:
            kept = {trial.number: trial for trial in ledger.trials() if trial.state.is_finished()}
            assert all(kept[number].state == state for number, state in seen.items())
            seen = {number: trial.state for number, trial in kept.items()}
    with ledger_in(path) as ledger:
        progress = driver_of(ledger, Simulated(fate, 3), limits=Limits(trials=trials)).run()
        found = Counter(ends(ledger).values())
    assert sum(found.values()) == progress.done == trials
    assert counts(progress) == (found["complete"], found["stopped"], found["failed"])
    with ledger_in(path) as ledger:
        assert counts(driver_of(ledger, Simulated(fate)).progress) == counts(progress)


def interrupted(driver, after):
    """The driver, which will be interrupted after more results than that."""
    told = Counter()

    def listen(progress, result):
        told["results"] += result is not None
        driver.interrupted = told["results"] > after

    driver._listener = listen
    return driver


@pytest.mark.parametrize("slots", [1, 4])
def test_an_interrupted_study_gives_its_running_trials_back_and_ends_with_the_same_total(tmp_path, slots):
    path, fate = tmp_path / "one.journal", Fate(["complete", "failed"], (1.0, 2.0, 3.0))
    for after in (0, 1, 5, 9):
        with ledger_in(path) as ledger:
            before = len(ledger.trials())

            progress = interrupted(driver_of(ledger, Simulated(fate, slots)), after).run()
            assert progress.running == 0
            assert all(trial.state.is_finished() for trial in ledger.trials())
            given_back = [trial for trial in ledger.trials()[before:] if "interrupted" in result_of(trial).reason]
            assert len(given_back) <= slots
    with ledger_in(path) as ledger:
        progress = driver_of(ledger, Simulated(fate, slots), limits=Limits(trials=20)).run()
        assert progress.done == 20
        assert len(ends(ledger)) == 20
        blamed = Counter(
            origin_of(trial) for trial in ledger.trials() if result_of(trial).reason.startswith(("it ", "objectives"))
        )
        assert max(blamed.values(), default=0) <= RETRIES + 1


def test_being_interrupted_is_no_attempt(tmp_path):
    """However often a study is interrupted, a trial has all its attempts."""
    path = tmp_path / "one.journal"
    for _ in range(RETRIES + 3):
        with ledger_in(path) as ledger:
            driver = driver_of(ledger, Simulated(Fate(["failed"])), limits=Limits(trials=1))
            driver._backend.wait = lambda timeout, driver=driver: setattr(driver, "interrupted", True) or []
            driver.run()
            assert driver.progress.failed == 0
    with ledger_in(path) as ledger:
        fate = Fate(["failed"])
        assert driver_of(ledger, Simulated(fate), limits=Limits(trials=1)).run().failed == 1
        assert fate.calls == RETRIES + 1


def test_a_parameter_set_is_given_up_after_three_retries_with_its_reason():
    ledger, fate = ledger_of(InMemoryStorage()), Fate(["failed"])
    progress = driver_of(ledger, Simulated(fate, 2), limits=Limits(trials=3)).run()
    assert counts(progress) == (0, 0, 3)
    assert fate.calls == 3 * (RETRIES + 1)
    assert sorted(progress.failures) == [(origin, "it failed") for origin in sorted(ends(ledger))]
    assert progress.front == []
    assert progress.hypervolume == 0.0


def test_another_try_is_the_very_same_trial():
    ledger, fate = ledger_of(InMemoryStorage()), Fate(["failed", "failed", "complete"])
    driver_of(ledger, Simulated(fate), limits=Limits(trials=1)).run()
    first, second, third = fate.specs
    assert first.parameters == second.parameters == third.parameters
    assert first.seed == second.seed == third.seed
    assert [spec.number for spec in fate.specs] == [0, 1, 2]
    assert [trial.user_attrs[ATTEMPT] for trial in ledger.trials()] == [1, 2, 3]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("which", ["score", "cost"])
def test_objectives_that_are_not_finite_fail_and_say_so(value, which):
    ledger = ledger_of(InMemoryStorage())

    def outcome(spec):
        return complete(spec.number, value, 1.0) if which == "score" else complete(spec.number, 0.5, value)

    progress = driver_of(ledger, Simulated(outcome), limits=Limits(trials=1)).run()
    assert counts(progress) == (0, 0, 1)
    assert progress.failures[0][1].startswith("objectives are not finite: ")
    assert f"{value:g}" in progress.failures[0][1]


class Repeating(Simulated):
    """Says everything twice, the second time later, and speaks of trials that nobody knows."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.before = []

    def wait(self, timeout):
        now = super().wait(timeout)
        again, self.before = self.before, now
        return [*again, *now, *now, TrialResult(99_999, "complete", score=1.0, costs={"work": 0.1})]


def test_results_that_come_twice_or_late_or_from_nowhere_count_once():
    ledger, fate = ledger_of(InMemoryStorage()), Fate(["complete", "failed", "stopped"])
    told = Counter()
    progress = driver_of(
        ledger, Repeating(fate, 3), listener=lambda progress, result: told.update([result.number] if result else [])
    ).run()
    assert progress.done == 20
    assert Counter(ends(ledger).values()) == fate.expected()
    assert counts(progress) == tuple(fate.expected()[name] for name in ("complete", "stopped", "failed"))
    assert set(told.values()) == {1}
    assert 99_999 not in told


def test_no_more_runs_than_there_are_slots_and_none_stays_idle():
    class Watched(Simulated):
        most = 0

        def submit(self, spec, *, alone=False):
            super().submit(spec)
            assert self.free() >= 0
            self.most = max(self.most, self.slots() - self.free())

    backend = Watched(Fate(["complete"], (1.0, 2.0, 0.5)), 7)
    ledger = ledger_of(InMemoryStorage())
    progress = driver_of(ledger, backend, limits=Limits(trials=40)).run()
    assert backend.most == progress.slots == 7
    assert progress.done == 40


def test_more_slots_than_trials_start_no_more_than_was_asked_for():
    ledger = ledger_of(InMemoryStorage())
    assert driver_of(ledger, Simulated(trade_off, 50), limits=Limits(trials=7)).run().done == 7
    assert len(ledger.trials()) == 7


def test_after_the_timeout_nothing_starts_and_what_runs_ends():
    """Trials of ten seconds on two slots: four rounds begin within 35 seconds, by the simulated clock."""
    ledger = ledger_of(InMemoryStorage())
    backend = Simulated(Fate(["complete"], (10.0,)), 2)
    progress = driver_of(ledger, backend, limits=Limits(timeout=35.0)).run()
    assert progress.complete == len(ledger.trials()) == 8
    assert 40.0 <= backend.now() < 60.0


def test_what_failed_as_time_ran_out_is_tried_again_next_time():
    ledger = ledger_of(InMemoryStorage())
    progress = driver_of(ledger, Simulated(Fate(["failed"], (10.0,)), 2), limits=Limits(timeout=5.0)).run()
    assert counts(progress) == (0, 0, 0)
    progress = driver_of(ledger, Simulated(trade_off, 2), limits=Limits(trials=2)).run()
    assert counts(progress) == (2, 0, 0)
    assert sorted(ends(ledger)) == [0, 1]


def test_patience_ends_a_study_that_no_longer_grows():
    scores = [0.5, 0.6, 0.7]

    def outcome(spec):
        return complete(spec.number, scores[spec.number] if spec.number < 3 else 0.1, 10.0 + spec.number)

    ledger = ledger_of(InMemoryStorage())
    progress = driver_of(ledger, Simulated(outcome), limits=Limits(patience=5)).run()
    assert progress.done == 3 + 5
    assert progress.without_growth == 5
    again = driver_of(ledger, Simulated(outcome), limits=Limits(patience=5)).run()
    assert again.done == 8, "it has lost its patience for good"
    assert driver_of(ledger, Simulated(outcome), limits=Limits(patience=7)).run().done == 10


def test_trials_that_failed_long_ago_do_not_wear_out_patience():
    """Ten parameter sets fail, then all get better: a new driver has as much patience as the old one."""
    ledger, fate = ledger_of(InMemoryStorage()), Fate(["failed"] * 4 * (RETRIES + 1) + ["complete"] * 100)
    before = driver_of(ledger, Simulated(fate), limits=Limits(trials=10)).run()
    assert before.failed == 4
    after = driver_of(ledger, Simulated(fate)).progress
    assert after.without_growth == before.without_growth < 6


def test_the_front_and_its_volume_are_those_of_the_complete_trials():
    values = [(0.5, 10.0), (0.6, 20.0), (0.4, 30.0), (0.6, 20.0), (0.7, 15.0)]
    ledger = ledger_of(InMemoryStorage())
    outcome = lambda spec: complete(spec.number, *values[spec.number])  # noqa: E731
    progress = driver_of(ledger, Simulated(outcome), limits=Limits(trials=5)).run()
    assert progress.front == [(4, (0.7, 15.0)), (0, (0.5, 10.0))]
    assert progress.hypervolume == pytest.approx((0.5 * 5 + 0.7 * 15) / 30)


def test_enqueued_parameters_come_first_and_once():
    ledger, fate = ledger_of(InMemoryStorage()), Fate(["complete"])
    wanted = [proposal(C=1.0), proposal(C=2.0), proposal(C=1.0)]
    driver = driver_of(ledger, Simulated(fate), limits=Limits(trials=4))
    driver.enqueue(wanted)
    driver.enqueue([proposal(C=2.0), proposal(C=3.0)])
    driver.run()
    assert [spec.parameters["C"] for spec in fate.specs[:3]] == [1.0, 2.0, 3.0]
    assert fate.calls == 4


def test_what_was_tried_is_not_enqueued_again(tmp_path):
    """Neither what succeeded nor what was given up, whoever tried it."""
    path, wanted = tmp_path / "one.journal", [proposal(C=0.1 + 0.2), proposal(budget=33)]
    with ledger_in(path) as ledger:
        driver = driver_of(ledger, Simulated(Fate(["complete"] + ["failed"] * 10)), limits=Limits(trials=2))
        driver.enqueue(wanted)
        assert counts(driver.run()) == (1, 0, 1)
    with ledger_in(path) as ledger:
        fate = Fate(["complete"])
        driver = driver_of(ledger, Simulated(fate), limits=Limits(trials=4))
        driver.enqueue([*wanted, proposal(budget=34)])
        assert driver.run().done == 4
        assert fate.specs[0].parameters["budget"] == 34
        assert fate.calls == 2


def test_limits_hold_for_enqueued_parameters_too():
    ledger = ledger_of(InMemoryStorage())
    driver = driver_of(ledger, Simulated(trade_off, 4), limits=Limits(trials=3))
    driver.enqueue([proposal(C=float(c)) for c in range(1, 9)])
    assert driver.run().done == 3


def test_another_try_comes_before_anything_that_still_waits():
    """Or the limit would be reached by others, and it would never come."""
    ledger, fate = ledger_of(InMemoryStorage()), Fate(["failed", "complete"])
    driver = driver_of(ledger, Simulated(fate), limits=Limits(trials=2))
    driver.enqueue([proposal(C=float(c)) for c in range(1, 9)])
    assert counts(driver.run()) == (2, 0, 0)
    assert [spec.parameters["C"] for spec in fate.specs] == [1.0, 1.0, 2.0, 2.0]


@pytest.mark.parametrize("endings", [["complete"], ["failed", "complete"]])
def test_a_grid_ends_when_everything_was_tried(endings):
    space = {"budget": IntDistribution(10, 12), "mergees": CategoricalDistribution([2, 3])}
    for _ in range(2):
        ledger, fate = ledger_of(InMemoryStorage()), Fate(endings)
        for _ in range(2):
            proposer = Proposer("grid", 0, space, DIRECTIONS)
            driver = Driver(ledger, proposer, Simulated(fate, 4), SETTINGS.spec, SETTINGS.objectives, limits=Limits())
            driver.enqueue(Proposal.of(parameters, space) for parameters in grid(space))
            assert driver.run().done == 6
        assert len({tuple(spec.parameters.values()) for spec in fate.specs}) == 6


def curved(spec):
    """A long trial that rose by 0.1 in its second half."""
    curve = (Point(0.5, 5.0, 0.5), Point(1.0, 10.0, 0.6))
    return complete(spec.number, 0.6, 10.0 + spec.number, curve=curve)


def test_the_bar_rises_with_what_has_finished_and_is_handed_on():
    ledger, bars = ledger_of(InMemoryStorage()), []

    def outcome(spec):
        bars.append(spec.bar)
        return curved(spec)

    first = Bar(shortest=7.0)
    driver_of(ledger, Simulated(outcome), limits=Limits(trials=15), bar=first).run()
    assert bars[0] == first
    assert bars[1].front == ((10.0, 0.6),)
    assert bars[FEWEST_CURVES - 1].slack == (), "so few curves teach nothing"
    assert dict(bars[FEWEST_CURVES].slack)[0.5] == pytest.approx(0.2), "a fifth of the error went in the second half"
    driver_of(ledger, Simulated(outcome), limits=Limits(trials=16), bar=first).run()
    assert bars[15] == bars[14], "the next driver knows what this one knew"
    assert {bar.shortest for bar in bars} == {7.0}


def test_without_a_bar_nothing_is_stopped():
    bars = []
    driver_of(ledger_of(InMemoryStorage()), Simulated(lambda spec: bars.append(spec.bar) or curved(spec))).run()
    assert set(bars) == {None}


def test_stopped_trials_are_no_part_of_the_front():
    ledger, fate = ledger_of(InMemoryStorage()), Fate(["stopped"])
    progress = driver_of(ledger, Simulated(fate), limits=Limits(trials=5)).run()
    assert counts(progress) == (0, 5, 0)
    assert progress.front == []


@pytest.mark.parametrize("sampler", ["auto", "nsga2", "random"])
def test_in_process_and_simulated_agree(sampler):
    """One trial after the other is the same study, whoever runs it."""
    found = []
    for backend in (InProcess(trade_off), Simulated(trade_off)):
        ledger = ledger_of(InMemoryStorage())
        driver_of(ledger, backend, sampler, limits=Limits(trials=15)).run()
        found.append([(trial.params, trial.values) for trial in ledger.trials()])
    if sampler != "auto":  # which looks at the clock
        assert found[0] == found[1]
    assert len(found[0]) == len(found[1]) == 15


def test_an_exception_in_a_trial_in_this_process_loses_no_other():
    ledger, calls = ledger_of(InMemoryStorage()), Counter()

    def run(spec):
        calls[spec.seed] += 1
        if calls[spec.seed] <= 2:
            raise ZeroDivisionError("not today")
        return trade_off(spec)

    progress = driver_of(ledger, InProcess(run), limits=Limits(trials=4)).run()
    assert counts(progress) == (4, 0, 0)
    assert progress.retries == 8
    assert "ZeroDivisionError: not today" in result_of(ledger.trials()[0]).reason


def test_workers_that_come_late_are_waited_for():
    class Late(Simulated):
        turns = 0

        def free(self, *, alone=False):
            return super().free() if self.turns > 3 else 0

        def wait(self, timeout):
            self.turns += 1
            return super().wait(timeout)

    assert driver_of(ledger_of(InMemoryStorage()), Late(trade_off, 2), limits=Limits(trials=3)).run().done == 3


def test_the_time_that_workers_need_to_start_does_not_count():
    """They take a minute, the search has 35 seconds: four rounds of ten seconds on two slots all the same."""

    class Starting(Simulated):
        def slots(self):
            return super().slots() if self.now() >= 60.0 else 0

        def free(self, *, alone=False):
            return super().free() if self.slots() else 0

        def wait(self, timeout):
            self._skipped += 0.0 if self.slots() else timeout
            return super().wait(timeout)

    ledger = ledger_of(InMemoryStorage())
    progress = driver_of(ledger, Starting(Fate(["complete"], (10.0,)), 2), limits=Limits(timeout=35.0)).run()
    assert progress.complete == len(ledger.trials()) == 8
