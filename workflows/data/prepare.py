"""`prepare`: what a user has becomes a folder of Arrow partitions with a manifest, in bounded memory.

read    tasks parse chunks of the sources into blocks, which wait aside          (workers)
plan    class counts are known: sizes of splits and partitions, and who goes where
learn   the scaling, from the training rows alone                                 (workers)
write   tasks gather, shuffle, scale and write one partition each                 (workers)
finish  the manifest
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from mmbsgd.rows import LARGEST_VALUE
from workflows.data import partitions, sources
from workflows.data.blocks import DENSE_FROM, Kept, Summary, block_of
from workflows.data.labelled import Label, LabelledRows, label_order, listed, plain_label
from workflows.data.manifest import Layout, Manifest, PartitionRecord, ScalingRecord
from workflows.data.places import Place, place
from workflows.data.scaling import Method, Moments, Scaling, needs_moments
from workflows.data.splitting import Bin, Share, bins, deal, split_sizes
from workflows.data.target import writing
from workflows.data.workers import RayTasks, Threads, Workers
from workflows.errors import DataError

PARTITION_BYTES = 32 << 20
LayoutChoice = Literal["auto", "dense", "sparse"]
Progress = Callable[[str, float, float], None]


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


def prepare(request: Request, progress: Progress = lambda stage, done, total: None) -> Manifest:
    """Reads the sources and writes the folder; on any error nothing is left of it."""
    with writing(place(request.out), replace=request.replace) as (folder, scratch):
        address = request.ray_address
        workers: Workers = RayTasks(address) if address else Threads(scratch, request.workers)
        main, test = _read_all(request, workers, progress)
        plan = _plan(request, main, test)
        scaling = _learn(plan, workers, progress)
        manifest = _write(plan, scaling, workers, folder, progress)
        manifest.save(folder)
    return manifest


@dataclass(frozen=True)
class _Staged:
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


def _read_all(request: Request, workers: Workers, progress: Progress) -> tuple[_Staged, _Staged | None]:
    options: dict[str, Any] = {
        "kind": request.kind,
        "label": request.label,
        "dropped": request.dropped,
        "rows": request.rows,
        "seed": request.seed,
    }
    train = sources.open_source(request.source, **options)
    test = None
    if request.test is not None:
        test = sources.open_source(request.test, **options, like=train.columns)
    main = _read(train, 0, request, workers, progress)
    if len(main.labels) < 2:
        raise DataError(
            f"{train.record.name} has one class only, {listed(main.labels)}: training needs rows of two classes"
        )
    if test is None:
        return main, None
    held = _read(test, 1, request, workers, progress)
    if unknown := held.labels - main.labels:
        raise DataError(f"{test.record.name} has labels that {train.record.name} has not: {listed(unknown)}")
    if held.width > max(main.width, request.width or 0):
        raise DataError(
            f"{test.record.name} has {held.width} features, {train.record.name} only {main.width}: do they belong "
            f"together? If so, say --width {held.width}"
        )
    return main, held


def _read(source: sources.Source, origin: int, request: Request, workers: Workers, progress: Progress) -> _Staged:
    positions: list[int] = []

    def numbered() -> Iterator[tuple[int, sources.Task]]:
        for number, task in enumerate(source.tasks):
            positions.append(sources.position(task, positions[-1] if positions else 0))
            yield number, task

    wanted = tuple(plain_label(label) for label in request.classes)
    read = partial(
        _blocks,
        columns=source.columns,
        delimiter=source.delimiter,
        dtype=np.float64 if needs_moments(request.scale) else np.float32,
        wanted=wanted,
        entropy=(request.seed, origin),
    )
    name = source.record.name
    blocks: list[tuple[Summary, Kept]] = []
    seen: set[Label] = set()
    for number, part in enumerate(workers.keep(read, numbered())):
        blocks += part
        seen |= {label for summary, _ in part for label, _ in summary.groups}
        if len(seen) > 2:
            found = sorted(seen, key=label_order)
            raise DataError(
                f"{name} has more than two classes: {listed(found)}; pick two of them, for example "
                f"--classes {found[0]},{found[1]}"
            )
        progress(f"reading {name}", positions[number], max(source.record.bytes, 1))
    if not any(summary.rows for summary, _ in blocks):
        what = f"no row of the classes {listed(wanted)}" if wanted else "no rows"
        raise DataError(f"{name} has {what}")
    return _Staged(source, blocks)


def _blocks(
    numbered: tuple[int, sources.Task],
    *,
    columns: Any,
    delimiter: str,
    dtype: Any,
    wanted: tuple[Label, ...],
    entropy: tuple[int, int],
) -> Iterator[tuple[Summary, Any]]:
    """Runs in a worker."""
    number, task = numbered
    seeds = np.random.SeedSequence([*entropy, number])
    rows: LabelledRows
    for rows in sources.read(task, columns, delimiter, dtype):
        chosen = rows.only(wanted) if wanted else rows
        if len(chosen):
            yield block_of(chosen, seeds.spawn(1)[0])


@dataclass(frozen=True)
class _Plan:
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


def _plan(request: Request, main: _Staged, test: _Staged | None) -> _Plan:
    labels = _ordered(request, main)
    width = max(main.width, request.width or 0)
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
    return _Plan(request, [part.source for part in staged], labels, width, nonzeros, layout, places, blocks, dealt)


def _ordered(request: Request, main: _Staged) -> tuple[Label, Label]:
    first, second = sorted(main.labels, key=label_order)
    wanted = [plain_label(label) for label in request.classes]
    return (first, second) if not wanted or wanted[1] == second else (second, first)


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
    if min(counts) == 0:  # a test file may show one class only
        return [Bin("test", counts)]
    return bins(counts, {"test": sum(counts)}, per_partition)


@dataclass(frozen=True)
class _Gathering:
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


def _gatherings(plan: _Plan, splits: set[str] | None = None) -> Iterator[_Gathering]:
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
        yield _Gathering(place_, number, runs, plan.width, plan.layout, dtype, (plan.request.seed, 3, number))


def _learn(plan: _Plan, workers: Workers, progress: Progress) -> Scaling:
    method = plan.request.scale
    if not needs_moments(method):
        return Scaling(method)
    training = {place_.split for place_ in plan.bins} - {"validation", "test"}
    total = sum(place_.split in training for place_ in plan.bins)

    def parts() -> Iterator[Moments]:
        for done, moments in enumerate(workers.run(_moments, _gatherings(plan, training)), 1):
            progress("learning the scaling", done, total)
            yield moments

    return Scaling.learn(method, parts(), sparse=plan.layout == "sparse")


def _moments(gathering: _Gathering) -> Moments:
    """Runs in a worker."""
    return Moments.of(gathering.rows()[0])


def _write(plan: _Plan, scaling: Scaling, workers: Workers, folder: Place, progress: Progress) -> Manifest:
    write = partial(_partition, folder=folder, scaling=scaling, labels=plan.labels)
    records = []
    for record in workers.run(write, _gatherings(plan)):
        records.append(record)
        progress("writing partitions", len(records), len(plan.bins))
    columns = plan.sources[0].columns
    return Manifest(
        sources=[source.record for source in plan.sources],
        seed=plan.request.seed,
        layout=plan.layout,
        rows=plan.rows,
        width=plan.width,
        density=plan.nonzeros / (plan.rows * plan.width),
        features=list(columns.features) if columns else None,
        labels=plan.labels,
        scaling=ScalingRecord(
            method=scaling.method,
            shift=None if scaling.shift is None else scaling.shift.tolist(),
            factor=None if scaling.factor is None else scaling.factor.tolist(),
        ),
        partitions=records,
    )


def _partition(
    gathering: _Gathering, *, folder: Place, scaling: Scaling, labels: tuple[Label, Label]
) -> PartitionRecord:
    """Runs in a worker."""
    matrix, codes = gathering.rows()
    matrix = scaling.apply(matrix)
    values = matrix.data if issparse(matrix) else matrix
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    if not largest <= LARGEST_VALUE:
        raise DataError(
            f"the largest value is {largest:.3g}; float32 holds distances of numbers up to {LARGEST_VALUE:.0e}: "
            "say --scale minmax or --scale standard"
        )
    place_ = gathering.place
    name = f"{place_.split}-{gathering.number:05d}.arrow"
    written = partitions.write(folder.child(name), matrix, codes, labels)
    return PartitionRecord(
        file=name,
        split=place_.split,
        rows=place_.rows,
        counts=place_.counts,
        bytes=written.bytes,
        fingerprint=written.fingerprint,
    )
