"""A study from start to end: open or go on, search, confirm, report."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution

from workflows.backends import Backend
from workflows.errors import StudyError
from workflows.records import Sampler, TrialResult
from workflows.study.confirmation import Member, confirm, members
from workflows.study.driver import Driver, Limits, Progress
from workflows.study.lease import Lease
from workflows.study.ledger import Ledger
from workflows.study.proposer import Define, Proposal, Proposer, grid
from workflows.study.settings import Settings, agree
from workflows.study.storages import open_storage


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


@dataclass(frozen=True)
class Outcome:
    study: str
    settings: Settings
    progress: Progress
    front: list[Member]
    interrupted: bool
    where: str
    """The storage that keeps the study."""


class Watcher:
    """Told what happens, and asked whether to stop; the parent of those who show it to people."""

    interrupted = False

    def searching(self, progress: Progress, result: TrialResult | None) -> None: ...

    def confirming(self, done: int, total: int) -> None: ...

    def storage_away(self, reason: str) -> None: ...


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
    with held(study, home, storage, settings, distributions, watcher) as mine:
        ledger = mine.ledger
        proposer = Proposer(plan.sampler, settings.seed + ledger.next_number, space, settings.directions)
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
            driver.enqueue(_wanted(plan, distributions))
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
        return Outcome(study, settings, progress, members(ledger, settings, best), watcher.interrupted, mine.where)


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
        ledger = Ledger(opened.storage, number, flush=opened.flush, away=watcher.storage_away)
        lease = None if opened.alone else Lease(ledger, study)
        try:
            agree(ledger, settings, space, study)
            ledger.flush()
            yield Held(ledger, opened.where, lease.renew if lease else lambda: None)
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
        try:
            number = opened.storage.get_study_id_from_name(study)
        except KeyError:
            raise StudyError(f"no study {study!r} in {opened.where}") from None
        yield Ledger(opened.storage, number)
    finally:
        opened.close()


def _study_id(storage: optuna.storages.BaseStorage, study: str, settings: Settings) -> int:
    directions = [optuna.study.StudyDirection[direction.upper()] for direction in settings.directions]
    try:
        return storage.create_new_study(directions, study)
    except optuna.exceptions.DuplicatedStudyError:
        number = storage.get_study_id_from_name(study)
    if storage.get_study_directions(number) != directions:
        raise StudyError(f"the study {study!r} has other objectives; choose another --study")
    return number


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
        if missing := [name for name in space if name not in parameters and not space[name].single()]:
            raise StudyError(f"cannot try {parameters}: it lacks {', '.join(missing)}")
        for name, spread in space.items():
            value = parameters.setdefault(name, getattr(spread, "choices", (None,))[0])
            if not spread._contains(spread.to_internal_repr(value)):
                raise StudyError(f"cannot try {name} = {value}: it is outside the search space, {spread}")
    return [Proposal.of({name: parameters[name] for name in space}, space) for parameters in sets]
