"""`mmbsgd predict`: labels for new rows, as many as there are."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from workflows.commands.console import HOME, Home, console, progress
from workflows.data.sources import DEMO_ROWS, Kind
from workflows.errors import DataError

if TYPE_CHECKING:
    from workflows.export.check import Predictor
    from workflows.prediction.feed import Block


def predict(
    model: Annotated[Path, typer.Argument(help="A file that 'train' or 'export' wrote, or an MLflow model's folder.")],
    data: Annotated[str, typer.Argument(help="Anything that 'prepare' reads, a prepared folder, or 'demo'.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Write predictions to this .csv, .csv.gz or .parquet.", show_default="standard output"),
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Decision values too; above zero is the second class.")
    ] = False,
    format: Annotated[Kind | None, typer.Option(help="What the data is, if its name does not tell.")] = None,
    label: Annotated[
        str | None, typer.Option(help="The column with the true label, if there is one.", show_default="label")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be given several times.")] = None,
    split: Annotated[
        str, typer.Option(help="Splits of a prepared folder, such as test.", show_default="all of them")
    ] = "",
    rows: Annotated[int, typer.Option(help="How many rows of demo data.", min=10)] = DEMO_ROWS,
    home: Home = HOME,
) -> None:
    """Predict the label of every row, in the order of the data; where it has labels, say how many are right."""
    # These bring the kernels, which other commands need not wait for.
    from workflows.export.reading import open_model
    from workflows.prediction.feed import Request, open_feed, predictions
    from workflows.prediction.file import check_name, writing

    screen = Console(stderr=True)
    if out is not None:
        check_name(out)
        _check_kept(out, model, data)
    found = open_model(model)
    splits = tuple(name.strip() for name in split.split(",")) if split else ()
    feed = open_feed(found, Request(data, format, label, tuple(drop or ()), splits, rows), home)
    for note in feed.notes:
        screen.print(note, style="dim", markup=False, highlight=False, soft_wrap=True)
    _warm_up(found, screen)
    tally = _Tally()
    with progress(screen) as report, writing(out, found.classes, scores=scores) as file:
        for block in predictions(feed, report):
            file.write(block.scores)
            tally.add(block)
    say = screen if out is None else console
    if out is not None:
        say.print(
            f"The predictions of {tally.rows:,} rows are in {out}.", markup=False, highlight=False, soft_wrap=True
        )
    if tally.labelled:
        share = tally.right / tally.labelled
        say.print(f"accuracy {share:.1%} on {tally.labelled:,} labelled rows", highlight=False, soft_wrap=True)


@dataclass
class _Tally:
    rows: int = 0
    labelled: int = 0
    right: int = 0

    def add(self, block: "Block") -> None:
        self.rows += len(block.scores)
        self.labelled += int((block.known >= 0).sum())
        self.right += int(((block.scores > 0) == block.known).sum())


def _check_kept(out: Path, model: Path, data: str) -> None:
    """Nobody means to lose what is read."""
    for name in (model, data):
        if os.path.exists(out) and os.path.exists(name) and os.path.samefile(out, name):
            raise DataError(f"--out {out} would replace {name}: choose another name")


def _warm_up(model: "Predictor", screen: Console) -> None:
    """Loads the kernels, or compiles them, before threads ask for them."""
    import numpy as np

    with screen.status("Loading the model (the first time on a machine, half a minute)…"):
        model.decision_function(np.zeros((1, model.width), np.float32))
