"""The ask/tell loop: a proposer names parameters, a backend runs trials, the ledger keeps what came of them.

A parameter set is tried again when it failed, a bounded number of times. What a dead driver left unfinished is tried
again by the next one. Every trial gets exactly one end; results of trials that have theirs already are dropped.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from optuna.trial import FrozenTrial, TrialState

from workflows.backends import Backend
from workflows.front import GrowingFront
from workflows.records import Bar, Point, TrialResult, TrialSpec
from workflows.stopping import bar, learnt_slack
from workflows.study.ledger import BLAMELESS, INTERRUPTED, Entry, Ledger, origin_of, proposal_of, result_of
from workflows.study.proposer import Proposal, Proposer

HEARTBEAT = 0.5
"""Seconds after which the loop looks around even if nothing came in."""
AT_ONCE = 100
"""Trials that are started before it looks around: a thousand free workers do not keep it from Ctrl-C and results."""
MOST_CURVES = 200
"""The latest learning curves that early stopping learns from: more would cost time and teach little."""


@dataclass(frozen=True)
class Limits:
    """When a study has had enough."""

    trials: int | None = None
    """Parameter sets that were tried, whatever came of it."""
    timeout: float | None = None
    """Seconds after which no further trial starts."""
    patience: int | None = None
    """Stop when so many trials have not enlarged the hypervolume."""
    retries: int = 3


@dataclass
class Progress:
    """Where the study stands."""

    complete: int = 0
    stopped: int = 0
    failed: int = 0
    """Parameter sets given up after all attempts."""
    running: int = 0
    retries: int = 0
    slots: int = 0
    front: list[tuple[int, tuple[float, ...]]] = field(default_factory=list)
    """Numbers and objectives of the best trials, by falling score."""
    hypervolume: float = 0.0
    """Between the front, score 0 and the largest costs seen, as a share of that box."""
    without_growth: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)
    sampler: str = ""

    @property
    def done(self) -> int:
        return self.complete + self.stopped + self.failed


Listener = Callable[[Progress, TrialResult | None], None]
MakeSpec = Callable[[int, Proposal, Bar | None], TrialSpec]
"""From a parameter set's origin and its proposal."""
Objectives = Callable[[TrialResult], tuple[float, ...]]


class Driver:
    def __init__(
        self,
        ledger: Ledger,
        proposer: Proposer,
        backend: Backend,
        make_spec: MakeSpec,
        objectives: Objectives,
        *,
        limits: Limits,
        bar: Bar | None = None,
        listener: Listener = lambda progress, result: None,
        beat: Callable[[], object] = lambda: None,
    ) -> None:
        """bar: where early stopping begins; None switches it off. beat: called at every turn of the loop."""
        self._ledger, self._proposer, self._backend = ledger, proposer, backend
        self._make_spec, self._objectives = make_spec, objectives
        self._limits, self._listener, self._beat, self._bar = limits, listener, beat, bar
        self._timeout = math.inf if limits.timeout is None else limits.timeout
        self.progress = Progress(sampler=proposer.name, slots=backend.slots())
        self.interrupted = False
        self._again: deque[Entry] = deque()  # parameter sets to be tried again, before anything else
        self._queue: deque[Entry] = deque()  # those to be tried before new ones are proposed
        self._running: dict[int, Entry] = {}
        self._front = GrowingFront()
        self._curves: deque[tuple[Point, ...]] = deque(maxlen=MOST_CURVES)
        self._unlearnt = 0  # of these
        self._recover()

    def enqueue(self, proposals: Iterable[Proposal]) -> None:
        """Parameter sets to be tried before any are proposed; those that were tried already are left out."""
        known = {entry.proposal.key for entry in self._queue}
        known |= {proposal_of(trial).key for trial in self._ledger.trials()}
        for proposal in proposals:
            if proposal.key not in known:
                known.add(proposal.key)
                self._queue.append(Entry(None, 1, proposal))

    def run(self) -> Progress:
        """Until the limits are reached, or `interrupted` is set: what then still runs is tried again next time."""
        began: float | None = None  # the time that workers need to start is not the search's
        while True:
            self._beat()
            if self.interrupted:
                break
            if began is None and self._backend.slots():
                began = self._backend.now()
            late = began is not None and self._backend.now() - began >= self._timeout
            wanted, room = (False, False) if late else self._fill()
            self._ledger.flush()
            if not self._running and not wanted:
                return self.progress
            for result in self._backend.wait(0.0 if room else HEARTBEAT):
                self._finish(result)
            self.progress.slots = self._backend.slots()
            self._listener(self.progress, None)
        for number in list(self._running):
            self._ledger.end(TrialResult(number, "failed", reason=INTERRUPTED))
        self._running.clear()
        self.progress.running = 0
        self._ledger.flush()
        return self.progress

    def _wanted(self) -> bool:
        limits, progress = self._limits, self.progress
        if self._again:
            return True
        if limits.patience is not None and progress.without_growth >= limits.patience:
            return False
        if limits.trials is not None and progress.done + len(self._running) >= limits.trials:
            return False
        return bool(self._queue) or self._proposer.name != "grid"  # of a grid everything was queued

    def _fill(self) -> tuple[bool, bool]:
        """Gives the backend what it takes, up to a number; says whether there is more to do, and room for it."""
        free = self._backend.free()
        least = max(free - AT_ONCE, 0)
        while self._wanted():
            if free <= least:
                return True, free > 0
            free -= 1
            number, entry = self._ledger.start(self._next())
            self._running[number] = entry
            self.progress.running = len(self._running)
            assert entry.origin is not None
            spec = self._make_spec(entry.origin, entry.proposal, self._bar)
            self._backend.submit(replace(spec, number=number))
        return False, False

    def _next(self) -> Entry:
        for waiting in (self._again, self._queue):
            if waiting:
                return waiting.popleft()
        return Entry(None, 1, self._proposer.propose(self._ledger.next_number))

    def _finish(self, result: TrialResult) -> None:
        entry = self._running.pop(result.number, None)
        if entry is None:
            return  # it has its end already: nothing counts twice
        self.progress.running = len(self._running)
        values = self._objectives(result) if result.state == "complete" else ()
        if not all(math.isfinite(value) for value in values):
            said = ", ".join(f"{value:g}" for value in values)
            result, values = replace(result, state="failed", reason=f"objectives are not finite: {said}"), ()
        self._ledger.end(result, values)
        stopped = result.state == "stopped"
        self._proposer.told(result.number, entry.proposal, values or None, stopped=stopped, busy=result.seconds)
        self._proposer.reconsider(max(self.progress.slots, 1))
        self.progress.sampler = self._proposer.name
        if result.state == "complete":
            self._completed(result, values)
            self._renew_bar()
        elif stopped:
            self._stopped()
        elif entry.attempt <= self._limits.retries:
            self.progress.retries += 1
            self._again.appendleft(replace(entry, attempt=entry.attempt + 1))
        else:
            self._given_up(entry.origin or 0, result.reason)
        self._listener(self.progress, result)

    def _completed(self, result: TrialResult, values: tuple[float, ...]) -> None:
        self.progress.complete += 1
        self._count(result.number, values)
        if len(result.curve) > 1:
            self._curves.append(result.curve)
            self._unlearnt += 1

    def _renew_bar(self) -> None:
        """The front at once, the slack whenever there is a tenth more to learn it from."""
        if self._bar is None or not self._curves:
            return
        slack = self._bar.slack
        if self._unlearnt * 10 >= len(self._curves):
            slack, self._unlearnt = learnt_slack(self._curves), 0
        self._bar = bar((values for _, values in self.progress.front), slack, self._bar.shortest)

    def _count(self, number: int, values: tuple[float, ...]) -> None:
        """Adds a point to the front and to the hypervolume."""
        progress = self.progress
        grown = self._front.add(number, values)
        progress.without_growth = 0 if grown else progress.without_growth + 1
        progress.front, progress.hypervolume = self._front.members, self._front.hypervolume

    def _stopped(self) -> None:
        self.progress.stopped += 1
        self.progress.without_growth += 1

    def _given_up(self, origin: int, reason: str) -> None:
        self.progress.failed += 1
        self.progress.without_growth += 1
        self.progress.failures.append((origin, reason))

    def _recover(self) -> None:
        """Takes stock of what earlier drivers left."""
        unfinished = list(self._ledger.unfinished(self._limits.retries + 1))
        waiting = {entry.origin for entry in unfinished}
        trials = self._ledger.trials()
        last = {origin_of(trial): trial.number for trial in trials}
        finished = []
        for trial in sorted(trials, key=_ended):  # as they were counted then
            origin, result = origin_of(trial), result_of(trial)
            if trial.state == TrialState.COMPLETE:
                self._completed(result, tuple(trial.values))
                finished.append((proposal_of(trial), trial.values))
            elif trial.state == TrialState.PRUNED:
                self._stopped()
            elif trial.state == TrialState.FAIL and result.reason not in BLAMELESS:
                if trial.number == last[origin] and origin not in waiting:
                    self._given_up(origin, result.reason)
                else:
                    self.progress.retries += 1
        self._renew_bar()
        self._proposer.remember(finished)
        self._again.extend(unfinished)


def _ended(trial: FrozenTrial) -> float:
    return trial.datetime_complete.timestamp() if trial.datetime_complete else math.inf
