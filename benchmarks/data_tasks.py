"""What benchmarks/data.py measures. Each task is a process of its own: its name and its arguments as JSON come from
the command line, its result goes to the standard output as JSON.

NumPy, pyarrow and so on are imported where they are used: a process's memory shows only what its task needs. Clocks
start after the imports.
"""

import os
import resource
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

WIDTH = 54
NAMES = ("label", *(f"f{number}" for number in range(1, WIDTH + 1)))
BODY_ROWS = 50_000  # longer text repeats a body of so many rows
ROW_GROUP = 100_000
SUMS = 5
MB = 1e6

Raw = dict[str, Any]


def memory(name: str) -> float:
    """MB: VmRSS is what is held now, VmHWM the peak. ru_maxrss would begin with the peak of the process before exec."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024 / MB
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MB


def measured(work: Callable[[], Any]) -> Raw:
    before, wall, processor = memory("VmRSS"), time.perf_counter(), time.process_time()
    work()
    spent = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - processor}
    return spent | {"before_mb": before, "peak_mb": memory("VmHWM")}


def columns(rows: int, generator: Any) -> list[Any]:
    """Labels 1 and -1 that three of the features decide, a tenth of them flipped; then the features."""
    import numpy as np

    values = generator.standard_normal((WIDTH, rows), dtype=np.float32)
    flipped = generator.random(rows) < 0.1
    return [np.where((values[:3].sum(axis=0) > 0) != flipped, 1, -1), *values]


def write_text(path: str, kind: str, rows: int = 0, size: float = 0) -> Raw:
    """At least so many rows and bytes; values have five decimals."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    numbers = [pa.array(column.astype(np.float64).round(5)) for column in columns(BODY_ROWS, np.random.default_rng(0))]
    label, *features = [pc.cast(column, pa.string()) for column in numbers]
    if kind == "libsvm":
        features = [pc.binary_join_element_wise(str(at), feature, ":") for at, feature in enumerate(features, 1)]
    body = pa.BufferOutputStream()
    delimiter = "," if kind == "csv" else " "
    options = csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style="none")
    csv.write_csv(pa.table([label, *features], names=NAMES), body, options)
    content = body.getvalue()
    repeats = max(-(-rows // BODY_ROWS), -(-int(size) // content.size))
    with open(path, "wb") as file:
        file.write(f"{','.join(NAMES)}\n".encode() if kind == "csv" else b"")
        for _ in range(repeats):
            file.write(content)
        os.fsync(file.fileno())
    return {"kind": kind, "rows": repeats * BODY_ROWS, "bytes": os.path.getsize(path)}


def write_parquet(path: str, rows: int) -> Raw:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator = np.random.default_rng(0)
    schema = pa.schema([(name, pa.int64() if name == "label" else pa.float32()) for name in NAMES])
    with open(path, "wb") as file:
        with pq.ParquetWriter(file, schema, use_dictionary=["label"]) as writer:
            for start in range(0, rows, ROW_GROUP):
                writer.write_table(pa.table(columns(min(ROW_GROUP, rows - start), generator), schema=schema))
        os.fsync(file.fileno())
    return {"kind": "parquet", "rows": rows, "bytes": os.path.getsize(path)}


def run_prepare(source: str, out: str, workers: int) -> Raw:
    from workflows.data import Request, prepare

    shutil.rmtree(out, ignore_errors=True)
    return measured(lambda: prepare(Request(source=source, out=out, workers=workers)))


def run_scikit_learn(source: str) -> Raw:
    from sklearn.datasets import load_svmlight_file

    return measured(lambda: load_svmlight_file(source))


def run_pandas(source: str, **options: Any) -> Raw:
    import numpy as np
    import pandas as pd

    return measured(lambda: pd.read_csv(source, **options).to_numpy(np.float32))


def run_pyarrow(source: str, typed: bool) -> Raw:
    """typed: the reader need not find out what the columns hold."""
    import pyarrow as pa
    from pyarrow import csv

    options = csv.ConvertOptions(column_types=dict.fromkeys(NAMES, pa.float64()) if typed else None)
    return measured(lambda: csv.read_csv(source, convert_options=options))


def run_open(folder: str) -> Raw:
    """Opening, two passes that sum every value, the first of which checks fingerprints, and the same sum in memory."""
    import numpy as np

    from workflows.data import PreparedData

    opened: list[PreparedData] = []
    raw = {"open": measured(lambda: opened.append(PreparedData.open(folder)))["seconds"]}
    rows = opened[0].split(*opened[0].manifest.splits)
    for name in ("first", "second"):
        raw[name] = measured(lambda: rows.each(lambda partition: partition.matrix.sum()))["seconds"]
    parts: list[Any] = []
    rows.each(lambda partition: parts.append(np.array(partition.matrix)))
    whole = np.concatenate(parts)
    raw["in_memory"] = median(measured(whole.sum)["seconds"] for _ in range(SUMS))
    return raw | {"gb": whole.nbytes / 1e9}


def run_train(folder: str) -> Raw:
    """One epoch over the training split. A fit of few rows loads the kernels before any data is opened."""
    import numpy as np

    from mmbsgd import MultiMergeSVC
    from workflows.data import PreparedData

    imported = memory("VmRSS")
    estimator = MultiMergeSVC(budget=100, mergees=5, gamma="scale", epochs=1, polish=0, random_state=0)
    few = np.random.default_rng(0).standard_normal((500, WIDTH), dtype=np.float32)
    estimator.fit(few, few[:, 0] > 0)
    data = PreparedData.open(folder)
    training = data.split("train")
    raw = measured(lambda: estimator.fit_portions(training))
    scores, codes = data.split("test").decide(estimator.model_)
    return raw | {
        "imported_mb": imported,
        "training_rows": training.rows,
        "split_mb": sum(record.bytes for record in training.records) / MB,
        "set_mb": sum(record.bytes for record in data.manifest.partitions) / MB,
        "accuracy": 100 * float(np.mean((scores > 0) == codes)),
    }
