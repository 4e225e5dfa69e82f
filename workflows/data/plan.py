"""The plan of a preparation: which rows go to which partition.

A source that has been read lies in blocks (see `blocks`). The plan fixes the sizes of splits and partitions, deals
every block's rows to them (see `splitting`), and hands out gatherings, one per partition.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workflows.data import sources
from workflows.data.blocks import DENSE_FROM, Kept, Summary
from workflows.data.gathering import Gathering
from workflows.data.labelled import Label, label_order, same_label
from workflows.data.manifest import Layout
from workflows.data.request import Request
from workflows.data.splitting import Bin, Share, bins, deal, even_sizes, split_sizes, stratified
from workflows.errors import DataError

PARTITION_BYTES = 32 << 20


@dataclass(frozen=True)
class Staged:
    """A source that has been read."""

    source: sources.Source
    blocks: list[tuple[Summary, Kept]]

    @property
    def labels(self) -> set[Label]:
        return {label for summary, _ in self.blocks for label, _ in summary.groups}

    @property
    def width(self) -> int:
        return max((summary.width for summary, _ in self.blocks), default=0)

    def counts(self, labels: tuple[Label, Label]) -> list[tuple[int, int]]:
        """Rows of both classes per block."""
        groups = [dict(summary.groups) for summary, _ in self.blocks]
        return [(group.get(labels[0], 0), group.get(labels[1], 0)) for group in groups]


@dataclass(frozen=True)
class Plan:
    request: Request
    sources: list[sources.Source]
    labels: tuple[Label, Label]
    width: int
    nonzeros: int
    layout: Layout
    bins: list[Bin]
    blocks: list[tuple[tuple[Label, ...], Kept]]  # labels in the block's order, and the block
    dealt: NDArray[np.int32]  # (blocks, bins + 1, classes): rows before each bin's, cumulated over the bins

    @property
    def rows(self) -> int:
        return sum(place.rows for place in self.bins)

    @property
    def bytes(self) -> int:
        """What the partitions will take, nearly."""
        return 4 * self.rows * self.width if self.layout == "dense" else 8 * self.nonzeros + 4 * self.rows


def make_plan(request: Request, main: Staged, test: Staged | None) -> Plan:
    labels = _ordered(request, main)
    width = max(main.width, request.width or 0)
    columns = main.source.columns
    if columns is not None and width > len(columns.features):
        raise DataError(f"--width {width} does not fit a table of {len(columns.features)} features: leave it out")
    if width == 0:
        raise DataError(f"{main.source.record.name} has no features")
    staged = [main] if test is None else [main, test]
    rows = sum(summary.rows for part in staged for summary, _ in part.blocks)
    nonzeros = sum(summary.nonzeros for part in staged for summary, _ in part.blocks)
    layout: Layout = request.layout if request.layout != "auto" else "dense"
    if request.layout == "auto" and nonzeros < DENSE_FROM * rows * width:
        layout = "sparse"
    row_bytes = 4 * width if layout == "dense" else 4 + 8 * nonzeros / rows
    per_partition = request.rows_per_partition or max(int(PARTITION_BYTES / row_bytes), 1)
    generator = np.random.default_rng([request.seed, 2])
    places: list[Bin] = []
    shares = []
    for part in staged:
        counts = part.counts(labels)
        total = (sum(first for first, _ in counts), sum(second for _, second in counts))
        sizes = _sizes(request, sum(total), test is not None) if part is main else {"test": sum(total)}
        own = bins(total, sizes, per_partition) if part is main else _test_bins(total, per_partition)
        shares.append((len(places), own, counts))
        places += own
    dealt = np.zeros((sum(len(part.blocks) for part in staged), len(places) + 1, 2), np.int32)
    block = 0
    for begin, own, counts in shares:
        for taken in deal(counts, own, generator):
            dealt[block, begin + 1 : begin + 1 + len(own)] = taken
            block += 1
    np.cumsum(dealt, axis=1, out=dealt)
    blocks = [(tuple(label for label, _ in summary.groups), kept) for part in staged for summary, kept in part.blocks]
    return Plan(request, [part.source for part in staged], labels, width, nonzeros, layout, places, blocks, dealt)


def _ordered(request: Request, main: Staged) -> tuple[Label, Label]:
    first, second = sorted(main.labels, key=label_order)
    wanted = request.wanted
    return (first, second) if not wanted or same_label(wanted[1], second) else (second, first)


def _sizes(request: Request, rows: int, tested: bool) -> dict[str, int]:
    test = [] if tested or not request.test_size else [Share("test", request.test_size)]
    sizes = split_sizes(rows, test, "train")
    left = sizes.pop("train")
    if request.folds:
        edges = [left * fold // request.folds for fold in range(request.folds + 1)]
        return {f"fold-{fold}": edges[fold + 1] - edges[fold] for fold in range(request.folds)} | sizes
    validation = [Share("validation", request.validation_size)] if request.validation_size else []
    return split_sizes(left, validation, "train") | sizes


def _test_bins(counts: tuple[int, int], per_partition: int) -> list[Bin]:
    if min(counts) > 0:
        return bins(counts, {"test": sum(counts)}, per_partition)
    return [Bin("test", piece) for piece in stratified(counts, even_sizes(sum(counts), per_partition))]  # one class


def gatherings(plan: Plan, splits: set[str] | None = None) -> Iterator[Gathering]:
    for number, place_ in enumerate(plan.bins):
        if splits is not None and place_.split not in splits:
            continue
        runs = []
        for (labels, kept), dealt in zip(plan.blocks, plan.dealt, strict=True):
            begin = 0
            for label in labels:
                code = plan.labels.index(label)
                first, last = int(dealt[number, code]), int(dealt[number + 1, code])
                if last > first:
                    runs.append((kept, begin + first, begin + last, code))
                begin += int(dealt[-1, code])
        request = plan.request
        yield Gathering(place_, number, runs, plan.width, plan.layout, request.staged_as, (request.seed, 3, number))
