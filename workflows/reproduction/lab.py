"""Where experiments are run: studies one after the other, each an ordinary one that goes on where it stopped.

A grid is a study whose parameter sets are all enqueued; a search is a study as `mmbsgd tune` makes it. Ray is joined
once for all of them. A study that has all its trials is not opened again.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Protocol

from optuna.distributions import CategoricalDistribution

from workflows.data import PreparedData
from workflows.errors import BegunOtherwise, StudyError
from workflows.reproduction.sets import Sets, Use
from workflows.reproduction.sizes import Size
from workflows.study.driver import Limits
from workflows.study.job import Job, Ready, ready
from workflows.study.proposer import Distributions, Proposal
from workflows.study.snapshot import Ended, Snapshot, snapshot
from workflows.study.tuning import Outcome, looked_at

PREFIX = "reproduce"
OTHERWISE = "by another version of this experiment: name another --home"
Row = dict[str, Any]
"""What one trial was given and what it measured, by name."""


class Interrupted(Exception):
    """The user asked to stop; what was done is kept."""


class Watch(Protocol):
    """Shows a study while it runs."""

    def __call__(self, study: Ready) -> Outcome: ...


@dataclass(frozen=True)
class Place:
    """Where studies run and where they are kept."""

    home: Path
    workers: int | None = None
    ray_address: str | None = None
    storage: str | None = None
    tracking_uri: str | None = None


class Lab:
    def __init__(
        self,
        size: Size,
        place: Place,
        sets: Sets,
        *,
        watch: Watch,
        done: Callable[[str], None] = lambda study: None,
        warn: Callable[[str], None] = lambda message: None,
    ) -> None:
        """watch: runs a study in view of somebody. done: told of every study that has all its trials."""
        self.size, self.sets = size, sets
        self._place, self._watch, self._done, self._warn = place, watch, done, warn
        self.environment: dict[str, str] = {}
        """Where the latest study was run."""

    def grid(
        self,
        name: str,
        on: str,
        trials: Iterable[Row],
        *,
        use: Use = "paper",
        trace: bool = False,
        undisturbed: bool = False,
    ) -> list[Row]:
        """Runs all of these parameter sets on the set `on`; what they lack of each other's parameters is None.

        undisturbed: one after the other, for measurements of microseconds.
        """
        wanted = list({Proposal(parameters).key: parameters for parameters in trials}.values())
        names = list(dict.fromkeys(name for parameters in wanted for name in parameters))
        enqueue = [{name: parameters.get(name) for name in names} for parameters in wanted]
        space: Distributions = {
            name: CategoricalDistribution(list(dict.fromkeys(parameters[name] for parameters in enqueue)))
            for name in names
        }
        job = self._job(name, on, use, space, len(enqueue))
        workers = 1 if undisturbed and job.workers != 0 else job.workers
        return self._run(replace(job, sampler="random", enqueue=enqueue, trace=trace, workers=workers), on)

    def search(self, name: str, on: str, space: Distributions, trials: int) -> list[Row]:
        """Tunes accuracy and time on rows that may be chosen by."""
        return self._run(self._job(name, on, "choice", space, trials), on)

    def _job(self, name: str, on: str, use: Use, space: Distributions, trials: int) -> Job:
        rows, place = self.sets.rows(on, use), self._place
        return Job(
            rows.folder,
            space=space,
            study=self.study(name, on),
            trials=trials,
            folds=rows.folds,
            splits=rows.splits,
            early_stop=False,
            confirm=0,
            workers=place.workers,
            ray_address=place.ray_address,
            storage=place.storage,
            tracking=False,  # one process brings MLflow level with all of them
            tracking_uri=place.tracking_uri,
            home=place.home,
        )

    def study(self, name: str, on: str) -> str:
        return "-".join([PREFIX, name, on] + ([] if self.size.thorough else [self.size.name]))

    def _run(self, job: Job, on: str) -> list[Row]:
        assert job.study is not None
        assert job.trials is not None
        seen = self._seen(job)
        if seen is not None and _tried(seen) >= job.trials:
            _check(seen, job)
        else:
            try:
                outcome = self._watch(ready(job))
            except BegunOtherwise as error:
                said = str(error).partition(";")[0]
                raise StudyError(f"{said}, {OTHERWISE}") from None
            if outcome.interrupted:
                raise Interrupted
            seen = self._seen(job)
        assert seen is not None
        if lost := [trial for trial in seen.trials if trial.state == "failed" and trial.attempt > Limits.retries]:
            self._warn(f"{job.study}: {len(lost)} of {job.trials} trials failed, the last for {lost[-1].result.reason}")
        self._done(job.study)
        self.environment = seen.environment
        return [_row(trial, job.study, on) for trial in sorted(seen.complete, key=lambda trial: trial.origin)]

    def _seen(self, job: Job) -> Snapshot | None:
        assert job.study is not None
        try:
            with looked_at(job.study, job.home, job.storage) as ledger:
                return snapshot(ledger, job.study)
        except StudyError:
            return None  # not begun yet


def product(**values: Sequence[Any]) -> list[Row]:
    """Every combination, the last name changing fastest: seeds first, so that methods take turns."""
    return [dict(zip(values, combination, strict=True)) for combination in itertools.product(*values.values())]


def _check(seen: Snapshot, job: Job) -> None:
    """A study that has ended is this experiment's only if it was asked for the same."""
    wanted = {Proposal(dict(parameters)).key for parameters in job.enqueue}
    tried = {Proposal(trial.parameters).key for trial in seen.trials}
    data = PreparedData.open(job.data).manifest.fingerprint
    if seen.space != job.space or (wanted and wanted != tried) or seen.settings.fingerprint != data:
        raise StudyError(f"the study {seen.study!r} was done with other parameters or data, {OTHERWISE}")


def _tried(seen: Snapshot) -> int:
    """Parameter sets that have their end."""
    ended = {trial.origin for trial in seen.trials if trial.state != "failed"}
    return len(
        ended | {trial.origin for trial in seen.trials if trial.state == "failed" and trial.attempt > Limits.retries}
    )


def _row(trial: Ended, study: str, on: str) -> Row:
    result = trial.result
    measured = {"accuracy": result.score} | result.costs | result.counters
    trace = {"trace": [asdict(step) for step in result.trace]} if result.trace else {}
    day = date.fromtimestamp(trial.ended).isoformat()
    return {"study": study, "set": on, "day": day} | trial.parameters | measured | trace
