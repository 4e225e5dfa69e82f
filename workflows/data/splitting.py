"""Who goes where: stratified splits, cut into stratified partitions, drawn at random without holding the rows.

Sizes are exact and decided first. Then every block's rows of a class are dealt to the partitions that still have room
for that class, by a multivariate hypergeometric draw: each row is equally likely to land in any free place, so that the
result is a uniformly random stratified shuffle of the whole, whatever order the source had. Memory is O(partitions).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from workflows.errors import DataError


@dataclass(frozen=True)
class Share:
    """How many of the rows a split gets: a fraction below 1, or a number of rows."""

    split: str
    size: float

    def rows(self, total: int) -> int:
        return round(self.size * total) if self.size < 1 else int(self.size)


@dataclass(frozen=True)
class Bin:
    """A partition to be filled."""

    split: str
    counts: tuple[int, int]  # rows per class

    @property
    def rows(self) -> int:
        return sum(self.counts)


def split_sizes(total: int, shares: Sequence[Share], rest: str) -> dict[str, int]:
    """Rows per split; `rest` takes what the shares leave."""
    for share in shares:
        if not math.isfinite(share.size) or (share.size > 1 and share.size != int(share.size)):
            raise DataError(
                f"the size of {share.split} must be a share below 1 or a number of rows, not {share.size:g}"
            )
    sizes = {share.split: share.rows(total) for share in shares}
    left = total - sum(sizes.values())
    if left < 1 or min(sizes.values(), default=1) < 1:
        wanted = ", ".join(f"{split} {rows:,}" for split, rows in sizes.items())
        raise DataError(f"{total:,} rows cannot be split into {wanted} and something for {rest}: ask for other sizes")
    return {rest: left, **sizes}


def stratified(counts: tuple[int, int], sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Rows of both classes per piece: every piece has its exact size and, within one row, the overall shares.

    Rounding the cumulated number of second-class rows keeps the totals exact, too.
    """
    total = sum(counts)
    ends = [0, *accumulate(sizes)]
    upto = [(2 * end * counts[1] + total) // (2 * total) for end in ends]
    second = [after - before for before, after in pairwise(upto)]
    return [(size - number, number) for size, number in zip(sizes, second, strict=True)]


def bins(counts: tuple[int, int], sizes: Mapping[str, int], rows_per_partition: int) -> list[Bin]:
    """The partitions of every split, of nearly equal sizes."""
    made = []
    for (split, size), share in zip(sizes.items(), stratified(counts, list(sizes.values())), strict=True):
        if min(share) == 0:
            raise DataError(
                f"one class has only {min(counts):,} rows, too few for a share in each of {', '.join(sizes)}: "
                "ask for fewer or larger splits, or bring more rows"
            )
        made += [Bin(split, piece) for piece in stratified(share, even_sizes(size, rows_per_partition))]
    return made


def even_sizes(rows: int, most: int) -> list[int]:
    """Pieces of nearly equal size, none above `most`."""
    pieces = -(-rows // most)
    return [rows * (piece + 1) // pieces - rows * piece // pieces for piece in range(pieces)]


def deal(
    groups: Sequence[Sequence[int]], places: Sequence[Bin], generator: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """For every block, given its rows per class: (bins, classes) how many of them go to which bin."""
    free = np.array([place.counts for place in places], np.int64)
    for counts in groups:
        taken = np.zeros_like(free)
        for code, count in enumerate(counts):
            if count:
                taken[:, code] = generator.multivariate_hypergeometric(free[:, code], count, method="marginals")
        free -= taken
        yield taken
