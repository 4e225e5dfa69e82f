"""Marks for browsers: the traces that Plotly draws for each."""

import html
import math
from collections.abc import Iterable
from functools import singledispatch
from typing import Any

from workflows.report import colours
from workflows.report.panels import Bars, Entry, Line, Mark, Points, Spans

_SYMBOLS = {"cross": "cross", "x": "x-thin"}


@singledispatch
def traces(mark: Mark) -> list[dict[str, Any]]:
    return []


@traces.register
def _(mark: Points) -> list[dict[str, Any]]:
    symbols = [_SYMBOLS.get(symbol, symbol) + ("-open" if mark.hollow else "") for symbol in mark.symbols]
    marker: dict[str, Any] = {
        "color": mark.colour,
        "size": mark.size,
        "opacity": mark.opacity,
        "symbol": symbols[0] if len(set(symbols)) == 1 else symbols,
        "line": {"width": 1.6 if mark.hollow or mark.symbols == ("x",) else 0.4, "color": _edge(mark)},
    }
    if mark.scale is not None:
        marker |= {
            "color": _numbers(mark.values),
            "cmin": mark.scale.low,
            "cmax": mark.scale.high,
            "colorscale": [[share, colour] for share, colour in colours.stops()],
            "showscale": True,
            "colorbar": {
                "title": {"text": text_of(mark.scale.title), "side": "right"},
                "thickness": 12,
                "outlinewidth": 0,
                "tickformat": "~%" if mark.scale.unit == "percent" else "",
            },
        }
    trace = _scatter(mark, "markers") | {"marker": marker}
    for name, errors in (("error_x", mark.error_x), ("error_y", mark.error_y)):
        if any(any(pair) for pair in errors):
            down, up = zip(*errors, strict=True)
            style = {"color": _pale(mark.colour), "thickness": 1.1, "width": 3}
            trace[name] = {"array": _numbers(up), "arrayminus": _numbers(down), "symmetric": False, **style}
    if not mark.x:
        trace |= {"x": [None], "y": [None]}
    if mark.entry is None or len(mark.symbols) == 1:
        return [trace]
    # Its symbols say something else: in the legend it is a circle.
    key = {
        name: trace[name] for name in ("type", "mode", "name", "legendgroup", "legendrank", "_group") if name in trace
    }
    key |= {"x": [None], "y": [None], "showlegend": True, "marker": marker | {"symbol": "circle"}}
    return [trace | {"showlegend": False}, key]


@traces.register
def _(mark: Line) -> list[dict[str, Any]]:
    line: dict[str, Any] = {"color": mark.colour, "width": mark.width, "dash": "dot" if mark.dotted else "solid"}
    if mark.steps:
        line["shape"] = "hv"
    return [_scatter(mark, "lines") | {"line": line, "opacity": mark.opacity}]


@traces.register
def _(mark: Bars) -> list[dict[str, Any]]:
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": _numbers(mark.lengths),
        "y": _numbers(mark.lines),
        "width": mark.thickness,
        "text": texts_of(mark.texts),
        "textposition": "outside",
        "cliponaxis": False,
        "hoverinfo": "skip",
        "marker": {"color": mark.colour},
    }
    return [trace | _entry(mark.entry)]


@traces.register
def _(mark: Spans) -> list[dict[str, Any]]:
    lengths = [end - begin for begin, end in zip(mark.begins, mark.ends, strict=True)]
    trace = {
        "type": "bar",
        "orientation": "h",
        "base": _numbers(mark.begins),
        "x": _numbers(lengths),
        "y": list(mark.lanes),
        "width": 0.8,
        "hovertext": texts_of(mark.hover),
        "hoverinfo": "text",
        "marker": {"color": mark.colour, "line": {"width": 0.5, "color": "#ffffff"}},
    }
    return [trace | _entry(mark.entry)]


def _scatter(mark: Points | Line, mode: str) -> dict[str, Any]:
    hovering = {"hovertext": texts_of(mark.hover), "hoverinfo": "text"} if mark.hover else {"hoverinfo": "skip"}
    return {
        "type": "scatter",
        "mode": mode,
        "x": _numbers(mark.x),
        "y": _numbers(mark.y),
        **hovering,
        **_entry(mark.entry),
    }


def _pale(colour: str) -> str:
    parts = ", ".join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))
    return f"rgba({parts}, 0.55)"


def _edge(mark: Points) -> str:
    return mark.colour if mark.hollow or mark.symbols == ("x",) else "#ffffff"


def _entry(entry: Entry | None) -> dict[str, Any]:
    if entry is None:
        return {"showlegend": False, "name": ""}
    grouped = {"legendgroup": entry.group + entry.text, "_group": entry.group} if entry.group else {}
    return {"showlegend": True, "name": text_of(entry.text), "legendrank": 1000 if grouped else 500, **grouped}


def head_groups(data: list[dict[str, Any]]) -> None:
    """The first entry of a group carries the group's heading."""
    headed: set[str] = set()
    for trace in data:
        group = trace.pop("_group", "")
        if group and group not in headed and trace["showlegend"]:
            headed.add(group)
            trace["legendgrouptitle"] = {"text": text_of(group)}


def _numbers(values: Iterable[float]) -> list[float | None]:
    """With the digits that a screen can show; what is not finite is left out."""
    return [float(f"{value:.7g}") if math.isfinite(value) else None for value in values]


def text_of(text: str) -> str:
    """Plotly takes some HTML, which a user's words are not."""
    return html.escape(text, quote=False).replace("\n", "<br>")


def texts_of(texts: Iterable[str]) -> list[str]:
    return [text_of(text) for text in texts]
