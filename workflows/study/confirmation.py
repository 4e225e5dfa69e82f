"""A front point is noise until it is confirmed: its members run again with fresh seeds, one at a time per node.

The confirmed front shows means and deviations over these runs, and leaves out members that turn out dominated.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workflows.backends import Backend
from workflows.front import front
from workflows.records import TrialResult
from workflows.study.driver import HEARTBEAT
from workflows.study.ledger import Ledger, origin_of, proposal_of, result_of
from workflows.study.settings import Settings

KEY = "confirmed-"
RETRIES = 3
Listener = Callable[[int, int], None]
"""Runs done, and runs in all."""


@dataclass(frozen=True)
class Member:
    """One model of the front."""

    number: int
    """Of the trial."""
    parameters: dict[str, Any]
    values: tuple[float, ...]
    """The objectives: of the search, or means over the confirming runs."""
    deviations: tuple[float, ...] = ()
    """Standard deviations over the confirming runs; empty if there was none."""
    runs: int = 0
    found: tuple[float, ...] = ()
    """The objectives in the search."""
    counters: dict[str, float] | None = None


@dataclass(frozen=True)
class _Run:
    number: int
    round: int
    tries: int = 1


def confirm(
    numbers: Sequence[int],
    rounds: int,
    ledger: Ledger,
    backend: Backend,
    settings: Settings,
    *,
    listener: Listener = lambda done, total: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> None:
    """Runs what is missing for so many rounds of each of these trials, and keeps the results in the ledger."""
    trials = {trial.number: trial for trial in ledger.trials()}
    kept: dict[int, dict[int, TrialResult]] = {number: _kept(ledger.notes(), number) for number in numbers}
    # Round by round: when the study is interrupted, every member has had about as many.
    missing = [_Run(number, each) for each in range(1, rounds + 1) for number in numbers if each not in kept[number]]
    total, done = rounds * len(numbers), rounds * len(numbers) - len(missing)
    running: dict[int, _Run] = {}
    ticket = ledger.next_number  # unlike any number of the search
    listener(done, total)
    while (missing or running) and not interrupted():
        for _ in range(min(backend.free(alone=True), len(missing))):
            run = missing.pop(0)
            trial = trials[run.number]
            origin = origin_of(trial)
            spec = settings.spec(origin, proposal_of(trial), None)
            spec = replace(spec, number=ticket, seed=settings.seed_of(origin, run.round), repeats=1)
            running[ticket] = run
            backend.submit(spec, alone=True)
            ticket += 1
        for result in backend.wait(HEARTBEAT):
            ended = running.pop(result.number, None)
            if ended is None:
                continue  # nothing counts twice
            if _usable(result, settings):
                runs = kept[ended.number]
                runs[ended.round] = result
                ledger.note(f"{KEY}{ended.number}", {each: one.as_dict() for each, one in runs.items()})
                ledger.flush()
            elif ended.tries <= RETRIES:
                missing.append(replace(ended, tries=ended.tries + 1))
                continue
            done += 1
            listener(done, total)


def members(ledger: Ledger, settings: Settings, numbers: Iterable[int], *, confirmed: bool = False) -> list[Member]:
    """The front of these trials, as far as it is confirmed; with `confirmed`, only of those that are."""
    trials = {trial.number: trial for trial in ledger.trials()}
    notes = ledger.notes()
    found = []
    for number in numbers:
        trial = trials[number]
        parameters = proposal_of(trial).parameters
        member = Member(number, parameters, tuple(trial.values), found=tuple(trial.values))
        runs = [settings.objectives(result) for result in _kept(notes, number).values()]
        if runs:
            columns = list(zip(*runs, strict=True))
            means = tuple(statistics.fmean(column) for column in columns)
            spread = tuple(statistics.stdev(column) if len(column) > 1 else math.nan for column in columns)
            member = replace(member, values=means, deviations=spread, runs=len(runs))
        if runs or not confirmed:
            found.append(replace(member, counters=result_of(trial).counters))
    return [found[position] for position in front([member.values for member in found])]


def _kept(notes: dict[str, Any], number: int) -> dict[int, TrialResult]:
    return {int(each): TrialResult.from_dict(one) for each, one in notes.get(f"{KEY}{number}", {}).items()}


def _usable(result: TrialResult, settings: Settings) -> bool:
    return result.state == "complete" and all(map(math.isfinite, settings.objectives(result)))
