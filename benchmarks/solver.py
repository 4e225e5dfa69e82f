"""The solver beside scikit-learn's: time, accuracy, growth with n and B, memory, start-up.

    python benchmarks/solver.py [--sets adult,ijcnn] [--quick] [--skip-svc] [--out DIR]

Everything is measured in one run on one core; nothing is kept between runs. Models are not polished here, as in the
paper: `benchmarks/polishing.py` shows what that adds. Two clocks:

    fit s       processor time of `fit`, validation included, the same for every method: a neighbour on the core does
                not count. Times faster than SVC is the ratio of these
    training s  `training_.seconds`, the passes and the bias; kernel evaluations per second are counted over it

The exp limit is a float32 exp, built from the package's own `exp2`, over an array that fits the L1 cache.
"""

import os

for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

# ruff: noqa: E402 - BLAS reads its number of threads when NumPy is imported
import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.sparse import issparse
from sklearn.datasets import load_svmlight_file
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from mmbsgd import MultiMergeSVC
from mmbsgd.gaussian import LOG2_E
from mmbsgd.lanes import LANES, aligned, exp2, load, splat, store
from workflows.data.demo import checkerboard

ROOT = Path(__file__).resolve().parent.parent
BUDGET = 500
MERGEES = (2, 3, 5, 10)
L1_FLOATS = 4096
SPLIT_SEED = 0
STARTED = time.perf_counter()

Raw = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """A set of the paper: where its rows come from and the paper's C and gamma."""

    train: str
    test: str | None
    """None: `train_rows` of the one file are drawn by a seeded stratified split."""
    width: int
    C: float
    gamma: float
    accuracy_goal: float
    """How many points below exact SVC are allowed."""
    train_rows: int = 0
    dense: bool = False


SOURCES = {
    "adult": Source("a9a", "a9a.t", 123, C=32, gamma=0.008, accuracy_goal=0.7),
    "ijcnn": Source("ijcnn1", "ijcnn1.t", 22, C=32, gamma=2, accuracy_goal=1.5),
    "web": Source("w7a", "w7a.t", 300, C=8, gamma=0.03, accuracy_goal=0.7),
    "phishing": Source("phishing", None, 68, C=8, gamma=8, accuracy_goal=1.5, train_rows=8_315),
    "skin": Source("skin", None, 3, C=8, gamma=0.03, accuracy_goal=0.7, train_rows=164_788, dense=True),
}


@dataclass(frozen=True)
class Task:
    name: str
    C: float
    gamma: float
    train: tuple[Any, NDArray[Any]]
    test: tuple[Any, NDArray[Any]]


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    repeats: int = 5
    seeds: int = 5
    rows: int | None = None
    """At most so many training and test rows of each set."""
    growth_rows: tuple[int, ...] = (10_000, 31_600, 100_000, 316_000, 1_000_000)
    growth_budgets: tuple[int, ...] = (100, 200, 500, 1_000, 2_000, 5_000)
    growth_budget_rows: int = 50_000
    growth_repeats: int = 3
    memory_rows: int = 1_000_000
    cold: bool = True
    svc: bool = True


QUICK = Plan(
    repeats=2,
    seeds=2,
    rows=3_000,
    growth_rows=(10_000, 31_600, 100_000),
    growth_budgets=(100, 200, 500, 1_000),
    growth_budget_rows=10_000,
    growth_repeats=2,
    memory_rows=100_000,
    cold=False,
)


def progress(text: str) -> None:
    print(f"[{time.perf_counter() - STARTED:7.1f} s] {text}", file=sys.stderr, flush=True)


# The data.


def data_folder() -> Path:
    return Path(os.environ.get("MMBSGD_DATA", ROOT.parent / "shared" / "data"))


def tasks(names: Sequence[str], rows: int | None) -> list[Task]:
    """The sets whose files are there; one generated set if none is."""
    found = []
    for name in names:
        source = SOURCES[name]
        files = [data_folder() / f"{file}.bz2" for file in (source.train, source.test) if file]
        if all(path.exists() for path in files):
            progress(f"{name.upper()}: reading")
            found.append(shortened(read(name.upper(), source, files), rows))
        else:
            progress(f"{name.upper()}: left out, no {', '.join(map(str, files))}")
    if not found:
        progress("generating a checkerboard instead")
        found = [shortened(generated(), rows)]
    return found


def read(name: str, source: Source, files: list[Path]) -> Task:
    parts = [load_svmlight_file(str(path), n_features=source.width, dtype=np.float32) for path in files]
    matrices = [matrix.toarray() if source.dense else with_short_indices(matrix) for matrix, _ in parts]
    labels = [labels for _, labels in parts]
    if source.test is None:
        train_x, test_x, train_y, test_y = train_test_split(
            matrices[0], labels[0], train_size=source.train_rows, stratify=labels[0], random_state=SPLIT_SEED
        )
    else:
        (train_x, test_x), (train_y, test_y) = matrices, labels
    return Task(name, source.C, source.gamma, (train_x, train_y), (test_x, test_y))


def with_short_indices(matrix: Any) -> Any:
    """32-bit indices, as SciPy itself makes them; the LIBSVM reader returns 64-bit ones."""
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix


def generated() -> Task:
    return Task("CHECKERBOARD", 8.0, 8.0, checkerboard(20_000, seed=0), checkerboard(20_000, seed=1))


def shortened(task: Task, rows: int | None) -> Task:
    def part(matrix: Any, labels: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
        if rows is None or len(labels) <= rows:
            return matrix, labels
        kept, _ = train_test_split(np.arange(len(labels)), train_size=rows, stratify=labels, random_state=SPLIT_SEED)
        return matrix[kept], labels[kept]

    return replace(task, train=part(*task.train), test=part(*task.test))


def mixture(rows: int, seed: int = 0, *, width: int = 20, centres: int = 16, noise: float = 0.1) -> tuple[Any, Any]:
    """Overlapping clouds of points with noisy labels: at C=1, gamma=0.05 a fifth of the rows violates the margin."""
    middles = np.random.default_rng(7).normal(size=(centres, width)).astype(np.float32)
    generator = np.random.default_rng(seed)
    cloud = generator.integers(0, centres, rows)
    points = middles[cloud] + np.float32(0.7) * generator.standard_normal((rows, width), dtype=np.float32)
    flipped = generator.random(rows) < noise
    return points, np.where((cloud % 2 == 1) != flipped, 1, -1)


# Measuring.


@njit(error_model="numpy", fastmath={"contract"})  # type: ignore[untyped-decorator]
def fill_with_exp(exponents: NDArray[np.float32], out: NDArray[np.float32], repetitions: int) -> None:
    scale = splat(np.float32(LOG2_E))
    for _ in range(repetitions):
        for start in range(0, exponents.shape[0], LANES):
            store(out, start, exp2(load(exponents, start) * scale))


class ExpLimit:
    """Values of a float32 exp per second; `measure` it before, between and after what it is compared with."""

    def __init__(self) -> None:
        self.exponents, self.out = aligned(L1_FLOATS), aligned(L1_FLOATS)
        self.exponents[:] = -10.0 * np.random.default_rng(0).random(L1_FLOATS, dtype=np.float32)
        fill_with_exp(self.exponents, self.out, 1)
        if not np.allclose(self.out, np.exp(self.exponents), rtol=1e-5):
            raise RuntimeError("the vectorised exp is wrong: mmbsgd.lanes.exp2 has changed its meaning")
        self.samples: list[float] = []

    def measure(self, times: int = 5, repetitions: int = 2_000) -> None:
        for _ in range(times):
            began = time.perf_counter()
            fill_with_exp(self.exponents, self.out, repetitions)
            self.samples.append(repetitions * L1_FLOATS / (time.perf_counter() - began))

    @property
    def best(self) -> float:
        return max(self.samples)


def timed_fit(estimator: Any, data: tuple[Any, ...]) -> Raw:
    wall, processor = time.perf_counter(), time.process_time()
    estimator.fit(*data)
    return {"fit_seconds": time.process_time() - processor, "wall_seconds": time.perf_counter() - wall}


def multimerge(task: Task, *, seed: int, score: bool = True, **parameters: Any) -> Raw:
    estimator = MultiMergeSVC(C=task.C, gamma=task.gamma, random_state=seed, **{"polish": 0, **parameters})
    raw = timed_fit(estimator, task.train) | estimator.training_.as_dict()
    raw["kernel_evaluations_per_second"] = raw["kernel_evaluations"] / raw["seconds"]
    return raw | ({"accuracy": 100 * estimator.score(*task.test)} if score else {})


def quickest(runs: Iterable[Raw]) -> Raw:
    return min(runs, key=lambda raw: float(raw["seconds"]))


def warm_up(task: Task) -> None:
    """Compiles every kernel for this task's form of input."""
    few = shortened(task, 600)
    for engine in ("fast", "paper"):
        multimerge(few, seed=0, budget=20, mergees=3, engine=engine)


def fast_engine(task: Task, plan: Plan, limit: ExpLimit) -> list[Raw]:
    """Time: best of some repeats with one seed. Accuracy: mean over seeds."""
    first: dict[int, list[Raw]] = {mergees: [] for mergees in MERGEES}
    for _ in range(plan.repeats):
        for mergees, runs in first.items():
            limit.measure(1)
            runs.append(multimerge(task, seed=0, budget=BUDGET, mergees=mergees, score=not runs))
    rows = []
    for mergees, runs in first.items():
        others = [multimerge(task, seed=seed, budget=BUDGET, mergees=mergees) for seed in range(1, plan.seeds)]
        accuracies = [raw["accuracy"] for raw in (runs[0], *others)]
        label = {"method": f"fast, M={mergees}", "engine": "fast", "mergees": mergees}
        spread = {"accuracy": float(np.mean(accuracies)), "accuracies": accuracies}
        rows.append(quickest(runs) | label | spread | {"all_fit_seconds": [raw["fit_seconds"] for raw in runs]})
    return rows


def paper_engine(task: Task, plan: Plan) -> list[Raw]:
    rows = []
    for mergees in MERGEES:
        repeats = min(plan.repeats, 2 if len(task.train[1]) < 10_000 else 1)
        runs = [
            multimerge(task, seed=0, budget=BUDGET, mergees=mergees, engine="paper", score=repeat == 0)
            for repeat in range(repeats)
        ]
        label = {"method": f"paper, M={mergees}", "engine": "paper", "mergees": mergees}
        rows.append(quickest(runs) | label | {"accuracy": runs[0]["accuracy"]})
        progress(f"{task.name}: paper engine, M={mergees}: {rows[-1]['fit_seconds']:.2f} s")
    return rows


def once(data: tuple[Any, ...]) -> tuple[Any, ...]:
    """Equal rows as one row with their number as weight: the same problem for SVC, which on SKIN, where four rows in
    five are duplicates, would otherwise take longer than all the rest of this benchmark."""
    rows, labels = data
    _, first, counts = np.unique(np.column_stack((rows, labels)), axis=0, return_index=True, return_counts=True)
    return rows[first], labels[first], counts


def alternatives(task: Task, plan: Plan) -> list[Raw]:
    """What a user would pick instead, each once. SGD's alpha = 1 / (n C) makes it the same objective; its five passes
    took a sixth of the default's time on ADULT, with Nystroem, for the same accuracy; not checked elsewhere."""
    components = min(BUDGET, len(task.train[1]))
    sgd: Raw = {
        "loss": "hinge",
        "alpha": 1.0 / (len(task.train[1]) * task.C),
        "max_iter": 5,
        "tol": None,
        "random_state": 0,
    }
    nystroem = Nystroem(gamma=task.gamma, n_components=components, random_state=0)
    sampler = RBFSampler(gamma=task.gamma, n_components=components, random_state=0)
    candidates = {
        f"Nystroem({components}) + averaged SGD": make_pipeline(nystroem, SGDClassifier(average=True, **sgd)),
        f"RBFSampler({components}) + SGD": make_pipeline(sampler, SGDClassifier(**sgd)),
    }
    if plan.svc:
        candidates["SVC"] = SVC(C=task.C, gamma=task.gamma)
    rows = []
    for method, estimator in candidates.items():
        progress(f"{task.name}: {method}")
        data = once(task.train) if method == "SVC" and not issparse(task.train[0]) else task.train
        raw: Raw = {"method": method} | timed_fit(estimator, data)
        raw["accuracy"] = 100 * estimator.score(*task.test)
        if method == "SVC":
            raw["support_vectors"] = int(estimator.n_support_.sum())
        rows.append(raw)
        progress(f"{task.name}: {method}: {raw['fit_seconds']:.2f} s, {raw['accuracy']:.2f}%")
    return rows


def compare(task: Task, plan: Plan, limit: ExpLimit) -> list[Raw]:
    warm_up(task)
    progress(f"{task.name}: fast engine, n={len(task.train[1]):,}")
    limit.measure()
    rows = fast_engine(task, plan, limit) + paper_engine(task, plan)
    limit.measure()
    rows += alternatives(task, plan)
    svc = next((raw["fit_seconds"] for raw in rows if raw["method"] == "SVC"), None)
    return [
        {"set": task.name} | raw | {"times_faster": svc / raw["fit_seconds"] if svc is not None else None}
        for raw in rows
    ]


def several_epochs(task: Task, plan: Plan, comparison: list[Raw]) -> Raw:
    progress(f"{task.name}: accuracy after five epochs")
    runs = [multimerge(task, seed=seed, budget=BUDGET, mergees=2, epochs=5) for seed in range(plan.seeds)]
    accuracies = [raw["accuracy"] for raw in runs]
    svc = next((raw["accuracy"] for raw in comparison if (raw["set"], raw["method"]) == (task.name, "SVC")), None)
    mean = float(np.mean(accuracies))
    return {
        "set": task.name,
        "accuracy": mean,
        "deviation": float(np.std(accuracies, ddof=1)),
        "accuracies": accuracies,
        "fit_seconds": quickest(runs)["fit_seconds"],
        "svc_accuracy": svc,
        "points_below_svc": None if svc is None else svc - mean,
    }


def growth(plan: Plan) -> Raw:
    """Time against n and against B on generated rows, with log-log slopes."""
    most = max(*plan.growth_rows, plan.growth_budget_rows)
    points, labels = mixture(most)

    def times(rows: int, budget: int) -> Raw:
        progress(f"growth: n={rows:,}, B={budget:,}")
        data = (points[:rows], labels[:rows])
        task = Task("MIXTURE", 1.0, 0.05, data, data)
        runs = [multimerge(task, seed=0, score=False, budget=budget, mergees=5) for _ in range(plan.growth_repeats)]
        return {"rows": rows, "budget": budget} | min(runs, key=lambda raw: float(raw["fit_seconds"]))

    times(1_000, BUDGET)
    by_rows = [times(rows, BUDGET) for rows in plan.growth_rows]
    by_budget = [times(plan.growth_budget_rows, budget) for budget in plan.growth_budgets]
    return {
        "by_rows": by_rows,
        "by_budget": by_budget,
        "slope_rows": slope(by_rows, "rows"),
        "slope_budget": slope(by_budget, "budget"),
    }


def slope(runs: list[Raw], key: str) -> float:
    """The exponent p of seconds ~ key^p, by least squares on logarithms."""
    sizes, seconds = ([raw[name] for raw in runs] for name in (key, "fit_seconds"))
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


# What only a fresh process can show. VmHWM rather than ru_maxrss where there is one: the latter starts at the peak of
# the process that forked this one.

_MEMORY = """
import json, resource, sys
import numpy as np
from mmbsgd import MultiMergeSVC

def status(name):
    try:
        return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) * 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

rows, width = int(sys.argv[1]), 54
generator = np.random.default_rng(0)
estimator = MultiMergeSVC(C=1.0, gamma=1.0 / width, budget=100, mergees=3, polish=0, random_state=0)
few = generator.standard_normal((500, width), dtype=np.float32)
estimator.fit(few, few[:, 0] > 0).predict(few)
before = status("VmRSS")
data = np.empty((rows, width), np.float32)
for start in range(0, rows, 10_000):
    part = data[start : start + 10_000]
    part[:] = generator.standard_normal(part.shape, dtype=np.float32)
labels = np.where(data[:, 0] * data[:, 1] > 0, 1, -1)
try:
    open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew: compiling is not training
except OSError:
    pass
estimator.fit(data, labels)
peak, mb = status("VmHWM"), 1e6
print(json.dumps({
    "rows": rows, "data_mb": data.nbytes / mb, "peak_mb": peak / mb, "before_mb": before / mb,
    "over_data_mb": (peak - data.nbytes) / mb, "over_data_and_start_mb": (peak - data.nbytes - before) / mb,
    "training_seconds": estimator.training_.seconds,
}))
"""

_COMPILE = """
import json, time
import numpy as np
from scipy.sparse import csr_matrix
from mmbsgd import MultiMergeSVC

data = np.random.default_rng(0).standard_normal((300, 5)).astype(np.float32)
labels = data[:, 0] > 0
began = time.perf_counter()
for form in (data, csr_matrix(data)):
    for engine in ("fast", "paper"):
        for maintenance in ("cascade", "gradient", "projection", "removal"):
            MultiMergeSVC(budget=20, engine=engine, maintenance=maintenance).fit(form, labels).predict(form)
print(json.dumps({"seconds": time.perf_counter() - began}))
"""

_START = """
import json, time
began = time.perf_counter()
import numpy as np
from mmbsgd import MultiMergeSVC
imported = time.perf_counter()
data = np.random.default_rng(0).standard_normal((1000, 10)).astype(np.float32)
MultiMergeSVC(budget=50, random_state=0).fit(data, data[:, 0] > 0)
print(json.dumps({"import_seconds": imported - began, "fit_seconds": time.perf_counter() - imported}))
"""


def in_a_process(program: str, *arguments: str, **environment: str) -> Raw:
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **environment},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return cast(Raw, json.loads(done.stdout)) | {"process_seconds": time.perf_counter() - began}


def processes(plan: Plan) -> Raw:
    progress("a warm process: import and fit")
    starts = [in_a_process(_START) for _ in range(4)][1:]
    progress("peak memory")
    raw = {
        "warm": min(starts, key=lambda start: float(start["process_seconds"])),
        "memory": in_a_process(_MEMORY, str(plan.memory_rows)),
        "cold": None,
    }
    if plan.cold:
        progress("compiling everything, cold")
        warm = in_a_process(_COMPILE)
        with tempfile.TemporaryDirectory() as empty:
            raw["cold"] = in_a_process(_COMPILE, NUMBA_CACHE_DIR=empty) | {"same_when_warm": warm["seconds"]}
    return raw


# Showing.


@dataclass(frozen=True)
class Sheet:
    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""

    def show(self, console: Console) -> None:
        table = Table(title=self.title, caption=self.note or None, title_justify="left", caption_justify="left")
        for index, column in enumerate(self.columns):
            table.add_column(column, justify="left" if index < 2 else "right", no_wrap=index < 2)
        for row in self.rows:
            table.add_row(*row)
        console.print(table)

    def markdown(self) -> str:
        marks = ["---" if index < 2 else "---:" for index in range(len(self.columns))]
        lines = [f"| {' | '.join(cells)} |" for cells in (self.columns, marks, *self.rows)]
        return "\n".join([f"### {self.title}", "", *lines, *(["", self.note] if self.note else []), ""])


def shown(value: float | None, pattern: str = "{:.2f}") -> str:
    return "–" if value is None else pattern.format(value)


def seconds_shown(seconds: float | None) -> str:
    return shown(seconds, "{:.4f}" if seconds is not None and seconds < 1 else "{:.2f}")


def comparison_sheet(rows: list[Raw], limit: float) -> Sheet:
    def cells(raw: Raw) -> tuple[str, ...]:
        share, rate = raw.get("maintenance_share"), raw.get("kernel_evaluations_per_second")
        return (
            raw["set"],
            raw["method"],
            seconds_shown(raw["fit_seconds"]),
            seconds_shown(raw.get("seconds")),
            shown(raw["times_faster"], "{:,.1f}" if (raw["times_faster"] or 0) < 100 else "{:,.0f}"),
            shown(raw["accuracy"]),
            shown(raw.get("support_vectors"), "{:,}"),
            shown(None if share is None else 100 * share, "{:.1f}"),
            shown(None if rate is None else rate / 1e6, "{:,.0f}"),
            shown(None if rate is None else rate / limit, "{:.3f}"),
        )

    columns = (
        "set", "method", "fit s", "training s", "× faster than SVC", "test accuracy %",
        "support vectors", "maintenance %", "10⁶ kernel evaluations / s", "of the exp limit",
    )  # fmt: skip
    note = f"B={BUDGET}, one epoch, calibrated bias; exp limit {limit / 1e9:.2f}·10⁹ values/s."
    return Sheet("One epoch beside the alternatives", columns, [cells(raw) for raw in rows], note)


def epochs_sheet(rows: list[Raw]) -> Sheet:
    cells = [
        (
            raw["set"],
            f"{raw['accuracy']:.2f} ± {raw['deviation']:.2f}",
            shown(raw["svc_accuracy"]),
            shown(raw["points_below_svc"]),
            seconds_shown(raw["fit_seconds"]),
        )
        for raw in rows
    ]
    columns = ("set", "test accuracy %", "SVC %", "points below SVC", "fit s")
    return Sheet(f"Five epochs: B={BUDGET}, M=2, mean and deviation over seeds", columns, cells)


def growth_sheets(raw: Raw) -> list[Sheet]:
    def sheet(title: str, runs: list[Raw], exponent: float) -> Sheet:
        cells = [
            (
                f"{run['rows']:,}",
                f"{run['budget']:,}",
                seconds_shown(run["fit_seconds"]),
                shown(100 * run["margin_violations"] / run["steps"], "{:.1f}"),
                shown(100 * run["maintenance_share"], "{:.1f}"),
            )
            for run in runs
        ]
        note = f"Log-log slope {exponent:.3f}. Generated mixture of 20 dense features, M=5, one epoch."
        return Sheet(title, ("n", "B", "fit s", "margin violations %", "maintenance %"), cells, note)

    return [
        sheet("Time against n", raw["by_rows"], raw["slope_rows"]),
        sheet("Time against B", raw["by_budget"], raw["slope_budget"]),
    ]


def processes_sheet(raw: Raw) -> Sheet:
    memory, warm, cold = raw["memory"], raw["warm"], raw["cold"]
    rows = [
        (f"peak memory, {memory['rows']:,} × 54 float32 ({memory['data_mb']:.0f} MB)", f"{memory['peak_mb']:.0f} MB"),
        ("of it the process before the data was made", f"{memory['before_mb']:.0f} MB"),
        ("peak minus data", f"{memory['over_data_mb']:.0f} MB"),
        ("peak minus data and process", f"{memory['over_data_and_start_mb']:.0f} MB"),
        ("warm process from start to end, interpreter included", f"{warm['process_seconds']:.2f} s"),
        ("of it import", f"{warm['import_seconds']:.2f} s"),
        ("of it fit", f"{warm['fit_seconds']:.2f} s"),
        ("compiling everything, cold", "–" if cold is None else f"{cold['seconds']:.1f} s"),
        ("the same from the cache", "–" if cold is None else f"{cold['same_when_warm']:.2f} s"),
    ]
    return Sheet("Memory and start-up", ("what", "measured"), rows)


# The figures that the issue sets.


@dataclass(frozen=True)
class Figure:
    name: str
    value: float | None
    goal: float
    at_least: bool
    unit: str = ""

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        return "met" if (self.value >= self.goal if self.at_least else self.value <= self.goal) else "not met"

    def cells(self) -> tuple[str, ...]:
        digits = ".0f" if abs(self.goal) >= 100 else ".3f" if 0 < self.goal < 0.7 else ".2f"
        sign = "≥" if self.at_least else "≤"
        return (
            self.name,
            self.verdict,
            shown(self.value, f"{{:{digits}}}{self.unit}"),
            f"{sign} {self.goal:g}{self.unit}",
        )


def figures(results: Raw) -> list[Figure]:
    limit = results["exp_limit"]["best"]
    found = {(raw["set"], raw.get("engine"), raw.get("mergees")): raw for raw in results["comparison"]}
    names = list(dict.fromkeys(raw["set"] for raw in results["comparison"]))

    def of(name: str, mergees: int, key: str, factor: float = 1.0) -> float | None:
        value = found.get((name, "fast", mergees), {}).get(key)
        return None if value is None else value * factor

    rate, processes = "kernel_evaluations_per_second", results["processes"]
    listed = [
        Figure("ADULT, M=2: times faster than SVC", of("ADULT", 2, "times_faster"), 500, True),
        Figure("ADULT, M=5: times faster than SVC", of("ADULT", 5, "times_faster"), 900, True),
        Figure("ADULT, M=5: evaluations/s of the exp limit (aim 0.35)", of("ADULT", 5, rate, 1 / limit), 0.2, True),
        Figure("IJCNN, M=5: evaluations/s of the exp limit (aim 0.4)", of("IJCNN", 5, rate, 1 / limit), 0.3, True),
    ]
    for name in names:
        share = of(name, 2, "maintenance_share", 100) or None  # 0: the budget was never exceeded
        listed.append(Figure(f"{name}, fast engine, M=2: share of maintenance", share, 25, False, "%"))
    for name in names:
        shares = [100 * found[name, "paper", mergees]["maintenance_share"] for mergees in MERGEES]
        largest = max(later - earlier for earlier, later in pairwise(shares)) if shares[0] else None
        text = " → ".join(f"{share:.0f}%" for share in shares)
        label = f"{name}, paper engine: largest rise of the share of maintenance with M ({text})"
        listed.append(Figure(label, largest, 0, False, " points"))
    listed += [
        Figure("log-log slope of time against n", results["growth"]["slope_rows"], 1.1, False),
        Figure("log-log slope of time against B", results["growth"]["slope_budget"], 1.1, False),
    ]
    for raw in results["epochs"]:
        source = SOURCES.get(raw["set"].lower())
        if source is not None:
            below = raw["points_below_svc"]
            label = f"{raw['set']}, five epochs, M=2: points below SVC"
            listed.append(Figure(label, below, source.accuracy_goal, False))
    cold, memory, warm = processes["cold"], processes["memory"], processes["warm"]
    listed += [
        Figure("peak memory minus data and start-up", memory["over_data_and_start_mb"], 300, False, " MB"),
        Figure("peak memory minus data, interpreter included", memory["over_data_mb"], 300, False, " MB"),
        Figure("compiling everything, cold", None if cold is None else cold["seconds"], 40, False, " s"),
        Figure(
            "warm process: import and fit of a small set", warm["import_seconds"] + warm["fit_seconds"], 2, False, " s"
        ),
        Figure("the same from the start of the process to its end", warm["process_seconds"], 2, False, " s"),
    ]
    return listed


def figures_sheet(listed: list[Figure], plan: Plan) -> Sheet:
    note = "" if plan.rows is None else f"A smoke test on {plan.rows:,} rows of each set: no verdict on the solver."
    return Sheet("Figures", ("figure", "verdict", "measured", "goal"), [figure.cells() for figure in listed], note)


# The run.


def machine() -> Raw:
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(":", 1)[1].strip() for line in cpuinfo if line.startswith("model name"))
    except (OSError, StopIteration):
        cpu = platform.processor() or platform.machine()
    libraries = ("mmbsgd", "numpy", "numba", "llvmlite", "scipy", "scikit-learn")
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "cpu": cpu,
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in libraries},
        "commit": commit.stdout.strip(),
        "load_average_before": os.getloadavg()[0],
    }


def write(folder: Path, results: Raw, sheets: list[Sheet]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "solver.json").write_text(json.dumps(results, indent=1) + "\n")
    facts = results["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    head = f"One core of {facts['cpu']}; Python {facts['python']}, {versions}.\n"
    (folder / "solver.md").write_text("\n".join([head, *(sheet.markdown() for sheet in sheets)]))


def run(names: Sequence[str], plan: Plan, folder: Path) -> None:
    console = Console(width=None if sys.stdout.isatty() else 150)
    results: Raw = {"machine": machine(), "plan": vars(plan)}
    sheets: list[Sheet] = []

    def publish(key: str, value: Any, *made: Sheet) -> None:
        results[key] = value
        sheets.extend(made)
        for sheet in made:
            sheet.show(console)
        write(folder, results, sheets)

    limit = ExpLimit()
    limit.measure(20)
    chosen = tasks(names, plan.rows)
    comparison = [raw for task in chosen for raw in compare(task, plan, limit)]
    limit.measure(20)
    results["exp_limit"] = {"best": limit.best, "samples": limit.samples}
    publish("comparison", comparison, comparison_sheet(comparison, limit.best))
    epochs = [several_epochs(task, plan, comparison) for task in chosen]
    publish("epochs", epochs, epochs_sheet(epochs))
    grown = growth(plan)
    publish("growth", grown, *growth_sheets(grown))
    fresh = processes(plan)
    publish("processes", fresh, processes_sheet(fresh))
    listed = figures(results)
    results["machine"]["load_average_after"] = os.getloadavg()[0]
    publish("figures", [vars(figure) | {"verdict": figure.verdict} for figure in listed], figures_sheet(listed, plan))
    progress(f"written to {folder}")


def main() -> None:
    parser = argparse.ArgumentParser(description="The solver beside scikit-learn's, in one run on one core.")
    parser.add_argument("--sets", default=",".join(SOURCES), help="comma-separated, of: %(default)s")
    parser.add_argument("--quick", action="store_true", help="small subsets and few repeats: a smoke test")
    parser.add_argument("--skip-svc", action="store_true", help="leave out exact SVC, the slowest by far")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", help="folder for the results")
    arguments = parser.parse_args()
    names = arguments.sets.lower().split(",")
    unknown = [name for name in names if name not in SOURCES]
    if unknown:
        parser.error(f"unknown set {', '.join(unknown)}; the sets are {', '.join(SOURCES)}")
    plan = replace(QUICK if arguments.quick else Plan(), svc=not arguments.skip_svc)
    run(names, plan, arguments.out)


if __name__ == "__main__":
    main()
