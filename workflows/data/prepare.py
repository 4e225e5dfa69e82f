"""`prepare`: what a user has becomes a folder of Arrow partitions with a manifest, in bounded memory.

read    tasks parse chunks of the sources into blocks, which wait aside          (workers)
plan    class counts are known: sizes of splits and partitions, and who goes where
learn   the scaling, from the training rows alone                                 (workers)
write   tasks gather, shuffle, scale and write one partition each                 (workers)
finish  the manifest
"""

import shlex
import shutil
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse

from mmbsgd.rows import LARGEST_VALUE
from mmbsgd.scaling import Scaling
from workflows.data import partitions, sources
from workflows.data.blocks import Kept, Summary, block_of
from workflows.data.gathering import Gathering
from workflows.data.labelled import Label, LabelledRows, label_order, listed, same_label
from workflows.data.manifest import HELD_OUT, Manifest, PartitionRecord, ScalingRecord
from workflows.data.places import Place, place
from workflows.data.plan import Plan, Staged, gatherings, make_plan
from workflows.data.request import Request
from workflows.data.scaling import Moments, learn, needs_moments
from workflows.data.target import Target, writing
from workflows.data.workers import RayTasks, Threads, Workers
from workflows.errors import DataError

Progress = Callable[[str, float, float], None]


def prepare(request: Request, progress: Progress = lambda stage, done, total: None) -> Manifest:
    """Reads the sources and writes the folder; on any error nothing is left of it."""
    with writing(place(request.out), replace=request.replace) as target:
        address = request.ray_address
        workers: Workers = RayTasks(address) if address else Threads(target.scratch, request.workers)
        main, test = _read_all(request, workers, progress)
        plan = make_plan(request, main, test)
        _check_room(plan, target)
        scaling = _learn(plan, workers, progress)
        manifest = _write(plan, scaling, workers, target, progress)
        manifest.save(target.folder)
    return manifest


def _read_all(request: Request, workers: Workers, progress: Progress) -> tuple[Staged, Staged | None]:
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
        # Generated test rows are others than the training rows; files do not care about the seed.
        test = sources.open_source(request.test, **options | {"seed": request.seed + 1}, like=train.columns)
    main = _read(train, 0, request, workers, progress)
    if missing := [label for label in request.wanted if not any(same_label(label, one) for one in main.labels)]:
        raise DataError(f"no row of {train.record.name} has the label {listed(missing)}")
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


def _read(source: sources.Source, origin: int, request: Request, workers: Workers, progress: Progress) -> Staged:
    positions: list[int] = []

    def numbered() -> Iterator[tuple[int, sources.Task]]:
        for number, task in enumerate(source.tasks):
            positions.append(sources.position(task, positions[-1] if positions else 0))
            yield number, task

    name, wanted = source.record.name, request.wanted
    read = partial(
        _blocks,
        name=name,
        columns=source.columns,
        delimiter=source.delimiter,
        dtype=request.staged_as,
        wanted=wanted,
        entropy=(request.seed, origin),
    )
    blocks: list[tuple[Summary, Kept]] = []
    seen: set[Label] = set()
    for number, part in enumerate(workers.keep(read, numbered())):
        blocks += part
        seen |= {label for summary, _ in part for label, _ in summary.groups}
        _check_classes(name, seen)
        progress(f"reading {name}", positions[number], max(source.record.bytes, 1))
    if not any(summary.rows for summary, _ in blocks):
        what = f"no row of the classes {listed(wanted)}" if wanted else "no rows"
        raise DataError(f"{name} has {what}")
    return Staged(source, blocks)


def _check_classes(name: str, labels: Collection[Label]) -> None:
    if len(labels) > 2:
        found = sorted(labels, key=label_order)
        raise DataError(
            f"{name} has more than two classes: {listed(found)}; pick two of them, for example "
            f"--classes {shlex.quote(f'{found[0]},{found[1]}')}"
        )


def _blocks(
    numbered: tuple[int, sources.Task],
    *,
    name: str,
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
        if not wanted:
            _check_classes(name, rows.classes)
        if len(chosen):
            yield block_of(chosen, seeds.spawn(1)[0])


def _check_room(plan: Plan, target: Target) -> None:
    if not target.folder.local:
        return
    free = shutil.disk_usage(target.folder.path).free
    if plan.bytes > free:
        raise DataError(
            f"cannot write {target.folder.name}: {plan.layout} rows take {plan.bytes / 1e6:,.0f} MB, and "
            f"{free / 1e6:,.0f} MB are free; free some space, choose another disk"
            + (", or say --layout sparse" if plan.layout == "dense" else "")
        )


def _learn(plan: Plan, workers: Workers, progress: Progress) -> Scaling:
    method = plan.request.scale
    if not needs_moments(method):
        return Scaling(method)
    training = {place_.split for place_ in plan.bins} - set(HELD_OUT)
    total = sum(place_.split in training for place_ in plan.bins)

    def parts() -> Iterator[Moments]:
        for done, moments in enumerate(workers.run(_moments, gatherings(plan, training)), 1):
            progress("learning the scaling", done, total)
            yield moments

    return learn(method, parts(), sparse=plan.layout == "sparse")


def _moments(gathering: Gathering) -> Moments:
    """Runs in a worker."""
    return Moments.of(gathering.rows()[0])


def _write(plan: Plan, scaling: Scaling, workers: Workers, target: Target, progress: Progress) -> Manifest:
    write = partial(_partition, folder=target.folder, mark=target.mark, scaling=scaling, labels=plan.labels)
    records = []
    for record in workers.run(write, gatherings(plan)):
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
    gathering: Gathering, *, folder: Place, mark: str, scaling: Scaling, labels: tuple[Label, Label]
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
    name = f"{place_.split}-{gathering.number:05d}{mark}.arrow"
    written = partitions.write(folder.child(name), matrix, codes, labels)
    return PartitionRecord(
        file=name,
        split=place_.split,
        rows=place_.rows,
        counts=place_.counts,
        bytes=written.bytes,
        fingerprint=written.fingerprint,
    )
