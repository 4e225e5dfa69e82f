"""`mmbsgd front`: the Pareto front of a study, whoever runs it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workflows.commands.console import HOME, Home, Storage, console
from workflows.errors import StudyError

if TYPE_CHECKING:
    from workflows.study.snapshot import Snapshot


def front(
    study: Annotated[str, typer.Argument(help="The study's name.")],
    storage: Storage = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the front as JSON.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write the study's report, a page for browsers, here.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Write the picture of the trade-off here, as SVG.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write the picture of the trade-off here, as PNG.")] = None,
    home: Home = HOME,
) -> None:
    """Show the Pareto front of a study as a table and a picture, while it runs or afterwards."""
    # These bring Optuna, which other commands need not wait for.
    from workflows.commands import front_view
    from workflows.study.snapshot import snapshot
    from workflows.study.tuning import looked_at

    for path in (html, svg, png):
        if path is not None and not path.absolute().parent.is_dir():
            raise StudyError(f"cannot write {path}: the folder {path.absolute().parent} does not exist")
    with looked_at(study, home, storage) as ledger:
        seen = snapshot(ledger, study)
    written = _write(seen, html, svg, png)
    if as_json:
        typer.echo(json.dumps(front_view.front_json(list(seen.front), seen.settings), indent=1))
        return
    _show(seen)
    for path, what in written:
        size = path.stat().st_size
        said = f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.0f} kB"
        console.print(f"{what} is in {path} ({said}).", soft_wrap=True, highlight=False, markup=False)


def _show(seen: "Snapshot") -> None:
    from workflows.commands import front_view
    from workflows.commands.plot import scatter

    settings, complete, found = seen.settings, seen.complete, list(seen.front)
    if not found:
        console.print(f"The study {seen.study} has no complete trial yet.")
        return
    points = [(trial.values[0], trial.values[1]) for trial in complete]
    best = [(member.values[0], member.values[1]) for member in found]
    console.print(scatter(points, best, (settings.metric, settings.cost)))
    title = f"{seen.study} · {front_view.state(found)} Pareto front of {len(complete)} trials"
    console.print(front_view.front_table(found, settings, title))


def _write(seen: "Snapshot", html: Path | None, svg: Path | None, png: Path | None) -> list[tuple[Path, str]]:
    """The files asked for, and what is in them."""
    if html is None and svg is None and png is None:
        return []
    # Plotly and matplotlib are for those who want pictures.
    from workflows.files import written_text
    from workflows.report import report, trade_off, write_picture
    from workflows.study.facts import reference_of

    reference = reference_of(seen.settings)
    files = []
    try:
        if html is not None:
            files.append((written_text(html, report(seen, reference=reference)), "The report"))
        if svg is not None:
            files.append((write_picture(trade_off(seen, reference), svg, kind="svg"), "The picture"))
        if png is not None:
            files.append((write_picture(trade_off(seen, reference), png, kind="png"), "The picture"))
    except OSError as error:
        raise StudyError(f"cannot write the study's pictures: {error}") from None
    return files
