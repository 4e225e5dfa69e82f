"""Blocks: rows on their way from a source to partitions, kept aside until the split is known.

The rows of a block are grouped by class and shuffled within each class. How many rows of a class go to which partition
is drawn later; any run of a group is then a fair sample of it, and partitions read contiguous runs.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from workflows.data.labelled import Label, LabelledRows, label_order

DENSE_FROM = 0.5
"""From this density on, dense rows take no more room than CSR: 4 bytes per entry against 8 per non-zero."""


@dataclass(frozen=True)
class Summary:
    """What the job must know of a block."""

    groups: tuple[tuple[Label, int], ...]  # class and rows, in the block's order
    width: int
    nonzeros: int

    @property
    def rows(self) -> int:
        return sum(count for _, count in self.groups)


class Kept(Protocol):
    """A block that lies somewhere else."""

    def load(self) -> Any:
        """Its matrix; the memory may be mapped."""
        ...


def block_of(rows: LabelledRows, seed: np.random.SeedSequence) -> tuple[Summary, Any]:
    """The rows in the block's order, dense or CSR, whichever is smaller, and their summary."""
    generator = np.random.default_rng(seed)
    present = sorted(set(rows.codes.tolist()), key=lambda code: label_order(rows.classes[code]))
    members = [generator.permutation(np.flatnonzero(rows.codes == code)) for code in present]
    order = np.concatenate([*members, np.empty(0, np.intp)]).astype(np.intp)
    matrix = rows.matrix
    nonzeros = int(matrix.nnz if issparse(matrix) else np.count_nonzero(matrix))
    if issparse(matrix) and nonzeros >= DENSE_FROM * matrix.shape[0] * matrix.shape[1]:
        matrix = matrix.toarray()
    groups = tuple((rows.classes[code], len(member)) for code, member in zip(present, members, strict=True))
    return Summary(groups, int(matrix.shape[1]), nonzeros), matrix[order]


@dataclass(frozen=True)
class FileBlock:
    """A block in NumPy files."""

    stem: str
    width: int
    sparse: bool

    @classmethod
    def save(cls, stem: Path, matrix: Any) -> "FileBlock":
        sparse = issparse(matrix)
        for part, array in _parts(matrix).items():
            np.save(f"{stem}.{part}.npy", array)
        return cls(str(stem), int(matrix.shape[1]), sparse)

    def load(self) -> Any:
        if not self.sparse:
            return self._array("values")
        starts = self._array("starts")
        parts = (self._array("values"), self._array("features"), starts)
        return csr_array(parts, shape=(len(starts) - 1, self.width))

    def _array(self, part: str) -> NDArray[Any]:
        return np.load(f"{self.stem}.{part}.npy", mmap_mode="r")  # type: ignore[no-any-return]


def _parts(matrix: Any) -> dict[str, NDArray[Any]]:
    if issparse(matrix):
        return {"values": matrix.data, "features": matrix.indices, "starts": matrix.indptr}
    return {"values": matrix}
