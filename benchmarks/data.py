"""Preparing data beside reading it with scikit-learn, pandas and pyarrow; opening it; memory; training from it.

    python benchmarks/data.py [--only libsvm,csv,open,memory,train] [--folder DIR] [--out DIR]

Everything is generated, and removed at the end: up to 10 GB. Every measurement is a process of its own on at most two
cores; its clock starts after its imports, and methods that are compared take turns. Files have just been written: they
come from the system's cache, not from a disk. Seconds are medians, CPU seconds count all threads.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import data_tasks as tasks
from data_tasks import MB, WIDTH, Raw
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
CORES = 2
TEXT_ROWS, OPEN_ROWS, TRAIN_ROWS = 500_000, 1_000_000, 5_000_000
MEMORY_BYTES = 4e9
REPEATS, OPENINGS = 3, 5
STARTED = time.perf_counter()

Method = Callable[[], Raw]


def progress(text: str) -> None:
    print(f"[{time.perf_counter() - STARTED:7.1f} s] {text}", file=sys.stderr, flush=True)


def in_a_process(task: Callable[..., Raw], **arguments: Any) -> Raw:
    command = [sys.executable, tasks.__file__, task.__name__, json.dumps(arguments, default=str)]
    return dict(json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout))


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


PARTS: dict[str, Callable[[Path, float], Raw]] = {
    "libsvm": partial(text_part, kind="libsvm"),
    "csv": partial(text_part, kind="csv"),
    "open": open_part,
    "memory": memory_part,
    "train": train_part,
}


# The figures.


@dataclass(frozen=True)
class Figure:
    name: str
    value: float
    goal: float | None = None  # None: for information
    at_least: bool = False
    unit: str = ""

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        return "met" if (self.value >= self.goal if self.at_least else self.value <= self.goal) else "not met"

    def as_dict(self) -> Raw:
        return vars(self) | {"verdict": self.verdict}


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


FIGURES: dict[str, Callable[[Raw], Iterator[Figure]]] = {
    "libsvm": libsvm_figures,
    "csv": csv_figures,
    "open": open_figures,
    "memory": memory_figures,
    "train": train_figures,
}


# The run.


def show(parts: Raw) -> None:
    readers = Table(
        "file", "method", "median s", "best s", "CPU s", "MB/s", "peak MB", title=f"{REPEATS} runs in turns"
    )
    verdicts = Table("figure", "verdict", "measured", "goal", title="Figures")
    for part in parts.values():
        for name, raw in part.get("methods", {}).items():
            numbers = (f"{raw[key]:.2f}" for key in ("median", "best", "cpu"))
            file = f"{part['file']['kind']}, {part['file']['bytes'] / MB:,.0f} MB"
            readers.add_row(file, name, *numbers, f"{raw['mb_per_second']:,.0f}", f"{raw['peak_mb']:,.0f}")
        for raw in part["figures"]:
            sign, goal, unit = "≥" if raw["at_least"] else "≤", raw["goal"], raw["unit"]
            wanted = "" if goal is None else f"{sign} {goal:g}{unit}"
            verdicts.add_row(raw["name"], raw["verdict"], f"{raw['value']:.4g}{unit}", wanted)
    Console(width=None if sys.stdout.isatty() else 150).print(readers, verdicts)


def machine() -> Raw:
    describe = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(describe, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    libraries = ("mmbsgd", "numpy", "pyarrow", "pandas", "scikit-learn")
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in libraries},
        "commit": commit,
        "load_average_before": os.getloadavg()[0],
    }


def run(names: list[str], folder: Path | None, file: Path, scale: float) -> None:
    """Parts that are not measured now stay as they are in the file."""
    parts: Raw = json.loads(file.read_text()) if file.exists() and scale == 1 else {}
    for name in names:
        progress(name)
        facts = machine()
        with tempfile.TemporaryDirectory(prefix="mmbsgd-benchmark-", dir=folder) as empty:
            part = PARTS[name](Path(empty), scale)
        part["figures"] = [figure.as_dict() for figure in FIGURES[name](part)]
        parts[name] = part | {"machine": facts | {"load_average_after": os.getloadavg()[0]}}
        parts = {name: parts[name] for name in PARTS if name in parts}
        if scale == 1:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(parts, indent=1) + "\n")
    show(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description="Preparing data beside reading it, in one run on two cores.")
    parser.add_argument("--only", default=",".join(PARTS), help="comma-separated, of: %(default)s")
    parser.add_argument("--folder", type=Path, help="where to write what is generated; a disk, not memory")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", help="folder for the results")
    parser.add_argument("--scale", type=float, default=1.0, help=argparse.SUPPRESS)  # a smoke test; nothing is kept
    arguments = parser.parse_args()
    names = arguments.only.lower().split(",")
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"unknown part {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    run(names, arguments.folder, arguments.out / "data.json", arguments.scale)


if __name__ == "__main__":
    main()
