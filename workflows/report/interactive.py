"""Panels for browsers: figures of Plotly as plain dictionaries."""

import math
from collections.abc import Sequence
from typing import Any

from workflows.report import colours
from workflows.report.interactive_marks import head_groups, text_of, texts_of, traces
from workflows.report.panels import Axis, Label, Level, Mark, Panel
from workflows.report.ranges import extent, log_ticks, shown

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif"


def figure(panel: Panel) -> dict[str, Any]:
    """With data and layout, as plotly.js takes it."""
    across, up = extent(panel)
    data = [trace for mark in panel.marks for trace in traces(mark)]
    head_groups(data)
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
    style: dict[str, Any] = {"font": {"size": 12}, "itemsizing": "constant", "itemwidth": 30, "tracegroupgap": 1}
    entries = [mark.entry for mark in panel.marks if not isinstance(mark, Level | Label) and mark.entry]
    if any(entry.group for entry in entries):
        return style | {"grouptitlefont": {"size": 12.5}}
    return style | {"orientation": "h", "x": 1, "xanchor": "right", "y": 1.01, "yanchor": "bottom"}


def _axis(axis: Axis, positions: Sequence[float], *, upright: bool) -> dict[str, Any]:
    low, high = shown(axis, positions)
    made: dict[str, Any] = {
        "title": {"text": text_of(axis.title), "standoff": 12},
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
        made |= {"tickmode": "array", "tickvals": list(range(len(axis.names))), "ticktext": texts_of(axis.names)}
        made |= {"showgrid": False, "ticks": "", "range": [high, low] if upright else [low, high]}
    elif axis.unit == "percent":
        made |= {"tickformat": "~%"}
    elif axis.unit == "seconds":
        made |= {"tickformat": ",~f", "ticksuffix": " s"}
    return made


def _annotations(mark: Mark, panel: Panel) -> list[dict[str, Any]]:
    if isinstance(mark, Label):
        return [
            {
                "x": math.log10(mark.x) if panel.x.log else mark.x,
                "y": math.log10(mark.y) if panel.y.log else mark.y,
                "ax": mark.right,
                "ay": -mark.up,
                "text": f"<b>{text_of(mark.text)}</b>",
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
                "text": text_of(mark.text),
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
