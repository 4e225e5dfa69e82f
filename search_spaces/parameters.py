"""What a parameter of a space may be: a range, choices or a fixed value.

Mistakes are ValueErrors that say what is wrong; the space adds where.
"""

from dataclasses import dataclass
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from search_spaces.values import TAKES, Facts, Numbers, Takes, Words, shown


@dataclass(frozen=True)
class Range:
    """Everything between two bounds, both included."""

    takes: Numbers
    low: float
    high: float
    log: bool
    of: str | None

    def distribution(self, facts: Facts) -> BaseDistribution:
        low, high = (self.takes.absolute(bound, self.of, facts) for bound in (self.low, self.high))
        if low == high:
            raise ValueError(f"{self} of {self.of} is {low} alone for this data: widen the range, or fix the value")
        if self.takes.whole:
            return IntDistribution(int(low), int(high), log=self.log)
        return FloatDistribution(low, high, log=self.log)

    def __str__(self) -> str:
        return f"{shown(self.low)} to {shown(self.high)}"


@dataclass(frozen=True)
class Choice:
    """One of several values; those that are the same for this data count once."""

    takes: Takes
    choices: tuple[float | str, ...]
    of: str | None

    def distribution(self, facts: Facts) -> BaseDistribution:
        values = list(dict.fromkeys(self.takes.absolute(value, self.of, facts) for value in self.choices))
        if len(values) == 1 < len(self.choices):
            raise ValueError(f"{self} of {self.of} are all {values[0]} for this data: choose others, or fix the value")
        return CategoricalDistribution(values)

    def __str__(self) -> str:
        return ", ".join(value if isinstance(value, str) else shown(value) for value in self.choices)


@dataclass(frozen=True)
class Fixed:
    """One value."""

    takes: Takes
    value: float | str
    of: str | None

    def distribution(self, facts: Facts) -> BaseDistribution:
        return CategoricalDistribution([self.takes.absolute(self.value, self.of, facts)])

    def __str__(self) -> str:
        return self.value if isinstance(self.value, str) else shown(self.value)


Parameter = Range | Choice | Fixed


def read(name: str, given: Any) -> Parameter:
    """A parameter as TOML has it: a bare value, or a table."""
    if name not in TAKES:
        raise ValueError(f"no such parameter; there are {', '.join(TAKES)}")
    if isinstance(given, list):
        raise ValueError(f"several values are written {{ choices = {shown(given)} }}")
    takes, table = TAKES[name], dict(given) if isinstance(given, dict) else {"value": given}
    of, log = table.pop("of", None), table.pop("log", False)
    if of is not None and of not in takes.units:
        units = " or ".join(map(shown, takes.units))
        raise ValueError(
            f"of = {shown(of)} makes no sense: {f'it may be {units}' if units else 'give absolute values'}"
        )
    if not isinstance(log, bool) or (log and "low" not in table):
        raise ValueError(f"log = {shown(log)} must be true or false, beside low and high")
    match table:
        case {"low": low, "high": high} if len(table) == 2:
            return _range(takes, low, high, log, of)
        case {"choices": choices} if len(table) == 1:
            return _choice(takes, choices, of)
        case {"value": value} if len(table) == 1:
            return Fixed(takes, takes.read(value, of), of)
    raise ValueError(
        f"has {', '.join(table) or 'no value'}: give low and high (and log = true), or choices, or value; "
        "and of, if they are relative"
    )


def _range(takes: Takes, low: Any, high: Any, log: bool, of: str | None) -> Range:
    if isinstance(takes, Words):
        raise ValueError(f"takes words, not a range: {{ choices = {shown(takes.words)} }}")
    first, last = takes.read(low, of), takes.read(high, of)
    if not first < last:
        raise ValueError(f"low = {shown(low)} must be below high = {shown(high)}")
    return Range(takes, first, last, log, of)


def _choice(takes: Takes, choices: Any, of: str | None) -> Choice:
    if not isinstance(choices, list) or not choices:
        raise ValueError(f"choices = {shown(choices)} must be a list of values")
    values = tuple(takes.read(value, of) for value in choices)
    if twice := [value for value in values if values.count(value) > 1]:
        raise ValueError(f"{shown(twice[0])} is among the choices twice")
    return Choice(takes, values, of)
