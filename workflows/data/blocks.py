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
    """A block in files, one per array."""

    stem: str
    shape: tuple[int, int]
    arrays: tuple[tuple[str, str, tuple[int, ...]], ...]  # name, type and shape

    @classmethod
    def save(cls, stem: Path, matrix: Any) -> "FileBlock":
        parts = {"values": matrix}
        if issparse(matrix):
            parts = {"values": matrix.data, "features": matrix.indices, "starts": matrix.indptr}
        for name, array in parts.items():
            with open(f"{stem}.{name}", "wb", buffering=0) as file:
                left = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
                while left:  # a disk that fills up takes some of it first, and says why at the next try
                    left = left[file.write(left) :]
        arrays = tuple((name, array.dtype.str, array.shape) for name, array in parts.items())
        return cls(str(stem), matrix.shape, arrays)

    def load(self) -> Any:
        parts = [self._array(*array) for array in self.arrays]
        return parts[0] if len(parts) == 1 else csr_array(tuple(parts), shape=self.shape)

    def _array(self, name: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
        if 0 in shape:  # nothing cannot be mapped
            return np.empty(shape, dtype)
        return np.memmap(f"{self.stem}.{name}", dtype, mode="r", shape=shape)
