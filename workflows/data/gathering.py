"""A gathering: the rows of one partition, brought together in a worker from contiguous runs of blocks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from workflows.data.blocks import Kept
from workflows.data.manifest import Layout
from workflows.data.splitting import Bin


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
