"""The manifest: what a prepared folder holds. It is written last, so that a folder without one is not finished."""

import json
import re
from typing import Any, Literal

import numpy as np
import xxhash
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mmbsgd._version import __version__
from mmbsgd.scaling import Method, Scaling
from workflows.data.places import Place
from workflows.errors import DataError

FILE = "manifest.json"
FORMAT = "mmbsgd.data"
VERSION = 1
HELD_OUT = ("validation", "test")
"""Splits that no training sees unless it is told to."""
_MARK = re.compile(r"-[0-9a-f]{8}\.arrow$")  # of one writer to an object store
Layout = Literal["dense", "sparse"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class SourceRecord(_Record):
    name: str
    kind: str
    bytes: int


class ScalingRecord(_Record):
    method: Method
    shift: list[float] | None = None
    factor: list[float] | None = None

    def scaling(self) -> Scaling:
        if self.shift is None or self.factor is None:
            return Scaling(self.method)
        return Scaling(self.method, np.array(self.shift), np.array(self.factor))


class PartitionRecord(_Record):
    file: str = Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$")  # never a way out of the folder
    split: str
    rows: int = Field(ge=1)
    counts: tuple[int, int]
    bytes: int = Field(ge=1)
    fingerprint: str

    @model_validator(mode="after")
    def _adds_up(self) -> "PartitionRecord":
        if min(self.counts) < 0 or sum(self.counts) != self.rows:
            raise ValueError("the rows of both classes do not add up to the rows")
        return self


class Manifest(_Record):
    format: str = FORMAT
    version: int = VERSION
    mmbsgd: str = __version__
    sources: list[SourceRecord]
    seed: int
    layout: Layout
    rows: int = Field(ge=1)
    width: int = Field(ge=1)
    density: float
    features: list[str] | None  # column names, where the source has them
    labels: tuple[bool | int | float | str, bool | int | float | str]
    scaling: ScalingRecord
    partitions: list[PartitionRecord]

    @model_validator(mode="after")
    def _adds_up(self) -> "Manifest":
        if sum(partition.rows for partition in self.partitions) != self.rows:
            raise ValueError("the partitions do not add up to the number of rows")
        if self.labels[0] == self.labels[1]:
            raise ValueError("the two labels are the same")
        for numbers in (self.scaling.shift, self.scaling.factor, self.features):
            if numbers is not None and len(numbers) != self.width:
                raise ValueError("scaling and feature names must have one entry per feature")
        return self

    @property
    def splits(self) -> dict[str, list[PartitionRecord]]:
        """The partitions of every split, in order."""
        found: dict[str, list[PartitionRecord]] = {}
        for partition in self.partitions:
            found.setdefault(partition.split, []).append(partition)
        return found

    def counts(self, *splits: str) -> tuple[int, int]:
        """Rows of both classes in these splits; in all of them, if none is named."""
        chosen = [part.counts for part in self.partitions if not splits or part.split in splits]
        return sum(first for first, _ in chosen), sum(second for _, second in chosen)

    @property
    def fingerprint(self) -> str:
        """Of the content: the same rows, splits, labels and scaling have the same, wherever they lie."""
        content = self.model_dump(mode="json", exclude={"sources": True, "mmbsgd": True, "format": True})
        for record in content["partitions"]:
            record["file"] = _MARK.sub(".arrow", record["file"])
        return f"xxh3:{xxhash.xxh3_128_hexdigest(json.dumps(content, sort_keys=True))}"

    def save(self, folder: Place) -> None:
        content = self.model_dump(mode="json") | {"splits": self._overview(), "fingerprint": self.fingerprint}
        folder.child(FILE).write(json.dumps(content, indent=1, ensure_ascii=False).encode())

    def _overview(self) -> dict[str, Any]:
        # For people who open the file; it is not read back.
        return {split: {"rows": sum(self.counts(split)), "counts": self.counts(split)} for split in self.splits}

    @classmethod
    def load(cls, folder: Place) -> "Manifest":
        file = folder.child(FILE)
        if not folder.exists():
            raise DataError(f"{folder.name} does not exist")
        if not file.is_file():
            raise DataError(
                f"{folder.name} is not a prepared data set: it has no {FILE}; make one with 'mmbsgd prepare'"
            )
        damaged = f"{file.name} is damaged"
        try:
            content = json.loads(file.buffer().to_pybytes())
        except (ValueError, RecursionError) as error:
            raise DataError(f"{damaged}: {error}; prepare the data again") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise DataError(f"{file.name} is not the manifest of a prepared data set")
        version = content.get("version")
        if isinstance(version, int) and version > VERSION:
            raise DataError(
                f"{folder.name} was prepared by a newer mmbsgd ({content.get('mmbsgd')}, format {version}; this one "
                f"reads {VERSION}): upgrade mmbsgd, or prepare the data again with this version"
            )
        try:
            manifest = cls.model_validate_json(json.dumps(content))
        except (ValidationError, RecursionError) as error:
            first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
            where = ".".join(str(part) for part in first["loc"])
            raise DataError(f"{damaged}: {where} {first['msg']}; prepare the data again") from None
        if content.get("fingerprint") != manifest.fingerprint:
            raise DataError(f"{damaged}: it does not match its fingerprint; prepare the data again")
        return manifest
