"""What benchmarks have in common: parts that are measured one by one, figures with goals, a file of results.

A part is measured in an empty folder. Parts that are not measured this time stay in the file as they are. What must not
be disturbed, or measures memory, runs in a process of its own:

    python benchmarks/frame.py MODULE FUNCTION ARGUMENTS        prints what the function returns, as JSON
"""

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
CORES = 2
LIBRARIES = ("mmbsgd", "numpy", "pyarrow", "pandas", "scikit-learn")
STARTED = time.perf_counter()

Raw = dict[str, Any]
T = TypeVar("T")


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


@dataclass(frozen=True)
class Part:
    measure: Callable[..., Raw]
    """From an empty folder, the plan, and what the parts have measured that it needs."""
    figures: Callable[[Raw], Iterator[Figure]]
    needs: tuple[str, ...] = ()


def progress(text: str) -> None:
    print(f"[{time.perf_counter() - STARTED:7.1f} s] {text}", file=sys.stderr, flush=True)


def in_a_process(task: Callable[..., Raw], **arguments: Any) -> Raw:
    """What a library prints before the result does not matter."""
    words = [task.__module__, task.__name__, json.dumps(arguments, default=str)]
    done = subprocess.run([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def in_a_folder(task: Callable[..., Raw], **arguments: Any) -> Raw:
    """In a process, with an empty folder."""
    with tempfile.TemporaryDirectory(prefix="mmbsgd-task-") as folder:
        return in_a_process(task, folder=folder, **arguments)


def two_at_a_time(jobs: Iterable[Callable[[], T]]) -> list[T]:
    with ThreadPoolExecutor(CORES) as pool:
        return list(pool.map(lambda job: job(), jobs))


def machine(*more: str) -> Raw:
    """more: libraries whose versions matter."""
    describe = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(describe, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in (*LIBRARIES, *more)},
        "commit": commit,
        "load_average_before": os.getloadavg()[0],
    }


def options(about: str, parts: Mapping[str, Part]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--only", default=",".join(parts), help="comma-separated, of: %(default)s")
    parser.add_argument("--folder", type=Path, help="where to write what is generated; a disk, not memory")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", help="folder for the results")
    return parser


def add_quick(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="few of everything: a smoke test, in a file of its own")


def asked(parser: argparse.ArgumentParser, parts: Mapping[str, Part]) -> tuple[argparse.Namespace, list[str]]:
    """The options and the parts; from now on this process has two cores."""
    arguments = parser.parse_args()
    names = arguments.only.lower().split(",")
    if unknown := [name for name in names if name not in parts]:
        parser.error(f"unknown part {', '.join(unknown)}; the parts are {', '.join(parts)}")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    return arguments, names


def run(
    parts: Mapping[str, Part],
    names: Iterable[str],
    plan: Any,
    file: Path | None,
    folder: Path | None,
    libraries: tuple[str, ...] = (),
) -> Raw:
    """All results, old and new. file: None where nothing is to be kept."""
    results: Raw = json.loads(file.read_text()) if file and file.exists() else {}
    for name in names:
        part = parts[name]
        if missing := [need for need in part.needs if need not in results]:
            raise SystemExit(f"{name} needs what {', '.join(missing)} measures: --only {','.join([*missing, name])}")
        progress(name)
        facts = machine(*libraries)
        with tempfile.TemporaryDirectory(prefix="mmbsgd-benchmark-", dir=folder) as empty:
            found = part.measure(Path(empty), plan, *(results[need] for need in part.needs))
        found = json.loads(json.dumps(found))  # as it will be read again
        found["figures"] = [figure.as_dict() for figure in part.figures(found)]
        facts["load_average_after"] = os.getloadavg()[0]
        results[name] = found | {"machine": facts, "plan": vars(plan) if hasattr(plan, "__dict__") else plan}
        results = {name: results[name] for name in parts if name in results}
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(results, indent=1) + "\n")
    return results


def show(results: Raw, *tables: Table, width: int = 170) -> None:
    """Goals and what was measured, after these tables."""
    verdicts = Table("figure", "verdict", "measured", "goal", title="Figures")
    for raw in (raw for part in results.values() for raw in part["figures"]):
        sign, goal, unit = "≥" if raw["at_least"] else "≤", raw["goal"], raw["unit"]
        wanted = "" if goal is None else f"{sign} {goal:g}{unit}"
        verdicts.add_row(raw["name"], raw["verdict"], f"{raw['value']:.4g}{unit}", wanted)
    Console(width=None if sys.stdout.isatty() else width).print(*tables, verdicts)


if __name__ == "__main__":
    task = getattr(importlib.import_module(sys.argv[1]), sys.argv[2])
    print(json.dumps(task(**json.loads(sys.argv[3]))))
