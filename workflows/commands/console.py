"""What all subcommands show in the same way: progress, and where studies and data live."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

console = Console()

Home = Annotated[Path, typer.Option(help="The folder that holds everything mmbsgd keeps.")]
HOME = Path("mmbsgd-home")
Storage = Annotated[str | None, typer.Option(help="The database that holds it.", show_default="a file in --home")]


def tracking_uri(default: str) -> Any:
    """The option that says where MLflow is."""
    return typer.Option(
        "--tracking-uri",
        help="An MLflow server or database: http://HOST:PORT, sqlite:///FILE, postgresql+psycopg://….",
        envvar="MLFLOW_TRACKING_URI",
        show_default=default,
        show_envvar=True,
    )


@contextmanager
def progress(screen: Console = console) -> Iterator[Callable[[str, float, float], None]]:
    """A function (stage, done, total) that draws one bar per stage; bars vanish when the work is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True) as bars:
        stages: dict[str, TaskID] = {}

        def report(stage: str, done: float, total: float) -> None:
            if stage not in stages:
                stages[stage] = bars.add_task(stage)
            bars.update(stages[stage], completed=done, total=total)

        yield report
