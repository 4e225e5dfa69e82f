"""Brings MLflow level with a study, whatever it has already: nothing is missing afterwards, and nothing is there twice.

Each trial is written in three calls: create the run with the tags that identify it, log everything, end it. A run that
is not ended is completed; of two for the same trial the younger is deleted.
"""

from collections.abc import Callable
from pathlib import Path

import xxhash

from mmbsgd._version import __version__
from workflows.study.snapshot import Ended, Snapshot
from workflows.tracking.note import note
from workflows.tracking.runs import PARENT, child, confirmed, parent, progress
from workflows.tracking.store import Away, Kept, Store
from workflows.tracking.views import TAG, view

LOGGED = "mmbsgd.trials_logged"
"""Ended trials whose progress is on the parent run."""
REPORT = "mmbsgd.report"
"""A fingerprint of what the report shows."""
Report = Callable[[int, int], None]
"""Trials that MLflow has, and trials in all."""


class Sync:
    def __init__(self, store: Store, study: str) -> None:
        self._store = store
        self.experiment = store.experiment(experiment_name(study))
        self._parent: Kept | None = None
        self._trials: dict[int, Kept] = {}
        self._view = ""
        self._doubtful = True  # what MLflow has is to be looked up
        self._made = False  # a run, whose twin may turn up late

    @property
    def run(self) -> str:
        """The parent run's id, once there is one."""
        return self._parent.id if self._parent else ""

    def bring(self, snapshot: Snapshot, status: str, report: Report = lambda done, total: None) -> None:
        """status: of the study as a whole."""
        try:
            above = self._above(snapshot)
            self._settings(snapshot, above)
            self._progress(snapshot, above)
            self._children(snapshot, above, report)
            self._marks(snapshot)
            self._finish(snapshot, above, status)
        except Away:
            self._doubtful = True
            raise

    def check(self, snapshot: Snapshot) -> None:
        """Looks up what MLflow has if anything was made, and clears away what is there twice."""
        if self._made:
            self._doubtful = True
            self._above(snapshot)
            self._made = False

    def reported(self, snapshot: Snapshot) -> bool:
        """Whether the report is there, and says what the study says now."""
        assert self._parent is not None
        return self._parent.tags.get(REPORT) == _contents(snapshot) and "report.html" in self._store.files(self.run)

    def upload(self, folder: Path) -> None:
        try:
            self._store.upload(self.run, folder)
        except Away:
            self._doubtful = True
            raise

    def upload_report(self, snapshot: Snapshot, folder: Path) -> None:
        assert self._parent is not None
        self.upload(folder)
        self._parent.tags[REPORT] = _contents(snapshot)
        self._store.log(self.run, tags={REPORT: self._parent.tags[REPORT]})

    def _above(self, snapshot: Snapshot) -> Kept:
        """The parent run; where there is doubt, everything is looked up."""
        if self._doubtful or self._parent is None:
            parents, trials = self._store.runs(self.experiment, snapshot.identity)
            if not parents:
                self._made = True
                parents = [self._store.create(self.experiment, parent(snapshot, status="RUNNING", note=""))]
            first, *others = parents
            self._parent, self._trials = first, {}
            for twin in others:
                self._store.delete(twin.id)
            for number, runs in trials.items():
                best = next((run for run in runs if run.ended), runs[0])
                self._trials[number] = best
                for twin in runs:
                    if twin is not best:
                        self._store.delete(twin.id)
            self._doubtful = False
        return self._parent

    def _settings(self, snapshot: Snapshot, above: Kept) -> None:
        run = parent(snapshot, status=above.status, note="")
        new = {name: value for name, value in run.parameters.items() if name not in above.parameters}
        if new:
            self._store.log(above.id, parameters=new)
            above.parameters |= new

    def _progress(self, snapshot: Snapshot, above: Kept) -> None:
        logged = int(above.tags.get(LOGGED, 0))
        if logged < len(snapshot.trials):
            count = str(len(snapshot.trials))
            self._store.log(above.id, list(progress(snapshot, logged)), tags={LOGGED: count})
            above.tags[LOGGED] = count

    def _children(self, snapshot: Snapshot, above: Kept, report: Report) -> None:
        missing = [trial for trial in snapshot.trials if not self._has(trial)]
        best = {member.number for member in snapshot.front}
        done = len(snapshot.trials) - len(missing)
        report(done, len(snapshot.trials))

        self._made = self._made or bool(missing)

        def send(trial: Ended) -> None:
            nonlocal done
            run = child(trial, snapshot)
            run.tags["pareto"] = str(trial.number in best).lower()
            kept = self._trials.get(trial.number) or self._store.create(self.experiment, run, above.id)
            self._trials[trial.number] = kept
            self._store.log(kept.id, run.metrics, run.parameters)
            self._store.end(kept.id, run.status, run.ended)
            kept.ended = True
            done += 1
            report(done, len(snapshot.trials))

        self._store.each(send, missing)

    def _has(self, trial: Ended) -> bool:
        return trial.number in self._trials and self._trials[trial.number].ended

    def _marks(self, snapshot: Snapshot) -> None:
        """Which trials are on the front, and what confirmation says of them: it changes while the study runs.

        And whose children they are: of two parents, the one that they were made for may have been the one to go.
        """
        best = {member.number: member for member in snapshot.front}
        trials = {trial.number: trial for trial in snapshot.trials}
        for number, kept in self._trials.items():
            tags = {"pareto": str(number in best).lower(), PARENT: self.run}
            values = confirmed(best[number], trials[number], snapshot.settings.names) if number in best else []
            new = {name: value for name, value in tags.items() if kept.tags.get(name) != value}
            fresh = [value for value in values if kept.metrics.get(value.name) != value.value]
            if new or fresh:
                self._store.log(kept.id, fresh, tags=new)
                kept.tags |= new
                kept.metrics |= {value.name: value.value for value in fresh}

    def _finish(self, snapshot: Snapshot, above: Kept, status: str) -> None:
        run = parent(snapshot, status=status, note=note(snapshot, self.experiment, above.id))
        new = {name: value for name, value in run.tags.items() if above.tags.get(name) != value}
        if new:
            self._store.log(above.id, tags=new)
            above.tags |= new
        looks = view(snapshot)
        if looks != self._view:
            self._store.mark(self.experiment, TAG, looks)
            self._view = looks
        if above.status != status or (status != "RUNNING" and above.until != run.ended):
            self._store.end(above.id, status, run.ended)
            above.status, above.until = status, run.ended


def _contents(snapshot: Snapshot) -> str:
    shown = __version__, [(trial.number, trial.state) for trial in snapshot.trials], snapshot.front
    return xxhash.xxh3_64_hexdigest(repr(shown))


def experiment_name(study: str) -> str:
    return f"mmbsgd/{study}"
