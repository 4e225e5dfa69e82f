"""`mmbsgd prepare` and `mmbsgd data`: from what a user has to partitions that training maps into memory."""

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from mmbsgd.scaling import Method
from workflows.commands.console import HOME, Home, console, progress
from workflows.data import PreparedData, Request
from workflows.data import prepare as run
from workflows.data.known import FOLDER_VARIABLE, KNOWN, known_set, request
from workflows.data.manifest import FILE, Manifest
from workflows.data.places import place
from workflows.data.request import LayoutChoice
from workflows.data.sources import DEMO_ROWS, Kind

app = typer.Typer(no_args_is_help=True, help="Known data sets, and what is in a prepared one.")


def prepare(
    source: Annotated[
        str, typer.Argument(help="A LIBSVM, CSV, TSV or Parquet file or URI, a folder of Parquet files, or 'demo'.")
    ],
    out: Annotated[str, typer.Option(help="The folder or URI to write.")],
    label: Annotated[str | None, typer.Option(help="The column that holds the label.", show_default="label")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be given several times.")] = None,
    classes: Annotated[
        str | None, typer.Option(help="Keep the rows of two labels: NEGATIVE,POSITIVE.", show_default=False)
    ] = None,
    test: Annotated[str | None, typer.Option(help="A separate file with test rows.")] = None,
    test_size: Annotated[float, typer.Option(help="Without a test file: share or number of test rows.", min=0)] = 0.2,
    validation_size: Annotated[
        float, typer.Option(help="Share of the other rows, or number of rows, for validation.", min=0)
    ] = 0.2,
    folds: Annotated[int, typer.Option(help="K folds instead of one validation split.", min=0)] = 0,
    scale: Annotated[Method, typer.Option(help="Learnt from the training rows alone.")] = "none",
    layout: Annotated[LayoutChoice, typer.Option(help="How rows are stored.")] = "auto",
    format: Annotated[Kind | None, typer.Option(help="What the source is, if its name does not tell.")] = None,
    rows_per_partition: Annotated[
        int | None, typer.Option(help="Rows per Arrow file.", show_default="what makes 32 MB", min=1)
    ] = None,
    width: Annotated[int | None, typer.Option(help="Features, if the file shows fewer.", min=1)] = None,
    rows: Annotated[int, typer.Option(help="How many rows of demo data.", min=10)] = DEMO_ROWS,
    seed: Annotated[int, typer.Option(help="The same seed gives the same partitions.", min=0)] = 0,
    workers: Annotated[
        int | None, typer.Option(help="Threads that read and write.", show_default="all cores", min=1)
    ] = None,
    ray_address: Annotated[
        str | None, typer.Option(help="Read and write as tasks on this Ray cluster; all nodes must see --out.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a prepared folder.")] = False,
) -> None:
    """Turn a table or LIBSVM file into shuffled Arrow partitions with a manifest."""
    wanted = tuple(part.strip() for part in classes.split(",")) if classes else ()
    with progress() as report:
        manifest = run(
            Request(
                source=source,
                out=out,
                test=test,
                kind=format,
                label=label,
                dropped=tuple(drop or ()),
                classes=wanted,
                scale=scale,
                layout=layout,
                rows_per_partition=rows_per_partition,
                test_size=test_size,
                validation_size=validation_size,
                folds=folds,
                width=width,
                rows=rows,
                seed=seed,
                workers=workers,
                ray_address=ray_address,
                replace=replace,
            ),
            report,
        )
    console.print(_overview(out, manifest))


@app.command("list")
def list_() -> None:
    """The paper's data sets: sizes, features, and the C and gamma that the paper tuned."""
    table = Table(title="Known data sets", title_justify="left")
    for heading in ("name", "train", "test", "features", "C", "gamma", "note"):
        table.add_column(heading, justify="left" if heading in ("name", "note") else "right")
    for known in KNOWN.values():
        table.add_row(
            known.name,
            f"{known.rows:,}",
            f"{known.test_rows:,}",
            f"{known.width}",
            f"{known.c:g}",
            f"{known.gamma:g}",
            known.note,
        )
    console.print(table)
    console.print(
        f"[dim]Get one with 'mmbsgd data get NAME'; files come from the folder in {FOLDER_VARIABLE}, else from the "
        "LIBSVM collection.[/dim]"
    )


@app.command(epilog="Examples:\n\n  mmbsgd data get adult\n\n  MMBSGD_DATA=~/libsvm mmbsgd data get skin --out skin")
def get(
    name: Annotated[str, typer.Argument(help=", ".join(KNOWN))],
    out: Annotated[str | None, typer.Option(help="The folder to write.", show_default="HOME/data/NAME")] = None,
    validation_size: Annotated[
        float, typer.Option(help="Share of the training rows, or number of rows, for validation.", min=0)
    ] = 0.2,
    seed: Annotated[int, typer.Option(help="Of the splits.", min=0)] = 0,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a prepared folder.")] = False,
    home: Home = HOME,
) -> None:
    """Find or download a known data set and prepare it."""
    known = known_set(name)
    target = out or str(home / "data" / name)
    if not replace and place(target).child(FILE).is_file():
        console.print(_overview(target, PreparedData.open(target).manifest))
        console.print("It is here already; --replace prepares it again.")
        return
    with progress() as report:
        wanted = request(
            known,
            target,
            home / "downloads",
            report,
            validation_size=validation_size,
            seed=seed,
            replace=replace,
            width=known.width,
        )
        manifest = run(wanted, report)
    console.print(_overview(target, manifest))
    expected = known.rows + known.test_rows
    if manifest.rows != expected:
        console.print(
            f"[bold yellow]Beware:[/bold yellow] {manifest.rows:,} rows instead of {expected:,}: the files are not "
            "those of the paper, or were cut off.",
            soft_wrap=True,
        )
    shown = escape(place(target).name)
    console.print(
        f"Train as the paper does: mmbsgd train {shown} --C {known.c:g} --gamma {known.gamma:g} "
        "--on train,validation --score-on test",
        soft_wrap=True,
    )


@app.command(epilog="Example:\n\n  mmbsgd data show mmbsgd-home/data/adult")
def show(
    data: Annotated[str, typer.Argument(help="A prepared folder or URI.")],
    check: Annotated[bool, typer.Option("--check", help="Read every partition and compare fingerprints.")] = False,
) -> None:
    """What a prepared data set holds."""
    prepared = PreparedData.open(data)
    console.print(_overview(data, prepared.manifest))
    if check:
        with progress() as report:
            for done, record in enumerate(prepared.manifest.partitions, 1):
                prepared.partition(record)
                report("checking partitions", done, len(prepared.manifest.partitions))
        console.print("Every partition is as it was written.")


def _overview(name: str, manifest: Manifest) -> Table:
    first, second = (escape(f"label {label!r}") for label in manifest.labels)
    table = Table(title=f"{escape(place(name).title)} · {manifest.rows:,} rows", title_justify="left")
    for heading in ("split", "rows", first, second, "partitions"):
        table.add_column(heading, justify="left" if heading == "split" else "right")
    for split, records in manifest.splits.items():
        counts = manifest.counts(split)
        table.add_row(split, f"{sum(counts):,}", f"{counts[0]:,}", f"{counts[1]:,}", str(len(records)))
    size = sum(record.bytes for record in manifest.partitions)
    table.caption = (
        f"{manifest.width:,} features, density {manifest.density:.3g}, stored {manifest.layout}, {size / 1e6:,.1f} MB; "
        f"scaling {manifest.scaling.method}"
    )
    table.caption_justify = "left"
    return table
