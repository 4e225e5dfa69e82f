"""The parameters of a space, the values that each takes, and what values may be relative to.

Relative values are multiplied by a fact of the data when a study starts, so that trials record absolute ones:

    of = "rows"              n, the number of training rows
    of = "scale"             1 / (d Var[x]), what gamma="scale" means
    of = "support-vectors"   the exact model's number of support vectors, for the paper's sets
    of = "paper-C"           what the paper tuned for this set; likewise "paper-gamma"
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Facts = Mapping[str, float]
"""The facts of the data, by unit."""
SHARES = ("rows", "support-vectors")
"""Units that a budget is a share of; more than all of them would be no budget."""


@dataclass(frozen=True)
class Words:
    """One of these words."""

    words: tuple[str, ...]
    units = ()

    def read(self, given: Any, of: str | None) -> str:
        if given not in self.words:
            raise ValueError(f"{shown(given)} is none of {', '.join(self.words)}")
        return str(given)

    def absolute(self, value: Any, of: str | None, facts: Facts) -> str:
        return str(value)


@dataclass(frozen=True)
class Numbers:
    """Numbers between two limits, perhaps whole ones, perhaps relative to some facts."""

    least: float = 1e-30
    most: float = 1e30
    whole: bool = False
    units: tuple[str, ...] = ()

    def read(self, given: Any, of: str | None) -> float:
        if isinstance(given, bool) or not isinstance(given, int | float):
            hint = f": write {{ value = 1, of = {shown(given)} }}" if given in self.units else ""
            raise ValueError(f"{shown(given)} is not a number{hint}")
        if of is None:
            return self._within_limits(given)
        most = 1 if of in SHARES else Numbers.most
        if not 0 < given <= most:
            raise ValueError(f"{shown(given)} of {of} must be above 0 and at most {most:g}")
        return float(given)

    def absolute(self, value: Any, of: str | None, facts: Facts) -> float:
        """What was read, in absolute units; a share that rounds to less than the least count becomes the least."""
        if of is None:
            return self._within_limits(value)
        fact = float(facts[of])
        if not 0 < fact < math.inf:
            raise ValueError(f"is relative to {of}, which is {fact:g} for this data: give absolute values")
        return self._within_limits(max(round(value * fact), self.least) if self.whole else value * fact)

    def _within_limits(self, number: float) -> float:
        if not self.least <= number <= self.most or (self.whole and number != int(number)):
            kind = "whole numbers" if self.whole else "numbers"
            hint = '; a share of the data needs of = "rows"' if "rows" in self.units and 0 < number < 1 else ""
            raise ValueError(f"takes {kind} from {self.least:,} to {self.most:,}, not {shown(number)}{hint}")
        return int(number) if self.whole else float(number)


Takes = Words | Numbers
TAKES: dict[str, Takes] = {
    "C": Numbers(units=("paper-C",)),
    "gamma": Numbers(units=("scale", "paper-gamma")),
    "budget": Numbers(1, 1_000_000, whole=True, units=SHARES),
    "mergees": Numbers(2, 1_000, whole=True),
    "epochs": Numbers(1, 10_000, whole=True),
    "polish": Numbers(0, 1_000, whole=True),
    "maintenance": Words(("cascade", "gradient", "projection", "removal")),
    "engine": Words(("fast", "paper")),
    "bias": Words(("calibrated", "optimal", "none")),
}


def shown(value: Any) -> str:
    """As TOML has it, unless that is long."""
    text = f"{value:.15g}" if isinstance(value, float) else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"
