"""What a picture shows, said once: `interactive` draws it for browsers, `printed` for paper.

Positions are in the units of the data, on log axes too. Texts are plain: whoever draws them escapes them.
"""

from dataclasses import dataclass, field
from typing import Literal

Symbol = Literal["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star"]
SYMBOLS: tuple[Symbol, ...] = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star")
Unit = Literal["number", "percent", "seconds", "count", "names"]


@dataclass(frozen=True)
class Axis:
    title: str = ""
    unit: Unit = "number"
    log: bool = False
    range: tuple[float, float] | None = None
    """What is shown at first; None: everything."""
    names: tuple[str, ...] = ()
    """What stands at 0, 1, 2, … where the unit is names."""


@dataclass(frozen=True)
class Entry:
    """Its line in the legend."""

    text: str
    group: str = ""
    """A heading over several of them."""


@dataclass(frozen=True)
class Scale:
    """A colour for each value."""

    title: str
    low: float
    high: float
    unit: Unit = "percent"


@dataclass(frozen=True)
class Points:
    x: tuple[float, ...]
    y: tuple[float, ...]
    colour: str = "#555555"
    values: tuple[float, ...] = ()
    """With a scale: what each point's colour says."""
    scale: Scale | None = None
    symbols: tuple[Symbol, ...] = ("circle",)
    """One for all, or one for each."""
    size: float = 7.0
    opacity: float = 1.0
    hollow: bool = False
    """A ring around what is there."""
    error_x: tuple[tuple[float, float], ...] = ()
    """(down, up) for each point."""
    error_y: tuple[tuple[float, float], ...] = ()
    hover: tuple[str, ...] = ()
    """For each point; lines are separated by line feeds."""
    entry: Entry | None = None


@dataclass(frozen=True)
class Line:
    x: tuple[float, ...]
    y: tuple[float, ...]
    colour: str = "#555555"
    width: float = 1.5
    dotted: bool = False
    steps: bool = False
    """Flat until the next point."""
    opacity: float = 1.0
    hover: tuple[str, ...] = ()
    entry: Entry | None = None


@dataclass(frozen=True)
class Level:
    """A dotted line across at this height, with its name."""

    y: float
    text: str


@dataclass(frozen=True)
class Bars:
    """Lying bars: at which line of names, how long, and what is written behind."""

    lines: tuple[float, ...]
    lengths: tuple[float, ...]
    texts: tuple[str, ...]
    colour: str
    thickness: float = 0.8
    entry: Entry | None = None


@dataclass(frozen=True)
class Spans:
    """From when to when, in which lane."""

    lanes: tuple[int, ...]
    begins: tuple[float, ...]
    ends: tuple[float, ...]
    colour: str
    hover: tuple[str, ...] = ()
    entry: Entry | None = None


@dataclass(frozen=True)
class Label:
    """A word beside a point, and how far from it in pixels (right, up)."""

    x: float
    y: float
    text: str
    right: float
    up: float


Mark = Points | Line | Level | Bars | Spans | Label


@dataclass(frozen=True)
class Panel:
    title: str
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    marks: tuple[Mark, ...] = ()
    """Later ones lie above earlier ones."""
    note: str = ""
    """Said in the middle where there is nothing to draw."""
    height: int = 400
    """In pixels."""
    wide: bool = False
    """Takes a row of its own."""


@dataclass(frozen=True)
class Picture:
    name: str
    """Of its file and its place in the page."""
    title: str
    reading: str
    """How to read it, in a sentence."""
    panels: tuple[Panel, ...]
    columns: int = 2
    """Panels side by side, on paper."""
