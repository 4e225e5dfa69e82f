"""Ray clusters of several nodes on this machine, and trials that do as their parameters say.

Workers import this module too: it brings nothing that takes long.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import ray
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.storages.journal._storage import JournalOperation
from ray.cluster_utils import Cluster

from workflows.backends.ray_actors import RayActors
from workflows.cluster import LOST_SOON, connect
from workflows.records import TrialResult
from workflows.study.driver import Limits
from workflows.study.ledger import origin_of, proposal_of, result_of
from workflows.study.settings import Settings
from workflows.study.storages import journal_file
from workflows.study.tuning import Plan, Watcher, looked_at, tune

ENVIRONMENT = {"RAY_AUTH_MODE": "disabled", "PYTHONPATH": str(Path(__file__).parent)}
"""Of nodes and drivers."""


@contextmanager
def cluster_of(*cpus, **environment):
    """A cluster whose nodes have so many CPUs each; nobody is connected to it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (ENVIRONMENT | LOST_SOON | environment).items():
            patch.setenv(name, value)
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": cpus[0], "include_dashboard": False})
        try:
            for count in cpus[1:]:
                made.add_node(num_cpus=count)
            yield made
        finally:
            made.shutdown()


@contextmanager
def connected(*cpus, **environment):
    """The same, with this process as a driver."""
    with cluster_of(*cpus, **environment) as made:
        try:
            connect(made.address)
            yield made
        finally:
            ray.shutdown()


def kill(node):
    """As if the machine had lost its power: nothing gets to say goodbye."""
    processes = [info.process for infos in node.all_processes.values() for info in infos]
    workers = [worker for process in processes for worker in descendants(process.pid)]
    for process in processes:
        process.kill()
        process.wait()
    for worker in workers:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def descendants(pid):
    with suppress(FileNotFoundError):
        found = [
            int(word) for file in Path(f"/proc/{pid}/task").glob("*/children") for word in file.read_text().split()
        ]
        return found + [further for child in found for further in descendants(child)]
    return []


def until(condition, seconds, what):
    """Polls the condition; what it returned in the end."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(0.05)


# Trials that do as they are told.

DEEDS = ("fine", "killed", "killed once", "memory", "raises", "hangs once", "nan", "inf")
SPACE = {"x": FloatDistribution(0.0, 1.0), "deed": CategoricalDistribution(DEEDS)}
SETTINGS = Settings(data="toy", fingerprint="", space="toy")


@dataclass(frozen=True)
class Toy:
    """Runs trials that leave a file each when they begin, and can be held up."""

    folder: str
    seconds: float = 0.05

    def open(self):
        return partial(run_toy, self)

    def begun(self):
        """(seed, node, time) of every run so far."""
        return [json.loads(file.read_text()) for file in Path(self.folder).glob("*.run")]

    def begin(self, seed):
        """Leaves the file; returns how many were there for the same trial."""
        earlier = sum(other == seed for other, *_ in self.begun())
        self._leave([seed, ray.get_runtime_context().get_node_id(), time.time()], ".run")
        return earlier

    def wait(self):
        """While somebody holds trials up; meanwhile a file says where this one is."""
        if self.hold.exists():
            file = self._leave(ray.get_runtime_context().get_node_id(), ".held")
            while self.hold.exists():
                time.sleep(0.02)
            file.unlink()

    def nodes(self):
        """Where trials began."""
        return {node for _, node, _ in self.begun()}

    def held(self):
        """Where trials wait at this moment."""
        return {json.loads(file.read_text()) for file in Path(self.folder).glob("*.held")}

    def _leave(self, content, ending):
        file = Path(self.folder) / uuid.uuid4().hex
        file.write_text(json.dumps(content))
        return file.rename(file.with_suffix(ending))

    @property
    def hold(self):
        """While this file is there, no trial goes on."""
        return Path(self.folder) / "hold"


def run_toy(toy, spec):
    first, score = not toy.begin(spec.seed), spec.parameters["x"]
    toy.wait()
    deed = spec.parameters["deed"]
    if deed == "killed" or (deed == "killed once" and first):
        os.kill(os.getpid(), signal.SIGKILL)
    if deed == "hangs once" and first:
        time.sleep(1e6)
    if deed == "memory":
        exhaust()
    if deed == "raises":
        raise ZeroDivisionError("one by nought")
    if deed in ("nan", "inf"):
        score = float(deed)
    time.sleep(toy.seconds)
    return TrialResult(spec.number, "complete", score=score, costs={"cpu": 1.0 + score})


def exhaust():
    """Asks for more memory than there is."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), before[1]))
    try:
        bytearray(4 << 30)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


class Witness(Watcher):
    """Keeps what came, and when."""

    def __init__(self):
        self.results = []
        """(time, result)"""

    def searching(self, progress, result):
        if result is not None:
            self.results.append((time.time(), result))
            self.told(result)

    def told(self, result): ...

    def failures(self):
        return [(when, result.reason) for when, result in list(self.results) if result.state == "failed"]


class Aloud(Witness):
    """Tells them to another process."""

    def told(self, result):
        print(json.dumps([time.time(), result.state, result.reason, result.node]), flush=True)


def toy_study(home, setup, *, trials=None, deeds=(), watcher=None, **options):
    """A real study with a journal in this folder: so many fine trials, or one of every deed."""
    deeds = deeds or ["fine"] * trials
    plan = Plan(
        limits=Limits(trials=len(deeds)),
        sampler="random",
        early_stop=False,
        confirm=0,
        enqueue=[{"x": (place + 1) / 1000, "deed": deed} for place, deed in enumerate(deeds)],
    )
    return tune(
        *("toys", SETTINGS, SPACE, lambda: RayActors(setup, **options)), plan=plan, home=Path(home), watcher=watcher
    )


def attempts(home, study="toys"):
    """Every parameter set with the ends of its trials in their order: (parameters, [(state, reason), …])."""
    found = {}
    with looked_at(study, Path(home), None) as ledger:
        for trial in ledger.trials():
            _, tries = found.setdefault(origin_of(trial), (proposal_of(trial).parameters, []))
            tries.append((trial.state.name, result_of(trial).reason))
    return list(found.values())


def assert_each_ended_once(home, sets, study="toys"):
    """So many parameter sets were completed by exactly one trial each, and no trial was ended twice."""
    found = [tries for _, tries in attempts(home, study)]
    assert len(found) == sets
    for tries in found:
        *before, last = [state for state, _ in tries]
        assert last == "COMPLETE"
        assert set(before) <= {"FAIL"}
    assert sorted(ends(home, study)) == list(range(sum(map(len, found))))


def ends(home, study="toys"):
    """The trials whose end the journal tells, each as often as it does."""
    file = journal_file(Path(home), study)
    logs = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [log["trial_id"] for log in logs if log["op_code"] == JournalOperation.SET_TRIAL_STATE_VALUES]


def mmbsgd(*words, env=(), **options):
    """The command as a process of its own, with nothing of Ray's in its environment but this."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    arguments = [sys.executable, "-m", "workflows.cli", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(arguments, env=kept | dict(env), **pipes, **options)
