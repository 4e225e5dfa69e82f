"""Trials in the driver's own process, one after the other: for small studies, for debugging, and for comparison."""

import time

from workflows.records import TrialResult, TrialSpec
from workflows.trial import Run, attempt


class InProcess:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._waiting: list[TrialSpec] = []
        self._began = time.perf_counter()

    def free(self, *, alone: bool = False) -> int:
        return 1 - len(self._waiting)

    def slots(self) -> int:
        return 1

    def now(self) -> float:
        return time.perf_counter() - self._began

    def submit(self, spec: TrialSpec, *, alone: bool = False) -> None:
        self._waiting.append(spec)

    def wait(self, timeout: float) -> list[TrialResult]:
        return [attempt(self._run, self._waiting.pop(), "here")] if self._waiting else []

    def close(self) -> None:
        self._waiting.clear()
