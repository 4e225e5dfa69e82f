"""A cluster of hosts with addresses of their own: a link is cut, another host joins."""

import json
import sys
import time

import pytest
from networks import SECONDS_TO_START, a_network
from ray_clusters import Toy, assert_each_ended_once, until

pytestmark = [pytest.mark.xdist_group("ray-network"), pytest.mark.compiled_only]

SECONDS_TO_RESUME = 60.0
"""From the cut of a link to the next try of the trial that was running behind it."""
DRIVER = """
import sys
from workflows.cluster import connect
connect(sys.argv[1])
from ray_clusters import Aloud, Toy, toy_study
toy_study(sys.argv[2], Toy(sys.argv[2]), trials=int(sys.argv[3]), watcher=Aloud())
"""
TRIALS = 200


@pytest.fixture
def network():
    with a_network() as made:
        yield made


@pytest.mark.long
def test_a_link_is_cut_and_another_host_joins(network, tmp_path):
    head, other, lost = (network.host() for _ in range(3))
    network.join_all(head, other, lost)
    toy, heard, errors = Toy(str(tmp_path)), tmp_path / "heard", tmp_path / "errors"
    toy.hold.touch()
    with open(heard, "w") as stdout, open(errors, "w") as stderr:
        words = (sys.executable, "-c", DRIVER, f"{head}:6379", str(tmp_path), str(TRIALS))
        driver = network.start(head, *words, stdout=stdout, stderr=stderr)

    def told(state):
        """(time, reason, host) of results of this kind."""
        found = [json.loads(line) for line in heard.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [(when, reason, node.partition(":")[0]) for when, kind, reason, node in found if kind == state]

    def wait_for(condition, seconds, what):
        until(lambda: condition() or driver.poll() is not None, seconds, what)
        assert driver.poll() is None, errors.read_text()

    wait_for(lambda: len(toy.nodes()) == 3, SECONDS_TO_START, "work on every host")
    toy.hold.unlink()
    wait_for(lambda: len(told("complete")) > 10, SECONDS_TO_START, "results")
    toy.hold.touch()
    wait_for(lambda: len(toy.held()) == 3, SECONDS_TO_START, "a held trial on every host")
    known = toy.nodes()
    network.cut(lost)
    cut = time.time()
    wait_for(lambda: told("failed"), SECONDS_TO_RESUME, "word of the lost trial")
    newcomer = network.host()
    assert "is not a node" in _refused(network, newcomer, head, tmp_path)
    network.join(newcomer, head)
    wait_for(lambda: toy.nodes() - known, SECONDS_TO_START, "work for the newcomer")
    toy.hold.unlink()
    assert driver.wait(timeout=60) == 0, errors.read_text()
    ((failed, reason, _),) = told("failed")
    assert "its node was lost" in reason or "its worker died" in reason
    print(f"{failed - cut:.1f} s from the cut of a link to word of the trial behind it: {reason}")
    assert failed - cut < SECONDS_TO_RESUME
    hosts = [host for when, _, host in told("complete") if when > cut]
    assert newcomer in hosts
    assert lost not in hosts
    assert len(told("complete")) == TRIALS
    assert_each_ended_once(tmp_path, TRIALS)


def _refused(network, address, head, folder):
    """What is said to a driver on a host that has not joined."""
    script = "import sys; from workflows.cluster import connect; connect(sys.argv[1])"
    errors = folder / "refused"
    with open(errors, "w") as stderr:
        assert network.start(address, sys.executable, "-c", script, f"{head}:6379", stderr=stderr).wait() == 1
    return errors.read_text()
