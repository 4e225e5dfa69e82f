"""The ledger: every trial is entered before it starts and gets one end, whatever the storage does meanwhile."""

import math

import pytest
from optuna.exceptions import StorageInternalError
from optuna.storages import InMemoryStorage
from optuna.storages.journal import JournalStorage
from optuna.trial import TrialState
from studies import SPACE, complete, ledger_in, ledger_of, proposal

from workflows.errors import StudyError
from workflows.records import Point, TrialResult
from workflows.study import ledger as module
from workflows.study.journal import Journal
from workflows.study.ledger import DRIVER_DIED, INTERRUPTED, Entry, origin_of, proposal_of, result_of
from workflows.study.proposer import Proposal

RESULT = TrialResult(
    0,
    "complete",
    score=0.75,
    spread=0.1,
    costs={"cpu": 1.5, "wall": 2.0, "work": 1e9},
    counters={"size": 10.0, "theorem_bound": math.inf},
    curve=(Point(0.5, 1.0, 0.6), Point(1.0, 1.5, 0.75)),
    model="abc",
    node="here",
    seconds=2.5,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "one.journal"


class Unsteady:
    """A storage that does not answer now and then: before it does what it was asked for, or after it did."""

    def __init__(self, storage):
        self._storage, self.plan = storage, []

    def __getattr__(self, name):
        method = getattr(self._storage, name)

        def call(*arguments, **options):
            fails = self.plan.pop(0) if self.plan else ""
            if fails == "before":
                raise StorageInternalError("no answer")
            answer = method(*arguments, **options)
            if fails == "after":
                raise StorageInternalError("the answer was lost")
            return answer

        return call


@pytest.fixture
def unsteady(monkeypatch):
    """A ledger on such a storage, that does not wait in between."""
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)
    storage = Unsteady(InMemoryStorage())
    return ledger_of(storage), storage


def entered(ledger, **parameters):
    return ledger.start(Entry(None, 1, proposal(**parameters)))[0]


def test_a_trial_is_entered_running_with_its_parameters(path):
    with ledger_in(path) as ledger:
        number, entry = ledger.start(Entry(None, 1, proposal(C=0.1, budget=17)))
        assert (number, entry.origin, entry.attempt, ledger.next_number) == (0, 0, 1, 1)
        ledger.flush()
        with Journal(path, write=False) as copy:
            (trial,) = ledger_of(JournalStorage(copy)).trials()
    assert trial.state == TrialState.RUNNING
    assert trial.params == {"C": 0.1, "budget": 17, "mergees": 3, "engine": "fast"}
    assert trial.distributions == SPACE


@pytest.mark.parametrize("values", [(0.75, 1e9)])
def test_everything_that_a_trial_measured_is_read_back(path, values):
    with ledger_in(path) as ledger:
        entered(ledger)
        ledger.end(RESULT, values)
    with ledger_in(path) as ledger:
        (trial,) = ledger.trials()
        assert trial.state == TrialState.COMPLETE
        assert tuple(trial.values) == values
        assert result_of(trial) == RESULT


@pytest.mark.parametrize(("state", "kept"), [("stopped", TrialState.PRUNED), ("failed", TrialState.FAIL)])
def test_other_ends_are_kept_with_their_reasons(path, state, kept):
    with ledger_in(path) as ledger:
        entered(ledger)
        ledger.end(TrialResult(0, state, reason="so it was", score=math.nan))
    with ledger_in(path) as ledger:
        (trial,) = ledger.trials()
        assert trial.state == kept
        assert trial.values is None
        assert result_of(trial).reason == "so it was"
        assert math.isnan(result_of(trial).score)


def test_the_first_end_of_a_trial_is_its_end(path):
    with ledger_in(path) as ledger:
        entered(ledger)
        ledger.end(complete(0, 0.5, 1.0), (0.5, 1.0))
        ledger.end(TrialResult(0, "failed", reason="too late"))
    with ledger_in(path) as ledger:
        (trial,) = ledger.trials()
        assert (trial.state, tuple(trial.values)) == (TrialState.COMPLETE, (0.5, 1.0))
        assert result_of(trial) == complete(0, 0.5, 1.0)


def test_parameters_of_a_space_that_is_a_function_are_kept_beside_what_optuna_chose(path):
    made = Proposal({"C": 4.0, "epochs": 2}, {"C": 2.0}, {"C": SPACE["C"]})
    with ledger_in(path) as ledger:
        ledger.start(Entry(None, 1, made))
    with ledger_in(path) as ledger:
        assert proposal_of(ledger.trials()[0]) == made


def test_another_try_remembers_where_it_began(path):
    with ledger_in(path) as ledger:
        entered(ledger)
        entered(ledger, C=2.0)
        number, entry = ledger.start(Entry(0, 2, proposal()))
        assert (number, entry.origin) == (2, 0)
    with ledger_in(path) as ledger:
        assert [origin_of(trial) for trial in ledger.trials()] == [0, 1, 0]


def test_what_a_dead_driver_left_is_tried_again(path):
    with ledger_in(path) as ledger:
        for c in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0):
            entered(ledger, C=c)
        ledger.end(complete(0, 0.5, 1.0), (0.5, 1.0))
        ledger.end(TrialResult(1, "stopped"))
        ledger.end(TrialResult(2, "failed", reason="division by zero"))
        ledger.end(TrialResult(3, "failed", reason=INTERRUPTED))
        ledger.start(Entry(4, 4, proposal(C=5.0)))
        ledger.end(TrialResult(6, "failed", reason="again"))
    with ledger_in(path) as ledger:
        left = list(ledger.unfinished(4))
        assert [(entry.origin, entry.attempt, entry.proposal.parameters["C"]) for entry in left] == [
            (2, 2, 3.0),  # its own fault: the second attempt
            (3, 1, 4.0),  # not its fault: still the first
            (5, 1, 6.0),  # was running
        ]
        assert ledger.trials()[5].state == TrialState.FAIL
        assert result_of(ledger.trials()[5]).reason == DRIVER_DIED
    with ledger_in(path) as ledger:
        assert len(list(ledger.unfinished(4))) == 3, "and again, if that driver dies as well"


def test_a_trial_that_nobody_described_is_none_that_succeeded():
    ledger = ledger_of(InMemoryStorage())
    entered(ledger)
    assert result_of(ledger.trials()[0]).state == "failed"


@pytest.mark.parametrize("fails", [["before"], ["before"] * 5, ["after"], ["after", "before"]])
def test_a_trial_is_entered_once_though_the_storage_was_away(unsteady, fails):
    ledger, storage = unsteady
    entered(ledger)
    storage.plan = list(fails)
    assert entered(ledger, C=7.0) == 1
    assert [trial.params["C"] for trial in ledger.trials()] == [1.0, 7.0]
    assert entered(ledger, C=8.0) == 2


@pytest.mark.parametrize(
    "fails", [["before"], ["after"], ["", "before"], ["", "after"], ["after", "after", "", "after"]]
)
def test_a_trial_ends_once_though_the_storage_was_away(unsteady, fails):
    ledger, storage = unsteady
    entered(ledger)
    storage.plan = list(fails)
    ledger.end(RESULT, (0.75, 1e9))
    (trial,) = ledger.trials()
    assert trial.state == TrialState.COMPLETE
    assert tuple(trial.values) == (0.75, 1e9)
    assert result_of(trial) == RESULT


def test_a_storage_that_stays_away_is_given_up_with_advice(monkeypatch):
    now, told = [0.0], []
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    storage = Unsteady(InMemoryStorage())
    ledger = ledger_of(storage)
    ledger._away = told.append
    storage.plan = ["before"] * 10_000
    with pytest.raises(StudyError, match=r"has not answered for 300 s: no answer; run the same command again"):
        entered(ledger)
    assert 60 <= len(told) <= 100
    assert set(told) == {"no answer"}
    assert 300 < now[0] < 310


def test_notes_about_the_study_are_kept(path):
    with ledger_in(path) as ledger:
        ledger.note("colour", {"of": ["things"]})
        ledger.note("colour", {"of": ["others"]})
    with ledger_in(path) as ledger:
        assert ledger.notes() == {"colour": {"of": ["others"]}}
