"""`mmbsgd tune` beside Ray Tune and beside random search: throughput, scale, a whole study, the search, early stopping.

    python benchmarks/orchestration.py [--only PART,PART] [--quick] [--folder DIR] [--out DIR]

    throughput  10 ms trials on two Ray actors, beside Ray Tune with OptunaSearch and reused actors, in turns
    scale       a thousand simulated workers: are they busy, and does a trial cost more late in the study?
    adult       `mmbsgd tune adult` as a user runs it, with several seeds
    quality     hypervolumes of the samplers beside random search's; studies in one process each, two at a time
    stopping    early stopping on a million rows: its own search, and the same parameter sets once more

Everything runs on at most two cores, in processes of their own; kernels are compiled before anything is timed.
ADULT and PHISHING come from MMBSGD_DATA, or the folder shared/data beside the checkout, or the network.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import log10, nan
from pathlib import Path
from statistics import fmean, median, stdev

import orchestration_tasks as tasks
from frame import (
    CORES,
    ROOT,
    Figure,
    Part,
    Raw,
    add_quick,
    asked,
    in_a_folder,
    options,
    progress,
    run,
    show,
    two_at_a_time,
)

from workflows.data import PreparedData
from workflows.front import hypervolume
from workflows.study.ledger import proposal_of, result_of
from workflows.study.tuning import looked_at

COSTS, AXES = ("cpu", "work"), ("linear", "log10")
SAMPLERS = ("random", "auto")


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    repeats: int = 3
    ours: int = 1_500
    tune: int = 120
    workers: int = 1_000
    simulated: int = 10_000
    early: int = 100
    adult_seeds: int = 3
    adult_trials: int = 200
    quality_seeds: int = 5
    quality_trials: int = 150
    stopping_rows: int = 1_000_000
    stopping_seeds: int = 2
    stopping_trials: int = 100


QUICK = Plan(1, 200, 20, 50, 500, 100, 1, 20, 2, 12, 1_000_000, 1, 25)


def mmbsgd(*words: object) -> Raw:
    """The command as a user types it; what it says goes to a file, and is shown if it fails."""
    data = ROOT.parent / "shared" / "data"
    environment = {"MMBSGD_DATA": str(data), **os.environ} if data.is_dir() else dict(os.environ)
    began = time.perf_counter()
    command = [sys.executable, "-m", "workflows.cli", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(f"mmbsgd {' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return {"output": done.stdout, "wall": time.perf_counter() - began}


@dataclass(frozen=True)
class Searched:
    """A study that `mmbsgd tune` has run: what it printed, and its trials as its journal has them."""

    wall: float
    printed: Raw
    trials: list[Raw]
    since: float
    until: float

    def points(self, cost: str) -> list[tuple[float, float]]:
        return [(trial["score"], trial["costs"][cost]) for trial in self.trials if trial["state"] == "complete"]

    def total(self, of: Callable[[Raw], float]) -> float:
        return sum(map(of, self.trials))

    def as_dict(self) -> Raw:
        return {"wall": self.wall, "hypervolume": self.printed["hypervolume"], "trials": self.trials}


def tune(home: Path, data: object, study: str, *words: object) -> Searched:
    done = mmbsgd("tune", data, "--no-tracking", "--home", home, "--study", study, "--json", *words)
    with looked_at(study, home, None) as ledger:
        found = [(trial, result_of(trial), proposal_of(trial).parameters) for trial in ledger.trials()]
    trials = [
        {
            "state": result.state,
            "score": result.score,
            "costs": result.costs,
            "seconds": result.seconds,
            "parameters": parameters,
        }
        for _, result, parameters in found
    ]
    since = min(trial.datetime_start.timestamp() for trial, _, _ in found)
    until = max(trial.datetime_complete.timestamp() for trial, _, _ in found)
    progress(f"{study}: {len(trials)} trials in {done['wall']:.1f} s")
    return Searched(done["wall"], json.loads(done["output"]), trials, since, until)


@dataclass(frozen=True)
class Box:
    """Where hypervolumes end: the score of the larger class, and the largest cost that any study of the set had."""

    score: float
    lowest: float
    largest: float

    @classmethod
    def around(cls, folder: Path, studies: Iterable[Searched], cost: str) -> "Box":
        counts = PreparedData.open(folder).manifest.counts("validation")
        spent = [value for study in studies for _, value in study.points(cost)]
        return cls(max(counts) / sum(counts), min(spent), max(spent))

    def share(self, points: Sequence[tuple[float, float]], axis: str) -> float:
        """Of the box up to score 1; it begins at no cost, or at the lowest one on a logarithmic axis."""
        if axis == "linear":
            return hypervolume(points, (self.score, self.largest)) / ((1 - self.score) * self.largest)
        points = [(score, log10(cost)) for score, cost in points]
        width = log10(self.largest) - log10(self.lowest)
        return hypervolume(points, (self.score, log10(self.largest))) / ((1 - self.score) * width)


# Parts: each gets a folder, emptied after it, and how much to measure.


def throughput_part(_: Path, plan: Plan) -> Raw:
    methods: dict[str, Callable[..., Raw]] = {
        "ours": lambda **to: in_a_folder(tasks.run_ours, trials=plan.ours, **to),
        "Tune": lambda **to: in_a_folder(tasks.run_tune, trials=plan.tune, as_it_comes=False, **to),
        "Tune as it comes": lambda **to: in_a_folder(tasks.run_tune, trials=plan.tune, as_it_comes=True, **to),
    }
    found: Raw = {kind: {name: [] for name in methods} for kind in ("sleep", "burn")}
    for repeat, kind, name in product(range(plan.repeats), found, methods):
        raw = methods[name](kind=kind, seed=repeat)
        found[kind][name].append(raw)
        progress(f"{kind}, {name}: {raw['rate']:.1f} trials/s, driver {raw['driver_cpu_ms']:.2f} CPU ms per trial")
    return found


def throughput_figures(part: Raw) -> Iterator[Figure]:
    for kind, text in {"sleep": "10 ms asleep", "burn": "10 ms of CPU"}.items():
        rate = {name: median(raw["rate"] for raw in runs) for name, runs in part[kind].items()}
        goals = (100, 8) if kind == "sleep" else (None, None)
        trial = f"trials of {text}, NSGA-II, two workers"
        yield Figure(f"{trial}: trials/s", rate["ours"], goals[0], at_least=True)
        for name, note in {"Tune": "without loggers and checkpoints", "Tune as it comes": "as it comes"}.items():
            yield Figure(f"{trial}: × Ray Tune {note}", rate["ours"] / rate[name], goals[1], at_least=True)
            yield Figure(f"{trial}: Ray Tune {note}, trials/s", rate[name])
        yield Figure(
            f"{trial}: driver per trial", median(raw["driver_cpu_ms"] for raw in part[kind]["ours"]), unit=" CPU ms"
        )


def scale_part(_: Path, plan: Plan) -> Raw:
    """What a trial costs late is measured while there is still more to do: that study is longer by what then runs."""

    def simulate(workers: int, sampler: str, curves: bool, more: int = 0) -> Raw:
        size = {"workers": workers, "trials": plan.simulated + more, "early": plan.early, "late": plan.simulated}
        raw = in_a_folder(tasks.run_simulated, sampler=sampler, curves=curves, **size)
        progress(f"{workers} workers, {sampler}, curves {curves}: {raw['cpu_ms_per_trial']:.2f} CPU ms per trial")
        return raw

    return {
        "busy": [simulate(plan.workers, *how) for how in (("nsga2", True), ("auto", True), ("nsga2", False))],
        "cost": [
            simulate(workers, "nsga2", curves, workers + tasks.HALF_WINDOW)
            for workers, curves in product((plan.workers, 2), (True, False))
        ],
        "early": plan.early,
        "late": plan.simulated,
    }


def scale_figures(part: Raw) -> Iterator[Figure]:
    for raw in part["busy"]:
        text = f"{raw['workers']:,} simulated workers, {raw['trials']:,} trials of 5 s, {_how(raw)}"
        yield Figure(f"{text}: busy, all filled to last handed out", 100 * raw["busy_when_filled"], 95, True, "%")
        yield Figure(f"{text}: busy, first start to last end", 100 * raw["busy_whole"], unit="%")
    for raw in part["cost"]:
        text = f"{raw['workers']:,} simulated workers, {_how(raw)}: driver per trial"
        early, late = raw["cpu_ms_early"], raw["cpu_ms_late"]
        yield Figure(f"{text} around the {part['late']:,}th / around the {part['early']}th", late / early, 2)
        yield Figure(f"{text} around the {part['late']:,}th", late, unit=" CPU ms")


def _how(raw: Raw) -> str:
    names = {"nsga2": "NSGA-II", "auto": "auto"}
    return f"{names[raw['sampler']]}{', early stopping' if raw['curves'] else ', no early stopping'}"


def adult_part(folder: Path, plan: Plan) -> Raw:
    mmbsgd("data", "get", "adult", "--home", folder)
    tune(folder, "adult", "warm", "--trials", 2, "--confirm", 0, "--workers", 0)  # kernels are compiled and on disk
    runs = []
    for seed in range(plan.adult_seeds):
        study = tune(folder, "adult", f"seed-{seed}", "--trials", plan.adult_trials, "--seed", seed)
        front = [member["objectives"] for member in study.printed["front"]]
        quick = [member["accuracy"] for member in front if member["cpu"] <= 0.1]
        busy = study.total(lambda trial: trial["seconds"]) / (CORES * (study.until - study.since))
        runs.append({"seed": seed, "busy": busy, "quick": max(quick, default=nan), "front": front, **study.as_dict()})
    return {"runs": runs, "trials": plan.adult_trials}


def adult_figures(part: Raw) -> Iterator[Figure]:
    walls, busy, quick = ([run[key] for run in part["runs"]] for key in ("wall", "busy", "quick"))
    text = f"ADULT, {part['trials']} trials, two cores"
    for name, wall, share, best in (
        (f"median of {len(walls)} seeds", median(walls), median(busy), median(quick)),
        ("worst seed", max(walls), min(busy), min(quick)),
    ):
        yield Figure(f"{text}: the whole command, start of Ray and confirmation included ({name})", wall, 90, unit=" s")
        yield Figure(f"{text}: workers busy, first start to last end of a trial ({name})", 100 * share, 85, True, "%")
        wanted = "most accurate confirmed model of at most 0.1 CPU s, validation"
        yield Figure(f"{text}: {wanted} ({name})", 100 * best, 84.7, True, "%")


def quality_part(folder: Path, plan: Plan) -> Raw:
    sets = ("adult", "phishing")
    for data in sets:
        mmbsgd("data", "get", data, "--home", folder)
    searches = [_search(folder, data, cost, plan) for data, cost in product(sets, COSTS)]
    rows = [row for search in searches for row in search.pop("compared")]
    return {"quality": rows, "seeds": plan.quality_seeds, "trials": plan.quality_trials, "searches": searches}


def _search(folder: Path, data: str, cost: str, plan: Plan) -> Raw:
    """Every sampler with every seed on one set."""
    runs = list(product(range(plan.quality_seeds), SAMPLERS))
    options = ("--trials", plan.quality_trials, "--cost", cost, "--workers", 0, "--confirm", 0)
    studies = two_at_a_time(
        partial(tune, folder, data, f"{data}-{cost}-{name}-{seed}", *options, "--sampler", name, "--seed", seed)
        for seed, name in runs
    )
    box = Box.around(folder / "data" / data, studies, cost)
    points = {run: study.points(cost) for run, study in zip(runs, studies, strict=True)}
    compared = [
        {"set": data.upper(), "cost": cost, "axis": axis} | row
        for axis in AXES
        for row in _compared({run: box.share(found, axis) for run, found in points.items()})
    ]
    named = {f"{name}, seed {seed}": found for (seed, name), found in points.items()}
    return {"set": data, "cost": cost, "box": vars(box), "points": named, "compared": compared}


def _compared(shares: dict[tuple[int, str], float]) -> Iterator[Raw]:
    """Each sampler beside random search with the same seeds."""
    by_sampler = {name: [share for (_, sampler), share in shares.items() if sampler == name] for name in SAMPLERS}
    random = by_sampler["random"]
    for name, values in by_sampler.items():
        yield {
            "sampler": name,
            "mean": fmean(values),
            "deviation": stdev(values) if len(values) > 1 else nan,
            "beats_random": sum(mine > other for mine, other in zip(values, random, strict=True)),
            "above_random": fmean(values) / fmean(random) - 1,
            "values": values,
        }


def quality_figures(part: Raw) -> Iterator[Figure]:
    """The goal is held to what users get; the other samplers are in the table."""
    for row in part["quality"]:
        if row["sampler"] == "auto":
            text = f"{row['set']}, {part['trials']} trials, {row['cost']} cost, {row['axis']} axis"
            wins = f"mean of {part['seeds']} seeds, better in {row['beats_random']}"
            yield Figure(f"{text}: auto's hypervolume above random's ({wins})", 100 * row["above_random"], 0, True, "%")


def stopping_part(folder: Path, plan: Plan) -> Raw:
    """The replay gets the parameter sets of the search without early stopping: only stopping tells them apart.

    The three studies of a seed run one after the other, two seeds at a time: all with the same neighbour.
    """
    data = folder / "rows"
    mmbsgd("prepare", "demo", "--rows", plan.stopping_rows, "--out", data)

    def studies(seed: int) -> dict[str, Searched]:
        options = ("--trials", plan.stopping_trials, "--seed", seed, "--workers", 0, "--confirm", 0)
        full = tune(folder, data, f"full-{seed}", *options, "--no-early-stop")
        own = tune(folder, data, f"own-{seed}", *options)
        return {"full": full, "own": own, "replay": tune(folder, data, f"replay-{seed}", *options, *_enqueued(full))}

    seeds = two_at_a_time(partial(studies, seed) for seed in range(plan.stopping_seeds))
    boxes = {cost: Box.around(data, (study for seed in seeds for study in seed.values()), cost) for cost in COSTS}
    return {
        "rows": plan.stopping_rows,
        "trials": plan.stopping_trials,
        "kinds": {kind: [_spent(seed[kind], boxes) for seed in seeds] for kind in seeds[0]},
        "studies": [{kind: study.as_dict() for kind, study in seed.items()} for seed in seeds],
    }


def _enqueued(study: Searched) -> Iterator[str]:
    for trial in study.trials:
        yield from ("--enqueue", " ".join(f"{name}={value!r}" for name, value in trial["parameters"].items()))


def _spent(study: Searched, boxes: dict[str, Box]) -> Raw:
    volumes = {f"{cost}, {axis}": boxes[cost].share(study.points(cost), axis) for cost, axis in product(COSTS, AXES)}
    return {
        "busy": study.total(lambda trial: trial["seconds"]),
        "cpu": study.total(lambda trial: trial["costs"]["cpu"]),
        "work": study.total(lambda trial: trial["costs"]["work"]),
        "stopped": study.total(lambda trial: trial["state"] == "stopped"),
        "volumes": volumes,
    }


def stopping_figures(part: Raw) -> Iterator[Figure]:
    full = part["kinds"]["full"]
    for kind, name in {"own": "its own search", "replay": "the same parameter sets"}.items():
        runs = part["kinds"][kind]
        text = f"early stopping, {part['rows']:,} rows, {part['trials']} trials × {len(runs)} seeds, {name}"
        totals = {"busy": "trials' wall time", "cpu": "training CPU time", "work": "kernel evaluations"}
        for key, what in totals.items():
            saved = 1 - sum(run[key] for run in runs) / sum(run[key] for run in full)
            yield Figure(f"{text}: {what} saved", 100 * saved, None if key == "work" else 30, True, "%")
        yield Figure(f"{text}: trials stopped", fmean(run["stopped"] for run in runs))
        for key in runs[0]["volumes"]:
            lost = [1 - run["volumes"][key] / other["volumes"][key] for run, other in zip(runs, full, strict=True)]
            goal = 1.0 if key.startswith("cpu") else None
            spread = f"{key}; worst seed {100 * max(lost):.2g}%"
            yield Figure(f"{text}: hypervolume lost, mean ({spread})", 100 * fmean(lost), goal, unit="%")


PARTS = {
    "throughput": Part(throughput_part, throughput_figures),
    "scale": Part(scale_part, scale_figures),
    "adult": Part(adult_part, adult_figures),
    "quality": Part(quality_part, quality_figures),
    "stopping": Part(stopping_part, stopping_figures),
}


def main() -> None:
    parser = options("mmbsgd tune beside Ray Tune and random search, on two cores.", PARTS)
    add_quick(parser)
    arguments, names = asked(parser, PARTS)
    file = arguments.out / f"orchestration{'-quick' if arguments.quick else ''}.json"
    plan = QUICK if arguments.quick else Plan()
    results = run(PARTS, names, plan, file, arguments.folder, ("optuna", "ray", "numba"))
    show({name: results[name] for name in names})


if __name__ == "__main__":
    main()
