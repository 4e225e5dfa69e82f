"""What all subcommands show in the same way: progress, and where studies and data live."""

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

console = Console()

HOME = Path("mmbsgd-home")
HOME_VARIABLE, STORAGE_VARIABLE = "MMBSGD_HOME", "MMBSGD_STORAGE"
"""What a cluster's image sets, so that the same commands work there without options."""
Home = Annotated[Path, typer.Option(help="The folder that holds everything mmbsgd keeps.", envvar=HOME_VARIABLE)]


def storage_option(text: str) -> Any:
    return typer.Option("--storage", help=text, envvar=STORAGE_VARIABLE, show_default="a file in --home")


Storage = Annotated[str | None, storage_option("The database that holds it.")]


def tracking_uri(default: str) -> Any:
    """The option that says where MLflow is."""
    return typer.Option(
        "--tracking-uri",
        help="An MLflow server or database: http://HOST:PORT, sqlite:///FILE, postgresql+psycopg://….",
        envvar="MLFLOW_TRACKING_URI",
        show_default=default,
        show_envvar=True,
    )


Workers = Annotated[
    int | None,
    typer.Option(help="Trials at the same time; 0: in this process, without Ray.", min=0, show_default="all CPUs"),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        help="A Ray cluster: 'auto', HOST:PORT, ray://HOST:PORT.",
        envvar="RAY_ADDRESS",
        show_default="one on this machine",
    ),
]
NewStorage = Annotated[
    str | None, storage_option("sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE.")
]
NewTracking = Annotated[str | None, tracking_uri("a database in --home")]
"""Of studies that may be begun."""


def where_options(home: Path, storage: str | None = None) -> str:
    """The options that lead to a study, as far as the environment does not."""
    words = [] if str(home) == os.environ.get(HOME_VARIABLE, str(HOME)) else ["--home", str(home)]
    if storage is not None and storage != os.environ.get(STORAGE_VARIABLE):
        from workflows.study.storages import shown_url

        words += ["--storage", shown_url(storage)]
    return " " + shlex.join(words) if words else ""


def say_next(*commands: tuple[str, str]) -> None:
    """What to do now: commands, and what they are for."""
    console.print("Next:", highlight=False)
    for command, why in commands:
        if command.startswith("mmbsgd "):
            command = _program() + command.removeprefix("mmbsgd")
        console.print(f"  {escape(command)}  [dim]# {escape(why)}[/dim]", soft_wrap=True, highlight=False)


def _program() -> str:
    """How this command is called from here: its name, or the way to it where it is not on the path."""
    path = Path(sys.argv[0])
    return "mmbsgd" if shutil.which("mmbsgd") or path.name != "mmbsgd" else os.path.relpath(path)


@contextmanager
def progress(screen: Console = console) -> Iterator[Callable[[str, float, float], None]]:
    """A function (stage, done, total) that draws one bar per stage; bars vanish when the work is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bars:
        stages: dict[str, TaskID] = {}

        def report(stage: str, done: float, total: float) -> None:
            if stage not in stages:
                stages[stage] = bars.add_task(stage)
            bars.update(stages[stage], completed=done, total=total)

        yield report
