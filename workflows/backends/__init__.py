"""Who runs trials: one small protocol, and its implementations.

The driver knows nothing of machines. A backend takes specs, answers with results, and turns everything that can happen
to a trial (an exception, a lost worker, a time-out) into a result of state "failed" with its reason.
"""

from typing import Protocol

from workflows.records import TrialResult, TrialSpec


class Backend(Protocol):
    def free(self, *, alone: bool = False) -> int:
        """How many more specs it takes now; with `alone`, how many that shall have a node for themselves."""
        ...

    def slots(self) -> int:
        """How many trials can run at the same time; nodes may come and go."""
        ...

    def now(self) -> float:
        """Seconds on the clock by which the study is timed."""
        ...

    def submit(self, spec: TrialSpec, *, alone: bool = False) -> None: ...

    def wait(self, timeout: float) -> list[TrialResult]:
        """Results that have come in: at least one, unless the time is over or there is more room than before."""
        ...

    def close(self) -> None: ...
