"""The `mmbsgd` command."""

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sklearn.utils._param_validation import InvalidParameterError

from mmbsgd import MmbsgdError, MultiMergeSVC, Training
from mmbsgd._version import __version__
from workflows.demo import NOISE, checkerboard

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich")
console = Console()


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
    """Train kernel SVMs on a budget."""


@app.command(epilog="Examples:\n\n  mmbsgd train demo\n\n  mmbsgd train demo --rows 500000 --budget 400 --mergees 3")
def train(
    data: Annotated[str, typer.Argument(help="'demo': a generated checkerboard with noise.")],
    c: Annotated[float, typer.Option("--C", help="Weight of the losses; lambda = 1 / (n C).")] = 0.1,
    gamma: Annotated[float, typer.Option(help="Kernel width: exp(-gamma ||x - x'||²).")] = 64.0,
    budget: Annotated[int, typer.Option(help="B: the largest number of support vectors.")] = 200,
    mergees: Annotated[int, typer.Option(help="M: how many vectors one merge takes; 2 is plain BSGD.")] = 2,
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 5,
    maintenance: Annotated[str, typer.Option(help="cascade, gradient, projection or removal.")] = "cascade",
    engine: Annotated[str, typer.Option(help="fast, or paper: the cost that the paper analyses.")] = "fast",
    rows: Annotated[int, typer.Option(help="How many rows of demo data to train on.", min=10)] = 100_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.", min=0)] = 0,
) -> None:
    """Train one model and print its report."""
    if data != "demo":
        raise MmbsgdError(f"data {data!r} is unknown; the only data set so far is 'demo'")
    points, labels = checkerboard(rows, seed)
    unseen, unseen_labels = checkerboard(max(rows // 4, 1000), seed + 1)
    estimator = MultiMergeSVC(
        C=c,
        gamma=gamma,
        budget=budget,
        mergees=mergees,
        epochs=epochs,
        maintenance=maintenance,
        engine=engine,
        random_state=seed,
    )
    with console.status("Compiling the kernels (once per machine)…"):
        estimator.fit(points[:200], labels[:200])
    with console.status(f"Training on {rows:,} rows…"):
        estimator.fit(points, labels)
    with console.status("Testing on unseen rows…"):
        accuracy = estimator.score(unseen, unseen_labels)
    console.print(_report(estimator.training_, accuracy, rows))
    console.print(f"[dim]No model can be right on the {NOISE:.0%} of rows whose labels are noise.[/dim]")


def _report(training: Training, accuracy: float, rows: int) -> Table:
    table = Table(title=f"demo · {rows:,} rows", title_justify="left", show_header=False)
    table.add_row("accuracy on unseen rows", f"{accuracy:.2%}")
    table.add_row("support vectors", f"{training.support_vectors:,}")
    table.add_row("training time", f"{training.seconds:.3f} s")
    table.add_row("  of it budget maintenance", f"{training.maintenance_share:.0%}")
    table.add_row("  of it finding the bias", f"{training.bias_seconds / training.seconds:.0%}")
    table.add_row("steps", f"{training.steps:,}")
    table.add_row("  that violated the margin", f"{training.margin_violations:,}")
    table.add_row("maintenance calls", f"{training.maintenance_calls:,}")
    table.add_row("merges", f"{training.merges:,}")
    table.add_row("kernel evaluations per second", f"{training.kernel_evaluations / training.seconds:.2e}")
    table.add_row("mean gradient error Ē", f"{training.mean_gradient_error:.4f}")
    return table


def main() -> None:
    """The command's entry: a user's mistake is a message and exit code 2, a bug keeps its traceback."""
    try:
        app()
    except (MmbsgdError, InvalidParameterError) as error:
        Console(stderr=True).print(f"[bold red]Error:[/bold red] {escape(str(error))}", highlight=False)
        sys.exit(2)
    except MemoryError as error:
        Console(stderr=True).print(f"[bold red]Error:[/bold red] not enough memory: {escape(str(error))}; ask for less")
        sys.exit(2)


if __name__ == "__main__":
    main()
