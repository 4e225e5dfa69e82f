"""Studies on clusters whose nodes come and go: every trial ends exactly once, wherever it ran."""

import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from prepared import prepared
from ray_clusters import (
    Toy,
    Witness,
    assert_each_ended_once,
    cluster_of,
    connected,
    descendants,
    ends,
    kill,
    mmbsgd,
    toy_study,
    until,
)

from search_spaces import load
from workflows.backends.in_process import InProcess
from workflows.backends.ray_actors import SILENCE, RayActors
from workflows.records import TrialSpec
from workflows.study.driver import Limits
from workflows.study.facts import facts_of
from workflows.study.ledger import result_of
from workflows.study.settings import Settings
from workflows.study.tuning import Plan, looked_at, tune
from workflows.workplace import Workplace

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.compiled_only]

SECONDS_TO_START = 180.0
SECONDS_TO_NOTICE = 30.0
SECONDS_TO_END = SILENCE + 15.0
"""From the loss of a cluster to the end of the command."""
PLAIN = {"RAY_AUTH_MODE": "disabled"}
DEMO = ("tune", "demo", "--no-tracking", "--rows", 2000, "--confirm", 1, "--workers", 2)
TRIALS = 200


@pytest.fixture(scope="module")
def cluster():
    """Three nodes; the first has two CPUs."""
    with connected(2, 1, 1) as made:
        yield made


class Elsewhere(Workplace):
    """The folder cannot be seen by workers."""

    def open(self):
        return None


def test_confirming_runs_have_a_node_for_themselves(cluster, tmp_path):
    toy = Toy(str(tmp_path))
    toy.hold.touch()
    backend = RayActors(toy)
    try:
        until(lambda: backend.wait(0.1) or backend.slots() == 4, SECONDS_TO_START, "a worker for every CPU")
        assert (backend.free(), backend.free(alone=True)) == (4, 3)
        for number in range(3):
            backend.submit(TrialSpec(number, {"x": 0.5, "deed": "fine"}, seed=number), alone=True)
        assert backend.free(alone=True) == 0
        until(lambda: len(toy.begun()) == 3, SECONDS_TO_START, "three runs")
        assert len(toy.nodes()) == 3
        toy.hold.unlink()
        results = []
        until(lambda: results.extend(backend.wait(0.1)) or len(results) == 3, SECONDS_TO_START, "results")
        assert backend.free(alone=True) == 3
    finally:
        backend.close()


def test_trials_give_the_same_in_process_on_ray_and_through_the_object_store(cluster, tmp_path):
    data = prepared(tmp_path / "data", "demo", rows=2000)
    space = load("default")
    settings = Settings("demo", data.manifest.fingerprint, space.name, cost="work")
    distributions = space.distributions(facts_of(space, "demo", data, settings))
    first = [{"C": 10.0, "gamma": 2.0, "budget": 50, "mergees": mergees, "epochs": 1} for mergees in (2, 3, 5)]
    plan = Plan(Limits(trials=8), "random", confirm=1, enqueue=first)
    place = Workplace.of(data, ("train", "validation"))

    def numbers(name, make_backend):
        outcome = tune(name, settings, distributions, make_backend, plan=plan, home=tmp_path)
        with looked_at(name, tmp_path, None) as ledger:
            results = [result_of(trial) for trial in ledger.trials()]
        assert all(result.state == "complete" and result.model for result in results)
        trials = {
            (result.number, result.score, result.model, result.costs["work"], result.counters["size"])
            for result in results
        }
        return trials, [(member.number, member.values) for member in outcome.front]

    here = numbers("here", lambda: InProcess(place.open()))
    assert len(here[0]) == 8
    assert numbers("ray", lambda: RayActors(place, workers=2)) == here
    hidden = Elsewhere(place.folder, place.fingerprint, place.splits)
    assert numbers("store", lambda: RayActors(hidden, workers=2)) == here


def test_a_command_on_a_running_cluster_whose_worker_is_killed(cluster, tmp_path):
    home = tmp_path / "mmbsgd-home"
    words = (*DEMO, "--trials", 300, "--ray-address", cluster.address, "--json")
    with mmbsgd(*words, env=PLAIN, cwd=tmp_path) as command:
        until(
            lambda: command.poll() is not None or (len(ends(home, "demo")) > 20 and len(working(cluster)) > 1),
            SECONDS_TO_START,
            "trials on two nodes",
        )
        workers = working(cluster)
        os.kill(workers[0][0], signal.SIGKILL)
        said, complained = command.communicate(timeout=120)
    assert command.returncode == 0, complained
    assert list(map(len, workers)) == [1, 1]  # on nodes of their own, though the first one has room for both
    assert json.loads(said)["trials"]["complete"] == 300
    assert_each_ended_once(home, 300, "demo")
    assert "raylet" not in complained


def working(cluster):
    """Processes that run trials, by node."""
    return [found for node in [cluster.head_node, *cluster.worker_nodes] if (found := workers_of(node))]


def workers_of(node):
    """The node's processes that run trials."""
    (raylet,) = node.all_processes["raylet"]
    children = descendants(raylet.process.pid)
    return [child for child in children if b"ray::Worker" in Path(f"/proc/{child}/cmdline").read_bytes()]


def test_a_node_is_killed_and_another_joins(cluster, tmp_path):
    toy, witness = Toy(str(tmp_path)), Witness()
    lost = min(cluster.worker_nodes, key=lambda node: node.node_id)
    toy.hold.touch()
    with ThreadPoolExecutor(1) as thread:
        study = thread.submit(toy_study, tmp_path, toy, trials=TRIALS, watcher=witness)
        try:
            until(lambda: len(toy.nodes()) == 3, SECONDS_TO_START, "work on every node")
            toy.hold.unlink()
            until(lambda: len(witness.results) > 10, SECONDS_TO_START, "results")
            toy.hold.touch()
            until(lambda: len(toy.held()) == 3, SECONDS_TO_START, "a held trial on every node")
            kill(lost)
            killed = time.time()
            until(witness.failures, SECONDS_TO_NOTICE, "word of the lost trial")
            newcomer = cluster.add_node(num_cpus=2)
            until(lambda: newcomer.node_id in toy.nodes(), SECONDS_TO_START, "work for the newcomer")
        finally:
            toy.hold.unlink(missing_ok=True)
        outcome = study.result(timeout=60)
    cluster.worker_nodes.discard(lost)
    assert_each_ended_once(tmp_path, TRIALS)
    assert outcome.progress.complete == TRIALS
    ((told, reason),) = witness.failures()
    assert "its node was lost" in reason or "its worker died" in reason
    print(f"{told - killed:.1f} s from the loss of a node to word of the trial on it: {reason}")
    assert told - killed < SECONDS_TO_NOTICE


@pytest.mark.long
def test_the_whole_cluster_is_lost_and_the_same_command_goes_on_with_another(cluster, tmp_path):
    home = tmp_path / "mmbsgd-home"
    with cluster_of(2) as doomed:
        words = (*DEMO, "--trials", 400, "--ray-address")
        with mmbsgd(*words, doomed.address, env=PLAIN, cwd=tmp_path) as command:
            until(lambda: command.poll() is not None or len(ends(home, "demo")) > 20, SECONDS_TO_START, "trials")
            kill(doomed.head_node)
            killed = time.monotonic()
            said, complained = command.communicate(timeout=SECONDS_TO_END)
            print(f"{time.monotonic() - killed:.1f} s from the loss of a cluster to the command's end")
    assert command.returncode == 2, said
    assert "the Ray cluster has not answered for 20 s; run the same command again" in " ".join(complained.split())
    assert "Traceback" not in complained
    before = len(ends(home, "demo"))
    assert 0 < before < 400
    with mmbsgd(*words, cluster.address, env=PLAIN, cwd=tmp_path) as command:
        said, complained = command.communicate(timeout=120)
    assert command.returncode == 0, complained
    assert_each_ended_once(home, 400, "demo")


def test_the_machines_own_cluster_listens_on_loopback_only_and_leaves_no_token(tmp_path):
    home = tmp_path / "mmbsgd-home"
    words = (*DEMO, "--trials", 100_000)
    with mmbsgd(*words, env={"HOME": str(tmp_path)}, cwd=tmp_path) as command:
        until(lambda: command.poll() is not None or ends(home, "demo"), SECONDS_TO_START, "trials")
        family = [command.pid, *descendants(command.pid)]
        addresses = {address for pid in family for address in listening(pid)}
        command.send_signal(signal.SIGINT)
        _, complained = command.communicate(timeout=60)
    assert command.returncode == 130, complained
    assert len(family) > 3
    assert addresses == {"127.0.0.1"}
    assert not list(tmp_path.rglob("*token*"))
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family), 20, "the end of all processes")


def listening(pid):
    """The addresses on which a process listens for TCP connections."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        target = os.readlink(link) if link.is_symlink() else ""
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and rest[5] in inodes:
                number = bytes.fromhex(local.partition(":")[0])
                if sys.byteorder == "little":
                    number = b"".join(number[at : at + 4][::-1] for at in range(0, len(number), 4))
                loopback = number[-4:] == b"\x7f\x00\x00\x01" or number == bytes(15) + b"\x01"
                yield "127.0.0.1" if loopback else ".".join(map(str, number))
