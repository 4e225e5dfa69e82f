"""The part `simulated` of benchmarks/scaling.py: thousands of workers, which only pretend, in simulated time."""

import heapq
import queue
import resource
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from frame import Figure, Raw, in_a_folder, progress, two_at_a_time
from scaling_real import CPUS_PER_NODE
from scaling_study import Plan, result, study

from workflows.backends import simulated
from workflows.backends.simulated import Simulated
from workflows.records import TrialSpec
from workflows.study import proposer
from workflows.tracking.address import address
from workflows.tracking.sender import Sender

SHAPE = 4.0
"""Of the gamma distribution of simulated lengths, as in orchestration.py."""
AUTO_WORKERS, AUTO_SECONDS, AUTO_WINDOW = 10, 1.0, 100
MANY = 1_000
"""From so many workers on NSGA-II proposes, which `auto` changes to there after its first results."""


class Ideal(Simulated):
    """workflows.backends.simulated, which needs no bookkeeping of actors; Ray's share of a call is added."""

    def __init__(self, seconds: list[float], workers: int, call: float, nodes: float) -> None:
        super().__init__(lambda spec: result(spec, seconds[spec.number]), workers)
        self._call = call
        self.kept: list[tuple[float, float]] = []

    def submit(self, spec: TrialSpec, *, alone: bool = False) -> None:
        self._skipped += self._call
        before, began = self.busy_seconds, self.now()
        super().submit(spec, alone=alone)
        self.kept.append((began, began + self.busy_seconds - before))


class VirtualTime:
    """Goes on with this process's work, whoever else is at work on the machine."""

    def __init__(self) -> None:
        self._skipped = 0.0

    def perf_counter(self) -> float:
        return time.process_time() + self._skipped

    def skip(self, seconds: float) -> None:
        self._skipped += max(seconds, 0.0)


class VirtualQueue:
    """What has arrived, and what will; whoever waits makes the clock jump."""

    def __init__(self, clock: VirtualTime) -> None:
        self._clock, self._ticket = clock, count()
        self._events: list[tuple[float, int, Any]] = []
        self.due: float | None = None

    def put(self, item: Any) -> None:
        when = self._clock.perf_counter() if self.due is None else self.due
        heapq.heappush(self._events, (when, next(self._ticket), item))

    def empty(self) -> bool:
        return not self._events or self._events[0][0] > self._clock.perf_counter()

    def get(self, timeout: float = 0.0) -> Any:
        until = self._clock.perf_counter() + timeout
        first = self._events[0][0] if self._events else until + 1.0
        self._clock.skip(min(first, until) - self._clock.perf_counter())
        if first > until:
            raise queue.Empty
        return heapq.heappop(self._events)[2]


def pretended(seconds: list[float], workers: int, call: float, nodes: float) -> Any:
    """RayActors as it is, with actors that only pretend, in simulated time.

    call: seconds of Ray for each call; nodes: and for each look at the nodes.
    """
    from workflows.backends import ray_actors

    clock = VirtualTime()
    module: Any = ray_actors
    module.time = clock
    module.threading = SimpleNamespace(Thread=lambda target, daemon: SimpleNamespace(start=target))

    class Actor:
        """Its handle, the method `run` of that, and the reference that this returns."""

        def __init__(self) -> None:
            self.run = self
            self._until = 0.0  # short trials are queued two deep

        def remote(self, spec: TrialSpec) -> Any:
            clock.skip(call)
            got, began = result(spec, seconds[spec.number]), max(clock.perf_counter(), self._until)
            ended = self._until = began + got.seconds
            backend.kept.append((began, ended))

            def when_done(then: Callable[[Any], None]) -> None:
                backend._arrivals.due = ended
                then(SimpleNamespace(result=lambda: got))
                backend._arrivals.due = None

            return SimpleNamespace(future=lambda: SimpleNamespace(add_done_callback=when_done))

    class Pretended(ray_actors.RayActors):
        def __init__(self) -> None:
            super().__init__(None)  # type: ignore[arg-type]
            self._arrivals = VirtualQueue(clock)  # type: ignore[assignment]
            self.kept: list[tuple[float, float]] = []
            rooms = [min(CPUS_PER_NODE, workers - first) for first in range(0, workers, CPUS_PER_NODE)]
            self._nodes = [
                {"NodeID": f"node-{number}", "Alive": True, "Resources": {"CPU": room}}
                for number, room in enumerate(rooms)
            ]

        def _ask(self) -> None:
            clock.skip(nodes)
            self._arrivals.put(lambda: self._saw(self._nodes))

        def _hire(self, node: str) -> None:
            handle = Actor()
            self._actors[handle] = ray_actors._Actor(handle, node, ready=True)

        def close(self) -> None: ...

    backend = Pretended()
    while backend.slots() < workers:
        backend.wait(1.0)
    return backend


BACKENDS: dict[str, Callable[..., Any]] = {"actors": pretended, "ideal": Ideal}


def run_simulated(
    backend: str,
    sampler: str,
    workers: int,
    length: float,
    settle: int,
    timed: int,
    call: float,
    nodes: float,
    folder: str,
) -> Raw:
    """settle, timed: trials after the first of every worker.

    Where more trials end than the driver manages, its rate is what its work for a trial leaves: it never waits then.
    """
    for module in (simulated, proposer):
        module.time = VirtualTime()  # type: ignore[assignment]
    random = np.random.default_rng(0)
    first = random.gamma(SHAPE + 1, length / SHAPE, workers) * random.uniform(size=workers)  # what is left of one
    seconds = np.concatenate([first, random.gamma(SHAPE, length / SHAPE, settle + timed)]).tolist()
    made = BACKENDS[backend](seconds, workers, call, nodes)
    memory, real = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    processor = time.process_time()
    ended_with = study(folder, sampler, made, len(seconds)).sampler
    kept = made.kept
    processor, real = time.process_time() - processor, time.perf_counter() - real
    filled, settled, last = (kept[number - 1][0] for number in (workers, workers + settle, len(kept)))
    rate = most = 1 / (processor / len(kept) + call)
    if not too_fast(workers, length):
        rate = _busy(kept, settled, last) / length
    began = time.process_time()
    seen = Sender("study", Path(folder), None, address(None, Path(folder))).look()
    assert seen is not None
    return {
        "backend": backend,
        "workers": workers,
        "length": length,
        "trials": len(seconds),
        "ended_with": ended_with,
        "rate": rate,
        "most": most,
        "efficiency": rate * length / workers,
        "filled_after": filled - kept[0][0],
        "windows": [
            _busy(kept, kept[start][0], kept[start + AUTO_WINDOW][0]) / workers
            for start in range(workers, len(kept) - AUTO_WINDOW, AUTO_WINDOW)
        ]
        if workers <= AUTO_WORKERS
        else [],
        "real_seconds": real,
        "driver_ms": 1e3 * processor / len(seconds),
        "memory_kb_per_trial": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / len(seconds),
        "look_seconds": time.process_time() - began,
    }


def _busy(kept: list[tuple[float, float]], since: float, until: float) -> float:
    """How many workers were, on average."""
    return sum(max(min(end, until) - max(begin, since), 0.0) for begin, end in kept) / (until - since)


def how_many(workers: int, length: float) -> tuple[int, int]:
    """Trials after the first of every worker: to settle, because some end while the others get theirs, and to time."""
    if too_fast(workers, length):
        return 0, 1_000
    return (2 * workers // 5, 3_000) if workers > 1_000 else (workers // 5, 300 if workers < 1_000 else 1_500)


def too_fast(workers: int, length: float) -> bool:
    """Certainly more trials per second than the driver manages: it never waits."""
    return workers / length > 900


def simulated_part(_: Path, plan: Plan, ray: Raw) -> Raw:
    """ray: what Ray costs."""

    def simulate(backend: str, workers: int, length: float, settle: int, timed: int, sampler: str = "") -> Raw:
        nodes = ray["nodes_base_ms"] + (workers // CPUS_PER_NODE) * ray["nodes_ms_per_node"]
        costs = {"call": ray["call_cpu_ms"] / 1e3, "nodes": nodes / 1e3}
        size = {"workers": workers, "length": length, "settle": settle, "timed": timed}
        asked = sampler or ("nsga2" if workers >= MANY else "auto")
        raw = in_a_folder(run_simulated, backend=backend, sampler=asked, **size, **costs) | {"sampler": asked}
        progress(
            f"{workers:,} workers ({backend}, {asked}), {length:g} s: {raw['rate']:.4g} trials/s, efficiency "
            f"{raw['efficiency']:.3f}, {raw['driver_ms']:.2f} CPU ms per trial, {raw['real_seconds']:.0f} s"
        )
        return raw

    jobs = [
        partial(simulate, backend, workers, length, *how_many(workers, length))
        for workers in reversed(plan.workers)
        for length in plan.lengths
        for backend in (("actors", "ideal") if workers >= MANY and length >= 100 else ("actors",))
    ]
    fills = [
        partial(simulate, "ideal", workers, 100.0, 0, 2, sampler)
        for workers in (plan.workers[-2], 3 * plan.workers[-2])
        for sampler in ("auto", "nsga2")
    ]
    late = partial(simulate, "actors", AUTO_WORKERS, AUTO_SECONDS, 0, plan.auto)
    found = two_at_a_time([late, *fills, *jobs])
    rows = sorted(found[1 + len(fills) :], key=lambda raw: (raw["backend"], raw["length"], raw["workers"]))
    return {
        "rows": rows,
        "late": found[0],
        "fills": found[1 : 1 + len(fills)],
        "lengths": plan.lengths,
        "workers": plan.workers,
    }


def simulated_figures(part: Raw) -> Iterator[Figure]:
    largest = max(part["workers"])
    for backend, text in {"actors": "", "ideal": ", without the bookkeeping of actors"}.items():
        for workers in part["workers"]:
            rows = [row for row in part["rows"] if row["backend"] == backend and row["workers"] == workers]
            if rows and rows[0]["efficiency"] < 0.9 and workers >= 100:
                name = f"simulated, {workers:,} workers{text}: the driver manages at most"
                yield Figure(name, max(row["rate"] for row in rows), unit=" trials/s")
    for length in part["lengths"]:
        rows = [row for row in part["rows"] if row["backend"] == "actors" and row["length"] == length]
        yield Figure(f"simulated, trials of {length:g} s: workers kept 90% busy", kept_busy(rows))
    for row in part["rows"]:
        if row["workers"] == largest and row["length"] == max(part["lengths"]):
            what = "" if row["backend"] == "actors" else ", without the bookkeeping of actors"
            text = f"simulated, {largest:,} workers, trials of {row['length']:g} s{what}"
            yield Figure(f"{text}: busy", 100 * row["efficiency"], unit="%")
            yield Figure(f"{text}: until all have a trial", row["filled_after"], unit=" s")
            yield Figure(f"{text}: memory of the driver per trial", row["memory_kb_per_trial"], unit=" kB")
            yield Figure(
                f"{text}: MLflow's sender looks at {row['trials']:,} trials in", row["look_seconds"], unit=" s"
            )
    for raw in part["fills"]:
        text = f"simulated, {raw['workers']:,} workers, sampler {raw['sampler']}, without the bookkeeping of actors"
        yield Figure(f"{text}: until all have a trial", raw["filled_after"], unit=" s")
    late = part["late"]
    if late["windows"]:
        text = f"simulated, {AUTO_WORKERS} workers, trials of {AUTO_SECONDS:g} s, {late['trials']} trials, sampler auto"
        yield Figure(f"{text}: busy in the worst {AUTO_WINDOW} trials", 100 * min(late["windows"]), unit="%")


def kept_busy(rows: list[Raw], share: float = 0.9) -> float:
    """How many workers one driver keeps busy for that share of their time, read off between what was simulated."""
    rows = sorted(rows, key=lambda row: row["workers"])
    found = float(rows[0]["workers"])
    for before, after in pairwise(rows):
        if after["efficiency"] >= share:
            found = after["workers"]
            continue
        if before["efficiency"] >= share:  # from here on the rate hardly grows
            rates = np.log([before["workers"] * share / before["length"], after["rate"]])
            found = min(float(np.exp(rates[1])) * after["length"] / share, after["workers"])
            found = max(found, before["workers"])
        break
    return found
