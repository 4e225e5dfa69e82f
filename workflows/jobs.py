"""Studies that a cluster runs by itself, through Ray's job API: the machine that sent one may go away.

A job is the command `mmbsgd tune …` on the cluster's head. The environment there says where studies and results are
kept (MMBSGD_STORAGE, MMBSGD_HOME, MLFLOW_TRACKING_URI). Small files that the command names travel with it.
"""

import asyncio
import logging
import os
import re
import secrets
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from mmbsgd._version import __version__
from workflows.cluster import knock, token_advice
from workflows.errors import ClusterError, one_line

SECONDS_TO_ANSWER = 10.0
SECONDS_TO_START = 60.0
"""For what makes the cluster start a process or take a file."""
SECONDS_OF_SILENCE = 20.0
"""A study says something every few seconds: after so many the link is looked at."""
SECONDS_TO_COME_BACK = 600.0
"""For which a cluster that was there may be out of reach."""
SECONDS_TO_END = 20
"""For a study that is stopped, to give its trials back."""
HOME = "MMBSGD_HOME=${MMBSGD_HOME:-$HOME/mmbsgd-home}"
"""A job begins in a folder that vanishes."""
IN_JOB = "MMBSGD_IN_JOB"
"""Set where the command is a job."""
LARGEST_UPLOAD = 100 * 2**20
_MARK = "mmbsgd"
_TALKATIVE = (
    "ray.dashboard.modules.job.sdk",
    "ray.dashboard.modules.dashboard_sdk",
    "ray._private.runtime_env.packaging",
)
_OVERRIDES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
"""Ray's client prefers them to the address that it is given."""


class Unknown(ClusterError):
    """The cluster answers, and has no such job."""


@dataclass(frozen=True)
class Submitted:
    """A job as the cluster tells it."""

    name: str
    state: str
    """PENDING, RUNNING, SUCCEEDED, STOPPED or FAILED"""
    command: str
    message: str
    began: float
    """Seconds since 1970; 0 before it begins."""
    ended: float | None
    exit_code: int | None
    study: str = ""

    @property
    def over(self) -> bool:
        return self.state in ("SUCCEEDED", "STOPPED", "FAILED")


class Jobs:
    """Those of the cluster whose dashboard is at this address, 'http://HOST:8265'."""

    def __init__(self, address: str) -> None:
        self._address = address if "://" in address else f"http://{address}"
        host, port = _place(self._address)
        try:
            knock(repr(self._address), host, port)
        except ClusterError as error:
            raise ClusterError(
                f"{error} Ray's dashboard listens on 127.0.0.1 alone unless the head is started with --dashboard-host"
            ) from None
        with self._speaking():
            self._client = _client(self._address)

    def submit(self, words: Sequence[str], study: str, luggage: Mapping[str, Path] = MappingProxyType({})) -> str:
        """Starts `mmbsgd` with these words; the job's name. luggage: files here, by the names that the words have for
        them there."""
        name = f"{_word(study)}-{time.strftime('%m%d-%H%M%S')}-{secrets.token_hex(1)}"
        # Ray gives the line to a shell: every word of it is quoted.
        settings = f"{IN_JOB}=1 PYTHONUNBUFFERED=1 COLUMNS={shutil.get_terminal_size().columns} {HOME}"
        environment: dict[str, Any] = {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(SECONDS_TO_END)}}
        with tempfile.TemporaryDirectory(prefix="mmbsgd-job-") as folder, self._speaking():
            for place, file in luggage.items():
                (Path(folder) / place).parent.mkdir(parents=True)
                copy = shutil.copytree if file.is_dir() else shutil.copyfile
                copy(file, Path(folder) / place)
            if luggage:
                environment["working_dir"] = folder
            self._client.submit_job(
                entrypoint=f"{settings} {shlex.join([_MARK, *words])}",
                submission_id=name,
                runtime_env=environment,
                metadata={_MARK: __version__, "command": shlex.join([_MARK, *words]), "study": study},
            )
        return name

    def all(self) -> list[Submitted]:
        """Those that this package has sent, the latest first."""
        with self._speaking():
            found = [_submitted(details) for details in self._client.list_jobs() if _MARK in (details.metadata or {})]
        return sorted(found, key=lambda job: -job.began)

    def find(self, name: str | None) -> Submitted:
        """The job of this name or study, or whose name begins like this: the latest that runs, or else the latest."""
        jobs = self.all()
        if not jobs:
            raise Unknown(f"no study was sent to {self._address} yet: mmbsgd submit DATA")
        found = [job for job in jobs if name in (None, job.name, job.study)]
        found = found or [job for job in jobs if job.name.startswith(str(name))]
        if not found:
            raise Unknown(f"no job {name!r}; the latest: {', '.join(job.name for job in jobs[:5])}")
        return next((job for job in found if not job.over), found[0])

    def log(self, name: str) -> str:
        with self._speaking():
            return str(self._client.get_job_logs(name))

    def stop(self, name: str) -> Submitted:
        """Asks it to end, and waits until it has."""
        with self._speaking():
            self._client.stop_job(name)
        until = time.monotonic() + SECONDS_TO_END + SECONDS_TO_ANSWER
        while not (job := self.find(name)).over and time.monotonic() < until:
            time.sleep(0.5)
        return job

    def follow(self, name: str, show: Callable[[str], None], away: Callable[[str], None]) -> Submitted:
        """Shows the job's log until it ends; away: told once when the cluster cannot be reached for a while."""
        shown, since = 0, None
        while True:
            try:
                shown = asyncio.run(self._tail(name, shown, show))
                job, since = self.find(name), None
                if job.over:
                    return job
            except (ClusterError, OSError) as error:
                if isinstance(error, Unknown) or self._forgotten(name):
                    raise ClusterError(
                        f"the cluster has no job {name} any more: its head was started again, and jobs and their logs "
                        "live with it; send the study once more, and it goes on where it was"
                    ) from None
                if since is None:
                    since = time.monotonic()
                    away(str(error))
                if time.monotonic() - since > SECONDS_TO_COME_BACK:
                    raise
                time.sleep(1.0)

    def _forgotten(self, name: str) -> bool:
        """Whether the cluster answers, and knows nothing of it."""
        try:
            self.find(name)
        except Unknown:
            return True
        except (ClusterError, OSError):
            return False
        return False

    async def _tail(self, name: str, shown: int, show: Callable[[str], None]) -> int:
        """Shows what comes after so many letters, until the job ends or falls silent; how many letters there are."""
        passed = 0
        with self._speaking():
            lines = self._client.tail_job_logs(name)
            try:
                while True:
                    text = await asyncio.wait_for(anext(lines), SECONDS_OF_SILENCE)
                    if passed + len(text) > shown:
                        show(text[max(shown - passed, 0) :])
                    passed += len(text)
                    shown = max(shown, passed)
            except (StopAsyncIteration, TimeoutError):
                return shown
            finally:
                await lines.aclose()

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        """What Ray and the network raise becomes a message."""
        import requests
        from aiohttp import ClientError
        from ray.exceptions import AuthenticationError

        try:
            yield
        except AuthenticationError:
            raise ClusterError(
                f"the Ray cluster at {self._address} wants its token, and got none or another: {token_advice()}"
            ) from None
        except (ConnectionError, requests.RequestException, ClientError) as error:
            raise ClusterError(f"the Ray cluster at {self._address} does not answer: {one_line(error)}") from None
        except RuntimeError as error:
            if "Version check returned" in str(error):
                raise ClusterError(
                    f"what answers at {self._address} is another service: Ray's dashboard is usually at port 8265"
                ) from None
            raise ClusterError(f"the Ray cluster at {self._address}: {one_line(error)}") from None


def _place(address: str) -> tuple[str, int]:
    try:
        parts = urlsplit(address)
        if parts.scheme in ("http", "https") and parts.hostname:
            return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:  # of the port, or of brackets
        pass
    raise ClusterError(f"--cluster {address!r} is not the address of Ray's dashboard, such as http://HOST:8265")


@dataclass(frozen=True)
class Luggage:
    """A file or folder of this machine that a command names."""

    word: str
    """What the command calls it."""
    path: Path
    place: str
    """Where it will be on the cluster."""

    @property
    def travels(self) -> bool:
        return _size(self.path) <= LARGEST_UPLOAD


def luggage(words: Sequence[str | None]) -> list[Luggage]:
    """Those of the words that are files here."""
    found = [(word, Path(word).absolute()) for word in words if word and Path(word).exists()]
    return [Luggage(word, path, f"{number}/{path.resolve().name}") for number, (word, path) in enumerate(found)]


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def _client(address: str) -> Any:
    try:
        from ray.job_submission import JobSubmissionClient
    except ImportError:
        raise ClusterError("jobs need more of Ray than is installed: pip install 'ray[default]'") from None

    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)

    class Client(JobSubmissionClient):  # type: ignore[misc]
        def _do_request(self, *words: Any, **options: Any) -> Any:
            """Ray would wait for ever."""
            seconds = SECONDS_TO_START if words[0] in ("POST", "PUT") else SECONDS_TO_ANSWER
            return super()._do_request(*words, **({"timeout": seconds} | options))

    kept = {name: os.environ.pop(name) for name in _OVERRIDES if name in os.environ}
    try:
        return Client(address)
    finally:
        os.environ.update(kept)


def _submitted(details: Any) -> Submitted:
    return Submitted(
        details.submission_id,
        str(details.status.value),
        details.metadata.get("command", details.entrypoint),
        " ".join((details.message or "").split()),
        (details.start_time or 0) / 1000,
        details.end_time / 1000 if details.end_time else None,
        details.driver_exit_code,
        details.metadata.get("study", ""),
    )


def _word(text: str) -> str:
    stem = Path(text.rstrip("/")).name.partition(".")[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", stem)[:30].strip("-") or "study"
