"""`mmbsgd export`: a model of the front becomes files that run elsewhere."""

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
        float | None, typer.Option(help="… that predicts a row in so many microseconds.", min=0)
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
    if (register or alias) and "mlflow" not in request.formats:
        raise ExportError("--register and --alias need --format mlflow")
    if alias and not register:
        raise ExportError("--alias needs a name to belong to: --register NAME")
    seen = looked_up(study, home, storage)
    with progress() as report:
        exported = write(seen, home, storage, request, report)
    _tell(exported, seen)
    if "mlflow" in request.formats:
        _publish(exported, seen, mlflow, home, storage, register, alias)
    where = where_options(home, storage)
    first = next(iter(exported.files.values()))[0]
    say_next(
        (f"mmbsgd predict {request.out / first} DATA", "labels for new rows"),
        *([(f"mmbsgd ui {study}{where}", "the model in MLflow")] if "mlflow" in request.formats else []),
    )


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
        times = len(exported.tested.earlier)
        again = f" (they were used {'once' if times == 1 else f'{times} times'} before)" if times else ""
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
    uri: str | None,
    home: Path,
    storage: str | None,
    register: str | None,
    alias: str | None,
) -> None:
    from workflows.export.publishing import log
    from workflows.tracking.store import Away

    where = address_of(seen, uri, home)
    experiment, run = bring(seen, where, home, storage)
    try:
        with console.status("Logging the model to MLflow…"):
            version = log(exported, where, experiment, run, register, alias)
    except Away as error:
        raise TrackingError(
            f"the files are in {exported.folder}, but MLflow ({where.shown}) does not answer: {error}; run the same "
            "command again with --replace when it does"
        ) from None
    said = f"version {version} of {register}" + (f", alias {alias}" if alias else "") if register else f"run {run}"
    console.print(escape(f"MLflow ({where.shown}) has it: {said}"), soft_wrap=True, highlight=False)
