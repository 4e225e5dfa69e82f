"""`mmbsgd submit`, `status` and `stop`: studies that a cluster runs by itself."""

import json
import re
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from workflows.commands.console import console, say_next
from workflows.commands.tune import parameters_of, tune
from workflows.data.sources import DEMO
from workflows.errors import ClusterError, StudyError

if TYPE_CHECKING:
    from workflows.jobs import Jobs, Submitted

CLUSTER = "http://127.0.0.1:8265"
Cluster = Annotated[
    str, typer.Option(help="The address of Ray's dashboard, which takes jobs.", envvar="RAY_API_SERVER_ADDRESS")
]
Name = Annotated[
    str | None,
    typer.Argument(help="The job, its study, or how its name begins.", show_default="the latest", metavar="[JOB]"),
]
FAILED = 1
KILLED = 128
"""And the number of the signal."""
RAYS_OWN = re.compile(r"^Running entrypoint for job |INFO job_manager\.py")
MOST_SHOWN = 20


def submit(
    context: typer.Context,
    data: Annotated[str, typer.Argument(help="As for 'tune': small files are sent along, others must be there.")],
    cluster: Cluster = CLUSTER,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Show its log until it ends.")] = True,
) -> None:
    """Let a Ray cluster run 'mmbsgd tune' by itself: this machine may go away. Takes all options of 'tune'."""
    from workflows.jobs import LARGEST_UPLOAD, Jobs, luggage
    from workflows.study.job import study_name

    asked = _as_tune_reads(data, context.args)
    found = luggage([data if data != DEMO else None, asked["space"]])
    words = _renamed(
        [data, *context.args], {each.word: each.place if each.travels else str(each.path) for each in found}
    )
    for each in found:
        if not each.travels:
            size = f"{each.word} is larger than {LARGEST_UPLOAD >> 20} MB and not sent"
            said = f"{size}: the cluster must see it as {each.path}."
            console.print(said, soft_wrap=True, highlight=False, markup=False)
    jobs = Jobs(cluster)
    study = asked["study"] or study_name(data, asked["space"])
    name = jobs.submit(["tune", *words], study, {each.place: each.path for each in found if each.travels})
    where = "" if cluster == CLUSTER else f" --cluster {cluster}"
    console.print(f"Sent to {cluster} as [bold]{name}[/bold].", highlight=False)
    if not follow:
        say_next((f"mmbsgd status {name}{where} --follow", "its log"), (f"mmbsgd stop {name}{where}", "end it"))
        return
    _follow(jobs, name, where)


def status(
    name: Name = None,
    cluster: Cluster = CLUSTER,
    follow: Annotated[bool, typer.Option("--follow", help="Show its log until it ends.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all jobs as JSON.")] = False,
) -> None:
    """Show the studies that were sent to a cluster, or the log of one of them."""
    from workflows.jobs import Jobs

    jobs = Jobs(cluster)
    if as_json:
        listed = jobs.all() if name is None else [jobs.find(name)]
        typer.echo(json.dumps([asdict(job) for job in listed], indent=1))
    elif follow:
        _follow(jobs, jobs.find(name).name, "" if cluster == CLUSTER else f" --cluster {cluster}")
    elif name is None:
        _list(jobs)
    else:
        job = jobs.find(name)
        console.print(jobs.log(job.name).rstrip(), highlight=False, markup=False, soft_wrap=True)
        _end(job)


def stop(name: Name = None, cluster: Cluster = CLUSTER) -> None:
    """End a study that runs on a cluster; sent again, it goes on where it stopped."""
    from workflows.jobs import Jobs

    jobs = Jobs(cluster)
    job = jobs.find(name)
    if job.over:
        raise ClusterError(f"{job.name} has ended already: {job.state.lower()}")
    ended = jobs.stop(job.name)
    if not ended.over:
        raise ClusterError(f"{job.name} was asked to end but has not yet: look again with mmbsgd status {job.name}")
    console.print(f"{job.name} has ended. Sent again, its study goes on where it stopped.", highlight=False)


def _as_tune_reads(data: str, words: list[str]) -> dict[str, Any]:
    """What the cluster's command will make of these words: a mistake is told here, before anything is sent."""
    from search_spaces import load
    from workflows.study.storages import check_name

    one = typer.Typer(add_completion=False)
    one.command()(tune)
    command = typer.main.get_command(one)
    with command.make_context("mmbsgd submit", [*words, "--", data]) as context:
        given = {
            name for name in context.params if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
        }
        asked = dict(context.params)
    for unwanted, option, why in (
        ("ray_address" in given, "--ray-address", "the job runs on the cluster that it is sent to"),
        (asked["workers"] == 0, "--workers 0", "the job runs on the cluster that it is sent to"),
        (asked["as_json"], "--json", "its log is for people; mmbsgd front STUDY --json tells the outcome"),
    ):
        if unwanted:
            raise StudyError(f"{option} is not for submit: {why}")
    for name, option, variable in (
        ("storage", "--storage", "MMBSGD_STORAGE"),
        ("mlflow", "--tracking-uri", "MLFLOW_TRACKING_URI"),
    ):
        if name in given and _holds_password(str(asked[name])):
            raise StudyError(
                f"a password in {option} would be shown to everybody who may look at the cluster's jobs: leave it out, "
                f"and give the cluster a password file (PGPASSFILE), or the whole URL in {variable}"
            )
    if asked["study"]:
        check_name(asked["study"])
    for text in asked["enqueue"] or ():
        parameters_of(text)
    if asked["space"] and not Path(asked["space"]).is_absolute():  # which may be there and not here
        load(asked["space"])
    return asked


def _holds_password(url: str) -> bool:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return bool(make_url(url).password)
    except ArgumentError:
        return False


def _renamed(words: list[str], names: dict[str, str]) -> list[str]:
    for old, new in names.items():
        words = [new if word == old else f"--space={new}" if word == f"--space={old}" else word for word in words]
    return words


def _follow(jobs: "Jobs", name: str, where: str) -> None:
    def show(text: str) -> None:
        sys.stdout.write("".join(line for line in text.splitlines(keepends=True) if not RAYS_OWN.search(line)))
        sys.stdout.flush()

    def away(reason: str) -> None:
        said = f"{reason}. If the cluster is well, the study goes on; its log follows when it can be reached."
        console.print(said, style="yellow", soft_wrap=True, highlight=False, markup=False)

    def leave(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough
        raise KeyboardInterrupt

    console.print("Ctrl-C leaves it running.", style="dim")
    signal.signal(signal.SIGINT, leave)
    try:
        ended = jobs.follow(name, show, away)
    except KeyboardInterrupt:
        console.print()
        say_next((f"mmbsgd status {name}{where} --follow", "its log"), (f"mmbsgd stop {name}{where}", "end it"))
        return
    _end(ended)


def _end(job: "Submitted") -> None:
    """How it ended: the command's exit code is its own."""
    if not job.over or job.state == "SUCCEEDED":
        return
    again = "sent again, its study goes on where it was"
    if job.state == "STOPPED":
        console.print(f"{job.name} was stopped; {again}.", highlight=False)
    elif job.exit_code == 127:
        raise ClusterError("the cluster's head has no command mmbsgd: install the package there, on every node")
    elif job.exit_code is None or job.exit_code < 0 or job.exit_code > KILLED:
        raise ClusterError(f"{job.name} was ended by force; {again} ({job.message})")
    else:
        sys.exit(job.exit_code or FAILED)


def _list(jobs: "Jobs") -> None:
    listed = jobs.all()
    if not listed:
        console.print("No study was sent to this cluster yet.")
        return
    table = Table(box=None, pad_edge=False, expand=True)
    for column in ("job", "state", "took"):
        table.add_column(column, no_wrap=True)
    table.add_column("latest word", overflow="ellipsis", no_wrap=True, ratio=1)
    for job in listed[:MOST_SHOWN]:
        took = f"{(job.ended or time.time()) - job.began:.0f} s" if job.began else ""
        table.add_row(escape(job.name), job.state.lower(), took, escape(_latest_word(jobs, job)))
    console.print(table)


def _latest_word(jobs: "Jobs", job: "Submitted") -> str:
    """What its log says of its progress; if it failed, why."""
    if job.state == "PENDING":
        return job.message
    lines = jobs.log(job.name).splitlines()
    marks = ("Error: ",) if job.state == "FAILED" else ("trials complete", " · ")
    said = [line for line in lines if any(mark in line for mark in marks)]
    return re.sub(r"^\d+ s · ", "", said[-1].strip()) if said else job.message
