"""Experiments one after the other: each ends with its results on the disk, and with the page renewed."""

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from workflows.errors import StudyError
from workflows.reproduction.experiments import EXPERIMENTS, Experiment
from workflows.reproduction.lab import Lab, Row
from workflows.reproduction.page import FOLDER, write_page
from workflows.reproduction.results import Results, read, values, write
from workflows.reproduction.sizes import Size

AND = " and "
SECONDS_OF_READING = 5.0
"""An experiment that took no longer was done before: nothing is learnt from it."""


class Clock:
    """How much time is left, from what experiments took elsewhere and what they take here."""

    def __init__(
        self, experiments: Sequence[Experiment], size: Size, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._expected = [60 * one.minutes[0 if size.thorough else 1] for one in experiments]
        self._now, self._done, self._last = now, 0, now()
        self._spent = self._known = 0.0  # seconds here and elsewhere, of experiments that were really run

    def next(self) -> None:
        """An experiment has ended."""
        took = self._now() - self._last
        if took > SECONDS_OF_READING:
            self._spent, self._known = self._spent + took, self._known + self._expected[self._done]
        self._done, self._last = self._done + 1, self._now()

    @property
    def left(self) -> float:
        """Seconds."""
        pace = self._spent / self._known if self._known else 1.0
        here = max(pace * self._expected[self._done] - (self._now() - self._last), 0.0) if self._more else 0.0
        return here + pace * sum(self._expected[self._done + 1 :])

    @property
    def _more(self) -> bool:
        return self._done < len(self._expected)


def run(
    experiments: Sequence[Experiment],
    sets: tuple[str, ...],
    lab: Lab,
    out: Path,
    clock: Clock,
    say: Callable[[str], None],
) -> None:
    """sets: those that may be used."""
    for number, experiment in enumerate(experiments, 1):
        mine = chosen(experiment, sets)
        say(f"{number} of {len(experiments)} · {experiment.name}: {experiment.title} ({', '.join(mine).upper()})")
        rows = experiment.run(lab, mine)
        there = read(out / FOLDER, experiment.name)
        before: dict[str, str] = {}
        if there is not None and there.facts["size"] == lab.size.name:
            others = [row for row in there.rows if row["set"] not in mine]  # sets that were not asked for this time
            rows, before = rows + others, there.facts if others else {}
        write(out / FOLDER, experiment.name, Results(rows, facts(lab.size, lab.environment, rows, before)))
        write_page(out, fresh=(experiment.name,))
        clock.next()


def chosen(experiment: Experiment, sets: tuple[str, ...]) -> tuple[str, ...]:
    """Those of its sets that may be used; if there is none, the first that may, so that one set is enough for all."""
    return tuple(one for one in experiment.sets if one in sets) or sets[:1]


def check(experiments: Sequence[Experiment], size: Size, out: Path) -> None:
    """Says before anything runs what would be wrong at its end: results of a full run are not replaced by a quick look,
    damaged ones are not read over, and a folder must be one that can be written."""
    there = {name: read(out / FOLDER, name) for name in EXPERIMENTS}
    for experiment in experiments:
        results = there[experiment.name]
        if results is not None and results.facts["size"] != size.name and not size.thorough:
            raise StudyError(f"{out} holds results of a full run of {experiment.name}: choose another --out")
    try:
        (out / FOLDER).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out / FOLDER):
            pass
    except OSError as error:
        raise StudyError(f"cannot write to --out {out}: {error.strerror}") from None


def facts(size: Size, environment: dict[str, str], rows: list[Row], before: dict[str, str]) -> dict[str, str]:
    """What the page tells of where and when it was measured. before: of sets that were measured another time."""
    versions = {name: environment.get(f"version.{name}", "") for name in ("python", "numpy", "numba", "scikit-learn")}
    machine = {name: environment.get(f"machine.{name}", "") for name in ("processor", "cores")}
    found = {name: _both(before.get(name, ""), now) for name, now in (machine | versions).items()}
    days = values(rows, "day")
    return {"size": size.name, "day": " to ".join(dict.fromkeys(days[:1] + days[-1:]))} | found


def _both(before: str, now: str) -> str:
    return AND.join(filter(None, dict.fromkeys([*before.split(AND), now])))
