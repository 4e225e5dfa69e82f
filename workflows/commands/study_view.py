"""A running study as a person sees it: a live picture in a terminal, plain lines elsewhere."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from workflows.commands.plot import scatter
from workflows.records import TrialResult
from workflows.study.driver import Limits, Progress
from workflows.study.settings import Settings
from workflows.study.tuning import Watcher

SECONDS_BETWEEN_LINES = 5.0
SECONDS_BETWEEN_PICTURES = 0.25
"""Drawing one costs as much as a short trial."""
MOST_POINTS = 2000


class StudyView(Watcher):
    def __init__(self, console: Console, study: str, settings: Settings, limits: Limits) -> None:
        self._console, self._study, self._settings, self._limits = console, study, settings, limits
        self._progress = Progress()
        self._confirmed: tuple[int, int] | None = None
        self._tracked: tuple[int, int] | None = None
        self._points: list[tuple[float, float]] = []
        self._message = ""
        self._began, self._first_done, self._said = time.monotonic(), 0, 0.0
        self._search_began: float | None = None  # the start of workers is not the search's time
        self._live: Live | None = None

    @contextmanager
    def shown(self) -> Iterator["StudyView"]:
        """While it lasts, Ctrl-C asks the study to end; a second one ends the program."""
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in before:
            signal.signal(number, self._asked_to_end)
        try:
            if self._console.is_terminal:
                with Live(self._picture(), console=self._console, refresh_per_second=4, transient=True) as self._live:
                    yield self
            else:
                yield self
        finally:
            self._live = None
            for number, handler in before.items():
                signal.signal(number, handler)

    def searching(self, progress: Progress, result: TrialResult | None) -> None:
        if not self._progress.done and not self._progress.running:
            self._first_done = progress.done  # what earlier drivers did
        self._progress, self._message = progress, ""
        if self._search_began is None and progress.slots:
            self._search_began = time.monotonic()
        if result is not None and result.state == "complete" and len(self._points) < MOST_POINTS:
            score, cost = self._settings.objectives(result)[:2]
            self._points.append((score, cost))
        self._show()

    def confirming(self, done: int, total: int) -> None:
        self._confirmed = (done, total)
        self._show()

    def storage_away(self, reason: str) -> None:
        self._message = f"the storage does not answer, trying again: {reason}"
        self._show(now=True)

    def tracking(self, done: int, total: int) -> None:
        self._tracked, self._message = (done, total), ""
        self._show()

    def tracking_away(self, where: str, reason: str) -> None:
        said = f"MLflow ({where}) does not answer: {reason}. The study goes on; its results are kept and follow later."
        self._console.print(said, style="yellow", highlight=False, markup=False, soft_wrap=True)

    def note(self, message: str) -> None:
        """What is being done before there is anything to count."""
        self._message = message
        self._show(now=True)

    def _asked_to_end(self, number: int, _: FrameType | None) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        self.note("ending: running trials are given back (once more to end at once)")

    def _show(self, *, now: bool = False) -> None:
        pause = SECONDS_BETWEEN_LINES if self._live is None else SECONDS_BETWEEN_PICTURES
        if not now and time.monotonic() - self._said <= pause:
            return
        self._said = time.monotonic()
        if self._live is not None:
            self._live.update(self._picture())
        else:
            self._console.print(self._line(), highlight=False, markup=False, soft_wrap=True)

    def _line(self) -> str:
        parts = [f"{time.monotonic() - self._began:.0f} s", *self._counts()]
        return " · ".join([*parts, self._message] if self._message else parts)

    def _counts(self) -> list[str]:
        progress = self._progress
        if self._tracked is not None:
            done, total = self._tracked
            return [f"writing the study to MLflow: {done} of {total} trials"] if total else ["MLflow is starting"]
        if self._confirmed is not None:
            done, total = self._confirmed
            return [f"confirming the front with fresh seeds: {done} of {total} runs"]
        if not progress.slots and not progress.done:
            return [] if self._message else ["workers are starting"]
        of = f"/{self._limits.trials}" if self._limits.trials else ""
        parts = [f"{progress.done}{of} trials", f"{progress.running} running on {progress.slots} workers"]
        parts += [f"{progress.stopped} stopped early"] if progress.stopped else []
        parts += [f"{progress.failed} failed"] if progress.failed else []
        parts += [f"{progress.retries} tried again"] if progress.retries else []
        if progress.front:
            parts += [
                f"front of {len(progress.front)}",
                f"best {self._settings.metric} {progress.front[0][1][0]:.2%}",
                f"hypervolume {progress.hypervolume:.4f}",
            ]
        left = self._time_left()
        return [*parts, f"about {left:.0f} s left"] if left is not None else parts

    def _time_left(self) -> float | None:
        now, done = time.monotonic(), self._progress.done - self._first_done
        spent = now - (now if self._search_began is None else self._search_began)
        lefts = []
        if self._limits.trials and done > 0:
            lefts.append(spent / done * max(self._limits.trials - self._progress.done, 0))
        if self._limits.timeout:
            lefts.append(max(self._limits.timeout - spent, 0.0))
        return min(lefts, default=None)

    def _picture(self) -> RenderableType:
        settings, progress = self._settings, self._progress
        title = Text(self._study, "bold").append(
            f" · {settings.metric} against {settings.cost} · space {settings.space}"
            + (f" · sampler {progress.sampler}" if progress.sampler else ""),
            "not bold",
        )
        done, total = self._tracked or self._confirmed or (progress.done, self._limits.trials)
        bar = Table.grid(padding=(0, 1))
        bar.add_row(ProgressBar(total=total or 100, completed=done if total else 0, width=40, pulse=not total), "")
        counts = self._counts()
        lines = [" · ".join(counts[:5]), " · ".join(counts[5:])]
        best = [(values[0], values[1]) for _, values in progress.front]
        parts: list[RenderableType] = [title, bar, *(Text(line) for line in lines if line)]
        if self._message:
            parts.append(Text(self._message, "yellow"))
        if best:
            parts.append(scatter(self._points, best, (settings.metric, settings.cost)))
        return Group(*parts)
