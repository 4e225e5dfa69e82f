"""`mmbsgd ui`: MLflow's dashboard, opened on a study."""

import signal
import threading
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from workflows.commands.console import HOME, Home, Storage, console
from workflows.commands.sync import TrackingUri, address_of, bring, looked_up, run_of
from workflows.errors import StudyError, TrackingBusy

if TYPE_CHECKING:
    from workflows.study.snapshot import Snapshot
    from workflows.tracking.address import Address

PORT = 5000


def ui(
    study: Annotated[
        str | None, typer.Argument(help="The study's name.", show_default="the latest one in --home")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="0: any free one.", min=0, max=65535, show_default=f"{PORT}, or a free one")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    storage: Storage = None,
    mlflow: TrackingUri = None,
    home: Home = HOME,
) -> None:
    """Look at a study in MLflow's dashboard: its report, its front, every trial. Ctrl-C ends it."""
    from workflows.tracking.server import Server, free_port

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background was told to ignore it
    seen = looked_up(study or _latest(home), home, storage)
    where = address_of(seen, mlflow, home)
    chosen = 0 if where.server else free_port(port, PORT)
    if port is None and chosen not in (0, PORT):
        console.print(f"Port {PORT} is taken: {chosen} is used instead.", style="yellow", highlight=False)
    if where.server:
        return _show(where.uri, *_completed(seen, where, home, storage), browser)
    if not where.exists:
        _completed(seen, where, home, storage)  # two processes must not make a database at the same time
    with suppress(KeyboardInterrupt), Server(where, chosen, home / "tracking" / "server.log") as server:
        experiment, run = _completed(seen, where, home, storage)
        with console.status("MLflow is starting"):
            server.wait()
        _show(server.url, experiment, run, browser)
        console.print("Ctrl-C ends it.", style="dim")
        server.serve()


def _completed(seen: "Snapshot", where: "Address", home: Path, storage: str | None) -> tuple[str, str]:
    """Experiment and parent run, with everything that the study has so far."""
    try:
        return bring(seen, where, home, storage, patient=False)
    except TrackingBusy:  # the study runs, or its driver has left another process to do so
        console.print("The study is being written to MLflow: reload its page for the rest.", style="yellow")
        return run_of(seen, where)


def _show(url: str, experiment: str, run: str, browser: bool) -> None:
    from workflows.tracking.views import report_page, study_page, trials_page

    page = study_page(url, experiment, run)
    links = {"The study": page, "All trials": trials_page(url, experiment)}
    if run:
        links["Its report"] = report_page(url, experiment, run)
    for name, link in links.items():
        console.print(f"{name + ':':<12} {escape(link)}", soft_wrap=True, highlight=False)
    if browser:
        webbrowser.open(links.get("Its report", page))


def _latest(home: Path) -> str:
    from workflows.study.storages import journals

    found = journals(home)
    if not found:
        raise StudyError(f"no study in {home} yet: make one with 'mmbsgd tune', or name one with --storage")
    return found[-1]
