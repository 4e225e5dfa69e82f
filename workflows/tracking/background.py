"""The driver's side of tracking: starts the sender, passes on what it says, and waits for it only at the end."""

import json
import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Self

from workflows.records import Tracked
from workflows.tracking.address import Address
from workflows.tracking.views import study_page

PATIENCE = 30.0
"""Seconds to wait at the end for what is still to be written; then it goes on without the driver."""
LOOK = 10.0
"""Seconds after which it can be told whether that will do."""


class Background:
    """MLflow follows the study from `start` to `finish`. If it is left otherwise, the sender ends by itself."""

    def __init__(
        self, study: str, home: Path, storage: str | None, where: Address, warn: Callable[[str, str], None]
    ) -> None:
        self._order = {"study": study, "home": str(home.absolute()), "storage": storage, "address": where.as_dict()}
        self._where, self._warn = where, warn
        self._process: subprocess.Popen[bytes] | None = None
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._done = self._total = 0
        self._run: tuple[str, str] | None = None
        self._away = ""

    def start(self) -> None:
        self._process = start_sender()
        self._listener.start()
        self._tell(self._order)

    def finish(
        self, trials: int, *, interrupted: bool, report: Callable[[int, int], None], patience: float = PATIENCE
    ) -> Tracked | None:
        """Waits until MLflow has all trials, does not answer, or will take too long."""
        if self._process is None:
            return None
        began, first = time.monotonic(), self._done
        self._tell({"status": "KILLED" if interrupted else "FINISHED"})
        while self._listener.is_alive():
            total = max(trials, self._total)  # it may not have looked at the study for a while
            spent, missing = time.monotonic() - began, total - self._done
            pace = (self._done - first) / spent
            needed = (missing / pace if pace else math.inf) if missing and spent > LOOK else 0.0
            if spent + needed > patience:
                break
            self._listener.join(0.1)
            report(self._done, total)
        if not self._listener.is_alive():
            self._process.wait()
        total = max(trials, self._total)
        tracked = Tracked(self._where.shown, self._done, total, waited=time.monotonic() - began)
        if self._run:
            return replace(tracked, page=study_page(self._where.uri, *self._run) if self._where.server else "")
        if self._listener.is_alive():
            return replace(tracked, reason="it takes its time", follows=True)
        return replace(tracked, reason=self._away or "the process that writes it broke down")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()  # a sender that is still at work takes it for the driver's end

    def _tell(self, order: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # it has ended: what is missing follows with a later sync
            pipe = self._pipe("stdin")
            pipe.write(json.dumps(order).encode() + b"\n")
            pipe.flush()

    def _listen(self) -> None:
        warned = False
        with self._pipe("stdout") as output:
            for line in output:
                said = json.loads(line)
                self._done, self._total = said.get("done", self._done), said.get("total", self._total)
                self._away = said.get("away", "" if "back" in said else self._away)
                if self._away and not warned:
                    warned = True
                    self._warn(self._where.shown, self._away)
                if "run" in said:
                    self._run = said["experiment"], said["run"]

    def _pipe(self, name: str) -> IO[bytes]:
        assert self._process is not None
        pipe: IO[bytes] = getattr(self._process, name)
        return pipe


def start_sender() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "workflows.tracking.sender"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
