"""MLflow's own server on this machine, for one person to look at a study."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Self

from workflows.errors import TrackingError
from workflows.tracking.address import QUIET, Address

HOST = "127.0.0.1"
SECONDS_TO_START = 120.0
_LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy has no business with 127.0.0.1


class Server:
    def __init__(self, where: Address, port: int, log: Path) -> None:
        self.url = f"http://{HOST}:{port}"
        self._where, self._port, self._log = where, port, log

    def __enter__(self) -> Self:
        where = ["--host", HOST, "--port", str(self._port)]
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            log = open(self._log, "wb")
        except OSError as error:
            raise TrackingError(f"cannot write MLflow's log {self._log}: {error.strerror}") from None
        with log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mlflow", "server", *where, "--workers", "1"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ
                | QUIET
                | {
                    "MLFLOW_BACKEND_STORE_URI": self._where.uri,  # not an argument: those can be read by everybody
                    "MLFLOW_DEFAULT_ARTIFACT_ROOT": self._where.artifacts or "",
                    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
                },
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        """MLflow's server is a family of processes."""
        for ending in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, ending)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(10)

    def wait(self) -> None:
        """Until it answers."""
        until = time.monotonic() + SECONDS_TO_START
        while True:
            if self._process.poll() is not None or time.monotonic() > until:
                raise TrackingError(f"MLflow's server did not start: {self._last_words()}; all of it is in {self._log}")
            with suppress(urllib.error.URLError, OSError), _LOCAL.open(f"{self.url}/health", timeout=2) as answer:
                if answer.status == 200:
                    return
            time.sleep(0.1)

    def serve(self) -> None:
        """Until somebody ends it."""
        self._process.wait()
        raise TrackingError(f"MLflow's server has ended: {self._last_words()}; all of it is in {self._log}")

    def _last_words(self) -> str:
        said = self._log.read_text(errors="replace").strip().splitlines()
        return self._where.clean(said[-1]) if said else f"exit code {self._process.poll()}"


def free_port(wanted: int | None, usual: int) -> int:
    """The port asked for, which must be free; else the usual one, or any that is free."""
    if wanted:
        if not _is_free(wanted):
            raise TrackingError(f"port {wanted} is taken: choose another --port, or 0 for any free one")
        return wanted
    if wanted is None and _is_free(usual):
        return usual
    with socket.create_server((HOST, 0)) as any_port:
        return int(any_port.getsockname()[1])


def _is_free(port: int) -> bool:
    try:
        with socket.create_server((HOST, port)):
            return True
    except OSError:
        return False
