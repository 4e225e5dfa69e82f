"""Hosts with addresses of their own, as network namespaces joined by a bridge: a link is cut, another host joins.

The namespaces, the bridge among them, see nothing of this machine's network and vanish with all that runs in them.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest
from ray_clusters import ENVIRONMENT, Toy, assert_each_ended_once, until

pytestmark = [pytest.mark.xdist_group("ray-network"), pytest.mark.compiled_only]

SECONDS_TO_START = 180.0
STARTS, STARTED = 3, "Ray runtime started"
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


class Network:
    """Hosts 10.77.0.1, 10.77.0.2, …, each with a link to the same bridge."""

    def __init__(self, folder):
        self._name, self._folder, self._hosts = f"mmbsgd-{os.getpid()}", folder, 0
        self._spaces, self._processes = [], []
        self._bridge = self._space("bridge")
        self._inside(self._bridge, "ip", "link", "add", "bridge", "type", "bridge")
        self._inside(self._bridge, "ip", "link", "set", "bridge", "up")

    def host(self):
        """The address of a new host."""
        self._hosts += 1
        address, link = f"10.77.0.{self._hosts}", f"link{self._hosts}"
        space = self._space(f"host{self._hosts}")
        _run("ip", "link", "add", link, "netns", self._bridge, "type", "veth", "peer", "name", "eth0", "netns", space)
        self._inside(self._bridge, "ip", "link", "set", link, "master", "bridge", "up")
        self._inside(space, "ip", "address", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            self._inside(space, "ip", "link", "set", device, "up")
        # Leads nowhere: Ray looks which address of its own it would take to the world.
        self._inside(space, "ip", "route", "add", "default", "dev", "eth0")
        return address

    def cut(self, address):
        self._inside(self._bridge, "ip", "link", "set", f"link{address.rpartition('.')[2]}", "down")

    def start(self, address, *command, **options):
        """Starts a process on a host."""
        space = f"{self._name}-host{address.rpartition('.')[2]}"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        environment |= ENVIRONMENT | {"RAY_TMPDIR": self._folder, "RAY_USAGE_STATS_ENABLED": "0"}
        words = ["ip", "netns", "exec", space, *command]
        process = subprocess.Popen(words, env=environment, **options)
        self._processes.append(process)
        return process

    def join(self, address, head):
        """Starts a node of Ray with one CPU. Ray's own start now and then gives up: then it is started again."""
        role = ["--head", "--port=6379", "--include-dashboard=false"] if address == head else [f"--address={head}:6379"]
        words = ["start", "--block", *role, f"--node-ip-address={address}", "--num-cpus=1"]
        ray = [sys.executable, "-m", "ray.scripts.scripts", *words, "--object-store-memory=100000000"]
        path = Path(self._folder) / f"{address}.log"
        for _ in range(STARTS):
            with open(path, "w") as log:
                process = self.start(address, *ray, stdout=log, stderr=subprocess.STDOUT)
            started = partial(_started_or_ended, process, path)
            until(started, SECONDS_TO_START, f"host {address}")
            if process.poll() is None:
                return
        raise AssertionError(path.read_text())

    def answers(self, address):
        knock = f"import socket; socket.create_connection(('{address}', 6379), 1)"
        return self.start(address, sys.executable, "-c", knock, stderr=subprocess.DEVNULL).wait() == 0

    def close(self):
        for space in self._spaces:
            listed = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True, check=False)
            for pid in map(int, listed.stdout.split()):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for process in self._processes:
            process.wait()
        for space in self._spaces:
            subprocess.run(["ip", "netns", "delete", space], check=False)

    def _space(self, name):
        space = f"{self._name}-{name}"
        _run("ip", "netns", "add", space)
        self._spaces.append(space)
        return space

    def _inside(self, space, *command):
        _run("ip", "netns", "exec", space, *command)


def _started_or_ended(process, log):
    return process.poll() is not None or STARTED in log.read_text()


def _run(*command):
    subprocess.run(command, check=True, capture_output=True, text=True)


@pytest.fixture
def network():
    if not shutil.which("ip"):
        pytest.skip("no iproute2: apt-get install iproute2")
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root: run the tests as root, or in a container with CAP_SYS_ADMIN")
    with ExitStack() as stack:
        # Not pytest's folder: the paths of Ray's sockets may not be long.
        made = Network(stack.enter_context(tempfile.TemporaryDirectory(prefix="mm", ignore_cleanup_errors=True)))
        stack.callback(made.close)
        yield made


@pytest.mark.long
def test_a_link_is_cut_and_another_host_joins(network, tmp_path):
    head, other, lost = (network.host() for _ in range(3))
    network.join(head, head)
    until(lambda: network.answers(head), SECONDS_TO_START, "the head")
    network.join(other, head)
    network.join(lost, head)
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
