"""`mmbsgd train`: one model, no study."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from workflows.commands.console import HOME, Home, console, progress
from workflows.data import PreparedData, Split
from workflows.data.demo import NOISE, checkerboard
from workflows.data.known import KNOWN
from workflows.data.manifest import HELD_OUT
from workflows.data.places import place
from workflows.data.prepare import Progress
from workflows.data.resolve import open_data
from workflows.data.sources import DEMO, DEMO_ROWS
from workflows.errors import DataError

if TYPE_CHECKING:
    from mmbsgd import BudgetedModel, MultiMergeSVC, Training
    from mmbsgd.training import Trainer, Watch

Maintenance = Literal["cascade", "gradient", "projection", "removal"]
Engine = Literal["fast", "paper"]


def train(
    data: Annotated[str, typer.Argument(help="A prepared folder, a file that 'prepare' reads, or 'demo'.")],
    c: Annotated[
        float | None, typer.Option("--C", help="Weight of the losses; lambda = 1 / (n C).", show_default="1")
    ] = None,
    gamma: Annotated[
        str | None,
        typer.Option(
            help="Kernel width in exp(-gamma ||x - x'||²): a number, 'scale' or 'auto'.", show_default="scale"
        ),
    ] = None,
    budget: Annotated[int, typer.Option(help="B: the largest number of support vectors.")] = 200,
    mergees: Annotated[int, typer.Option(help="M: how many vectors one merge takes; 2 is plain BSGD.")] = 2,
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 5,
    polish: Annotated[
        int | None,
        typer.Option(help="Passes that polishing may take; 0 is the paper's method.", min=0, show_default="7"),
    ] = None,
    maintenance: Annotated[Maintenance, typer.Option(help="What happens above the budget.")] = "cascade",
    engine: Annotated[Engine, typer.Option(help="paper: the cost that the paper analyses.")] = "fast",
    on: Annotated[
        str,
        typer.Option(help="Splits to train on, such as train,validation.", show_default="all but the held-out ones"),
    ] = "",
    score_on: Annotated[str, typer.Option(help="Splits to score.", show_default="validation, else test")] = "",
    out: Annotated[Path | None, typer.Option(help="Save the model to this Arrow file.")] = None,
    label: Annotated[str | None, typer.Option(help="The label column, if DATA is a table not yet prepared.")] = None,
    rows: Annotated[int, typer.Option(help="How many rows of demo data.", min=10)] = DEMO_ROWS,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.", min=0)] = 0,
    home: Home = HOME,
) -> None:
    """Train one model on prepared data and print its report."""
    if out is not None and not out.absolute().parent.is_dir():
        raise DataError(f"cannot write {out}: the folder {out.absolute().parent} does not exist")
    tuned = _tuned(data)
    with progress() as report:
        prepared = open_data(data, home, report, label=label, rows=rows)
    training = _split(prepared, on, [name for name in prepared.manifest.splits if name not in HELD_OUT])
    scored = _split(prepared, score_on, _held_out(prepared, training))
    estimator = _estimator(
        C=tuned[0] if c is None else c,
        gamma=tuned[1] if gamma is None else _gamma(gamma),
        budget=budget,
        mergees=mergees,
        epochs=epochs,
        **({} if polish is None else {"polish": polish}),
        maintenance=maintenance,
        engine=engine,
        random_state=seed,
    )
    with progress() as report:
        estimator.fit_portions(training, watch=_reporting(report, training.rows, estimator))
    with console.status(f"Scoring {scored.rows:,} rows…"):
        scores, codes = scored.decide(estimator.model_)
    accuracy = float(np.mean((scores > 0) == codes))
    console.print(_report(data, estimator.training_, accuracy, training, scored))
    if data == DEMO:
        console.print(f"[dim]No model can be right on the {NOISE:.0%} of rows whose labels are noise.[/dim]")
    if out is not None:
        _save(out, estimator.model_, prepared)
        console.print(f"The model is in {out}; it takes rows as they come, before any scaling.", soft_wrap=True)


def _reporting(report: Progress, rows: int, estimator: "MultiMergeSVC") -> "Watch":
    """Two stages: the epochs, and polishing, which may need fewer passes than it may take."""
    steps, passes = rows * estimator.epochs, estimator.polish
    training, polishing = f"training on {rows:,} rows", f"polishing {rows:,} rows"

    def watch(trainer: "Trainer") -> None:
        report(training, trainer.steps, steps)
        if passes and trainer.steps >= steps:
            report(polishing, trainer.polish_passes, passes)

    report(training, 0, steps)
    return watch


def _estimator(**parameters: Any) -> "MultiMergeSVC":
    """With kernels compiled, before anything is timed."""
    from sklearn.utils._param_validation import InvalidParameterError

    from mmbsgd import InputError, MultiMergeSVC

    estimator = MultiMergeSVC(**parameters)
    try:
        estimator._validate_params()
    except InvalidParameterError as error:
        raise InputError(str(error)) from None
    with console.status("Compiling the kernels (once per machine)…"):
        MultiMergeSVC(**parameters | {"epochs": 1}).fit(*checkerboard(200, 0))
    return estimator


def _tuned(data: str) -> tuple[float, float | str]:
    """C and gamma to start with: what suits the demo, what the paper found for its own sets."""
    if data in KNOWN and not Path(data).exists():
        return KNOWN[data].c, KNOWN[data].gamma
    return (0.1, 64.0) if data == DEMO else (1.0, "scale")


def _gamma(text: str) -> float | str:
    if text in ("scale", "auto"):
        return text
    try:
        return float(text)
    except ValueError:
        raise DataError(f"--gamma {text!r} is neither a number nor 'scale' or 'auto'") from None


def _split(data: PreparedData, names: str, default: list[str]) -> Split:
    return data.split(*([name.strip() for name in names.split(",")] if names else default))


def _held_out(data: PreparedData, training: Split) -> list[str]:
    used = {record.split for record in training.records}
    known = data.manifest.splits
    return next(([name] for name in HELD_OUT if name in known and name not in used), sorted(used))


def _save(out: Path, model: "BudgetedModel", data: PreparedData) -> None:
    manifest = data.manifest
    about = {"data": manifest.fingerprint, "features": manifest.features}
    try:
        replace(model, metadata=about, scaling=manifest.scaling.scaling()).save(out)
    except OSError as error:
        raise DataError(f"cannot write {out}: {error.strerror}") from None


def _report(data: str, training: "Training", accuracy: float, trained: Split, scored: Split) -> Table:
    held = "+".join(dict.fromkeys(record.split for record in scored.records))
    name = escape(data if data == DEMO else place(data).title)
    table = Table(title=f"{name} · {trained.rows:,} training rows", title_justify="left", show_header=False)
    seen = ", seen in training" if set(map(id, scored.records)) & set(map(id, trained.records)) else ""
    table.add_row(f"accuracy on {held} ({scored.rows:,} rows{seen})", f"{accuracy:.2%}")
    table.add_row("support vectors", f"{training.support_vectors:,}")
    table.add_row("training time", f"{training.seconds:.3f} s")
    table.add_row("  of it budget maintenance", f"{training.maintenance_share:.0%}")
    if training.polish_passes:
        table.add_row("  of it polishing", f"{training.polish_seconds / training.seconds:.0%}")
        table.add_row("passes of polishing", f"{training.polish_passes}")
        table.add_row("objective", f"{training.objective:.4g}")
        table.add_row("  above its optimum by at most", f"{training.gap:.2%}")
    else:
        table.add_row("  of it finding the bias", f"{training.bias_seconds / training.seconds:.0%}")
    table.add_row("steps", f"{training.steps:,}")
    table.add_row("  that violated the margin", f"{training.margin_violations:,}")
    table.add_row("maintenance calls", f"{training.maintenance_calls:,}")
    table.add_row("merges", f"{training.merges:,}")
    table.add_row("kernel evaluations per second", f"{training.kernel_evaluations / training.seconds:.2e}")
    table.add_row("mean gradient error Ē", f"{training.mean_gradient_error:.4f}")
    return table
