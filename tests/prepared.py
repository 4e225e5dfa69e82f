"""Sources to prepare, and what is in the folders made from them."""

import os
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import issparse

from workflows.data import PreparedData, Request, prepare


def class_blocks(seed, rows=120, width=4, density=1.0, share=0.4):
    """Float32 rows, no two alike, and labels -1 and +1: first all of one class, then all of the other."""
    generator = np.random.default_rng(seed)
    positive = max(round(rows * share), 1)
    labels = np.r_[-np.ones(rows - positive, np.int64), np.ones(positive, np.int64)]
    matrix = (generator.normal(size=(rows, width)) + labels[:, None]).astype(np.float32)
    matrix[generator.random(matrix.shape) >= density] = 0.0
    matrix[:, -1] = np.arange(1, rows + 1)
    return matrix, labels


def write_libsvm(path, matrix, labels):
    lines = []
    for row, label in zip(matrix, labels, strict=True):
        pairs = [f"{feature + 1}:{float(row[feature])!r}" for feature in np.flatnonzero(row)]
        lines.append(" ".join([f"{label:+d}", *pairs]))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def write_csv(path, matrix, labels, names=None, label="label", delimiter=","):
    names = names or [f"f{column}" for column in range(matrix.shape[1])]
    lines = [delimiter.join([*names, label])]
    for row, mark in zip(matrix, labels, strict=True):
        lines.append(delimiter.join([*(repr(float(value)) for value in row), str(mark)]))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def write_parquet(path, matrix, labels, names=None, row_group_size=None):
    names = names or [f"f{column}" for column in range(matrix.shape[1])]
    columns = {name: matrix[:, column] for column, name in enumerate(names)}
    pq.write_table(pa.table(columns | {"label": labels}), path, row_group_size=row_group_size)
    return str(path)


WRITERS = {"libsvm": write_libsvm, "csv": write_csv, "parquet": write_parquet}


def prepared(out, source="demo", **options):
    """The folder, prepared and opened; 600 rows if it is the demo."""
    prepare(Request(source=str(source), out=str(out), **({"rows": 600, "workers": 2} | options)))
    return PreparedData.open(out)


def dense(matrix):
    return matrix.toarray() if issparse(matrix) else np.asarray(matrix)


def gathered(data, *splits):
    """(rows, labels) of these splits, of all if none is named, in the order of the partitions."""
    rows, labels = [], []

    def add(partition):
        rows.append(dense(partition.matrix))
        labels.append(np.asarray(partition.labels)[partition.codes])

    data.split(*(splits or data.manifest.splits)).each(add)
    return np.concatenate(rows), np.concatenate(labels)


def multiset(matrix, labels):
    """How often each row comes with each label."""
    rows = np.ascontiguousarray(matrix, np.float32) + np.float32(0.0)  # no negative zeros
    return Counter((row.tobytes(), str(label)) for row, label in zip(rows, labels, strict=True))


def fingerprints(manifest):
    return [partition.fingerprint for partition in manifest.partitions]


def entries(folder):
    """Everything in a folder, hidden things too."""
    return sorted(os.listdir(folder))


@contextmanager
def unchanged(folder):
    """Nothing appears or goes in this folder."""
    before = entries(folder)
    yield
    assert entries(folder) == before


def mapped_ranges(path):
    """Where this process has mapped a file."""
    found = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            if line.rstrip("\n").endswith(str(path)):
                begin, end = line.split(" ", 1)[0].split("-")
                found.append((int(begin, 16), int(end, 16)))
    return found


def lies_in(array, path):
    """Whether all of the array's memory is that of the mapped file."""
    begin = array.__array_interface__["data"][0]
    return any(first <= begin and begin + array.nbytes <= last for first, last in mapped_ranges(path))


def outcome(estimator):
    """The bits that training ends with."""
    return (
        estimator.support_vectors_.tobytes(),
        estimator.dual_coef_.tobytes(),
        float(estimator.intercept_[0]).hex(),
        float(estimator.gamma_).hex(),
    )
