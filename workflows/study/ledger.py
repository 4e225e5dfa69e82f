"""The ledger: Optuna's storage as the truth about every trial, written by the one driver.

A trial is entered as RUNNING with its parameters before it starts, and gets exactly one end: COMPLETE with its values,
PRUNED (stopped early) or FAIL with a reason. A parameter set may take several trials: `origin` is the number of the
first, `attempt` counts them.

A database that is away is waited for; whether the last change before that had arrived is looked up when it is back.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy.exc import SQLAlchemyError

from workflows.errors import StudyError
from workflows.records import TrialResult
from workflows.study.proposer import Proposal

RESULT, ATTEMPT, ORIGIN, PARAMETERS = "result", "attempt", "origin", "parameters"
ENDS = {"complete": TrialState.COMPLETE, "stopped": TrialState.PRUNED, "failed": TrialState.FAIL}
DRIVER_DIED, INTERRUPTED = "its driver died", "the study was interrupted"
ENTERED_TWICE = "it was entered twice while the storage was away"
BLAMELESS = (DRIVER_DIED, INTERRUPTED, ENTERED_TWICE)
"""Ends that are not the trial's own fault: such an attempt does not count."""
MOST_DEATHS = 20
"""So many drivers may die while they try the same parameters before these are blamed for it."""
DRIVER_KILLER = f"more than {MOST_DEATHS} drivers died while they tried it"
PATIENCE = 300.0
"""Seconds to wait for a storage that is away."""
_AWAY = (StorageInternalError, SQLAlchemyError)
T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """A parameter set that is being tried or waits for it."""

    origin: int | None
    """Number of the first trial that tried it; None: not tried yet."""
    attempt: int
    proposal: Proposal


class Ledger:
    def __init__(
        self,
        storage: BaseStorage,
        study: int,
        *,
        flush: Callable[[], None] = lambda: None,
        away: Callable[[str], None] = lambda reason: None,
        patience: float = PATIENCE,
    ) -> None:
        """flush: makes what was entered durable. away: told when the storage does not answer."""
        self._storage, self._study = storage, study
        self._flush, self._away, self._patience = flush, away, patience
        self.guard: Callable[[], None] = lambda: None
        """Called before every change: raises if the study is no longer ours."""
        self._ids = {trial.number: trial._trial_id for trial in self.trials()}

    def flush(self) -> None:
        self.persist(self._flush)

    @property
    def next_number(self) -> int:
        return len(self._ids)

    def start(self, entry: Entry) -> tuple[int, Entry]:
        """Enters a trial; returns its number and the entry with its origin."""
        number, proposal = self.next_number, entry.proposal
        entry = Entry(number if entry.origin is None else entry.origin, entry.attempt, proposal)
        attributes: dict[str, Any] = {ORIGIN: entry.origin, ATTEMPT: entry.attempt}
        if proposal.parameters != proposal.sampled:
            attributes[PARAMETERS] = proposal.parameters
        template = create_trial(
            state=TrialState.RUNNING,
            params=proposal.sampled,
            distributions=proposal.distributions,
            user_attrs=attributes,
        )
        again = False

        def enter() -> int:
            nonlocal again
            if again:
                known = self._storage.get_all_trials(self._study, deepcopy=False)
                if len(known) > number:
                    return known[-1]._trial_id
            again = True
            return self._storage.create_new_trial(self._study, template)

        trial = self.persist(enter)
        # Optuna itself tries again: if the answer to the first try was lost, the trial was entered more than once.
        entered = self.persist(lambda: self._storage.get_trial_number_from_id(trial))
        if entered > number:
            self._ids |= {one.number: one._trial_id for one in self.trials()}
            for twin in range(number, entered):
                self.end(TrialResult(twin, "failed", reason=ENTERED_TWICE))
        self._ids[entered] = trial
        return entered, entry

    def end(self, result: TrialResult, values: tuple[float, ...] = ()) -> None:
        trial = self._ids[result.number]

        def close() -> None:
            try:
                self._storage.set_trial_user_attr(trial, RESULT, result.as_dict())
                self._storage.set_trial_state_values(trial, ENDS[result.state], list(values) or None)
            except UpdateFinishedTrialError:
                pass  # it arrived before the storage went away

        self.persist(close)

    def trials(self) -> list[FrozenTrial]:
        return self.persist(lambda: self._storage.get_all_trials(self._study, deepcopy=False))

    def note(self, key: str, value: Any) -> None:
        """Keeps something about the study as a whole."""
        self.persist(lambda: self._storage.set_study_user_attr(self._study, key, value))

    def notes(self) -> dict[str, Any]:
        return self.persist(lambda: self._storage.get_study_user_attrs(self._study))

    def unfinished(self, attempts: int) -> Iterator[Entry]:
        """Parameter sets that still need a try; trials that a dead driver left running are ended first."""
        trials = self.trials()
        last = {origin_of(trial): trial for trial in trials}
        tries = Counter(map(origin_of, trials))
        for origin, trial in last.items():
            attempt, proposal = int(trial.user_attrs.get(ATTEMPT, 1)), proposal_of(trial)
            if trial.state == TrialState.RUNNING:
                blamed = tries[origin] >= attempts + MOST_DEATHS
                self.end(TrialResult(trial.number, "failed", reason=DRIVER_KILLER if blamed else DRIVER_DIED))
                if not blamed:
                    yield Entry(origin, attempt, proposal)
            elif trial.state == TrialState.FAIL:
                if result_of(trial).reason in BLAMELESS:
                    yield Entry(origin, attempt, proposal)
                elif attempt < attempts and result_of(trial).reason != DRIVER_KILLER:
                    yield Entry(origin, attempt + 1, proposal)

    def check(self) -> None:
        """Raises if the study is no longer ours."""
        self.persist(lambda: None)

    def persist(self, change: Callable[[], T]) -> T:
        """Carries out a change that may be carried out twice, as soon as the storage answers."""
        began, pause = time.monotonic(), 0.2
        while True:
            try:
                self.guard()
                return change()
            except _AWAY as error:
                reason = " ".join(str(error.__cause__ or error).split()).partition(" (Background on")[0]
                if time.monotonic() - began > self._patience:
                    raise StudyError(
                        f"the study's storage has not answered for {self._patience:.0f} s: {reason}; run the same "
                        "command again when it is back: the study goes on where it stopped"
                    ) from None
                self._away(reason)
                time.sleep(pause)
                pause = min(2 * pause, 5.0)


def origin_of(trial: FrozenTrial) -> int:
    return int(trial.user_attrs.get(ORIGIN, trial.number))


def proposal_of(trial: FrozenTrial) -> Proposal:
    parameters = trial.user_attrs.get(PARAMETERS, trial.params)
    return Proposal(dict(parameters), dict(trial.params), dict(trial.distributions))


def result_of(trial: FrozenTrial) -> TrialResult:
    content = trial.user_attrs.get(RESULT)
    return TrialResult.from_dict(content) if content else TrialResult(trial.number, "failed")
