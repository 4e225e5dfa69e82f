"""Trials on a Ray cluster: long-lived actors, one per slot, that stay warm.

An actor opens the data and compiles its kernels before it takes its first trial. Short trials are queued two deep, so
that an actor need not wait for the driver between them. Whatever kills an actor costs the trial it was running, which
comes back as failed, and nothing else: what was queued behind it goes to another actor.
"""

import os
import queue
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from workflows.errors import StudyError
from workflows.records import TrialResult, TrialSpec
from workflows.trial import Run, attempt

LOOK_AROUND = 1.0
"""Seconds between two looks at the nodes that come and go."""
SHORT = 0.25
"""Seconds of a trial below which the next one is queued behind it."""
MOST_FAILED_STARTS = 3
"""Actors in a row that may fail to start before the study gives up."""
_MEMORY = 0.8


class Setup(Protocol):
    """How a worker gets ready."""

    def open(self) -> Run | None:
        """What runs trials on this machine, warm; None if the data cannot be reached from here."""
        ...

    def share(self) -> Any:
        """The data for workers that cannot reach it, put into the object store by the driver."""
        ...

    def open_shared(self, shared: Any) -> Run: ...


class Worker:
    """Lives in a process of its own on some node."""

    def __init__(self, threads: int) -> None:
        import pyarrow as pa
        from threadpoolctl import threadpool_limits

        pa.set_cpu_count(threads)
        threadpool_limits(threads)
        self._run: Run | None = None
        self._node = ray.util.get_node_ip_address()

    def open(self, setup: Setup) -> bool:
        self._run = setup.open()
        return self._run is not None

    def open_shared(self, setup: Setup, shared: Any) -> bool:
        self._run = setup.open_shared(shared)
        return True

    def run(self, spec: TrialSpec) -> TrialResult:
        assert self._run is not None
        return attempt(self._run, spec, f"{self._node}:{os.getpid()}")


@dataclass(eq=False)
class _Actor:
    handle: Any
    node: str
    ready: bool = False
    specs: deque[TrialSpec] = field(default_factory=deque)
    began: float = 0.0
    """When its first spec began."""


class RayActors:
    def __init__(
        self, setup: Setup, *, workers: int | None = None, cpus: int = 1, trial_timeout: float | None = None
    ) -> None:
        """workers: at most so many actors; else as many as the cluster has room for. cpus: of each of them."""
        self._setup, self._workers, self._cpus, self._trial_timeout = setup, workers, cpus, trial_timeout
        self._actors: dict[Any, _Actor] = {}
        self._arrivals: queue.SimpleQueue[tuple[_Actor, Callable[[], None]]] = queue.SimpleQueue()
        self._results: list[TrialResult] = []
        self._homeless: deque[TrialSpec] = deque()  # were queued behind a trial that took its actor along
        self._shared: Any = None
        self._failed_starts, self._busy = 0, 0.0
        self._began, self._looked = time.perf_counter(), 0.0
        self._remote = ray.remote(Worker)
        self._look_around()

    def free(self, *, alone: bool = False) -> int:
        if alone:
            return len(self._idle_nodes())
        ready = [actor for actor in self._actors.values() if actor.ready]
        depth = 2 if len(ready) > 1 and 0.0 < self._busy < SHORT else 1
        return sum(max(depth - len(actor.specs), 0) for actor in ready) - len(self._homeless)

    def slots(self) -> int:
        return sum(actor.ready for actor in self._actors.values())

    def now(self) -> float:
        return time.perf_counter() - self._began

    def submit(self, spec: TrialSpec, *, alone: bool = False) -> None:
        if alone:
            self._start(self._idle_nodes()[0], spec)
        else:
            self._start(min(self._ready(), key=lambda actor: len(actor.specs)), spec)

    def wait(self, timeout: float) -> list[TrialResult]:
        until = time.perf_counter() + timeout
        slots = self.slots()
        while not self._results and self.slots() <= slots:
            now = time.perf_counter()
            if now - self._looked > LOOK_AROUND:
                self._look_around()
            self._end_overdue()
            self._rehouse()
            left = min(until, self._looked + LOOK_AROUND, self._next_deadline()) - now
            try:
                self._receive(self._arrivals.get(timeout=max(left, 0.0)))
            except queue.Empty:
                if time.perf_counter() >= until:
                    break
        while not self._arrivals.empty():
            self._receive(self._arrivals.get())
        results, self._results = self._results, []
        return results

    def close(self) -> None:
        for actor in self._actors.values():
            ray.kill(actor.handle)
        self._actors.clear()

    # Actors come and go.

    def _look_around(self) -> None:
        """Drops the actors of lost nodes, and fills nodes that have room."""
        self._looked = time.perf_counter()
        room = {node["NodeID"]: int(node["Resources"].get("CPU", 0)) // self._cpus for node in _alive_nodes()}
        for actor in list(self._actors.values()):
            if actor.node not in room:
                self._lost(actor, "its node was lost")
        for actor in self._actors.values():
            room[actor.node] -= 1
        # One on every node, then a second one: few workers then have nodes of their own.
        wanted = sorted((place, node) for node, count in room.items() for place in range(count))
        limit = None if self._workers is None else max(self._workers - len(self._actors), 0)
        for _, node in wanted[:limit]:
            self._hire(node)

    def _hire(self, node: str) -> None:
        here = NodeAffinitySchedulingStrategy(node, soft=False)
        handle = self._remote.options(num_cpus=self._cpus, scheduling_strategy=here, max_restarts=0).remote(self._cpus)
        actor = self._actors[handle] = _Actor(handle, node)
        self._when_done(actor, handle.open.remote(self._setup), self._opened)

    def _opened(self, actor: _Actor, found: bool) -> None:
        if found:
            actor.ready, self._failed_starts = True, 0
            return
        if self._shared is None:
            self._shared = self._setup.share()
        self._when_done(actor, actor.handle.open_shared.remote(self._setup, self._shared), self._opened)

    def _lost(self, actor: _Actor, reason: str) -> None:
        """Its first trial has failed; the others go elsewhere."""
        if self._actors.pop(actor.handle, None) is None:
            return
        ray.kill(actor.handle)
        if not actor.ready:
            self._failed_starts += 1
            if self._failed_starts >= MOST_FAILED_STARTS and not self.slots():
                raise StudyError(f"workers do not start: {reason}")
        if actor.specs:
            spent = time.perf_counter() - actor.began
            self._results.append(TrialResult(actor.specs.popleft().number, "failed", reason=reason, seconds=spent))
        self._homeless.extend(actor.specs)
        actor.specs.clear()
        self._looked = 0.0

    # Trials.

    def _start(self, actor: _Actor, spec: TrialSpec) -> None:
        if not actor.specs:
            actor.began = time.perf_counter()
        actor.specs.append(spec)
        self._when_done(actor, actor.handle.run.remote(spec), self._done)

    def _done(self, actor: _Actor, result: TrialResult) -> None:
        actor.specs.popleft()
        actor.began = time.perf_counter()
        self._busy = result.seconds if self._busy == 0.0 else _MEMORY * self._busy + (1 - _MEMORY) * result.seconds
        self._results.append(result)

    def _when_done(self, actor: _Actor, reference: Any, then: Callable[[_Actor, Any], None]) -> None:
        """Calls back from `wait`, on the driver's own thread."""

        def arrive(future: Any) -> None:
            self._arrivals.put((actor, lambda: then(actor, future.result())))

        reference.future().add_done_callback(arrive)

    def _receive(self, arrival: tuple[_Actor, Callable[[], None]]) -> None:
        actor, react = arrival
        if actor.handle not in self._actors:
            return  # a late word of one that was given up
        try:
            react()
        except RayTaskError as error:
            if isinstance(error.cause, Exception) and not actor.ready:
                raise StudyError(f"a worker cannot open the data: {error.cause}") from None
            self._lost(actor, f"its worker failed: {_said(error)}")
        except RayActorError as error:
            self._lost(actor, f"its worker died: {_said(error)}")
        except RayError as error:
            self._lost(actor, f"{type(error).__name__}: {_said(error)}")

    def _end_overdue(self) -> None:
        for actor in list(self._actors.values()):
            if time.perf_counter() > self._deadline(actor):
                self._lost(actor, f"it took longer than --trial-timeout {self._trial_timeout:g} s")

    def _deadline(self, actor: _Actor) -> float:
        waits = self._trial_timeout is not None and actor.specs
        return actor.began + self._trial_timeout if waits and self._trial_timeout is not None else float("inf")

    def _next_deadline(self) -> float:
        return min((self._deadline(actor) for actor in self._actors.values()), default=float("inf"))

    def _rehouse(self) -> None:
        while self._homeless and (ready := list(self._ready())):
            self._start(min(ready, key=lambda actor: len(actor.specs)), self._homeless.popleft())

    def _ready(self) -> Iterator[_Actor]:
        return (actor for actor in self._actors.values() if actor.ready)

    def _idle_nodes(self) -> list[_Actor]:
        """One actor of every node on which no trial runs."""
        busy = {actor.node for actor in self._actors.values() if actor.specs}
        return list({actor.node: actor for actor in self._ready() if actor.node not in busy}.values())


def _alive_nodes() -> list[dict[str, Any]]:
    try:
        return [node for node in ray.nodes() if node["Alive"]]
    except RayError as error:
        raise StudyError(
            f"the Ray cluster does not answer: {_said(error)}; run the same command again when it is back: the study "
            "goes on where it stopped"
        ) from None


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else text[:300] + "…"
