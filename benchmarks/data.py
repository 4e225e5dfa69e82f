"""Preparing data beside reading it with scikit-learn, pandas and pyarrow; opening it; memory; training from it.

    python benchmarks/data.py [--only libsvm,csv,open,memory,train] [--folder DIR] [--out DIR]

Everything is generated, and removed at the end: up to 10 GB. Every measurement is a process of its own on at most two
cores; its clock starts after its imports, and methods that are compared take turns. Files have just been written: they
come from the system's cache, not from a disk. Seconds are medians, CPU seconds count all threads.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median

import data_tasks as tasks
from data_tasks import MB, WIDTH
from frame import CORES, Figure, Part, Raw, asked, in_a_process, options, progress, run, show
from rich.table import Table

TEXT_ROWS, OPEN_ROWS, TRAIN_ROWS = 500_000, 1_000_000, 5_000_000
MEMORY_BYTES = 4e9
REPEATS, OPENINGS = 3, 5

Method = Callable[[], Raw]


# Parts: each gets a folder, emptied after it, and the share of the full size to take.


def prepared(source: Path, workers: int = CORES) -> Raw:
    return in_a_process(tasks.run_prepare, source=source, out=source.parent / "prepared", workers=workers)


def in_turns(file: Raw, methods: dict[str, Method]) -> dict[str, Raw]:
    """Every method once, then again."""
    runs: dict[str, list[Raw]] = {name: [] for name in methods}
    for repeat in range(REPEATS):
        for name, method in methods.items():
            runs[name].append(method())
            progress(f"{name}, {repeat + 1} of {REPEATS}: {runs[name][-1]['seconds']:.2f} s")
    return {name: summary(found, file["bytes"]) for name, found in runs.items()}


def summary(runs: list[Raw], size: float) -> Raw:
    seconds = [raw["seconds"] for raw in runs]
    return {
        "median": median(seconds),
        "best": min(seconds),
        "cpu": median(raw["cpu_seconds"] for raw in runs),
        "mb_per_second": size / MB / median(seconds),
        "peak_mb": max(raw["peak_mb"] for raw in runs),
        "seconds": seconds,
    }


def preparing(source: Path) -> dict[str, Method]:
    return {
        "prepare": lambda: prepared(source),
        "prepare, one worker": lambda: prepared(source, workers=1),
    }


def text_part(folder: Path, scale: float, *, kind: str) -> Raw:
    source = folder / f"rows.{kind}"
    file = in_a_process(tasks.write_text, path=source, kind=kind, rows=int(TEXT_ROWS * scale))
    readers: dict[str, dict[str, Method]] = {
        "libsvm": {"load_svmlight_file": partial(in_a_process, tasks.run_scikit_learn, source=source)},
        "csv": {
            "pandas": partial(in_a_process, tasks.run_pandas, source=source),
            "pandas, low_memory=False": partial(in_a_process, tasks.run_pandas, source=source, low_memory=False),
            "pyarrow": partial(in_a_process, tasks.run_pyarrow, source=source, typed=False),
            "pyarrow, types given": partial(in_a_process, tasks.run_pyarrow, source=source, typed=True),
        },
    }
    return {"file": file, "methods": in_turns(file, readers[kind] | preparing(source))}


def open_part(folder: Path, scale: float) -> Raw:
    source = folder / "rows.parquet"
    file = in_a_process(tasks.write_parquet, path=source, rows=int(OPEN_ROWS * scale))
    methods = in_turns(file, preparing(source))
    runs = [in_a_process(tasks.run_open, folder=folder / "prepared") for _ in range(OPENINGS)]
    return {
        "file": file,
        "methods": methods,
        "runs": runs,
        **{key: median(run[key] for run in runs) for key in runs[0]},
    }


def memory_part(folder: Path, scale: float) -> Raw:
    found: Raw = {}
    for kind in ("csv", "libsvm"):
        source = folder / f"rows.{kind}"
        file = in_a_process(tasks.write_text, path=source, kind=kind, size=MEMORY_BYTES * scale)
        progress(f"preparing {file['bytes'] / MB:,.0f} MB of {kind} text")
        found[kind] = prepared(source) | {"file": file}
        source.unlink()
    return found


def train_part(folder: Path, scale: float) -> Raw:
    """First a small set: kernels are compiled and on disk before memory is measured."""
    source = folder / "rows.parquet"
    for rows in (20_000, int(TRAIN_ROWS * scale)):
        progress(f"training on {rows:,} rows")
        file = in_a_process(tasks.write_parquet, path=source, rows=rows)
        preparation = prepared(source)
        raw = in_a_process(tasks.run_train, folder=folder / "prepared")
    return raw | {"file": file, "preparation": preparation}


# The figures.


def faster(text: str, methods: Raw, slow: str, fast: str = "prepare", goal: float | None = None) -> Iterator[Figure]:
    """By medians, which a goal is held to, and beside a goal by the best repeats."""
    for clock, wanted in (("median", goal), ("best", None))[: 1 if goal is None else 2]:
        ratio = methods[slow][clock] / methods[fast][clock]
        yield Figure(f"{text} ({clock} of {REPEATS})", ratio, wanted, at_least=True)


def libsvm_figures(part: Raw) -> Iterator[Figure]:
    methods = part["methods"]
    yield from faster("LIBSVM: `prepare`, × faster than scikit-learn's loader", methods, "load_svmlight_file", goal=1.6)
    yield from faster("LIBSVM: two workers, × faster than one", methods, "prepare, one worker")


def csv_figures(part: Raw) -> Iterator[Figure]:
    methods = part["methods"]
    yield from faster("CSV: `prepare`, × faster than pandas", methods, "pandas", goal=5)
    yield from faster("CSV: `prepare`, × faster than pandas, low_memory=False", methods, "pandas, low_memory=False")
    yield from faster("CSV: pyarrow's reader alone, × faster than pandas", methods, "pandas", "pyarrow")
    yield from faster("CSV: the same, types given", methods, "pandas", "pyarrow, types given")
    yield from faster("CSV: two workers, × faster than one", methods, "prepare, one worker")


def open_figures(part: Raw) -> Iterator[Figure]:
    yield from faster("Parquet: two workers, × faster than one", part["methods"], "prepare, one worker")
    rows = f"{part['file']['rows']:,} × {WIDTH}"
    yield Figure(f"opening {rows} (median of {OPENINGS} processes)", 1e3 * part["open"], 100, unit=" ms")
    for key, name in {"first": "first pass, checked", "second": "second pass", "in_memory": "sum in memory"}.items():
        yield Figure(f"{rows}: {name}", part["gb"] / part[key], unit=" GB/s")
    for key in ("first", "second"):
        yield Figure(f"{rows}: {key} pass, × the time of the sum in memory", part[key] / part["in_memory"])


def memory_figures(part: Raw) -> Iterator[Figure]:
    for kind in ("csv", "libsvm"):
        raw = part[kind]
        text = f"preparing {raw['file']['bytes'] / 1e9:.1f} GB of {kind.upper()}"
        yield Figure(f"{text}: peak memory", raw["peak_mb"], 1000, unit=" MB")
        yield Figure(f"{text}: before any data", raw["before_mb"], unit=" MB")
        yield Figure(f"{text}: throughput", raw["file"]["bytes"] / MB / raw["seconds"], unit=" MB/s")


def train_figures(part: Raw) -> Iterator[Figure]:
    text = f"one epoch on {part['training_rows']:,} of {part['file']['rows']:,} × {WIDTH}"
    yield Figure(f"{text}: peak memory / training split", part["peak_mb"] / part["split_mb"], 1)
    yield Figure(f"{text}: peak memory", part["peak_mb"], unit=" MB")
    yield Figure(f"{text}: of it interpreter, libraries and kernels", part["before_mb"], unit=" MB")
    yield Figure(f"{text}: training split", part["split_mb"], unit=" MB")
    yield Figure(f"{text}: whole set", part["set_mb"], unit=" MB")
    yield Figure(f"{text}: time, bias included", part["seconds"], unit=" s")
    yield Figure(f"{text}: accuracy on the test split", part["accuracy"], unit="%")


PARTS = {
    "libsvm": Part(partial(text_part, kind="libsvm"), libsvm_figures),
    "csv": Part(partial(text_part, kind="csv"), csv_figures),
    "open": Part(open_part, open_figures),
    "memory": Part(memory_part, memory_figures),
    "train": Part(train_part, train_figures),
}


# The run.


def readers(results: Raw) -> Table:
    table = Table("file", "method", "median s", "best s", "CPU s", "MB/s", "peak MB", title=f"{REPEATS} runs in turns")
    for part in results.values():
        for name, raw in part.get("methods", {}).items():
            numbers = (f"{raw[key]:.2f}" for key in ("median", "best", "cpu"))
            file = f"{part['file']['kind']}, {part['file']['bytes'] / MB:,.0f} MB"
            table.add_row(file, name, *numbers, f"{raw['mb_per_second']:,.0f}", f"{raw['peak_mb']:,.0f}")
    return table


def main() -> None:
    parser = options("Preparing data beside reading it, in one run on two cores.", PARTS)
    parser.add_argument("--scale", type=float, default=1.0, help=argparse.SUPPRESS)  # a smoke test; nothing is kept
    arguments, names = asked(parser, PARTS)
    file = arguments.out / "data.json" if arguments.scale == 1 else None
    results = run(PARTS, names, arguments.scale, file, arguments.folder)
    show(results, readers(results), width=150)


if __name__ == "__main__":
    main()
