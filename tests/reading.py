"""Sources read to their end, as tests of the readers want them."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from workflows.data.sources import Source, open_source
from workflows.data.text import TextChunk


class Everything(NamedTuple):
    source: Source
    parts: list[Any]

    @property
    def matrix(self):
        """All rows, dense."""
        parts = [part.matrix.toarray() if issparse(part.matrix) else part.matrix for part in self.parts]
        width = max((part.shape[1] for part in parts), default=0)
        return np.vstack(
            [np.empty((0, width)), *(np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts)]
        )

    @property
    def labels(self):
        return [label for part in self.parts for label in labels_of(part)]


def labels_of(rows):
    return [rows.classes[code] for code in rows.codes]


def chunk_of(data, name="some file", first_line=1):
    return TextChunk(name, first_line, data, len(data))


def read_all(path, dtype=np.float32, **options):
    """Every row of a source; what any reader promises is checked on the way."""
    source = open_source(str(path), **options)
    parts = [part for task in source.tasks for part in source.read(task, dtype)]
    for part in parts:
        values = part.matrix.data if issparse(part.matrix) else part.matrix
        assert values.dtype == dtype
        assert np.isfinite(values).all()
        assert part.matrix.shape[0] == len(part.codes) == len(part)
        assert np.all((part.codes >= 0) & (part.codes < len(part.classes)))
        assert len(set(part.classes)) == len(part.classes)
    return Everything(source, parts)
