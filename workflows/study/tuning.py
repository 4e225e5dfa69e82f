"""A study from start to end: open or go on, search, confirm, report."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import RDBStorage

from workflows.backends import Backend
from workflows.errors import StudyError
from workflows.records import Sampler, Tracked, TrialResult
from workflows.study.confirmation import Member, confirm, members
from workflows.study.driver import Driver, Limits, Progress
from workflows.study.lease import Lease
from workflows.study.ledger import Ledger
from workflows.study.proposer import Define, Proposal, Proposer, grid
from workflows.study.settings import Settings, agree
from workflows.study.snapshot import ENVIRONMENT, FINISHED, IDENTITY, INTERRUPTED, RUNNING, STATE, TRACKING
from workflows.study.storages import open_storage

USUAL = {"epochs": 1, "polish": 7, "maintenance": "cascade", "engine": "fast", "bias": "calibrated"}
"""What parameters are that a set to be tried first does not name, as far as the space has them."""
PROPOSER = 2**31
"""The proposer's place among the runs that have seeds."""


@dataclass(frozen=True)
class Plan:
    """What is asked of a study this time; it may change from one run to the next."""

    limits: Limits = field(default_factory=Limits)
    sampler: Sampler = "auto"
    early_stop: bool = True
    confirm: int = 5
    """Runs with fresh seeds of every member of the front."""
    enqueue: Sequence[Mapping[str, Any]] = ()
    """Parameter sets to try first."""
    environment: dict[str, str] = field(default_factory=dict)
    """Where it runs: kept with the study for those who look at it."""


@dataclass(frozen=True)
class Outcome:
    study: str
    settings: Settings
    progress: Progress
    front: list[Member]
    interrupted: bool
    where: str
    """The storage that keeps the study."""
    tracked: Tracked | None = None
    """What MLflow has of it; None: it was not asked to."""


class Watcher:
    """Told what happens, and asked whether to stop; the parent of those who show it to people."""

    interrupted = False

    def note(self, message: str) -> None:
        """What is being done before there is anything to count."""

    def searching(self, progress: Progress, result: TrialResult | None) -> None: ...

    def confirming(self, done: int, total: int) -> None: ...

    def storage_away(self, reason: str) -> None: ...

    def tracking_away(self, where: str, reason: str) -> None:
        """MLflow does not answer; said once."""

    def tracking(self, done: int, total: int) -> None:
        """Trials that MLflow has, when the study has ended."""


@dataclass(frozen=True)
class Held:
    """A study that this process may write."""

    ledger: Ledger
    where: str
    beat: Callable[[], None]


def tune(
    study: str,
    settings: Settings,
    space: "dict[str, BaseDistribution] | Define",
    make_backend: Callable[[], Backend],
    *,
    plan: Plan | None = None,
    home: Path = Path("mmbsgd-home"),
    storage: str | None = None,
    watcher: Watcher | None = None,
) -> Outcome:
    """Searches the space until the plan's limits are reached, then confirms the front.

    space: what Optuna samples from, or a function that asks an Optuna trial for values and returns the parameters. The
    backend is made once the study is known to be ours, and closed at the end.
    """
    plan, watcher = plan or Plan(), watcher or Watcher()
    distributions = {} if callable(space) else space
    wanted = _wanted(plan, distributions)
    with held(study, home, storage, settings, distributions, watcher) as mine:
        ledger = mine.ledger
        if plan.environment:
            before = ledger.notes().get(ENVIRONMENT, {})  # a study that is not tracked now may have been before
            ledger.note(ENVIRONMENT, {name: before[name] for name in (TRACKING,) if name in before} | plan.environment)
        ledger.note(STATE, RUNNING)
        seed = settings.seed_of(ledger.next_number, PROPOSER)  # a study that goes on does not propose the same again
        proposer = Proposer(plan.sampler, seed, space, settings.directions)
        backend = make_backend()
        try:
            driver = Driver(
                ledger,
                proposer,
                backend,
                settings.spec,
                settings.objectives,
                limits=plan.limits,
                bar=settings.first_bar if plan.early_stop and settings.third == "none" else None,
                listener=watcher.searching,
                beat=lambda: _beat(mine, driver, watcher),
            )
            driver.enqueue(wanted)
            watcher.searching(driver.progress, None)
            progress = driver.run()
            best = [number for number, _ in progress.front]
            if not driver.interrupted:
                confirm(
                    best,
                    plan.confirm,
                    ledger,
                    backend,
                    settings,
                    listener=watcher.confirming,
                    interrupted=lambda: _beat(mine, driver, watcher),
                )
        finally:
            backend.close()
        ledger.note(STATE, INTERRUPTED if driver.interrupted else FINISHED)
        ledger.flush()
        shown = members(ledger, settings, best, confirmed=plan.confirm > 0 and not driver.interrupted)
        return Outcome(study, settings, progress, shown, driver.interrupted, mine.where)


@contextmanager
def held(
    study: str,
    home: Path,
    storage: str | None,
    settings: Settings,
    space: dict[str, BaseDistribution],
    watcher: Watcher,
) -> Iterator[Held]:
    """Opens the study for writing, as its only driver, and begins it if it is new."""
    opened = open_storage(storage, home, study)
    try:
        number = _study_id(opened.storage, study, settings)
        ledger = Ledger(opened.storage, number, flush=opened.flush, away=partial(_away, watcher))
        lease = None
        if isinstance(opened.storage, RDBStorage):
            lease = Lease(opened.storage.engine, number, study)
            ledger.persist(lease.take)
            ledger.guard = lease.check
        try:
            agree(ledger, settings, space, study)
            if IDENTITY not in ledger.notes():
                ledger.note(IDENTITY, secrets.token_hex(16))
            ledger.flush()
            yield Held(ledger, opened.where, ledger.check)
        finally:
            if lease:
                lease.release()
    finally:
        opened.close()


@contextmanager
def looked_at(study: str, home: Path, storage: str | None) -> Iterator[Ledger]:
    """Opens a study to read it, whoever may be writing it."""
    opened = open_storage(storage, home, study, write=False)
    try:
        yield Ledger(opened.storage, opened.find(study))
    finally:
        opened.close()


def _study_id(storage: optuna.storages.BaseStorage, study: str, settings: Settings) -> int:
    directions = [optuna.study.StudyDirection[direction.upper()] for direction in settings.directions]
    try:
        number = storage.get_study_id_from_name(study)
    except KeyError:
        try:
            return storage.create_new_study(directions, study)
        except optuna.exceptions.DuplicatedStudyError:  # by another driver, at this very moment
            number = storage.get_study_id_from_name(study)
    if storage.get_study_directions(number) != directions:
        raise StudyError(f"the study {study!r} has other objectives; choose another --study")
    return number


def _away(watcher: Watcher, reason: str) -> None:
    watcher.storage_away(reason)
    if watcher.interrupted:
        raise StudyError(f"interrupted while the study's storage did not answer: {reason}")


def _beat(mine: Held, driver: Driver, watcher: Watcher) -> bool:
    mine.beat()
    driver.interrupted = driver.interrupted or watcher.interrupted
    return driver.interrupted


def _wanted(plan: Plan, space: dict[str, BaseDistribution]) -> list[Proposal]:
    sets = [dict(parameters) for parameters in plan.enqueue]
    if plan.sampler == "grid":
        if not space:
            raise StudyError("a grid needs a space with names and values, not a function")
        sets += grid(space)
    for parameters in sets:
        if unknown := [name for name in parameters if name not in space]:
            raise StudyError(f"cannot try {parameters}: the search space has no {', '.join(unknown)}")
        for name, usual in USUAL.items():
            if name in space and _allowed(usual, space[name]):
                parameters.setdefault(name, usual)
        if missing := [name for name in space if name not in parameters and not space[name].single()]:
            raise StudyError(f"cannot try {parameters}: it lacks {', '.join(missing)}")
        for name, spread in space.items():
            value = parameters.setdefault(name, getattr(spread, "choices", (None,))[0])
            if not _allowed(value, spread):
                raise StudyError(f"cannot try {name} = {value}: it is outside the search space, {spread}")
    return [Proposal.of({name: parameters[name] for name in space}, space) for parameters in sets]


def _allowed(value: Any, spread: BaseDistribution) -> bool:
    try:
        return spread._contains(spread.to_internal_repr(value))
    except (TypeError, ValueError):  # not a number where there must be one
        return False
