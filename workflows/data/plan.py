"""The plan of a preparation: what was asked for, and which rows go to which partition.

A source that has been read lies in blocks (see `blocks`). The plan fixes the sizes of splits and partitions, deals
every block's rows to them (see `splitting`), and hands out gatherings: the rows of one partition as contiguous runs of
blocks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from workflows.data import sources
from workflows.data.blocks import DENSE_FROM, Kept, Summary
from workflows.data.labelled import Label, label_order, listed, plain_label, same_label
from workflows.data.manifest import Layout
from workflows.data.scaling import METHODS, Method, needs_moments
from workflows.data.splitting import Bin, Share, bins, deal, even_sizes, split_sizes, stratified
from workflows.errors import DataError

PARTITION_BYTES = 32 << 20
LayoutChoice = Literal["auto", "dense", "sparse"]


@dataclass(frozen=True)
class Request:
    """What to prepare, and how."""

    source: str
    out: str
    test: str | None = None
    kind: sources.Kind | None = None
    label: str | None = None
    dropped: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    """The two labels to keep, the positive one last; empty: the source has two."""
    scale: Method = "none"
    layout: LayoutChoice = "auto"
    rows_per_partition: int | None = None
    """None: as many as make 32 MB."""
    test_size: float = 0.2
    """A share or a number of rows; without meaning where there is a test file."""
    validation_size: float = 0.2
    """A share of what is left for training, or a number of rows."""
    folds: int = 0
    """With K folds there is no validation split."""
    width: int | None = None
    """Features, where the source shows fewer."""
    rows: int = sources.DEMO_ROWS
    seed: int = 0
    workers: int | None = None
    ray_address: str | None = None
    replace: bool = False

    def __post_init__(self) -> None:
        for name, value, known in (
            ("scale", self.scale, METHODS),
            ("layout", self.layout, get_args(LayoutChoice)),
            ("kind", self.kind, (None, *sources.KINDS)),
        ):
            if value not in known:
                raise DataError(f"{name}={value!r} is none of {listed(known)}")
        for name, number, least in (
            ("seed", self.seed, 0),
            ("rows", self.rows, 10),
            ("workers", self.workers, 1),
            ("rows_per_partition", self.rows_per_partition, 1),
            ("width", self.width, 1),
            ("test_size", self.test_size, 0),
            ("validation_size", self.validation_size, 0),
        ):
            if number is not None and number < least:
                raise DataError(f"{name}={number} must be at least {least}")
        if self.folds < 0 or self.folds == 1:
            raise DataError(f"folds={self.folds}: take 2 or more, or 0 for none")
        if self.classes and (len(self.classes) != 2 or self.classes[0] == self.classes[1]):
            raise DataError(f"classes={self.classes!r} must be two labels, the negative one first")


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
    wanted = [plain_label(label) for label in request.classes]
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


@dataclass(frozen=True)
class Gathering:
    """The rows of one partition, as runs of blocks."""

    place: Bin
    number: int
    runs: list[tuple[Kept, int, int, int]]  # block, first and last row, class
    width: int
    layout: Layout
    dtype: Any
    seed: tuple[int, ...]

    def rows(self) -> tuple[Any, NDArray[np.int8]]:
        """Shuffled, with their classes."""
        order = np.random.default_rng(self.seed).permutation(self.place.rows)
        codes = np.empty(self.place.rows, np.int8)
        parts = []
        dense = np.zeros((self.place.rows, self.width), self.dtype) if self.layout == "dense" else None
        begin = 0
        for kept, first, last, code in self.runs:
            places = order[begin : begin + last - first]
            begin += last - first
            codes[places] = code
            part = kept.load()[first:last]
            if dense is None:
                parts.append(_widened(part, self.width))
            else:
                dense[places, : part.shape[1]] = part.toarray() if issparse(part) else part
        if dense is not None:
            return dense, codes
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return vstack(parts, format="csr")[back], codes


def _widened(part: Any, width: int) -> csr_array:
    part = csr_array(part)
    return csr_array((part.data, part.indices, part.indptr), shape=(part.shape[0], width))


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
        dtype = np.float64 if needs_moments(plan.request.scale) else np.float32
        yield Gathering(place_, number, runs, plan.width, plan.layout, dtype, (plan.request.seed, 3, number))
