"""Panels for paper: the same pictures by matplotlib, as SVG and PNG."""

import textwrap
from pathlib import Path
from typing import IO, Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from workflows.report import colours
from workflows.report.panels import Axis, Panel, Picture
from workflows.report.printed_marks import Handles, legend, put
from workflows.report.ranges import extent, log_ticks, shown

_STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "axes.edgecolor": colours.FAINT,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "grid.color": colours.LINES,
    "grid.linewidth": 0.6,
    "text.color": colours.INK,
    "axes.labelcolor": colours.INK,
    "xtick.color": colours.FAINT,
    "ytick.color": colours.FAINT,
    "xtick.labelcolor": colours.INK,
    "ytick.labelcolor": colours.INK,
    "text.parse_math": False,
    "svg.hashsalt": "mmbsgd",
}
_WIDTH, _PIXELS = 10.0, 100.0
"""Inches; pixels of a browser to an inch."""


def draw(picture: Picture, target: Path | IO[bytes], *, kind: Literal["svg", "png"], titled: bool = True) -> None:
    with matplotlib.rc_context(_STYLE):
        figure = _figure(picture, titled)
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(target, format=kind, dpi=160, metadata=metadata)


def _figure(picture: Picture, titled: bool) -> Figure:
    rows = _rows(picture)
    heights = [max(panel.height for panel in row) if any(not panel.note for panel in row) else 130 for row in rows]
    figure = Figure(figsize=(_WIDTH, sum(heights) / _PIXELS), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
    grid = figure.add_gridspec(len(rows), picture.columns, height_ratios=heights)
    for place, row in enumerate(rows):
        for column, panel in enumerate(row):
            axes = figure.add_subplot(grid[place, :] if panel.wide else grid[place, column])
            axes.set_title(panel.title if titled else "")
            if panel.note:
                _say(panel, axes)
            else:
                _draw(panel, axes)
    return figure


def _rows(picture: Picture) -> list[list[Panel]]:
    rows: list[list[Panel]] = []
    for panel in picture.panels:
        if rows and not panel.wide and len(rows[-1]) < picture.columns and not rows[-1][0].wide:
            rows[-1].append(panel)
        else:
            rows.append([panel])
    return rows


def _say(panel: Panel, axes: Axes) -> None:
    axes.set_axis_off()
    text = textwrap.fill(panel.note, 90 if panel.wide else 45)
    axes.text(0.5, 0.5, text, ha="center", va="center", color=colours.FAINT, transform=axes.transAxes)


def _draw(panel: Panel, axes: Axes) -> None:
    across, up = extent(panel)
    axes.grid(True)
    axes.set_axisbelow(True)
    handles: Handles = []
    for mark in panel.marks:
        put(mark, axes, handles)
    _set_axis(axes, panel.x, across, upright=False)
    _set_axis(axes, panel.y, up, upright=True)
    if handles:
        legend(axes, handles)


def _set_axis(axes: Axes, axis: Axis, positions: list[float], *, upright: bool) -> None:
    low, high = shown(axis, positions)
    mine = axes.yaxis if upright else axes.xaxis
    if axis.log:
        (axes.set_yscale if upright else axes.set_xscale)("log")
        ticks = [tick for tick in zip(*log_ticks(axis, low, high), strict=True) if low <= tick[0] <= high]
        mine.set_ticks([position for position, _ in ticks], [text for _, text in ticks])
        mine.set_minor_locator(NullLocator())
        mine.set_minor_formatter(NullFormatter())
    elif axis.unit == "names":
        mine.set_ticks(range(len(axis.names)), axis.names)
        mine.grid(False)
        low, high = (high, low) if upright else (low, high)
    else:
        mine.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        if axis.unit == "percent":
            mine.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.6g}%"))
        elif axis.unit == "seconds":
            mine.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g} s"))
    (axes.set_ylim if upright else axes.set_xlim)(low, high)
    mine.set_label_text(textwrap.fill(axis.title, 60))
