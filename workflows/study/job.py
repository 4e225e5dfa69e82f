"""The main job in one record: which data, which space, on which machines, for how long. What `mmbsgd tune` runs."""

import os
import re
import shlex
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from optuna.distributions import BaseDistribution

from search_spaces import Space, load
from workflows.backends import Backend
from workflows.data import PreparedData
from workflows.data.prepare import Progress
from workflows.data.resolve import open_data
from workflows.data.sources import DEMO, DEMO_ROWS
from workflows.data.workers import cores
from workflows.environment import environment
from workflows.errors import StudyError
from workflows.records import Cost, Metric, Sampler, Third
from workflows.study.driver import Limits
from workflows.study.facts import check_splits, default_space, facts_of
from workflows.study.proposer import Define, Distributions
from workflows.study.settings import Settings
from workflows.study.snapshot import LABEL, PLACE, ROWS, TRACKING, WHERE
from workflows.study.storages import shown_url
from workflows.study.tuning import Outcome, Plan, Watcher, tune
from workflows.tracking.address import address
from workflows.tracking.background import Background

HOME = Path("mmbsgd-home")
TRIALS = 100
"""Where nothing else limits the study."""
COMPILING = "the first time on a machine they compile the kernels, which takes half a minute"
_ROUND = re.compile(r"[\w-]+(\+[\w-]+)*:[\w-]+(\+[\w-]+)*")


@dataclass(frozen=True)
class Job:
    """Everything has a default but the data. A study of the same name goes on where it stopped."""

    data: str
    """A prepared folder, a file that `prepare` reads, a known set or 'demo'."""
    space: str | Space | Distributions | Define | None = None
    """A space or its name, Optuna's distributions by parameter, or a function that asks an Optuna trial for values;
    None: the data's own, or 'default'."""
    study: str | None = None
    """None: named after the data and the space."""
    trials: int | None = None
    timeout: float | None = None
    patience: int | None = None
    metric: Metric = "accuracy"
    cost: Cost = "cpu"
    third: Third = "none"
    folds: int = 0
    splits: str = ""
    """Which splits to train on and which to score on, as in 'train+validation:test'; see `Settings`."""
    trace: bool = False
    """Keep the theorem's terms along every training."""
    repeats: int = 1
    sampler: Sampler = "auto"
    enqueue: Sequence[Mapping[str, Any]] = ()
    early_stop: bool = True
    confirm: int = 5
    seed: int = 0
    workers: int | None = None
    """None: as many as there are CPUs; 0: trials run in this process."""
    cpus: int = 1
    """Of each worker."""
    trial_timeout: float | None = None
    ray_address: str | None = None
    storage: str | None = None
    tracking: bool = True
    """Whether MLflow gets the study."""
    tracking_uri: str | None = None
    """An MLflow server or database; None: a database in the home folder."""
    label: str | None = None
    rows: int = DEMO_ROWS
    home: Path = HOME

    def __post_init__(self) -> None:
        for name, value, known in (
            ("metric", self.metric, Metric),
            ("cost", self.cost, Cost),
            ("third", self.third, Third),
            ("sampler", self.sampler, Sampler),
        ):
            if value not in get_args(known):
                raise StudyError(f"{name}={value!r} is none of {', '.join(get_args(known))}")
        for name, number, least in (
            ("trials", self.trials, 1),
            ("repeats", self.repeats, 1),
            ("confirm", self.confirm, 0),
            ("workers", self.workers, 0),
            ("cpus", self.cpus, 1),
            ("seed", self.seed, 0),
        ):
            if number is not None and number < least:
                raise StudyError(f"{name}={number} must be at least {least}")
        given = isinstance(self.space, dict) and all(isinstance(one, BaseDistribution) for one in self.space.values())
        if not (self.space is None or given or isinstance(self.space, str | Space) or callable(self.space)):
            raise StudyError(f"space={self.space!r} is neither a space nor the name of one nor a function")
        if self.splits and (self.folds or not all(map(_ROUND.fullmatch, self.splits.split(",")))):
            raise StudyError(f"splits={self.splits!r}: write 'train+validation:test', and no folds beside it")
        address(self.tracking_uri, self.home)  # says what is wrong with it before anything begins
        if self.folds < 0 or self.folds == 1:
            raise StudyError(f"--folds {self.folds}: take 2 or more, or leave it out for a validation split")
        if self.workers == 0 and (self.ray_address or self.trial_timeout):
            raise StudyError(
                "--workers 0 runs trials in this process: it goes with neither --ray-address nor --trial-timeout"
            )

    @property
    def limits(self) -> Limits:
        unlimited = self.trials is None and self.timeout is None and self.patience is None and self.sampler != "grid"
        return Limits(TRIALS if unlimited else self.trials, self.timeout, self.patience)

    @property
    def environment(self) -> dict[str, str]:
        """What will be kept of where it runs."""
        facts = {"ray": self.ray_address or "this machine", WHERE: self.where}
        facts |= {} if self.workers is None else {"workers": str(self.workers)}
        facts |= {LABEL: self.label} if self.label else {}
        facts |= {ROWS: str(self.rows)} if self.data == DEMO else {}
        facts |= {TRACKING: address(self.tracking_uri, self.home).shown} if self.tracking_uri else {}
        facts |= {PLACE: os.path.abspath(self.data)} if self.data != DEMO and os.path.exists(self.data) else {}
        return environment() | facts

    @property
    def where(self) -> str:
        """How another command is told where the study is, beside its name."""
        words = ["--home", str(self.home)] if self.home != HOME else []
        return shlex.join(words + (["--storage", shown_url(self.storage)] if self.storage else []))


@dataclass(frozen=True)
class Ready:
    """A job whose data is prepared and whose space is known: what cannot work has been said by now."""

    job: Job
    study: str
    settings: Settings
    data: PreparedData
    space: Distributions | Define

    def run(self, watcher: Watcher | None = None) -> Outcome:
        """Searches until the job's limits are reached, then confirms the front. MLflow follows in the background."""
        job, watcher = self.job, watcher or Watcher()
        if not job.tracking:
            return self._tune(watcher, job.environment, lambda: None)
        where = address(job.tracking_uri, job.home)
        sender = Background(self.study, job.home, job.storage, where, watcher.tracking_away)
        with sender:
            outcome = self._tune(watcher, job.environment | {TRACKING: where.shown}, sender.start)
            trials, interrupted = outcome.progress.done, outcome.interrupted
            return replace(outcome, tracked=sender.finish(trials, interrupted=interrupted, report=watcher.tracking))

    def _tune(self, watcher: Watcher, environment: dict[str, str], begin: Callable[[], None]) -> Outcome:
        """begin: called when the study is ours."""
        job = self.job

        def backend() -> Backend:
            begin()
            return _backend(job, self.data, self.settings.read, watcher.note)

        return tune(
            self.study,
            self.settings,
            self.space,
            backend,
            plan=Plan(job.limits, job.sampler, job.early_stop, job.confirm, job.enqueue, environment),
            home=job.home,
            storage=job.storage,
            watcher=watcher,
        )


def run(job: Job, watcher: Watcher | None = None) -> Outcome:
    return ready(job).run(watcher)


def ready(job: Job, report: Progress = lambda stage, done, total: None) -> Ready:
    """Prepares the data if need be. `report` hears of it."""
    data = open_data(job.data, job.home, report, label=job.label, rows=job.rows, folds=job.folds)
    usual = default_space(job.data)
    space = load(job.space or usual) if job.space is None or isinstance(job.space, str) else job.space
    named = space.name if isinstance(space, Space) else getattr(space, "__name__", "given")
    settings = Settings(
        data=job.data,
        fingerprint=data.manifest.fingerprint,
        space=named,
        metric=job.metric,
        cost=job.cost,
        third=job.third,
        folds=job.folds,
        repeats=job.repeats,
        seed=job.seed,
        splits=job.splits,
        trace=job.trace,
    )
    check_splits(job.data, data, settings)
    searched = space.distributions(facts_of(space, job.data, data, settings)) if isinstance(space, Space) else space
    study = _named(job.data, named, usual) if job.study is None else job.study
    return Ready(job, study, settings, data, searched)


def _backend(job: Job, data: PreparedData, read: frozenset[str], note: Callable[[str], None]) -> Backend:
    """read: the splits that trials see."""
    from workflows.workplace import Workplace

    workplace = Workplace.of(data, read)
    if job.workers == 0:
        from workflows.backends.in_process import InProcess

        note("compiling the kernels (once per machine)")
        trial = workplace.open()
        if trial is None:
            raise StudyError(f"--workers 0 needs data on this machine, not in {data.folder.name}")
        return InProcess(trial)
    from workflows.cluster import connected

    if not connected():
        where = "starting Ray on this machine"
        note(where if job.ray_address is None else f"joining the Ray cluster at {job.ray_address}")
    joined = join_ray(job.ray_address, job.workers, job.cpus)
    from workflows.backends.ray_actors import RayActors  # now that Ray may be imported

    if joined:
        note(f"workers are starting; {COMPILING}")
    return RayActors(
        workplace, workers=job.workers, cpus=job.cpus, trial_timeout=job.trial_timeout, leave=joined, note=note
    )


def join_ray(address: str | None, workers: int | None = None, cpus: int = 1) -> bool:
    """Joins the cluster, or starts Ray on this machine with room for so many workers; False if it is there already. Who
    does so before several studies keeps it for all of them."""
    from workflows.cluster import connect

    asked_to_end = signal.getsignal(signal.SIGTERM)
    joined = connect(address, (workers or max(cores() // cpus, 1)) * cpus)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, asked_to_end)  # Ray puts its own in the place of ours
    return joined


def study_name(data: str, space: str | None) -> str:
    """What a study on this data is called if it is not given a name."""
    usual = default_space(data)
    return _named(data, load(space).name if space and Path(space).exists() else space or usual, usual)


def _named(data: str, space: str, usual: str) -> str:
    """After its data, and after its space if that is not the usual one."""
    stem = _word(Path(data.rstrip("/")).name.partition(".")[0]).lstrip("-") or "study"
    return stem if space == usual else f"{stem}-{_word(Path(space).stem)}"


def _word(text: str) -> str:
    letters = (letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in text)
    return "".join(letters)
