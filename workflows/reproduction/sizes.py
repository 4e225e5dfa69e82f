"""How much of the paper is done again: all of it, or a quick look at everything."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Size:
    name: str
    rows: int | None
    """Training rows of a set, at most; None: all."""
    seeds: int
    """Runs of everything that is random."""
    peer_trials: int
    """With which every method is tuned."""
    thorough: bool

    def some(self, everything: Sequence[T], few: Sequence[T]) -> tuple[T, ...]:
        """What a grid covers in this size."""
        return tuple(everything if self.thorough else few)


FULL = Size("full", None, seeds=5, peer_trials=30, thorough=True)
QUICK = Size("quick", 4_000, seeds=2, peer_trials=6, thorough=False)
