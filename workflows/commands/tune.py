"""`mmbsgd tune`: the main job."""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from workflows.commands.console import HOME, Home, console, progress
from workflows.data.resolve import open_data
from workflows.data.sources import DEMO_ROWS
from workflows.data.workers import cores
from workflows.errors import StudyError
from workflows.records import Cost, Metric, Sampler, Third

if TYPE_CHECKING:
    from workflows.backends import Backend
    from workflows.commands.study_view import StudyView
    from workflows.data import PreparedData
    from workflows.study.tuning import Outcome

TRIALS = 100
INTERRUPTED = 130


def tune(
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
        Third, typer.Option(help="A third objective: support vectors, or seconds to predict a row.")
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
    workers: Annotated[
        int | None,
        typer.Option(help="Trials at the same time; 0: in this process, without Ray.", min=0, show_default="all CPUs"),
    ] = None,
    cpus: Annotated[int, typer.Option("--cpus-per-trial", help="CPUs and threads of each worker.", min=1)] = 1,
    trial_timeout: Annotated[
        float | None, typer.Option(help="A trial that takes more seconds is ended and tried again.", min=0)
    ] = None,
    ray_address: Annotated[
        str | None, typer.Option(help="A Ray cluster: 'auto', HOST:PORT.", show_default="one on this machine")
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            help="sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE.", show_default="a file in --home"
        ),
    ] = None,
    label: Annotated[str | None, typer.Option(help="The label column, if DATA is a table not yet prepared.")] = None,
    rows: Annotated[int, typer.Option(help="How many rows of demo data.", min=10)] = DEMO_ROWS,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the outcome as JSON; progress goes to stderr.")
    ] = False,
    home: Home = HOME,
) -> None:
    """Search C, gamma, budget and mergees together for the best trade-offs between accuracy and training time."""
    began = time.monotonic()
    if folds == 1:
        raise StudyError("--folds 1: take 2 or more, or leave it out for a validation split")
    if workers == 0 and (ray_address or trial_timeout):
        raise StudyError(
            "--workers 0 runs trials in this process: it goes with neither --ray-address nor --trial-timeout"
        )
    with progress() as report:
        prepared = open_data(data, home, report, label=label, rows=rows, folds=folds)

    # These bring Optuna, which other commands need not wait for.
    from search_spaces import load
    from workflows.commands.study_view import StudyView
    from workflows.study.driver import Limits
    from workflows.study.facts import check_splits, default_space, facts_of
    from workflows.study.settings import Settings
    from workflows.study.tuning import Plan
    from workflows.study.tuning import tune as run_study

    chosen = load(space or default_space(data))
    settings = Settings(
        data=data,
        fingerprint=prepared.manifest.fingerprint,
        space=chosen.name,
        metric=metric,
        cost=cost,
        third=third,
        folds=folds,
        repeats=repeats,
        seed=seed,
    )
    check_splits(data, prepared, settings)
    distributions = chosen.distributions(facts_of(chosen, data, prepared, settings))
    if trials is None and timeout is None and patience is None and sampler != "grid":
        trials = TRIALS
    limits = Limits(trials=trials, timeout=timeout, patience=patience)
    plan = Plan(limits, sampler, early_stop, confirm, [_parameters(text, distributions) for text in enqueue or ()])
    name = study or _name(data, chosen.name, default_space(data))
    screen = Console(stderr=True) if as_json else console
    view = StudyView(screen, name, settings, limits)
    with view.shown():
        outcome = run_study(
            name,
            settings,
            distributions,
            lambda: _backend(view, prepared, workers, cpus, trial_timeout, ray_address),
            plan=plan,
            home=home,
            storage=storage,
            watcher=view,
        )
    _report(outcome, as_json, time.monotonic() - began)


def _backend(
    view: "StudyView",
    data: "PreparedData",
    workers: int | None,
    cpus: int,
    trial_timeout: float | None,
    address: str | None,
) -> "Backend":
    from workflows.workplace import Workplace

    if workers == 0:
        from workflows.backends.in_process import InProcess

        view.note("compiling the kernels (once per machine)")
        run = Workplace.of(data).open()
        if run is None:
            raise StudyError(f"--workers 0 needs data on this machine, not in {data.folder.name}")
        return InProcess(run)
    from workflows.cluster import connect

    view.note("starting Ray on this machine" if address is None else f"joining the Ray cluster at {address}")
    connect(address, (workers or max(cores() // cpus, 1)) * cpus)
    from workflows.backends.ray_actors import RayActors

    view.note("workers are starting; the first time on a machine they compile the kernels, which takes half a minute")
    return RayActors(Workplace.of(data), workers=workers, cpus=cpus, trial_timeout=trial_timeout)


def _report(outcome: "Outcome", as_json: bool, seconds: float) -> None:
    from workflows.commands import front_view

    progress, settings = outcome.progress, outcome.settings
    if as_json:
        typer.echo(json.dumps(front_view.as_json(outcome, seconds), indent=1))
    else:
        confirmed = any(member.runs for member in outcome.front)
        title = f"{outcome.study} · {'confirmed' if confirmed else 'unconfirmed'} Pareto front"
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
    if outcome.interrupted:
        Console(stderr=True).print(
            "Interrupted. Run the same command again: the study goes on where it stopped.", soft_wrap=True
        )
        sys.exit(INTERRUPTED)
    if not outcome.front:
        reasons = "; ".join(dict.fromkeys(reason for _, reason in progress.failures[:3])) or "there was no time"
        raise StudyError(f"no trial of the study {outcome.study!r} was successful: {reasons}")
    if not as_json:
        console.print("Next:", highlight=False)
        more = 2 * max(progress.done, TRIALS // 2)
        for command, why in (
            (f"mmbsgd front {outcome.study}", "this front again, with a picture"),
            (front_view.train_command(outcome.front[0], settings), "the most accurate one"),
            (f"mmbsgd tune {settings.data} --trials {more}", "search on"),
        ):
            console.print(f"  {escape(command)}  [dim]# {why}[/dim]", soft_wrap=True, highlight=False)


def _name(data: str, space: str, default: str) -> str:
    """A study's name after its data, and after its space if that is not the usual one."""
    stem = _word(Path(data.rstrip("/")).name.partition(".")[0]) or "study"
    return stem if space == default else f"{stem}-{_word(Path(space).stem)}"


def _word(text: str) -> str:
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in text)


def _parameters(text: str, space: dict[str, Any]) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for word in text.replace(",", " ").split():
        name, equals, value = word.partition("=")
        if not equals or name not in space:
            raise StudyError(f"--enqueue {text!r}: write NAME=VALUE for {', '.join(space)}")
        parameters[name] = _plain(value)
    return parameters


def _plain(value: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
