"""Many values of a parameter as a few classes in an order: what a legend can list."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workflows.wording import parameter


@dataclass(frozen=True)
class Classes:
    labels: tuple[str, ...]
    members: tuple[int, ...]
    """The class of each value, as a position among the labels."""
    exact: bool
    """Every class is one value."""
    numbers: tuple[float, ...] = ()
    """The middle of each class, where values are numbers."""


def number(value: Any) -> float:
    """NaN if it is none; true and false are names."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known else math.nan


def classes(values: Sequence[Any], most: int) -> Classes:
    """Every value its own class if there are at most so many, else numbers in ranges of equal ratio or width."""
    different = list({_key(value): value for value in values}.values())
    numeric = all(math.isfinite(number(value)) for value in different)
    if len(different) <= most or not numeric:
        different.sort(key=number if numeric else _key)
        kept, places = different[:most], {_key(value): place for place, value in enumerate(different)}
        labels = [_label(value) for value in kept]
        if len(different) > most:
            labels[-1] = "others"
        members = tuple(min(places[_key(value)], most - 1) for value in values)
        return Classes(tuple(labels), members, len(different) <= most, tuple(map(number, kept)) if numeric else ())
    return _ranges([number(value) for value in values], most)


def _ranges(values: list[float], most: int) -> Classes:
    low, high = min(values), max(values)
    log = low > 0 and high / low >= 8
    forward, back = (math.log, math.exp) if log else (float, float)
    width = (forward(high) - forward(low)) / most
    whole = all(value.is_integer() for value in values)
    inner = [_round(back(forward(low) + width * step), whole) for step in range(1, most)]
    found = [sum(value >= edge for edge in inner) for value in values]
    used = sorted(set(found))
    labels, middles = [], []
    for place in used:
        inside = sorted(value for value, one in zip(values, found, strict=True) if one == place)
        labels.append(_between(inside[0], inside[-1]))
        middles.append(inside[len(inside) // 2])
    return Classes(tuple(labels), tuple(used.index(place) for place in found), False, tuple(middles))


def _round(value: float, whole: bool) -> float:
    return round(value) if whole else float(f"{value:.2g}")


def _between(low: float, high: float) -> str:
    return f"{low:.4g}" if low == high else f"{low:.4g}–{high:.4g}"


def _label(value: Any) -> str:
    return "none" if value is None else parameter(value)


def _key(value: Any) -> str:
    return repr(value)
