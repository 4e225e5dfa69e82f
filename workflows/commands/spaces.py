"""`mmbsgd spaces`: what a study may search, and how to make a space of one's own."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from workflows.commands.console import console

if TYPE_CHECKING:
    from search_spaces import Space


def spaces(
    name: Annotated[
        str | None, typer.Argument(help="A shipped space, or a TOML file.", show_default="lists the shipped ones")
    ] = None,
    toml: Annotated[bool, typer.Option("--toml", help="Print the space as TOML, to edit it.")] = False,
) -> None:
    """The search spaces that studies use: list them, or show one."""
    from search_spaces import load, shipped  # brings Optuna, which other commands need not wait for
    from search_spaces.space import text

    if name is None:
        if toml:
            raise typer.BadParameter("--toml needs the name of a space")
        console.print(_list([load(each) for each in shipped()]))
        console.print("[dim]Show one with 'mmbsgd spaces NAME'.[/dim]", soft_wrap=True)
        return
    space = load(name)
    if toml:
        typer.echo(text(name), nl=False)
        return
    console.print(_overview(space))
    if name in shipped():
        console.print(f"Make it your own: mmbsgd spaces {name} --toml > mine.toml", soft_wrap=True, highlight=False)


def _list(found: "list[Space]") -> Table:
    table = Table("name", "about", "searches", title="Search spaces", title_justify="left", show_lines=True)
    for space in found:
        table.add_row(space.name, escape(space.about), _searched(space))
    return table


def _searched(space: "Space") -> str:
    """What is not fixed."""
    from search_spaces.parameters import Fixed

    varying = {key: parameter for key, parameter in space.parameters.items() if not isinstance(parameter, Fixed)}
    return "; ".join(
        f"{key} {parameter}" + (f" of {parameter.of}" if parameter.of else "") for key, parameter in varying.items()
    )


def _overview(space: "Space") -> Table:
    from search_spaces.parameters import Range

    table = Table(
        "parameter", "values", "scale", "relative to", title=f"Search space {escape(space.name)}", title_justify="left"
    )
    for key, parameter in space.parameters.items():
        scale = ("log" if parameter.log else "linear") if isinstance(parameter, Range) else ""
        table.add_row(key, str(parameter), scale, parameter.of or "")
    if space.about:
        table.caption, table.caption_justify = escape(space.about), "left"
    return table
