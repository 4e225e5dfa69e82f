"""`mmbsgd tune`: the main job."""

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from mmbsgd.errors import MmbsgdError
from workflows.commands.console import (
    HOME,
    Home,
    NewStorage,
    NewTracking,
    RayAddress,
    Workers,
    console,
    progress,
    say_next,
    where_options,
)
from workflows.data.sources import DEMO_ROWS
from workflows.errors import StudyError
from workflows.jobs import IN_JOB
from workflows.records import Cost, Metric, Sampler, Third

if TYPE_CHECKING:
    from workflows.study.tuning import Outcome

INTERRUPTED = 130


def tune(
    context: typer.Context,
    data: Annotated[str, typer.Argument(help="A prepared folder, a file that 'prepare' reads, a known set or 'demo'.")],
    space: Annotated[
        str | None,
        typer.Option(help="A search space: a shipped one or a TOML file.", show_default="the data's own, or default"),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(help="Parameter sets to try.", min=1, show_default="100, if nothing else limits the study"),
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Start no trial after so many seconds.", min=0)] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop when so many trials have not enlarged the hypervolume.", min=1)
    ] = None,
    study: Annotated[
        str | None, typer.Option(help="The study's name; one that exists goes on.", show_default="after the data")
    ] = None,
    metric: Annotated[Metric, typer.Option(help="What a good model is.")] = "accuracy",
    cost: Annotated[
        Cost, typer.Option(help="What training costs: CPU seconds, wall seconds or kernel evaluations.")
    ] = "cpu",
    third: Annotated[
        Third,
        typer.Option(help="A third objective: support vectors, or seconds to predict a row. No early stopping then."),
    ] = "none",
    folds: Annotated[
        int, typer.Option(help="Score by K-fold cross-validation.", show_default="a validation split")
    ] = 0,
    repeats: Annotated[int, typer.Option(help="Seeds per trial; objectives are means.", min=1)] = 1,
    sampler: Annotated[
        Sampler, typer.Option(help="auto: TPE, then NSGA-II once asking costs more than a trial.")
    ] = "auto",
    enqueue: Annotated[
        list[str] | None,
        typer.Option(help="Try these parameters first, such as 'C=10 gamma=0.1 budget=100 mergees=3'; repeatable."),
    ] = None,
    early_stop: Annotated[
        bool, typer.Option("--early-stop/--no-early-stop", help="Stop long trials that can only end dominated.")
    ] = True,
    confirm: Annotated[int, typer.Option(help="Runs with fresh seeds of every member of the front.", min=0)] = 5,
    seed: Annotated[
        int, typer.Option(help="The same seed gives the same trials, where the cost is counted work.", min=0)
    ] = 0,
    workers: Workers = None,
    cpus: Annotated[int, typer.Option("--cpus-per-trial", help="CPUs and threads of each worker.", min=1)] = 1,
    trial_timeout: Annotated[
        float | None, typer.Option(help="A trial that takes more seconds is ended and tried again.", min=0)
    ] = None,
    ray_address: RayAddress = None,
    storage: NewStorage = None,
    mlflow: NewTracking = None,
    tracking: Annotated[bool, typer.Option("--tracking/--no-tracking", help="Write the study to MLflow.")] = True,
    label: Annotated[str | None, typer.Option(help="The label column, if DATA is a table not yet prepared.")] = None,
    rows: Annotated[int, typer.Option(help="How many rows of demo data.", min=10)] = DEMO_ROWS,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the outcome as JSON; progress goes to stderr.")
    ] = False,
    home: Home = HOME,
) -> None:
    """Search C, gamma, budget, mergees, epochs and polishing together for the best trade-offs of accuracy and time."""
    began = time.monotonic()

    # These bring Optuna, which other commands need not wait for.
    from workflows.commands.study_view import StudyView
    from workflows.study.job import Job, ready

    job = Job(
        data,
        space=space,
        study=study,
        trials=trials,
        timeout=timeout,
        patience=patience,
        metric=metric,
        cost=cost,
        third=third,
        folds=folds,
        repeats=repeats,
        sampler=sampler,
        enqueue=[parameters_of(text) for text in enqueue or ()],
        early_stop=early_stop,
        confirm=confirm,
        seed=seed,
        workers=workers,
        cpus=cpus,
        trial_timeout=trial_timeout,
        ray_address=None if workers == 0 and _by_environment(context, "ray_address") else ray_address,
        storage=storage,
        tracking=tracking,
        tracking_uri=mlflow,
        label=label,
        rows=rows,
        home=home,
    )
    screen = Console(stderr=True) if as_json else console
    with progress(screen) as report:
        prepared = ready(job, report)
    view = StudyView(screen, prepared.study, prepared.settings, job.limits)
    try:
        with view.shown():
            outcome = prepared.run(view)
    except MmbsgdError as error:
        if not view.interrupted:
            raise
        _interrupted(str(error))
    _report(outcome, as_json, time.monotonic() - began, where_options(home, storage))


def _report(outcome: "Outcome", as_json: bool, seconds: float, where: str) -> None:
    """where: the options that lead to the study."""
    from workflows.commands import front_view

    progress, settings = outcome.progress, outcome.settings
    if as_json:
        typer.echo(json.dumps(front_view.as_json(outcome, seconds), indent=1))
    else:
        title = f"{outcome.study} · {front_view.state(outcome.front)} Pareto front"
        if outcome.front:
            console.print(front_view.front_table(outcome.front, settings, title))
        said = [
            f"{progress.complete} trials complete",
            f"{progress.stopped} stopped early",
            f"{progress.failed} failed",
        ]
        console.print(f"{', '.join(said)} in {seconds:.0f} s; kept in {escape(outcome.where)}", soft_wrap=True)
        for number, reason in progress.failures[:5]:
            console.print(f"[yellow]trial {number} failed:[/yellow] {escape(reason)}", soft_wrap=True)
        tracked = outcome.tracked
        if tracked is not None and tracked.reason:
            has = f"{tracked.done} of {tracked.total} trials" if tracked.done else "nothing of the study yet"
            then = "The rest follows in the background." if tracked.follows else "The rest is kept and can follow."
            lack = f"MLflow ({tracked.where}) has {has}: {tracked.reason}. {then}"
            console.print(escape(lack), style="yellow", soft_wrap=True, highlight=False)
    if outcome.interrupted:
        _interrupted()
    if not outcome.front:
        reasons = "; ".join(dict.fromkeys(reason for _, reason in progress.failures[:3])) or "there was no time"
        raise StudyError(f"no trial of the study {outcome.study!r} was successful: {reasons}")
    if not as_json:
        if IN_JOB in os.environ:
            console.print("Where the cluster keeps its studies (its head, or a driver there):", highlight=False)
        say_next(
            *_dashboard(outcome, where),
            (f"mmbsgd front {outcome.study}{where}", "this front again, with a picture"),
            (f"mmbsgd export {outcome.study}{where}", "the knee of the front, as files for deployment"),
            (f"the same command with --trials {2 * max(progress.done, 50)}", "search on"),
        )


def _dashboard(outcome: "Outcome", where: str) -> list[tuple[str, str]]:
    """How to see the study in MLflow."""
    tracked = outcome.tracked
    if tracked is None:
        return []
    if tracked.reason and not tracked.follows:
        return [(f"mmbsgd sync {outcome.study}{where}", "send MLflow what it lacks")]
    return [(f"mmbsgd ui {outcome.study}{where}", tracked.page or "report, pictures and every trial in MLflow")]


def _interrupted(reason: str = "") -> NoReturn:
    said = (
        f"Interrupted{': ' if reason else ''}{reason}. Run the same command again: the study goes on where it stopped."
    )
    Console(stderr=True).print(escape(said), soft_wrap=True, highlight=False)
    sys.exit(INTERRUPTED)


def _by_environment(context: typer.Context, option: str) -> bool:
    source = context.get_parameter_source(option)
    return source is not None and source.name == "ENVIRONMENT"


def parameters_of(text: str) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for word in text.replace(",", " ").split():
        name, equals, value = word.partition("=")
        if not equals or not value:
            raise StudyError(f"--enqueue {text!r}: write NAME=VALUE, such as 'C=10 gamma=0.1 budget=100 mergees=3'")
        parameters[name] = _plain(value)
    return parameters


def _plain(value: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
