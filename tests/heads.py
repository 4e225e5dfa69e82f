"""The head of a Ray cluster as an administrator starts it: on loopback, with a token, a dashboard that takes jobs and a
port for clients that are no nodes."""

import json
import os
import secrets
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mlflow_servers import HOST, free_port
from ray_clusters import descendants, mmbsgd, until

SECONDS_TO_START = 180.0
STARTED = "Ray runtime started"


@dataclass(frozen=True)
class Head:
    address: str
    client: str
    """For `ray://`."""
    dashboard: str
    token: str
    home: Path
    """Where jobs keep their studies."""

    @property
    def admission(self):
        """What the environment of those who may work with it holds."""
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token}

    def run(self, *words, env=None, **options):
        """(exit code, output, errors) of the command; env: instead of the admission."""
        environment = {"COLUMNS": "300", **(self.admission if env is None else env)}
        process = mmbsgd(*words, env=environment, **options)
        output, errors = process.communicate(timeout=SECONDS_TO_START)
        return process.returncode, output, errors

    def job(self, *words, **options):
        return self.run(*words, "--cluster", self.dashboard, **options)

    def jobs(self):
        """By name, as `mmbsgd status --json` tells them."""
        code, output, errors = self.job("status", "--json")
        assert code == 0, errors
        return {job["name"]: job for job in json.loads(output)}


@contextmanager
def running_head(home, cpus=2):
    # Not pytest's folder: the paths of Ray's sockets may not be long.
    with tempfile.TemporaryDirectory(prefix="mm", ignore_cleanup_errors=True) as folder:
        head = _head(home)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        environment |= head.admission | {
            "RAY_TMPDIR": folder,
            "RAY_USAGE_STATS_ENABLED": "0",
            "MMBSGD_HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        log = Path(folder) / "log"
        with open(log, "w") as output:
            process = subprocess.Popen(_words(head, cpus), env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            until(lambda: process.poll() is not None or STARTED in log.read_text(), SECONDS_TO_START, "the head")
            assert process.poll() is None, log.read_text()
            until(lambda: head.job("status")[0] == 0, SECONDS_TO_START, "the dashboard")
            yield head
        finally:
            family = descendants(process.pid)
            process.terminate()
            process.wait()
            for pid in family:
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)


def _head(home):
    ports = [free_port() for _ in range(3)]
    addresses = [f"{HOST}:{port}" for port in ports]
    return Head(addresses[0], f"ray://{addresses[1]}", f"http://{addresses[2]}", secrets.token_hex(16), home)


def _words(head, cpus):
    port, client, dashboard = (address.rpartition(":")[2] for address in (head.address, head.client, head.dashboard))
    return [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"),
        *(f"--port={port}", f"--ray-client-server-port={client}", f"--num-cpus={cpus}"),
        *(f"--dashboard-host={HOST}", f"--dashboard-port={dashboard}", f"--dashboard-agent-listen-port={free_port()}"),
        "--object-store-memory=100000000",
    ]


CLAIM = """
import json, sys
from ray._common.usage.usage_constants import CLUSTER_METADATA_KEY
from ray._private.ray_constants import KV_NAMESPACE_CLUSTER
from ray._raylet import GcsClient
client = GcsClient(address=sys.argv[1])
before = json.loads(client.internal_kv_get(CLUSTER_METADATA_KEY, KV_NAMESPACE_CLUSTER))
client.internal_kv_put(CLUSTER_METADATA_KEY, json.dumps(before | json.loads(sys.argv[2])).encode(), True,
                       KV_NAMESPACE_CLUSTER)
print(json.dumps(before))
"""


@contextmanager
def claiming(head, **versions):
    """While it lasts, the cluster tells everybody that it runs other versions."""

    def claim(claimed):
        words = [sys.executable, "-c", CLAIM, head.address, json.dumps(claimed)]
        done = subprocess.run(words, env=os.environ | head.admission, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)

    before = claim(versions)
    try:
        yield
    finally:
        claim(before)
