"""The `mmbsgd` command: subcommands come together here, and mistakes become messages."""

import signal
import sys
import threading
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from mmbsgd._version import __version__
from mmbsgd.errors import MmbsgdError
from workflows.commands import data
from workflows.commands.console import console
from workflows.commands.export import export
from workflows.commands.front import front
from workflows.commands.predict import predict
from workflows.commands.reproduce import reproduce
from workflows.commands.spaces import spaces
from workflows.commands.submit import status, stop, submit
from workflows.commands.sync import sync
from workflows.commands.train import train
from workflows.commands.tune import tune
from workflows.commands.ui import ui

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich")


def _show_version(wanted: bool) -> None:
    if wanted:
        console.print(f"mmbsgd {__version__}")
        raise typer.Exit


@app.callback()
def _command(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Train kernel SVMs on a budget, and find which budget is worth its time."""


app.command(
    epilog="Examples:\n\n  mmbsgd tune demo\n\n  mmbsgd tune measurements.parquet --label fault --timeout 600\n\n"
    "  mmbsgd tune adult --trials 500 --ray-address 10.0.0.1:6379 --storage postgresql+psycopg://me@db/studies\n\n"
    "The same command again goes on with the same study."
)(tune)
app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Examples:\n\n  mmbsgd submit demo --trials 200\n\n"
    "  mmbsgd submit measurements.parquet --label fault --cluster http://10.0.0.1:8265\n\n"
    "  mmbsgd submit /data/adult --study adult --no-follow\n\nThe same command again goes on with the same study.",
)(submit)
app.command(epilog="Examples:\n\n  mmbsgd status\n\n  mmbsgd status adult --follow")(status)
app.command(epilog="Examples:\n\n  mmbsgd stop\n\n  mmbsgd stop adult")(stop)
app.command(
    epilog="Examples:\n\n  mmbsgd front demo\n\n  mmbsgd front demo --html report.html\n\n  mmbsgd front demo --json"
)(front)
app.command(
    epilog="Examples:\n\n  mmbsgd export demo\n\n"
    "  mmbsgd export demo --min-accuracy 0.9 --format native,onnx,c --out board-model\n\n"
    "  mmbsgd export demo --pick most-accurate --format mlflow --register board --alias champion"
)(export)
app.command(
    epilog="Examples:\n\n  mmbsgd predict demo-model/model.arrow new.csv --out labels.csv\n\n"
    "  mmbsgd predict model.onnx new.parquet --scores --label fault --out labels.parquet\n\n"
    "  mmbsgd predict model.arrow measurements --split test | head"
)(predict)
app.command(
    epilog="Examples:\n\n  mmbsgd ui\n\n  mmbsgd ui adult --port 8080\n\n"
    "  mmbsgd ui adult --tracking-uri http://mlflow.example.org:5000"
)(ui)
app.command(
    epilog="Examples:\n\n  mmbsgd sync demo\n\n  mmbsgd sync adult --tracking-uri http://mlflow.example.org:5000"
)(sync)
app.command(
    epilog="Examples:\n\n  mmbsgd prepare measurements.parquet --label fault --scale standard --out measurements\n\n"
    "  mmbsgd prepare a9a.bz2 --test a9a.t.bz2 --out adult\n\n"
    "  mmbsgd prepare demo --rows 1000000 --out s3://bucket/board"
)(data.prepare)
app.add_typer(data.app, name="data")
app.command(
    epilog="Examples:\n\n  mmbsgd train demo\n\n  mmbsgd train demo --rows 500000 --budget 400 --mergees 3\n\n"
    "  mmbsgd train measurements --C 10 --gamma scale --budget 100 --out model.arrow"
)(train)
app.command(
    epilog="Examples:\n\n  mmbsgd spaces\n\n  mmbsgd spaces paper-grid\n\n  mmbsgd spaces default --toml > mine.toml"
)(spaces)

app.command(
    epilog="Examples:\n\n  mmbsgd reproduce all --quick\n\n  mmbsgd reproduce pareto --data ~/libsvm\n\n"
    "  mmbsgd reproduce peers --set adult --ray-address 10.0.0.1:6379\n\nThe same command again goes on."
)(reproduce)


def main() -> None:
    """The command's entry: a user's mistake is a message and exit code 2, a bug keeps its traceback."""
    if threading.current_thread() is threading.main_thread():
        for ending in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(ending, lambda number, _: sys.exit(128 + number))  # so that what was begun is cleared away
    try:
        app()
    except MmbsgdError as error:
        _say(str(error))
        sys.exit(2)
    except MemoryError as error:
        _say(f"not enough memory: {error}; ask for less")
        sys.exit(2)


def _say(message: str) -> None:
    Console(stderr=True).print(f"[bold red]Error:[/bold red] {escape(message)}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
