"""Trials on a Ray cluster: long-lived actors, one per slot, that stay warm.

An actor opens the data and compiles its kernels before it takes its first trial. Short trials are queued two deep, so
that an actor need not wait for the driver between them. Whatever kills an actor costs the trial it was running, which
comes back as failed, and nothing else: what was queued behind it goes to another actor.

Ray waits a minute for a cluster that is gone, then ends the driver's process. So it is asked which nodes there are on
a thread of its own, and a cluster that does not answer for SILENCE seconds ends the study with a message.
"""

import math
import os
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import ray
from ray.exceptions import ActorDiedError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from workflows.errors import StudyError, one_line
from workflows.records import TrialResult, TrialSpec
from workflows.trial import Run, attempt

LOOK_AROUND = 1.0
"""Seconds between two looks at the nodes that come and go."""
SHORT = 0.25
"""Seconds of a trial below which the next one is queued behind it."""
LONG_START = 10.0
"""Seconds after which workers that have found no place may be waiting for others to make room."""
SILENCE = 20.0
"""Seconds after which a cluster that does not answer counts as lost."""
MOST_FAILED_STARTS = 3
"""Actors in a row that may fail to start on a node before it is left alone."""
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

    def here(self) -> bool:
        """It has found a place to live."""
        return True

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
    here: bool = False
    ready: bool = False
    specs: dict[int, TrialSpec] = field(default_factory=dict)
    """By number; the first is running."""
    began: float = 0.0
    """When its first spec began."""


class RayActors:
    def __init__(
        self,
        setup: Setup,
        *,
        workers: int | None = None,
        cpus: int = 1,
        trial_timeout: float | None = None,
        leave: bool = False,
        note: Callable[[str], None] = lambda message: None,
    ) -> None:
        """workers: at most so many actors; else as many as the cluster has room for. cpus: of each of them. leave:
        disconnect from Ray at the end. note: told why no worker starts."""
        self._setup, self._workers, self._cpus, self._leave = setup, workers, cpus, leave
        self._trial_timeout = math.inf if trial_timeout is None else trial_timeout
        self._actors: dict[Any, _Actor] = {}
        self._arrivals: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._results: list[TrialResult] = []
        self._openings: deque[_Actor] = deque()
        self._homeless: deque[TrialSpec] = deque()  # were queued behind a trial that took its actor along
        self._shared: Any = None
        self._failed_starts: Counter[str] = Counter()  # by node
        self._busy, self._reason = 0.0, ""
        self._began = time.perf_counter()
        self._looked, self._answered = -math.inf, True
        self._remote = ray.remote(Worker)
        self._note, self._noted = note, ""

    def free(self, *, alone: bool = False) -> int:
        if alone:
            return len(self._idle_nodes())
        ready = list(self._ready())
        depth = 2 if len(ready) > 1 and 0.0 < self._busy < SHORT else 1
        self._openings = deque(actor for place in range(depth) for actor in ready if len(actor.specs) <= place)
        return len(self._openings) - len(self._homeless)

    def slots(self) -> int:
        return sum(actor.ready for actor in self._actors.values())

    def now(self) -> float:
        return time.perf_counter() - self._began

    def submit(self, spec: TrialSpec, *, alone: bool = False) -> None:
        if alone:
            self._start(self._idle_nodes()[0], spec)
        else:
            self._start(self._opening(), spec)

    def _opening(self) -> _Actor:
        """For the next trial, as `free` has counted them: it would take long to look at thousands of actors again."""
        while self._openings:
            actor = self._openings.popleft()
            if actor.handle in self._actors:
                return actor
        return min(self._ready(), key=lambda actor: len(actor.specs))

    def wait(self, timeout: float) -> list[TrialResult]:
        until, slots = time.perf_counter() + timeout, self.slots()
        while True:
            while not self._arrivals.empty():
                self._arrivals.get()()
            self._look_around()
            self._end_overdue()
            self._rehouse()
            left = until - time.perf_counter()
            if self._results or self.slots() > slots or left <= 0:
                break
            try:
                self._arrivals.get(timeout=max(min(left, self._next_event() - time.perf_counter()), 0.0))()
            except queue.Empty:
                continue
        results, self._results = self._results, []
        return results

    def close(self) -> None:
        for actor in self._actors.values():
            ray.kill(actor.handle)
        self._actors.clear()
        if self._leave:
            ray.shutdown()

    # Actors come and go.

    def _look_around(self) -> None:
        """Now and then asks which nodes there are."""
        now = time.perf_counter()
        if not self._answered:
            if now - self._looked > SILENCE:
                raise StudyError(
                    f"the Ray cluster has not answered for {SILENCE:.0f} s; run the same command again when it is "
                    "back: the study goes on where it stopped"
                )
        elif now - self._looked > LOOK_AROUND:
            self._looked, self._answered = now, False
            threading.Thread(target=self._ask, daemon=True).start()

    def _ask(self) -> None:
        try:
            nodes = ray.nodes()
        except Exception:  # a cluster that cannot say is one that does not answer
            return
        self._arrivals.put(lambda: self._saw(nodes))

    def _saw(self, nodes: list[dict[str, Any]]) -> None:
        """Drops the actors of lost nodes, and fills nodes that have room."""
        self._answered = True
        room = {node["NodeID"]: int(node["Resources"].get("CPU", 0)) // self._cpus for node in nodes if node["Alive"]}
        for actor in list(self._actors.values()):
            if actor.node not in room:
                self._lost(actor, "its node was lost")
        for actor in self._actors.values():
            room[actor.node] -= 1
        # One on every node, then a second one: few workers then have nodes of their own.
        wanted = sorted(
            (place, node)
            for node, count in room.items()
            for place in range(count)
            if self._failed_starts[node] < MOST_FAILED_STARTS
        )
        limit = None if self._workers is None else max(self._workers - len(self._actors), 0)
        for _, node in wanted[:limit]:
            self._hire(node)
        cpus = [int(node["Resources"].get("CPU", 0)) for node in nodes if node["Alive"]]
        if not self._actors:
            self._explain(cpus)
        if not any(actor.here for actor in self._actors.values()) and self.now() > LONG_START:
            self._wait_for(sum(cpus), len(cpus))

    def _wait_for(self, cpus: int, nodes: int) -> None:
        """Says once what a study waits for."""
        busy = (
            f"no worker has started yet: if others use the cluster's {cpus} CPUs, this study begins when some are free"
        )
        said = busy if cpus else f"none of the cluster's {nodes} nodes has CPUs: waiting for workers to join"
        if said != self._noted:
            self._noted = said
            self._note(said)

    def _explain(self, cpus: list[int]) -> None:
        """No worker and nowhere to start one: waiting would not help, unless nodes with CPUs are still to come."""
        if self._failed_starts:
            advice = "; every node needs this package, in the same version" if "No module" in self._reason else ""
            raise StudyError(f"workers do not start: {self._reason}{advice}")
        if 0 < max(cpus, default=0) < self._cpus:
            raise StudyError(f"no node has {self._cpus} CPUs for a trial; the largest has {max(cpus)}")

    def _hire(self, node: str) -> None:
        here = NodeAffinitySchedulingStrategy(node, soft=False)
        handle = self._remote.options(num_cpus=self._cpus, scheduling_strategy=here, max_restarts=0).remote(self._cpus)
        actor = self._actors[handle] = _Actor(handle, node)
        self._when_done(actor, handle.here.remote(), self._arrived)
        self._when_done(actor, handle.open.remote(self._setup), self._opened)

    def _arrived(self, actor: _Actor, here: bool) -> None:
        actor.here = here

    def _opened(self, actor: _Actor, found: bool) -> None:
        if found:
            actor.ready = True
            del self._failed_starts[actor.node]
            return
        if self._shared is None:
            self._shared = self._setup.share()
        self._when_done(actor, actor.handle.open_shared.remote(self._setup, self._shared), self._opened)

    def _lost(self, actor: _Actor, reason: str) -> None:
        """Its first trial has failed; the others go elsewhere."""
        del self._actors[actor.handle]
        ray.kill(actor.handle)
        if not actor.ready:
            self._failed_starts[actor.node] += 1
            self._reason = reason
        if actor.specs:
            first, *queued = actor.specs.values()
            spent = time.perf_counter() - actor.began
            self._results.append(TrialResult(first.number, "failed", reason=reason, seconds=spent))
            self._homeless.extend(queued)
        self._looked = -math.inf if self._answered else self._looked

    # Trials.

    def _start(self, actor: _Actor, spec: TrialSpec) -> None:
        if not actor.specs:
            actor.began = time.perf_counter()
        actor.specs[spec.number] = spec
        self._when_done(actor, actor.handle.run.remote(spec), self._done)

    def _done(self, actor: _Actor, result: TrialResult) -> None:
        del actor.specs[result.number]
        actor.began = time.perf_counter()
        self._busy = result.seconds if self._busy == 0.0 else _MEMORY * self._busy + (1 - _MEMORY) * result.seconds
        self._results.append(result)

    def _when_done(self, actor: _Actor, reference: Any, then: Callable[[_Actor, Any], None]) -> None:
        """Calls back from `wait`, on the driver's own thread."""

        def receive(future: Any) -> None:
            if actor.handle not in self._actors:
                return  # a late word of one that was given up
            try:
                answer = future.result()
            except RayTaskError as error:
                self._lost(actor, f"its worker failed: {type(error.cause).__name__}: {_said(error.cause)}")
            except RayError as error:
                self._lost(actor, f"its worker died: {_said(error)}")
            else:
                then(actor, answer)

        reference.future().add_done_callback(lambda future: self._arrivals.put(lambda: receive(future)))

    def _end_overdue(self) -> None:
        if self._trial_timeout == math.inf:
            return
        now = time.perf_counter()
        for actor in list(self._actors.values()):
            if now > self._deadline(actor):
                self._lost(actor, f"it took longer than --trial-timeout {self._trial_timeout:g} s")

    def _deadline(self, actor: _Actor) -> float:
        return actor.began + self._trial_timeout if actor.specs else math.inf

    def _next_event(self) -> float:
        """When to look again even if nothing arrives."""
        look = self._looked + (LOOK_AROUND if self._answered else SILENCE)
        return look if self._trial_timeout == math.inf else min([look, *map(self._deadline, self._actors.values())])

    def _rehouse(self) -> None:
        while self._homeless and (ready := list(self._ready())):
            self._start(min(ready, key=lambda actor: len(actor.specs)), self._homeless.popleft())

    def _ready(self) -> Iterator[_Actor]:
        return (actor for actor in self._actors.values() if actor.ready)

    def _idle_nodes(self) -> list[_Actor]:
        """One actor of every node on which no trial runs."""
        busy = {actor.node for actor in self._actors.values() if actor.specs}
        return list({actor.node: actor for actor in self._ready() if actor.node not in busy}.values())


def _said(error: BaseException) -> str:
    """What a person wants to know of Ray's messages: the middle of most of them."""
    if isinstance(error, ActorDiedError) and "creation task" in str(error):
        return str(error).strip().splitlines()[-1]  # Python's own last line; before it comes a traceback
    text = " ".join(str(error).split())
    return one_line(text.rpartition("Worker exit detail: ")[2].partition(" Some common causes include")[0])
