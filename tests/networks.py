"""Hosts with addresses of their own, as network namespaces joined by a bridge: links are cut and restored.

The namespaces, the bridge among them, see nothing of this machine's network and vanish with all that runs in them.
Every network has namespaces of its own, so that several may be there at the same time with the same addresses.
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from ray_clusters import ENVIRONMENT, until

from workflows.cluster import LOST_SOON

SECONDS_TO_START = 180.0
RAY_PORT = 6379
STARTS, STARTED = 3, "Ray runtime started"
STORE = 100_000_000
"""Bytes of a node's object store."""
CLONE_NEWNET = 0x40000000


class Network:
    """Hosts 10.77.0.1, 10.77.0.2, …, each with a link to the same bridge."""

    def __init__(self, folder, **environment):
        """environment: of every process on every host."""
        self._name, self._folder, self._hosts = f"mmbsgd-{os.getpid()}-{os.urandom(2).hex()}", folder, 0
        self._own = Path(folder) / "own"
        self._own.mkdir()
        self._environment = ENVIRONMENT | {"RAY_TMPDIR": str(self._own), "RAY_USAGE_STATS_ENABLED": "0"} | environment
        self._spaces, self._processes, self._nodes, self._mounts = [], [], {}, {}
        self._bridge = self._space("bridge")
        self._inside(self._bridge, "ip", "link", "add", "bridge", "type", "bridge")
        self._inside(self._bridge, "ip", "link", "set", "bridge", "up")

    def host(self, hidden=None):
        """The address of a new host. hidden: a folder that is empty for all that runs there."""
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
        (Path(self._folder) / address).mkdir()
        # Every command has mounts of its own: in one folder it finds the host's files alone, in the hidden one nothing.
        self._mounts[address] = f"mount --bind {self._folder}/{address} {self._own}"
        if hidden is not None:
            self._mounts[address] += f" && mount -t tmpfs tmpfs {hidden}"
        return address

    def cut(self, address):
        self._link(address, "down")

    def restore(self, address):
        self._link(address, "up")

    def start(self, address, *command, environment=(), **options):
        """Starts a process on a host."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        mounted = ["sh", "-c", f'{self._mounts[address]} && exec "$0" "$@"', *map(str, command)]
        words = ["ip", "netns", "exec", self._of(address), *mounted]
        process = subprocess.Popen(words, env=kept | self._environment | dict(environment), **options)
        self._processes.append(process)
        return process

    def mmbsgd(self, address, *words, **options):
        """Starts the command on a host."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return self.start(address, sys.executable, "-m", "workflows.cli", *words, **pipes, **options)

    def join(self, address, head, *, cpus=1, store=STORE):
        """Starts a node of Ray. Ray's own start now and then gives up: then it is started again."""
        first = ["--head", f"--port={RAY_PORT}", "--include-dashboard=false"]
        role = first if address == head else [f"--address={head}:{RAY_PORT}"]
        words = ["start", "--block", *role, f"--node-ip-address={address}", f"--num-cpus={cpus}"]
        ray = [sys.executable, "-m", "ray.scripts.scripts", *words, f"--object-store-memory={store}"]
        path = Path(self._folder) / f"{address}.log"
        for _ in range(STARTS):
            with open(path, "w") as log:
                node = self._nodes[address] = self.start(
                    address, *ray, environment=LOST_SOON, stdout=log, stderr=subprocess.STDOUT
                )
            until(partial(_started_or_ended, node, path), SECONDS_TO_START, f"host {address}")
            if node.poll() is None:
                break
        else:
            raise AssertionError(path.read_text())
        if address == head:
            until(lambda: self.answers(head, RAY_PORT), SECONDS_TO_START, "the head")

    def join_all(self, head, *others, **options):
        """The head, then all others at the same time."""
        self.join(head, head, **options)
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda address: self.join(address, head, **options), others))

    def ended(self, address):
        """Whether the host's node of Ray is no more."""
        return self._nodes[address].poll() is not None

    def answers(self, address, port):
        def knock():
            with suppress(OSError), socket.create_connection((address, port), 1):
                return True
            return False

        return self.on(address, knock)

    def received(self, address):
        """Bytes that have arrived at a host."""
        lines = self.on(address, Path("/proc/thread-self/net/dev").read_text).splitlines()
        (counts,) = [line.split(":")[1].split() for line in lines if line.strip().startswith("eth0:")]
        return int(counts[0])

    def on(self, address, call):
        """What the call returns in a thread that lives on a host: its connections are the host's."""

        def moved():
            with open(f"/run/netns/{self._of(address)}") as space:
                assert ctypes.CDLL(None).setns(space.fileno(), CLONE_NEWNET) == 0
            return call()

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(moved).result()

    def running(self, address):
        """The command lines of all processes on a host."""
        found = []
        for pid in _processes(self._of(address)):
            with suppress(OSError):
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
        return found

    def close(self):
        for space in self._spaces:
            for pid in _processes(space):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for process in self._processes:
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        for space in self._spaces:
            subprocess.run(["ip", "netns", "delete", space], check=False)

    def _link(self, address, state):
        self._inside(self._bridge, "ip", "link", "set", f"link{address.rpartition('.')[2]}", state)

    def _of(self, address):
        return f"{self._name}-host{address.rpartition('.')[2]}"

    def _space(self, name):
        space = f"{self._name}-{name}"
        _run("ip", "netns", "add", space)
        self._spaces.append(space)
        return space

    def _inside(self, space, *command):
        _run("ip", "netns", "exec", space, *command)


def _started_or_ended(process, log):
    return process.poll() is not None or STARTED in log.read_text()


def _processes(space):
    listed = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True, check=False)
    return [int(word) for word in listed.stdout.split()]


def _run(*command):
    subprocess.run(command, check=True, capture_output=True, text=True)


@contextmanager
def a_network(**environment):
    if not shutil.which("ip"):
        pytest.skip("no iproute2: apt-get install iproute2")
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root: run the tests as root, or in a container with CAP_SYS_ADMIN")
    # Not pytest's folder: the paths of Ray's sockets may not be long.
    with tempfile.TemporaryDirectory(prefix="mm", ignore_cleanup_errors=True) as folder:
        made = Network(folder, **environment)
        try:
            yield made
        finally:
            made.close()
