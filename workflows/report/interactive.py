"""Panels for browsers: figures of Plotly as plain dictionaries."""

import html
import math
from collections.abc import Iterable, Sequence
from functools import singledispatch
from typing import Any

from workflows.report import colours
from workflows.report.panels import Axis, Bars, Entry, Label, Level, Line, Mark, Panel, Points, Spans
from workflows.report.ranges import extent, log_ticks, shown

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif"
_SYMBOLS = {"cross": "cross", "x": "x-thin"}


def figure(panel: Panel) -> dict[str, Any]:
    """With data and layout, as plotly.js takes it."""
    across, up = extent(panel)
    data = [trace for mark in panel.marks for trace in _traces(mark)]
    _head_groups(data)
    layout: dict[str, Any] = {
        "height": panel.height,
        "margin": {"l": 70, "r": 20, "t": 30, "b": 56},
        "font": {"family": FONT, "size": 13, "color": colours.INK},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "hovermode": "closest",
        "hoverlabel": {"align": "left", "bgcolor": "#ffffff", "font": {"size": 12.5, "color": colours.INK}},
        "dragmode": "zoom",
        "barmode": "overlay",
        "xaxis": _axis(panel.x, across, upright=False),
        "yaxis": _axis(panel.y, up, upright=True),
        "showlegend": any(trace.get("showlegend") for trace in data),
        "legend": _legend(panel),
        "annotations": [note for mark in panel.marks for note in _annotations(mark, panel)],
        "shapes": [shape for mark in panel.marks for shape in _shapes(mark)],
    }
    return {"data": data, "layout": layout}


def _legend(panel: Panel) -> dict[str, Any]:
    """Beside the panel if entries come in groups, else above it."""
    style: dict[str, Any] = {"font": {"size": 12}, "itemsizing": "constant", "itemwidth": 30, "tracegroupgap": 6}
    entries = [mark.entry for mark in panel.marks if not isinstance(mark, Level | Label) and mark.entry]
    if any(entry.group for entry in entries):
        return style | {"grouptitlefont": {"size": 12.5}}
    return style | {"orientation": "h", "x": 1, "xanchor": "right", "y": 1.01, "yanchor": "bottom"}


def _axis(axis: Axis, positions: Sequence[float], *, upright: bool) -> dict[str, Any]:
    low, high = shown(axis, positions)
    made: dict[str, Any] = {
        "title": {"text": _text(axis.title), "standoff": 12},
        "gridcolor": colours.LINES,
        "linecolor": colours.FAINT,
        "showline": True,
        "zeroline": False,
        "ticks": "outside",
        "tickcolor": colours.FAINT,
        "automargin": True,
        "range": [low, high],
    }
    if axis.log:
        values, texts = log_ticks(axis, low, high)
        made |= {"type": "log", "range": [math.log10(low), math.log10(high)]}
        made |= {"tickmode": "array", "tickvals": values, "ticktext": texts}
    elif axis.unit == "names":
        made |= {"tickmode": "array", "tickvals": list(range(len(axis.names))), "ticktext": _texts(axis.names)}
        made |= {"showgrid": False, "ticks": "", "range": [high, low] if upright else [low, high]}
    elif axis.unit == "percent":
        made |= {"tickformat": "~%"}
    elif axis.unit == "seconds":
        made |= {"tickformat": ",~f", "ticksuffix": " s"}
    return made


@singledispatch
def _traces(mark: Mark) -> list[dict[str, Any]]:
    return []


@_traces.register
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
                "title": {"text": _text(mark.scale.title), "side": "right"},
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


@_traces.register
def _(mark: Line) -> list[dict[str, Any]]:
    line: dict[str, Any] = {"color": mark.colour, "width": mark.width, "dash": "dot" if mark.dotted else "solid"}
    if mark.steps:
        line["shape"] = "hv"
    return [_scatter(mark, "lines") | {"line": line, "opacity": mark.opacity}]


@_traces.register
def _(mark: Bars) -> list[dict[str, Any]]:
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": _numbers(mark.lengths),
        "y": _numbers(mark.lines),
        "width": mark.thickness,
        "text": _texts(mark.texts),
        "textposition": "outside",
        "cliponaxis": False,
        "hoverinfo": "skip",
        "marker": {"color": mark.colour},
    }
    return [trace | _entry(mark.entry)]


@_traces.register
def _(mark: Spans) -> list[dict[str, Any]]:
    lengths = [end - begin for begin, end in zip(mark.begins, mark.ends, strict=True)]
    trace = {
        "type": "bar",
        "orientation": "h",
        "base": _numbers(mark.begins),
        "x": _numbers(lengths),
        "y": list(mark.lanes),
        "width": 0.8,
        "hovertext": _texts(mark.hover),
        "hoverinfo": "text",
        "marker": {"color": mark.colour, "line": {"width": 0.5, "color": "#ffffff"}},
    }
    return [trace | _entry(mark.entry)]


def _scatter(mark: Points | Line, mode: str) -> dict[str, Any]:
    hovering = {"hovertext": _texts(mark.hover), "hoverinfo": "text"} if mark.hover else {"hoverinfo": "skip"}
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
    return {"showlegend": True, "name": _text(entry.text), "legendrank": 1000 if grouped else 500, **grouped}


def _head_groups(data: list[dict[str, Any]]) -> None:
    """The first entry of a group carries the group's heading."""
    headed: set[str] = set()
    for trace in data:
        group = trace.pop("_group", "")
        if group and group not in headed and trace["showlegend"]:
            headed.add(group)
            trace["legendgrouptitle"] = {"text": _text(group)}


def _annotations(mark: Mark, panel: Panel) -> list[dict[str, Any]]:
    if isinstance(mark, Label):
        return [
            {
                "x": math.log10(mark.x) if panel.x.log else mark.x,
                "y": math.log10(mark.y) if panel.y.log else mark.y,
                "ax": mark.right,
                "ay": -mark.up,
                "text": f"<b>{_text(mark.text)}</b>",
                "showarrow": True,
                "arrowhead": 0,
                "arrowwidth": 1,
                "arrowcolor": colours.FAINT,
                "standoff": 5,
                "bgcolor": "rgba(255,255,255,0.8)",
                "font": {"size": 12.5},
            }
        ]
    if isinstance(mark, Level):
        return [
            {
                "xref": "paper",
                "x": 0.004,
                "xanchor": "left",
                "y": mark.y,
                "yanchor": "bottom",
                "text": _text(mark.text),
                "showarrow": False,
                "font": {"size": 12, "color": colours.FAINT},
            }
        ]
    return []


def _shapes(mark: Mark) -> list[dict[str, Any]]:
    if not isinstance(mark, Level):
        return []
    line = {"color": colours.FAINT, "width": 1.4, "dash": "dot"}
    return [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": mark.y, "y1": mark.y, "line": line}]


def _numbers(values: Iterable[float]) -> list[float | None]:
    """With the digits that a screen can show; what is not finite is left out."""
    return [float(f"{value:.7g}") if math.isfinite(value) else None for value in values]


def _text(text: str) -> str:
    """Plotly takes some HTML, which a user's words are not."""
    return html.escape(text, quote=False).replace("\n", "<br>")


def _texts(texts: Iterable[str]) -> list[str]:
    return [_text(text) for text in texts]
