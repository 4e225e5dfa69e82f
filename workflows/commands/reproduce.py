"""`mmbsgd reproduce`: the paper's experiments, and the page that puts our figures beside its own."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

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
from workflows.errors import StudyError

if TYPE_CHECKING:
    from workflows.reproduction.experiments import Experiment
    from workflows.reproduction.lab import Place, Watch
    from workflows.reproduction.running import Clock
    from workflows.reproduction.sizes import Size
    from workflows.study.job import Ready
    from workflows.study.tuning import Outcome
    from workflows.tracking.afterwards import Afterwards

INTERRUPTED = 130
ALL, PAGE = "all", "page"
NAMES = (
    "datasets",
    "merge-strategies",
    "merge-share",
    "budget-and-mergees",
    "pareto",
    "parameter-study",
    "theorem",
    "strategies",
    "peers",
)
OUT, QUICK_OUT = Path("reproduced"), Path("reproduced-quick")


def reproduce(
    name: Annotated[str, typer.Argument(help=f"{', '.join(NAMES)}; 'all' of them; 'page': only write the page again.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="A look at everything in ten minutes: few rows, small grids, two seeds.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            help="The folder that has the LIBSVM files.", show_default="as MMBSGD_DATA says, else they are downloaded"
        ),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", help="Only this data set; repeatable.", show_default="those of the paper"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where page, pictures and results go.", show_default="reproduced[-quick]")
    ] = None,
    workers: Workers = None,
    ray_address: RayAddress = None,
    storage: NewStorage = None,
    mlflow: NewTracking = None,
    tracking: Annotated[bool, typer.Option("--tracking/--no-tracking", help="Write the studies to MLflow.")] = True,
    home: Home = HOME,
) -> None:
    """Do the paper's experiments again, and write a page with its figures and ours side by side."""
    began = time.monotonic()
    if name not in (*NAMES, ALL, PAGE):
        raise StudyError(f"no experiment {name!r}; there are {', '.join(NAMES)}, and 'all' and 'page'")
    target = out or (QUICK_OUT if quick else OUT)

    # These bring Optuna and matplotlib, which other commands need not wait for.
    from workflows.reproduction.experiments import EXPERIMENTS
    from workflows.reproduction.lab import Place
    from workflows.reproduction.page import write_page
    from workflows.reproduction.sets import SETS
    from workflows.reproduction.sizes import FULL, QUICK
    from workflows.wording import span

    sets = [one.lower() for one in sets or ()]
    if unknown := [one for one in sets if one not in SETS]:
        raise StudyError(f"no data set {', '.join(map(repr, unknown))}; the paper has {', '.join(SETS)}")
    if name != PAGE:
        wanted = list(EXPERIMENTS.values()) if name == ALL else [EXPERIMENTS[name]]
        place = Place(home, workers, None if workers == 0 else ray_address, storage, mlflow)
        _run(wanted, tuple(sets or SETS), QUICK if quick else FULL, data, target, place, tracking)
    page = write_page(target, fresh=None if name == PAGE else ())
    if page is None:
        raise StudyError(
            f"there are no results in {target}: run 'mmbsgd reproduce all{' --quick' if quick else ''}' first, or say "
            "with --quick or --out where they are"
        )
    console.print(f"{escape(str(page))} is written, after {span(time.monotonic() - began)}.", highlight=False)
    if name != PAGE and tracking:
        say_next((f"mmbsgd ui{where_options(home, storage)}", "every study and every trial in MLflow"))


def _run(
    experiments: "list[Experiment]",
    sets: tuple[str, ...],
    size: "Size",
    files: Path | None,
    out: Path,
    place: "Place",
    tracking: bool,
) -> None:
    from workflows.reproduction.lab import Interrupted, Lab
    from workflows.reproduction.running import Clock, check, chosen, run
    from workflows.reproduction.sets import Sets
    from workflows.tracking.address import address
    from workflows.tracking.afterwards import Afterwards

    check(experiments, size, out)
    where = address(place.tracking_uri, place.home)
    with progress() as report:
        data = Sets(size, place.home, files, report)
        for on in dict.fromkeys(on for experiment in experiments for on in chosen(experiment, sets)):
            data.rows(on, "paper")  # what is missing is said before anything is run
    clock = Clock(experiments, size)
    writer = Afterwards(place.home, place.storage, where) if tracking else None
    done = writer.write if writer else lambda study: None
    lab = Lab(size, place, data, watch=_watched(place, clock), done=done, warn=_warn)
    try:
        run(experiments, sets, lab, out, clock, lambda said: console.print(said, style="bold", highlight=False))
    except Interrupted:
        said = "Interrupted. Run the same command again: it goes on where it stopped."
        Console(stderr=True).print(said, soft_wrap=True, highlight=False)
        sys.exit(INTERRUPTED)  # MLflow gets the rest in the background
    if writer is not None:
        _finish(writer, where.shown)


def _watched(place: "Place", clock: "Clock") -> "Watch":
    """Runs a study in view of the user, with a line about it when it has ended."""
    from workflows.cluster import connected
    from workflows.commands.study_view import StudyView
    from workflows.study.job import COMPILING, join_ray
    from workflows.wording import span

    def watch(study: "Ready") -> "Outcome":
        began = time.monotonic()
        view = StudyView(console, study.study, study.settings, study.job.limits)
        with view.shown():
            if place.workers != 0 and not connected():
                view.note(f"starting Ray and its workers; {COMPILING}")
                join_ray(place.ray_address, place.workers)
            outcome = study.run(view)
        said = f"  {study.study}: {outcome.progress.done} trials in {span(time.monotonic() - began)}"
        console.print(f"{said}; about {span(clock.left)} left", highlight=False, soft_wrap=True)
        return outcome

    return watch


def _warn(message: str) -> None:
    console.print(escape(message), style="yellow", soft_wrap=True, highlight=False)


def _finish(writer: "Afterwards", where: str) -> None:
    """Waits for MLflow; Ctrl-C leaves the rest to the process in the background."""
    try:
        with progress() as report:
            complete = writer.finish(lambda done, total: report("writing studies to MLflow", done, total))
    except KeyboardInterrupt:
        _warn("MLflow gets the rest in the background.")
        return
    if not complete:
        said = f"MLflow ({where}) lacks some studies: {writer.reason or 'the process that writes them has died'}"
        _warn(f"{said}. The same command again completes it.")
