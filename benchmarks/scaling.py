"""How many workers can one driver keep busy? Measured with one and two, simulated with up to ten thousand.

    python benchmarks/scaling.py [--only PART,PART] [--quick] [--page FILE] [--folder DIR] [--out DIR]

    real       trials/s with one and with two Ray actors: the same trials, in turns
    ray        what Ray costs: a call, an actor's start and memory, the driver's sockets, asking for the nodes
    storage    what the driver does for a trial, piece by piece: on a journal file and on PostgreSQL
    tracking   what MLflow's sender does for a trial: into the embedded database and into a server
    simulated  1 to 10,000 workers, trials of 0.1 to 100 s; needs what `ray` measured

Real trials are stand-ins of known length, because a sampler chooses parameters, and so lengths, differently each time:
`sleep` leaves the processor to the driver, `burn` takes that much processor time, and `train` is a fixed number of real
trainings, so that it also feels what two trainings take from each other (caches, memory). Two workers and the driver
share two cores here; on a cluster the driver has its own.

Simulated studies run the real driver, proposer, ledger and journal, and the real bookkeeping of the Ray backend over
actors that only pretend, in simulated time: what the driver does takes as much as it needs of the processor, and
whenever it waits, the clock jumps; waits for the disk, one sync a second, are left out. Ray's share of a call and of
asking for the nodes, measured before, is added to the clock. The same is done with workflows.backends.simulated, which
has no bookkeeping of actors. The first trial of every worker is cut short at random, so that ends do not come in waves:
what is measured is how it goes on, from all workers filled to the last trial handed out. Nothing of networks, failing
nodes and Ray's own processes is simulated.

Takes about eight minutes on two cores. PostgreSQL is left out where it is not installed.
"""

import argparse
import heapq
import json
import os
import queue
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import count, pairwise
from pathlib import Path
from statistics import fmean, median
from types import SimpleNamespace
from typing import Any

import numpy as np
from data import CORES, ROOT, Figure, machine, progress
from orchestration import show, two_at_a_time
from orchestration_tasks import LOOKS, SPACE, objectives

from mmbsgd import MultiMergeSVC
from workflows.backends import Backend, simulated
from workflows.backends.simulated import Simulated
from workflows.cluster import connect
from workflows.data.demo import checkerboard
from workflows.records import Bar, Point, TrialResult, TrialSpec
from workflows.study import proposer
from workflows.study.driver import Driver, Limits, Listener, Progress
from workflows.study.proposer import Proposal, Proposer
from workflows.study.settings import Settings
from workflows.study.tuning import Held, Watcher, held
from workflows.tracking.address import address
from workflows.tracking.sender import Sender
from workflows.tracking.server import Server, free_port
from workflows.tracking.store import load
from workflows.workplace import warm_up

KINDS = {"sleep": "asleep", "burn": "of CPU", "train": "of training"}
SHAPE = 4.0
"""Of the gamma distribution of simulated lengths, as in orchestration.py."""
CPUS_PER_NODE = 16
COUNTERS = (
    "steps violations maintenance_calls merges kernel_evaluations maintenance_seconds support_vectors size latency"
)
"""As many as a real trial has."""
TRAINING_ROWS = 20_000
AUTO_WORKERS, AUTO_SECONDS, AUTO_WINDOW = 10, 1.0, 100
MANY = 1_000
"""From so many workers on NSGA-II proposes, which `auto` changes to there after its first results."""

Raw = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    trials: tuple[tuple[str, float, int], ...] = (
        ("sleep", 0.1, 60),
        ("sleep", 0.5, 24),
        ("sleep", 2.0, 8),
        ("burn", 0.1, 60),
        ("burn", 0.5, 24),
        ("burn", 2.0, 8),
        ("train", 0.5, 24),
    )
    """Kind, seconds and how many of them per worker and repeat."""
    repeats: int = 2
    calls: int = 2_000
    actors: int = 16
    nodes: int = 4
    best: int = 3
    stored: int = 200
    tracked: int = 150
    lengths: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0)
    workers: tuple[int, ...] = (1, 10, 100, 1_000, 10_000)
    auto: int = 600


QUICK = Plan((("sleep", 0.1, 8), ("burn", 0.5, 4)), 1, 100, 3, 2, 1, 40, 20, (0.1, 10.0), (1, 10, 100), 60)


def in_a_process(task: Callable[..., Raw], **arguments: Any) -> Raw:
    """Each task gets an empty folder; what a library prints before the result does not matter."""
    with tempfile.TemporaryDirectory(prefix="mmbsgd-task-") as folder:
        command = [sys.executable, __file__, "task", task.__name__, json.dumps({"folder": folder} | arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def best_of(repeats: int, task: Callable[..., Raw], **arguments: Any) -> Raw:
    """The run that was disturbed least. An argument that is a function is asked for a new value each time."""
    runs = []
    for _ in range(repeats):
        given = {name: value() if callable(value) else value for name, value in arguments.items()}
        runs.append(in_a_process(task, **given))
    return min(runs, key=lambda raw: float(raw["ms"])) | {"all_ms": [raw["ms"] for raw in runs]}


def study(
    folder: str,
    sampler: str,
    backend: Backend,
    trials: int,
    *,
    storage: str | None = None,
    early: bool = True,
    extra: Raw | None = None,
    listener: Listener = lambda progress, result: None,
    watch: Callable[[Held, Proposer], None] = lambda mine, asked: None,
) -> Progress:
    """The driver as `mmbsgd tune` runs it. early: early stopping is on. extra: what trials are told besides."""
    settings = Settings(data="none", fingerprint="none", space="adult")

    def spec(origin: int, proposal: Proposal, bar: Bar | None) -> TrialSpec:
        made = settings.spec(origin, proposal, bar)
        return replace(made, parameters=made.parameters | extra) if extra else made

    with held("study", Path(folder), storage, settings, SPACE, Watcher()) as mine:
        asked = Proposer(sampler, 0, SPACE, settings.directions)  # type: ignore[arg-type]
        limits, bar = Limits(trials=trials), settings.first_bar if early else None
        driver = Driver(
            mine.ledger, asked, backend, spec, settings.objectives, limits=limits, bar=bar, listener=listener
        )
        watch(mine, asked)
        done = driver.run()
        watch(mine, asked)
    if done.complete != trials:
        raise RuntimeError(f"{done.complete} of {trials} trials are complete: {done.failures[:3]}")
    return done


def result(spec: TrialSpec, seconds: float) -> TrialResult:
    """As large as a real one: trials of a second and more have learning curves."""
    score, cost = objectives(spec.parameters)
    shares = [look / LOOKS for look in range(1, LOOKS + 1)] if seconds >= 1.0 else []
    return TrialResult(
        spec.number,
        "complete",
        score=score,
        costs={"cpu": cost, "wall": 1.1 * cost, "work": 1e6 * cost},
        counters=dict.fromkeys(COUNTERS, cost),
        curve=tuple(Point(share, share * cost, score * (0.9 + 0.1 * share)) for share in shares),
        epochs=(Point(1.0, cost, score),),
        seconds=seconds,
    )


# One and two workers.


class StandIn:
    """How a worker gets ready for trials of known length."""

    def open(self) -> Callable[[TrialSpec], TrialResult]:
        warm_up()
        data = checkerboard(TRAINING_ROWS, 0)

        def run(spec: TrialSpec) -> TrialResult:
            spend(spec.parameters["kind"], spec.parameters["amount"], data)
            return result(spec, 0.0)  # how long it took is for the backend to say

        return run


def spend(kind: str, amount: float, data: Any) -> None:
    """amount: seconds, or how many trainings."""
    began = time.thread_time()
    if kind == "sleep":
        time.sleep(amount)
    elif kind == "burn":
        while time.thread_time() - began < amount:
            pass
    else:
        for _ in range(int(amount)):
            MultiMergeSVC(budget=200, random_state=0).fit(*data)


def run_training(fits: int, folder: str) -> Raw:
    """Trainings alone, without Ray or a driver."""
    warm_up()
    data = checkerboard(TRAINING_ROWS, 0)
    spend("train", 1, data)
    began = time.perf_counter()
    spend("train", fits, data)
    return {"seconds": (time.perf_counter() - began) / fits}


def run_real(trials: list[tuple[str, float, int]], fit: float, repeats: int, folder: str) -> Raw:
    """fit: seconds of a training."""
    connect(None, 3)
    from workflows.backends.ray_actors import RayActors

    backends = {workers: RayActors(StandIn(), workers=workers) for workers in (1, 2)}  # type: ignore[arg-type]
    for workers, backend in backends.items():
        while backend.slots() < workers:
            backend.wait(1.0)
    rows = []
    for kind, seconds, per_worker in trials:
        found: dict[int, list[Raw]] = {1: [], 2: []}
        amount = max(round(seconds / fit), 1) if kind == "train" else seconds
        for repeat, workers in ((repeat, workers) for repeat in range(repeats) for workers in (1, 2)):
            own = Path(folder) / f"{kind}-{seconds}-{repeat}-{workers}"
            extra = {"kind": kind, "amount": amount}
            found[workers].append(_timed(own, backends[workers], workers, per_worker * workers, extra))
        rates = {workers: _pooled(runs) for workers, runs in found.items()}
        length = fmean(run["length"] for run in found[1])
        rows.append(
            {
                "kind": kind,
                "seconds": seconds,
                "length": length,
                "rates": rates,
                "efficiency": rates[2] / (2 * rates[1]),
                "busy": {workers: fmean(run["busy"] for run in runs) for workers, runs in found.items()},
                "driver_cpu_ms": {workers: fmean(run["cpu_ms"] for run in runs) for workers, runs in found.items()},
                "runs": found,
            }
        )
        print(
            f"{kind} {seconds:g} s: {rates[1]:.3f} and {rates[2]:.3f} trials/s, {rows[-1]['efficiency']:.3f}",
            file=sys.stderr,
            flush=True,
        )
    for backend in backends.values():
        backend.close()
    return {"rows": rows}


def _timed(folder: Path, backend: Any, workers: int, trials: int, extra: Raw) -> Raw:
    """The clock starts with the result that shows all workers at work, and ends with the last."""
    times: list[tuple[float, float]] = []
    lengths: list[float] = []

    def listener(_: Progress, got: TrialResult | None) -> None:
        if got is not None:
            times.append((time.perf_counter(), time.process_time()))
            lengths.append(got.seconds)

    backend._busy = 0.0  # it remembers the length of other trials
    study(str(folder), "auto", backend, trials, extra=extra, listener=listener)
    (began, processor), (ended, spent) = times[workers - 1], times[-1]
    timed = trials - workers
    return {
        "trials": timed,
        "seconds": ended - began,
        "length": fmean(lengths),
        "busy": fmean(lengths) * timed / (workers * (ended - began)),
        "cpu_ms": 1e3 * (spent - processor) / timed,
    }


def _pooled(runs: list[Raw]) -> float:
    return sum(run["trials"] for run in runs) / sum(run["seconds"] for run in runs)


def real_part(_: Path, plan: Plan, parts: Raw) -> Raw:
    """How much two trainings slow each other down without Ray is this machine's own limit."""
    alone = in_a_process(run_training, fits=20)["seconds"]
    fits = max(round(5.0 / alone), 1)
    train = partial(in_a_process, run_training, fits=fits)
    alone, together = train()["seconds"], fmean(raw["seconds"] for raw in two_at_a_time([train, train]))
    progress(f"a training takes {1e3 * alone:.1f} ms alone, {1e3 * together:.1f} ms beside another")
    raw = in_a_process(run_real, trials=plan.trials, fit=alone, repeats=plan.repeats)
    return raw | {"training": {"alone": alone, "together": together}}


def real_figures(part: Raw) -> Iterator[Figure]:
    for row in part["rows"]:
        text = f"trials of {row['seconds']:g} s {KINDS[row['kind']]}"
        goal = 0.9 if row["seconds"] >= 0.5 else None
        rates = f"{row['rates']['1']:.3g} and {row['rates']['2']:.3g} trials/s"
        yield Figure(f"{text}: efficiency of two workers ({rates})", row["efficiency"], goal, at_least=True)
    trained = part["training"]
    yield Figure(
        "two processes that train without Ray or a driver: efficiency (this machine's own limit)",
        trained["alone"] / trained["together"],
    )


# What Ray costs.


def _memory(pid: int | str, kind: str) -> float:
    """MB. Pss: what it shares with others counts in part. Private_Dirty: what it has written itself."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{kind}:")).split()[1]) / 1e3


def _sockets() -> int:
    return len(os.listdir("/proc/self/fd"))


def run_ray(calls: int, actors: int, folder: str) -> Raw:
    """Actors that get ready as real ones do, all on this machine, whatever it has of cores; then calls of two."""
    connect(None, actors)
    import ray

    from workflows.backends.ray_actors import RayActors

    time.sleep(3.0)  # processes that Ray keeps ready
    memory, sockets, began = _memory("self", "Private_Dirty"), _sockets(), time.perf_counter()
    backend = RayActors(StandIn(), workers=actors)  # type: ignore[arg-type]
    while backend.slots() < actors:
        backend.wait(1.0)
    started = time.perf_counter() - began
    settings = Settings(data="none", fingerprint="none", space="adult")
    parameters = {"C": 1.0, "gamma": 0.1, "budget": 100, "mergees": 3, "kind": "sleep", "amount": 0.0}
    bar = Bar(tuple((float(cost), cost / 20) for cost in range(20)), tuple((share / 10, 0.5) for share in range(10)))
    spec = settings.spec(0, Proposal(parameters), bar)
    handles = list(backend._actors)
    for handle in handles:
        ray.get(handle.run.remote(spec))
    pids = [int(ray.get(handle.run.remote(spec)).node.rpartition(":")[2]) for handle in handles]
    found = {
        "actors": actors,
        "start_seconds": started,
        "worker_mb": fmean(_memory(pid, "Pss") for pid in pids),
        "driver_kb_per_actor": 1e3 * (_memory("self", "Private_Dirty") - memory) / actors,
        "sockets_per_actor": (_sockets() - sockets) / actors,
    }
    arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
    processor, began = time.process_time(), time.perf_counter()
    for number in range(calls):
        handles[number % 2].run.remote(spec).future().add_done_callback(arrived.put)
        if number >= 4:  # as many under way as two workers with short trials have
            arrived.get().result()
    for _ in range(4):
        arrived.get().result()
    found["call_cpu_ms"] = 1e3 * (time.process_time() - processor) / calls
    found["call_wall_ms"] = 1e3 * (time.perf_counter() - began) / calls
    backend.close()
    return found


def run_nodes(nodes: int, folder: str) -> Raw:
    os.environ["RAY_AUTH_MODE"] = "disabled"
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            cluster.add_node(num_cpus=1)
        connect(cluster.address)
        seconds = []
        for _ in range(200):
            began = time.perf_counter()
            seen = len(ray.nodes())
            seconds.append(time.perf_counter() - began)
        assert seen == nodes
        ray.shutdown()
    finally:
        cluster.shutdown()
    return {"nodes": nodes, "ms": 1e3 * median(seconds)}


def ray_part(_: Path, plan: Plan, parts: Raw) -> Raw:
    found = in_a_process(run_ray, calls=plan.calls, actors=plan.actors)
    progress(f"a call costs the driver {found['call_cpu_ms']:.2f} CPU ms; {plan.actors} actors: {found}")
    nodes = [in_a_process(run_nodes, nodes=nodes) for nodes in (1, plan.nodes)]
    per_node = max(nodes[1]["ms"] - nodes[0]["ms"], 0.0) / (plan.nodes - 1)
    progress(f"ray.nodes(): {nodes}")
    return found | {"nodes": nodes, "nodes_base_ms": nodes[0]["ms"], "nodes_ms_per_node": per_node}


def ray_figures(part: Raw) -> Iterator[Figure]:
    actors = part["actors"]
    yield Figure("Ray: a call and its answer, in the driver", part["call_cpu_ms"], unit=" CPU ms")
    text = f"Ray: {actors} actors with warm kernels on one machine of {CORES} cores"
    yield Figure(f"{text}: all are ready after", part["start_seconds"], unit=" s")
    yield Figure(f"{text}: memory of each", part["worker_mb"], unit=" MB")
    yield Figure(f"{text}: memory of the driver for each", part["driver_kb_per_actor"], unit=" kB")
    yield Figure(f"{text}: the driver's open files for each", part["sockets_per_actor"])
    for raw in part["nodes"]:
        nodes = f"{raw['nodes']} node{'s' if raw['nodes'] > 1 else ''}"
        yield Figure(f"Ray: `ray.nodes()`, asked every second, with {nodes}", raw["ms"], unit=" ms")
    many = 10_000 // CPUS_PER_NODE
    expected = part["nodes_base_ms"] + (many - 1) * part["nodes_ms_per_node"]
    yield Figure(f"Ray: `ray.nodes()` with {many} nodes (extrapolated)", expected, unit=" ms")


# What the driver costs.


def run_stored(sampler: str, trials: int, storage: str | None, folder: str) -> Raw:
    """Two simulated workers: the clock jumps while they are at work, and real time is the driver's alone."""
    spent: defaultdict[str, float] = defaultdict(float)
    statements: Counter[str] = Counter()
    found: Raw = {}
    times: list[float] = []

    def timed(name: str, what: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return what(*arguments, **named)
            finally:
                spent[name] += time.perf_counter() - began

        return call

    def watch(mine: Held, asked: Proposer) -> None:
        if found:
            found["connections"] = _connections(mine) if storage else 0
            return
        ledger: Any = mine.ledger
        ledger.start, ledger.end = timed("enter", ledger.start), timed("end", ledger.end)
        ledger.flush = timed("flush", ledger.flush)
        asked.propose, asked.told = timed("ask", asked.propose), timed("tell", asked.told)  # type: ignore[method-assign]
        found["connections"] = 0
        times.append(time.perf_counter())

    if storage:
        from sqlalchemy import event
        from sqlalchemy.engine import Engine
        from sqlalchemy.pool import Pool

        for name in ("before_cursor_execute", "begin", "commit", "rollback", "checkout"):
            place: Any = Pool if name == "checkout" else Engine
            event.listen(place, name, lambda *_, name=name, **__: statements.update([name]))
    backend = Simulated(lambda spec: result(spec, 1.0), 2)
    study(
        folder,
        sampler,
        backend,
        trials,
        storage=storage,
        listener=lambda progress, got: times.append(time.perf_counter()),
        watch=watch,
    )
    whole = times[-1] - times[0]
    pieces = {name: 1e3 * seconds / trials for name, seconds in spent.items()}
    per_trial = 1e3 * whole / trials
    return found | {
        "sampler": sampler,
        "trials": trials,
        "pieces": pieces | {"rest": per_trial - sum(pieces.values())},
        "ms": per_trial,
        "rate": 1e3 / per_trial,
        "round_trips": sum(statements.values()) / trials,
        "statements": {name: number / trials for name, number in statements.items()},
    }


def _connections(mine: Held) -> int:
    from sqlalchemy import text

    with mine.ledger._storage.engine.connect() as connection:  # type: ignore[attr-defined]
        asked = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return int(connection.execute(asked).scalar_one())


@contextmanager
def postgres() -> Iterator[Callable[[], str] | None]:
    """URLs of empty databases on a server that keeps what it is told; None where there is no PostgreSQL."""
    sys.path.insert(0, str(ROOT / "tests"))
    with ExitStack() as stack:
        try:
            import pytest
            from postgres import running_server

            server = stack.enter_context(running_server())
        except (ImportError, pytest.skip.Exception):
            yield None
            return
        with server.connection("postgres") as connection:
            connection.execute("ALTER SYSTEM SET fsync = on")  # the tests do without
            connection.execute("SELECT pg_reload_conf()")
        yield server.new_url


def storage_part(_: Path, plan: Plan, parts: Raw) -> Raw:
    best = partial(best_of, plan.best, run_stored, trials=plan.stored)
    found: Raw = {"journal": best(sampler="nsga2", storage=None), "journal, TPE": best(sampler="tpe", storage=None)}
    with postgres() as new_url:
        if new_url is not None:
            found["PostgreSQL"] = best(sampler="nsga2", storage=new_url)
    for name, raw in found.items():
        pieces = ", ".join(f"{piece} {ms:.2f}" for piece, ms in raw["pieces"].items())
        progress(f"{name}: {raw['ms']:.2f} ms per trial ({pieces})")
    return {"storages": found}


def storage_figures(part: Raw) -> Iterator[Figure]:
    for name, raw in part["storages"].items():
        pieces = ", ".join(f"{piece} {ms:.2f}" for piece, ms in raw["pieces"].items())
        kind = "" if "TPE" in name else ", NSGA-II"
        yield Figure(f"driver, {name}{kind}: per trial ({pieces})", raw["ms"], unit=" ms")
        yield Figure(f"driver, {name}{kind}: at most", raw["rate"], unit=" trials/s")
        if raw["round_trips"]:
            yield Figure(f"driver, {name}: round trips per trial, each as long as the network's", raw["round_trips"])
            yield Figure(f"driver, {name}: connections, whatever the number of workers", raw["connections"])


# What MLflow costs.


def run_sender(trials: int, uri: str | None, folder: str) -> Raw:
    home = Path(folder)
    study(folder, "random", Simulated(lambda spec: result(spec, 1.0), 100), trials)
    where = address(uri, home)
    load(where)
    sender = Sender("study", home, None, where)
    began = time.perf_counter()
    seen = sender.look()
    looked = time.perf_counter() - began
    assert seen is not None
    few = min(10, trials // 2)
    sender.bring(replace(seen, trials=seen.trials[:few], front=()), "RUNNING")  # tables, experiment and parent run
    processor, began = time.process_time(), time.perf_counter()
    sender.bring(seen, "RUNNING")
    spent, sent = time.perf_counter() - began, trials - few
    return {
        "trials": trials,
        "ms": 1e3 * spent / sent,
        "cpu_ms": 1e3 * (time.process_time() - processor) / sent,
        "rate": sent / spent,
        "look_ms": 1e3 * looked,
    }


def tracking_part(folder: Path, plan: Plan, parts: Raw) -> Raw:
    best = partial(best_of, plan.best, run_sender, trials=plan.tracked)
    found = {"the embedded database": best(uri=None)}
    port = free_port(0, 0)
    with Server(address(None, folder), port, folder / "log") as server:
        server.wait()
        found["a server on the same two cores"] = best(uri=server.url)
    for name, raw in found.items():
        progress(f"MLflow, {name}: {raw['ms']:.1f} ms per trial")
    return {"senders": found}


def tracking_figures(part: Raw) -> Iterator[Figure]:
    for name, raw in part["senders"].items():
        yield Figure(f"MLflow's sender, a process of its own, {name}: per trial", raw["ms"], unit=" ms")
        yield Figure(f"MLflow's sender, {name}: at most", raw["rate"], unit=" trials/s")


# Thousands of workers.


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


def simulated_part(_: Path, plan: Plan, parts: Raw) -> Raw:
    if "ray" not in parts:
        raise SystemExit("what Ray costs has not been measured: --only ray,simulated")
    ray = parts["ray"]

    def simulate(backend: str, workers: int, length: float, settle: int, timed: int, sampler: str = "") -> Raw:
        nodes = ray["nodes_base_ms"] + (workers // CPUS_PER_NODE) * ray["nodes_ms_per_node"]
        costs = {"call": ray["call_cpu_ms"] / 1e3, "nodes": nodes / 1e3}
        size = {"workers": workers, "length": length, "settle": settle, "timed": timed}
        asked = sampler or ("nsga2" if workers >= MANY else "auto")
        raw = in_a_process(run_simulated, backend=backend, sampler=asked, **size, **costs) | {"sampler": asked}
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


Measure = Callable[[Path, Plan, Raw], Raw]
PARTS: dict[str, tuple[Measure, Callable[[Raw], Iterator[Figure]]]] = {
    "real": (real_part, real_figures),
    "ray": (ray_part, ray_figures),
    "storage": (storage_part, storage_figures),
    "tracking": (tracking_part, tracking_figures),
    "simulated": (simulated_part, simulated_figures),
}


# The run.


def run(names: list[str], folder: Path | None, file: Path, plan: Plan) -> Raw:
    """Parts that are not measured now stay as they are in the file."""
    parts: Raw = json.loads(file.read_text()) if file.exists() else {}
    for name in names:
        progress(name)
        facts = machine()
        facts["versions"] |= {library: version(library) for library in ("optuna", "ray", "mlflow")}
        measure, figures = PARTS[name]
        with tempfile.TemporaryDirectory(prefix="mmbsgd-benchmark-", dir=folder) as empty:
            part = json.loads(json.dumps(measure(Path(empty), plan, parts)))  # as it will be read again
        part["figures"] = [figure.as_dict() for figure in figures(part)]
        parts[name] = part | {"machine": facts | {"load_average_after": os.getloadavg()[0]}, "plan": vars(plan)}
        parts = {name: parts[name] for name in PARTS if name in parts}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(parts, indent=1) + "\n")
    show({name: parts[name] for name in names})
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description="Workers that one driver keeps busy: one, two, and simulated ones.")
    parser.add_argument("--only", default=",".join(PARTS), help="comma-separated, of: %(default)s")
    parser.add_argument("--quick", action="store_true", help="few of everything: a smoke test, in a file of its own")
    parser.add_argument("--page", type=Path, help="a Markdown file with the marks <!-- scaling figures --> to fill")
    parser.add_argument("--folder", type=Path, help="where to write what is generated; a disk, not memory")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", help="folder for the results")
    arguments = parser.parse_args()
    names = arguments.only.lower().split(",")
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"unknown part {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    file = arguments.out / f"scaling{'-quick' if arguments.quick else ''}.json"
    parts = run(names, arguments.folder, file, QUICK if arguments.quick else Plan())
    from scaling_picture import draw, fill

    if not arguments.quick and {"real", "simulated", "tracking"} <= parts.keys():
        draw(parts, ROOT / "docs" / "scaling.svg")
    if arguments.page:
        fill(arguments.page, parts)


if __name__ == "__main__":
    if sys.argv[1:2] == ["task"]:
        print(json.dumps(globals()[sys.argv[2]](**json.loads(sys.argv[3]))))
    else:
        main()
