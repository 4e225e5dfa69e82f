"""Studies to start, to disturb and to look at: quick ones in this process, and the command in processes of its own."""

import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import optuna
from optuna.distributions import FloatDistribution
from optuna.storages import RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalStorage
from optuna.trial import TrialState

from workflows.backends.simulated import Simulated
from workflows.records import TrialResult
from workflows.study.driver import Limits
from workflows.study.settings import Settings
from workflows.study.tuning import Plan, tune

SPACE = {"x": FloatDistribution(0.0, 1.0), "y": FloatDistribution(0.1, 1.0)}
SETTINGS = Settings(data="toy", fingerprint="toy", space="toy", cost="work")
PATIENCE = 300
"""Seconds after which a test gives up; never the measure of anything."""


def outcome(spec):
    """A trial without training."""
    x, y = spec.parameters["x"], spec.parameters["y"]
    costs = {"cpu": y, "wall": y, "work": 1000 * y}
    return TrialResult(spec.number, "complete", score=x * y, costs=costs, model=f"{x}{y}", seconds=0.1)


class Disturbed(Simulated):
    """Trials without training; something happens when a number of them has been given to the backend."""

    def __init__(self, events, slots=3):
        super().__init__(outcome, slots)
        self._events_at, self._submitted = dict(events), 0

    def submit(self, spec, *, alone=False):
        self._submitted += 1
        super().submit(spec, alone=alone)
        self._events_at.pop(self._submitted, lambda: None)()


def toy(home, storage=None, *, trials=20, events=(), watcher=None, confirm=1, study="toy", settings=SETTINGS):
    """A study without training, in this process. events: what happens at the n-th trial, by n."""
    plan = Plan(Limits(trials=trials), sampler="random", confirm=confirm)
    backend = Disturbed(events)
    return tune(study, settings, SPACE, lambda: backend, plan=plan, home=home, storage=storage, watcher=watcher)


def loaded(where, study):
    """A study as Optuna itself reads it, from a journal file or a database: (trials, user attributes)."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if isinstance(where, Path):
        storage = JournalStorage(JournalFileBackend(str(where)))
    else:
        storage = RDBStorage(where.replace("{", "{{").replace("}", "}}"))
    try:
        found = optuna.load_study(study_name=study, storage=storage)
        return found.trials, found.user_attrs
    finally:
        if isinstance(storage, RDBStorage):
            storage.engine.dispose()


def assert_whole(where, study, count):
    """So many parameter sets, none lost and none twice: each has one end that counts, after failures with reasons.

    Returns those reasons.
    """
    trials, _ = loaded(where, study)
    assert [trial.number for trial in trials] == list(range(len(trials)))
    tries = defaultdict(list)
    for trial in trials:
        tries[trial.user_attrs["origin"]].append(trial)
    assert len(tries) == count
    for origin, attempts in tries.items():
        *failed, last = attempts
        assert attempts[0].number == origin
        assert last.state in (TrialState.COMPLETE, TrialState.PRUNED)
        assert last.datetime_complete is not None
        assert all(trial.state == TrialState.FAIL for trial in failed)
        assert all(trial.params == last.params for trial in failed)
    assert len({repr(sorted(attempts[0].params.items())) for attempts in tries.values()}) == count
    reasons = [trial.user_attrs["result"]["reason"] for trial in trials if trial.state == TrialState.FAIL]
    assert all(reasons)
    return reasons


class Command:
    """The mmbsgd command in a process and a process group of its own, with a mark that its children inherit."""

    def __init__(self, *arguments, cwd, **options):
        self._mark = f"MMBSGD_TEST={os.urandom(8).hex()}"
        name, _, value = self._mark.partition("=")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "workflows.cli", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env=os.environ | {name: value, "COLUMNS": "300"},
            start_new_session=True,
            **options,
        )

    def end(self):
        """(exit code, output, errors) once it has ended."""
        try:
            output, errors = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, output, errors

    def kill(self):
        self.process.kill()
        return self.end()

    def until(self, condition):
        """Waits for something to become true while the command runs."""
        eventually(lambda: self.process.poll() is not None or condition())
        assert self.process.poll() is None, self.end()

    def family(self):
        """Processes that it started, and theirs, as long as they run."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if self._mark.encode() in (folder / "environ").read_bytes() and state != "Z":
                    found.append(int(folder.name))
            except OSError:
                continue
        return [number for number in found if number != self.process.pid]


def run(*arguments, cwd, **options):
    return Command(*arguments, cwd=cwd, **options).end()


def tune_board(*options):
    """A command on the data of the fixture `board`, in one process."""
    return ("tune", "board", "--workers", "0", "--confirm", "1", "--no-tracking", *map(str, options))


def eventually(condition, seconds=PATIENCE):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"did not happen within {seconds} s"
        time.sleep(0.002)


def lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0
