"""`mmbsgd sync`: completes in MLflow what is missing of a study."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from workflows.commands.console import HOME, Home, Storage, console, progress, say_next, tracking_uri, where_options
from workflows.errors import StudyError, TrackingError

if TYPE_CHECKING:
    from workflows.study.snapshot import Snapshot
    from workflows.tracking.address import Address

SECONDS_OF_SILENCE = 60.0
TrackingUri = Annotated[str | None, tracking_uri("where the study was tracked")]


def sync(
    study: Annotated[str, typer.Argument(help="The study's name.")],
    storage: Storage = None,
    mlflow: TrackingUri = None,
    home: Home = HOME,
) -> None:
    """Write to MLflow what it lacks of a study: trials, front, pictures. Nothing is written twice."""
    seen = looked_up(study, home, storage)
    where = address_of(seen, mlflow, home)
    _, run = bring(seen, where, home, storage)
    console.print(
        f"MLflow ({escape(where.shown)}) has all {len(seen.trials)} trials of {study}: run {run}",
        soft_wrap=True,
        highlight=False,
    )
    say_next((f"mmbsgd ui {study}{where_options(home, storage)}", "look at it"))


def looked_up(study: str, home: Path, storage: str | None) -> "Snapshot":
    from workflows.study.snapshot import snapshot
    from workflows.study.tuning import looked_at

    with looked_at(study, home, storage) as ledger:
        return snapshot(ledger, study)


def address_of(seen: "Snapshot", uri: str | None, home: Path) -> "Address":
    """Where the study is tracked: as asked for, or as it was when it ran."""
    from workflows.study.snapshot import TRACKING
    from workflows.tracking.address import address

    kept = seen.environment.get(TRACKING)
    if uri is None and kept is not None and "***" in kept:
        raise TrackingError(f"the study is tracked at {kept}: say --tracking-uri with the password")
    return address(uri or kept, home)


def bring(
    seen: "Snapshot",
    where: "Address",
    home: Path,
    storage: str | None,
    *,
    patient: bool = True,
    advice: str = "run the same command again when it does: nothing is lost",
) -> tuple[str, str]:
    """Completes the study's runs; returns the numbers of its experiment and of its parent run.

    patient: while another process writes the study, it is waited for.
    """
    from workflows.tracking.lock import held, patience
    from workflows.tracking.sender import LONGEST_WAIT, Sender
    from workflows.tracking.store import Away

    if not seen.trials:
        raise StudyError(f"the study {seen.study!r} has no trial yet")
    sender = Sender(seen.study, home, storage, where)
    wait = patience(LONGEST_WAIT if patient else 0.0)
    try:
        with progress() as report, held(home, seen.study, wait=wait):
            report("writing to MLflow", 0, len(seen.trials))
            seen = sender.look() or seen  # much may have happened while another process was at work
            sender.finish(seen, _status(seen), lambda done, total: report("writing to MLflow", done, total))
    except Away as error:
        raise TrackingError(f"MLflow ({where.shown}) does not answer: {error}; {advice}") from None
    except OSError as error:
        raise TrackingError(f"cannot write the study's report: {error.strerror}: {error.filename}") from None
    return sender.run


def _status(seen: "Snapshot") -> str:
    """Of a study whose driver is not here; one that says it runs, and has not done so for a while, has died."""
    from workflows.study.snapshot import INTERRUPTED, RUNNING

    if seen.state == RUNNING and time.time() - seen.trials[-1].ended < SECONDS_OF_SILENCE:
        return "RUNNING"
    return "KILLED" if seen.state in (RUNNING, INTERRUPTED) or seen.running else "FINISHED"


def run_of(seen: "Snapshot", where: "Address") -> tuple[str, str]:
    """Experiment and parent run as they are; no run yet: an empty one."""
    from workflows.tracking.store import Away, Store
    from workflows.tracking.sync import experiment_name

    try:
        store = Store(where)
        experiment = store.experiment(experiment_name(seen.study))
        parents, _ = store.runs(experiment, seen.identity)
    except Away as error:
        raise TrackingError(f"MLflow ({where.shown}) does not answer: {error}") from None
    return experiment, parents[0].id if parents else ""
