"""Prepared data, opened: splits of partitions that are mapped when they are visited, two at a time unless kept."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmbsgd.portions import Visitor
from workflows.data.labelled import Label
from workflows.data.manifest import Manifest, PartitionRecord
from workflows.data.partitions import Partition, Written, read
from workflows.data.places import Place, place
from workflows.errors import DataError


class PreparedData:
    """A folder that `prepare` wrote. Opening it reads the manifest; rows are read when they are visited."""

    def __init__(self, folder: Place, manifest: Manifest, *, keep: bool = False) -> None:
        """keep: partitions stay mapped once they have been visited, for many short trainings on the same data."""
        self.folder, self.manifest, self.keeps = folder, manifest, keep
        self._checked: set[str] = set()
        self._kept: dict[str, Partition] = {}

    @classmethod
    def open(cls, where: "str | os.PathLike[str] | Place", *, keep: bool = False) -> "PreparedData":
        folder = place(where)
        return cls(folder, Manifest.load(folder), keep=keep)

    @property
    def labels(self) -> tuple[Label, Label]:
        return self.manifest.labels

    def split(self, *names: str) -> "Split":
        """The rows of these splits together, for example `split("train", "validation")`."""
        known = self.manifest.splits
        for name in names:
            if name not in known:
                raise DataError(f"{self.folder.name} has no split {name!r}; it has: {', '.join(known)}")
        return Split(self, [record for name in dict.fromkeys(names) for record in known[name]])

    def partition(self, record: PartitionRecord) -> Partition:
        """Maps one partition; the first time, its content is checked against its fingerprint."""
        if record.file in self._kept:
            return self._kept[record.file]
        expected = Written(record.bytes, record.fingerprint)
        found = read(
            self.folder.child(record.file),
            expected,
            self.manifest.width,
            self.labels,
            check=record.file not in self._checked,
        )
        if len(found) != record.rows:
            raise DataError(
                f"{record.file} has {len(found)} rows, the manifest of {self.folder.name} says {record.rows}: prepare "
                "the data again"
            )
        self._checked.add(record.file)
        if self.keeps:
            self._kept[record.file] = found
        return found


class Split:
    """Rows that belong together. To the solver they are `Portions`: `MultiMergeSVC(...).fit_portions(split)`."""

    def __init__(self, data: PreparedData, records: Sequence[PartitionRecord]) -> None:
        self.data, self.records = data, list(records)
        self.counts = (sum(record.counts[0] for record in records), sum(record.counts[1] for record in records))

    @property
    def width(self) -> int:
        return self.data.manifest.width

    @property
    def classes(self) -> tuple[Label, Label]:
        return self.data.labels

    @property
    def rows(self) -> int:
        return sum(self.counts)

    def __len__(self) -> int:
        return len(self.records)

    def visit(self, order: Sequence[int], visitor: Visitor) -> None:
        self.each(lambda partition: visitor(partition.rows, partition.signs), order)

    def each(self, work: Callable[[Partition], None], order: Sequence[int] | None = None) -> None:
        """Calls `work` with the partitions one after the other; the next one is fetched meanwhile."""
        records = [self.records[number] for number in (range(len(self)) if order is None else order)]
        if self.data.keeps:
            for record in records:
                work(self.data.partition(record))
            return
        with ThreadPoolExecutor(1) as ahead:
            coming = [ahead.submit(self.data.partition, record) for record in records[:1]]
            for position in range(len(records)):
                partition = coming.pop().result()
                coming += [ahead.submit(self.data.partition, record) for record in records[position + 1 : position + 2]]
                work(partition)
                del partition

    def decide(self, model: Any) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
        """The model's decision values, and the classes 0 and 1 that the rows have."""
        scores: list[NDArray[np.float64]] = []
        codes: list[NDArray[np.int8]] = []

        def add(partition: Partition) -> None:
            scores.append(model.decision_function(partition.matrix))
            codes.append(np.array(partition.codes))

        self.each(add)
        return np.concatenate(scores), np.concatenate(codes)
