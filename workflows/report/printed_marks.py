"""Marks for paper: what matplotlib draws for each, and the legend of them."""

from functools import singledispatch
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from workflows.report import colours
from workflows.report.panels import Bars, Entry, Label, Level, Line, Mark, Points, Spans

_MARKERS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "cross": "P",
    "x": "x",
    "star": "*",
}
_POINTS = 0.75
"""Of type, to a pixel."""
Handles = list[tuple[Entry, Any]]


@singledispatch
def put(mark: Mark, axes: Axes, handles: Handles) -> None:
    raise TypeError(mark)


@put.register
def _(mark: Points, axes: Axes, handles: Handles) -> None:
    area = (mark.size * _POINTS) ** 2
    style: dict[str, Any] = {"s": area, "alpha": mark.opacity, "linewidths": 0.3}
    if mark.scale is not None:
        shades = LinearSegmentedColormap.from_list("ordered", colours.stops())
        style |= {"cmap": shades, "norm": Normalize(mark.scale.low, mark.scale.high), "edgecolors": "white"}
        drawn = axes.scatter(mark.x, mark.y, c=mark.values, **style)
        bar = axes.figure.colorbar(drawn, ax=axes, label=mark.scale.title, pad=0.02, aspect=30)
        bar.outline.set_visible(False)
        if mark.scale.unit == "percent":
            bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.6g}%"))
    else:
        _plain_points(mark, axes, style)
    across, up = (_sides(errors) for errors in (mark.error_x, mark.error_y))
    if across or up:
        axes.errorbar(mark.x, mark.y, up, across, fmt="none", ecolor=mark.colour, elinewidth=0.7, alpha=0.55)
    if mark.entry is not None:
        look: dict[str, Any] = (
            {"markerfacecolor": "none"} if mark.hollow else {"markeredgewidth": 0.3, "markeredgecolor": "white"}
        )
        if mark.symbols == ("x",):
            look = {"markeredgewidth": 1.0}
        symbol = _MARKERS[mark.symbols[0] if len(mark.symbols) == 1 else "circle"]
        opacity = max(mark.opacity, 0.6)
        handle = Line2D([], [], ls="", marker=symbol, color=mark.colour, ms=5.5, alpha=opacity, **look)
        handles.append((mark.entry, handle))


def _sides(errors: tuple[tuple[float, float], ...]) -> list[list[float]] | None:
    return [list(side) for side in zip(*errors, strict=True)] if any(any(pair) for pair in errors) else None


def _plain_points(mark: Points, axes: Axes, style: dict[str, Any]) -> None:
    symbols = mark.symbols * len(mark.x) if len(mark.symbols) == 1 else mark.symbols
    for symbol in dict.fromkeys(symbols):
        inside = [place for place, one in enumerate(symbols) if one == symbol]
        x, y = [mark.x[place] for place in inside], [mark.y[place] for place in inside]
        if mark.hollow:
            look = {"facecolors": "none", "edgecolors": mark.colour, "linewidths": 1.2}
        elif symbol == "x":
            look = {"c": mark.colour, "linewidths": 0.8}
        else:
            look = {"c": mark.colour, "edgecolors": "white"}
        axes.scatter(x, y, marker=_MARKERS[symbol], **(style | look))


@put.register
def _(mark: Line, axes: Axes, handles: Handles) -> None:
    (drawn,) = axes.plot(
        mark.x,
        mark.y,
        color=mark.colour,
        lw=mark.width * _POINTS,
        ls=":" if mark.dotted else "-",
        drawstyle="steps-post" if mark.steps else "default",
        alpha=mark.opacity,
    )
    if mark.entry is not None:
        handles.append((mark.entry, drawn))


@put.register
def _(mark: Level, axes: Axes, handles: Handles) -> None:
    axes.axhline(mark.y, color=colours.FAINT, ls=":", lw=1.0)
    axes.annotate(
        mark.text,
        (0.0, mark.y),
        (4, 2),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        color=colours.FAINT,
    )


@put.register
def _(mark: Bars, axes: Axes, handles: Handles) -> None:
    drawn = axes.barh(mark.lines, mark.lengths, mark.thickness, color=mark.colour)
    axes.bar_label(drawn, mark.texts, padding=2, fontsize=7.5)
    if mark.entry is not None:
        handles.append((mark.entry, Patch(color=mark.colour)))


@put.register
def _(mark: Spans, axes: Axes, handles: Handles) -> None:
    for lane in sorted(set(mark.lanes)):
        spans = zip(mark.lanes, mark.begins, mark.ends, strict=True)
        bars = [(begin, end - begin) for one, begin, end in spans if one == lane]
        axes.broken_barh(bars, (lane - 0.4, 0.8), facecolor=mark.colour, edgecolor="white", linewidth=0.15)
    if mark.entry is not None:
        handles.append((mark.entry, Patch(color=mark.colour)))


@put.register
def _(mark: Label, axes: Axes, handles: Handles) -> None:
    axes.annotate(
        mark.text,
        (mark.x, mark.y),
        (mark.right * _POINTS, mark.up * _POINTS),
        textcoords="offset points",
        ha="center",
        va="center",
        fontweight="bold",
        arrowprops={"arrowstyle": "-", "color": colours.FAINT, "lw": 0.7, "shrinkA": 1, "shrinkB": 4},
        bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.8},
    )


def legend(axes: Axes, handles: Handles) -> None:
    """Beside the panel if entries come in groups, which have headings then; else above it."""
    handles.sort(key=lambda one: bool(one[0].group))
    groups = {entry.group for entry, _ in handles if entry.group}
    style: dict[str, Any] = {"frameon": False, "fontsize": 7.5, "handletextpad": 0.4, "handlelength": 1.4}
    if not groups:
        corner = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.1, "columnspacing": 1.2}
        keys, texts = [handle for _, handle in handles], [entry.text for entry, _ in handles]
        axes.legend(keys, texts, ncols=len(handles), **corner, **style)
        return
    keys, texts = [], []
    group = ""
    for entry, handle in handles:
        if entry.group != group and entry.group:
            keys.append(Line2D([], [], ls=""))
            texts.append(entry.group)
        group = entry.group
        keys.append(handle)
        texts.append(entry.text)
    made = axes.legend(keys, texts, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, **style)
    for text in made.get_texts():
        if text.get_text() in groups:
            text.set_fontweight("bold")
            text.set_x(-18)
