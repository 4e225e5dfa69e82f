"""The parts `real` and `ray` of benchmarks/scaling.py: one and two Ray workers, and what Ray costs."""

import os
import queue
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

from frame import CORES, Figure, Raw, in_a_folder, progress, two_at_a_time
from scaling_study import Plan, result, study

from mmbsgd import MultiMergeSVC
from workflows.cluster import connect
from workflows.data.demo import checkerboard
from workflows.records import Bar, TrialResult, TrialSpec
from workflows.study.driver import Progress
from workflows.study.proposer import Proposal
from workflows.study.settings import Settings
from workflows.workplace import warm_up

KINDS = {"sleep": "asleep", "burn": "of CPU", "train": "of training"}
TRAINING_ROWS = 20_000
CPUS_PER_NODE = 16


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


def real_part(_: Path, plan: Plan) -> Raw:
    """How much two trainings slow each other down without Ray is this machine's own limit."""
    alone = in_a_folder(run_training, fits=20)["seconds"]
    fits = max(round(5.0 / alone), 1)
    train = partial(in_a_folder, run_training, fits=fits)
    alone, together = train()["seconds"], fmean(raw["seconds"] for raw in two_at_a_time([train, train]))
    progress(f"a training takes {1e3 * alone:.1f} ms alone, {1e3 * together:.1f} ms beside another")
    raw = in_a_folder(run_real, trials=plan.trials, fit=alone, repeats=plan.repeats)
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


def ray_part(_: Path, plan: Plan) -> Raw:
    found = in_a_folder(run_ray, calls=plan.calls, actors=plan.actors)
    progress(f"a call costs the driver {found['call_cpu_ms']:.2f} CPU ms; {plan.actors} actors: {found}")
    nodes = [in_a_folder(run_nodes, nodes=nodes) for nodes in (1, plan.nodes)]
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
