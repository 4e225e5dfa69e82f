"""A study as it stands at one moment: what those who draw, list and log it look at."""

from dataclasses import dataclass
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState

from workflows.front import front
from workflows.records import State, TrialResult
from workflows.study.confirmation import Member, members
from workflows.study.ledger import ATTEMPT, Ledger, origin_of, proposal_of, result_of
from workflows.study.settings import Settings, settings_of

ENVIRONMENT, IDENTITY, STATE = "environment", "identity", "state"
RUNNING, INTERRUPTED, FINISHED = "running", "interrupted", "finished"
TRACKING = "tracking"
"""Of the environment: the MLflow that got the study, without a password."""
WHERE = "study.options"
"""Of the environment: how commands are told where the study is, beside its name; without a password."""
LABEL, ROWS, PLACE = "data.label", "data.rows", "data.place"
"""Of the environment: which data it is, beside its name: the label's column, how many rows of demo data, and where it
lay, if that was on a disk."""
_STATES: dict[TrialState, State] = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "stopped",
    TrialState.FAIL: "failed",
}


@dataclass(frozen=True)
class Ended:
    """A trial that has its end."""

    number: int
    origin: int
    """Number of the first trial of the same parameter set; another one than `number`: it was tried again."""
    attempt: int
    parameters: dict[str, Any]
    state: State
    values: tuple[float, ...]
    """The objectives; empty unless it is complete."""
    result: TrialResult
    began: float
    """Seconds since 1970."""
    ended: float


@dataclass(frozen=True)
class Snapshot:
    study: str
    identity: str
    """Unlike that of any other study, whatever its name."""
    settings: Settings
    space: dict[str, BaseDistribution]
    """Empty if the space is a function."""
    trials: tuple[Ended, ...]
    """In the order of their ends."""
    running: int
    front: tuple[Member, ...]
    """By falling score; with means and deviations as far as it is confirmed."""
    environment: dict[str, Any]
    """Where it was driven last: versions, machine, commit."""
    state: str = ""
    """How its last driver left it; running: it has not, or it died."""

    @property
    def complete(self) -> list[Ended]:
        return [trial for trial in self.trials if trial.state == "complete"]

    def trial(self, number: int) -> Ended:
        return next(trial for trial in self.trials if trial.number == number)


def snapshot(ledger: Ledger, study: str) -> Snapshot:
    notes, trials = ledger.notes(), ledger.trials()
    settings, space = settings_of(notes, study)
    ended = sorted(
        (_ended(trial, _STATES[trial.state]) for trial in trials if trial.state in _STATES),
        key=lambda trial: (trial.ended, trial.number),
    )
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    numbers = [complete[position].number for position in front([trial.values for trial in complete])]
    return Snapshot(
        study=study,
        identity=notes.get(IDENTITY, f"{study}-{settings.fingerprint}-{settings.seed}"),
        settings=settings,
        space=space,
        trials=tuple(ended),
        running=sum(trial.state == TrialState.RUNNING for trial in trials),
        front=tuple(members(ledger, settings, numbers)),
        environment=notes.get(ENVIRONMENT, {}),
        state=notes.get(STATE, ""),
    )


def _ended(trial: FrozenTrial, state: State) -> Ended:
    result = result_of(trial)
    assert trial.datetime_start is not None
    assert trial.datetime_complete is not None
    ended = trial.datetime_complete.timestamp()
    return Ended(
        number=trial.number,
        origin=origin_of(trial),
        attempt=int(trial.user_attrs.get(ATTEMPT, 1)),
        parameters=proposal_of(trial).parameters,
        state=state,
        values=tuple(trial.values or ()),
        result=result,
        began=ended - result.seconds if result.seconds else trial.datetime_start.timestamp(),
        ended=ended,
    )
