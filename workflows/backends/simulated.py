"""A fake cluster with a clock of its own: what the driver does with a thousand workers, in seconds.

The driver's own time passes as it really does; whenever the driver waits, the clock jumps to the next result.
"""

import heapq
import time
from collections.abc import Callable
from itertools import count

from workflows.records import TrialResult, TrialSpec

Outcome = Callable[[TrialSpec], TrialResult]
"""What comes of a spec; `TrialResult.seconds` says how long it keeps its worker busy."""


class Simulated:
    def __init__(self, outcome: Outcome, slots: int = 1) -> None:
        self._outcome, self._slots = outcome, slots
        self._events: list[tuple[float, int, TrialResult]] = []
        self._ticket = count()
        self._began, self._skipped = time.perf_counter(), 0.0
        self.busy_seconds = 0.0

    def free(self, *, alone: bool = False) -> int:
        return self._slots - len(self._events)

    def slots(self) -> int:
        return self._slots

    def now(self) -> float:
        return time.perf_counter() - self._began + self._skipped

    def submit(self, spec: TrialSpec, *, alone: bool = False) -> None:
        result = self._outcome(spec)
        self.busy_seconds += result.seconds
        heapq.heappush(self._events, (self.now() + result.seconds, next(self._ticket), result))

    def wait(self, timeout: float) -> list[TrialResult]:
        if not self._events:
            return []
        until = min(self._events[0][0], self.now() + timeout)
        self._skipped += max(until - self.now(), 0.0)
        ready = []
        while self._events and self._events[0][0] <= self.now():
            ready.append(heapq.heappop(self._events)[2])
        return ready

    def close(self) -> None:
        self._events.clear()
