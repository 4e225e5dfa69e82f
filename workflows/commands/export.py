"""`mmbsgd export`: a model of the front becomes files that run elsewhere."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from workflows.commands.console import HOME, Home, Storage, console, progress, say_next, tracking_uri, where_options
from workflows.commands.sync import address_of, bring, looked_up
from workflows.errors import ExportError, TrackingError
from workflows.records import Keep, Pick

if TYPE_CHECKING:
    from workflows.export.exporting import Exported
    from workflows.study.snapshot import Snapshot
    from workflows.tracking.address import Address


def export(
    study: Annotated[str, typer.Argument(help="The study's name.")],
    pick: Annotated[Pick | None, typer.Option(help="Which model of the front.", show_default="knee")] = None,
    trial: Annotated[int | None, typer.Option(help="This trial's model.", min=0)] = None,
    min_accuracy: Annotated[
        float | None, typer.Option(help="The cheapest model that reaches it, such as 0.9.", min=0.0, max=1.0)
    ] = None,
    max_seconds: Annotated[float | None, typer.Option(help="The most accurate that trains in so long.", min=0)] = None,
    max_budget: Annotated[int | None, typer.Option(help="… with at most so many support vectors.", min=1)] = None,
    max_latency_us: Annotated[
        float | None, typer.Option(help="… that predicts in so many microseconds per row of a batch.", min=0)
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", help="Comma-separated, of: native, onnx, libsvm, mlflow, c.")
    ] = "native,onnx",
    out: Annotated[Path | None, typer.Option(help="The folder for the files.", show_default="STUDY-model")] = None,
    seeds: Annotated[int, typer.Option(help="Refits on training and validation rows.", min=1)] = 5,
    keep: Annotated[
        Keep,
        typer.Option(help="Which refit; best-validation trains without the validation rows and lets them judge."),
    ] = "median",
    again: Annotated[
        bool, typer.Option("--again", help="Use the test rows though another model had its turn.")
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an export of the same name.")] = False,
    register: Annotated[
        str | None, typer.Option(help="Register the model in MLflow under this name (needs --format mlflow).")
    ] = None,
    alias: Annotated[str | None, typer.Option(help="The alias to give it there, such as champion.")] = None,
    mlflow: Annotated[str | None, tracking_uri("where the study was tracked")] = None,
    storage: Storage = None,
    home: Home = HOME,
) -> None:
    """Choose a model of the front, train it on all but the test rows, test it once, and write it for deployment."""
    from workflows.export.choice import Limits
    from workflows.export.exporting import Request, formats_of
    from workflows.export.exporting import export as write
    from workflows.export.publishing import check_names

    request = Request(
        out=out or Path(f"{study}-model"),
        formats=formats_of(formats),
        pick=pick,
        trial=trial,
        limits=Limits(min_accuracy, max_seconds, max_budget, max_latency_us),
        keep=keep,
        seeds=seeds,
        again=again,
        replace=replace,
    )
    if (register is not None or alias is not None) and "mlflow" not in request.formats:
        raise ExportError("--register and --alias need --format mlflow")
    if alias is not None and register is None:
        raise ExportError("--alias needs a name to belong to: --register NAME")
    check_names(register, alias)
    seen = looked_up(study, home, storage)
    where = address_of(seen, mlflow, home) if _is_published(seen, request.formats, register, mlflow) else None
    with progress() as report:
        exported = write(seen, home, storage, request, report)
    _tell(exported, seen)
    if where is not None:
        _publish(exported, seen, where, home, storage, register, alias)
    options = where_options(home, storage)
    first = next(iter(exported.files.values()))[0]
    say_next(
        (f"mmbsgd predict {request.out / first} DATA", "labels for new rows"),
        *([(f"mmbsgd ui {study}{options}", "the model in MLflow")] if where is not None else []),
    )


def _is_published(seen: "Snapshot", formats: Sequence[str], register: str | None, uri: str | None) -> bool:
    """A study that is not tracked stays so, unless somebody asks for it."""
    from workflows.study.snapshot import TRACKING

    return "mlflow" in formats and bool(register or uri or TRACKING in seen.environment)


def _tell(exported: "Exported", seen: "Snapshot") -> None:
    from workflows.export.check import summary
    from workflows.export.choice import described

    choice, settings = exported.choice, seen.settings
    lines = [
        f"[bold]{escape(described(choice.member, settings))}[/bold]",
        f"Chosen as {escape(choice.why)}.",
    ]
    for what, other in (("cheaper", choice.cheaper), ("better", choice.better)):
        if other is not None:
            lines.append(f"[dim]{what}: {escape(described(other, settings))}[/dim]")
    if exported.tested is None:
        lines.append("The data has no test rows: how good it is on new rows was not measured.")
    else:
        times = len(exported.tested.others)
        again = f" (other models were tested too: {times})" if times else ""
        lines.append(f"{settings.metric} on the test rows: {exported.tested.score:.2%}{again}")
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)
    table = Table("format", "file", "size", "one row", "1,000 rows", "difference")
    for name, *figures in summary(exported.checked):
        table.add_row(name, exported.files[name][0], *figures)
    console.print(table)
    console.print(f"All of it and model-card.md are in {escape(str(exported.folder))}.", soft_wrap=True)


def _publish(
    exported: "Exported",
    seen: "Snapshot",
    where: "Address",
    home: Path,
    storage: str | None,
    register: str | None,
    alias: str | None,
) -> None:
    from workflows.export.publishing import log
    from workflows.tracking.store import Away

    again = "run the same command again with --replace when it does"
    try:
        experiment, run = bring(seen, where, home, storage, advice=f"the files are in {exported.folder}; {again}")
        with console.status("Logging the model to MLflow…"):
            version = log(exported, where, experiment, run, register, alias)
    except Away as error:
        raise TrackingError(
            f"the files are in {exported.folder}, but MLflow ({where.shown}) does not answer: {error}; {again}"
        ) from None
    said = f"version {version} of {register}" + (f", alias {alias}" if alias else "") if register else f"run {run}"
    console.print(escape(f"MLflow ({where.shown}) has it: {said}"), soft_wrap=True, highlight=False)
