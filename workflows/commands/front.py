"""`mmbsgd front`: the Pareto front of a study, whoever runs it."""

import json
from typing import Annotated

import typer

from workflows.commands.console import HOME, Home, console


def front(
    study: Annotated[str, typer.Argument(help="The study's name.")],
    storage: Annotated[
        str | None, typer.Option(help="The database that holds it.", show_default="a file in --home")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the front as JSON.")] = False,
    home: Home = HOME,
) -> None:
    """Show the Pareto front of a study as a table and a picture, while it runs or afterwards."""
    # These bring Optuna, which other commands need not wait for.
    from optuna.trial import TrialState

    from workflows.commands import front_view
    from workflows.commands.plot import scatter
    from workflows.front import front as best_of
    from workflows.study.confirmation import members
    from workflows.study.settings import settings_of
    from workflows.study.tuning import looked_at

    with looked_at(study, home, storage) as ledger:
        settings, _ = settings_of(ledger.notes(), study)
        complete = [trial for trial in ledger.trials() if trial.state == TrialState.COMPLETE]
        numbers = [complete[position].number for position in best_of([trial.values for trial in complete])]
        found = members(ledger, settings, numbers)
    if as_json:
        typer.echo(json.dumps(front_view.front_json(found, settings), indent=1))
        return
    if not found:
        console.print(f"The study {study} has no complete trial yet.")
        return
    points = [(trial.values[0], trial.values[1]) for trial in complete]
    console.print(
        scatter(points, [(member.values[0], member.values[1]) for member in found], (settings.metric, settings.cost))
    )
    state = front_view.state(found)
    console.print(front_view.front_table(found, settings, f"{study} · {state} Pareto front of {len(complete)} trials"))
