"""What a worker needs to run trials: the data, opened once, and warm kernels."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from mmbsgd import MultiMergeSVC
from workflows.data import PreparedData
from workflows.data.demo import checkerboard
from workflows.data.manifest import Manifest
from workflows.data.places import Place
from workflows.errors import DataError, StudyError
from workflows.trial import Run, run_trial


def warm_up() -> None:
    """Compiles the kernels, or loads them from the disk, before anything is timed."""
    MultiMergeSVC(budget=10, random_state=0).fit(*checkerboard(200, 0))


@dataclass(frozen=True)
class Workplace:
    """Where trials on this data run. On the same machine, or where the folder is shared, partitions are mapped from
    their files; elsewhere they come through Ray's object store. Either way a node holds one copy."""

    folder: Place
    fingerprint: str
    splits: frozenset[str]
    """Those that trials see; no others travel."""

    @classmethod
    def of(cls, data: PreparedData, splits: Iterable[str]) -> "Workplace":
        return cls(data.folder, data.manifest.fingerprint, frozenset(splits))

    def open(self) -> Run | None:
        if not self.folder.local:
            return None  # every worker would fetch and hold it for itself
        try:
            data = PreparedData.open(self.folder, keep=True)
        except DataError:
            return None
        return _ready(data) if data.manifest.fingerprint == self.fingerprint else None

    def share(self) -> "Shared":
        """Every node that cannot see the folder gets a copy, so it must fit into the smallest node's object store."""
        import ray

        data = PreparedData.open(self.folder)
        records = [record for record in data.manifest.partitions if record.split in self.splits]
        self._check_room(sum(record.bytes for record in records), ray.nodes())
        parts = {
            record.file: ray.put(np.frombuffer(data.folder.child(record.file).buffer(), np.uint8)) for record in records
        }
        return Shared(data.manifest, parts)

    def open_shared(self, shared: "Shared") -> Run:
        return _ready(PreparedData(_Store(shared.parts), shared.manifest, keep=True))  # type: ignore[arg-type]

    def _check_room(self, size: int, nodes: list[dict[str, Any]]) -> None:
        rooms = {
            node["NodeManagerAddress"]: int(node["Resources"].get("object_store_memory", 0))
            for node in nodes
            if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
        }
        smallest = min(rooms, key=lambda address: rooms[address], default=None)
        if smallest is None or size <= rooms[smallest]:
            return
        raise StudyError(
            f"not every node can see {self.folder.name}, and a copy does not fit: trials read {_megabytes(size)} of "
            f"it, the object store of node {smallest} holds {_megabytes(rooms[smallest])}; put the prepared folder "
            "where every node sees it under the same path, or start Ray with a larger --object-store-memory"
        )


@dataclass(frozen=True)
class Shared:
    """Prepared data in Ray's object store."""

    manifest: Manifest
    parts: dict[str, Any]
    """References to the partitions' bytes, by file."""


@dataclass(frozen=True)
class _Store:
    """Stands for the folder: partitions are views of the node's object store."""

    parts: dict[str, Any]
    name: str = "Ray's object store"

    def child(self, file: str) -> "_Part":
        return _Part(self.parts[file], file)


@dataclass(frozen=True)
class _Part:
    reference: Any
    name: str

    def buffer(self) -> pa.Buffer:
        import ray

        return pa.py_buffer(ray.get(self.reference))


def _ready(data: PreparedData) -> Run:
    warm_up()
    return partial(run_trial, data=data)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
