"""A study belongs to one driver at a time: a lease in the study's own storage, for databases that several may open.

The owner renews it every few seconds. A driver that finds it held is refused; one that finds it expired, or held by a
process of this machine that is no more, takes it over. An owner that was away for longer than its lease finds out
when it renews it, before it writes again.
"""

import os
import socket
import time
import uuid
from pathlib import Path

from workflows.errors import StudyError
from workflows.study.ledger import Ledger

KEY = "driver"
SECONDS = 30.0


class Lease:
    def __init__(self, ledger: Ledger, study: str, seconds: float = SECONDS) -> None:
        self._ledger, self._study, self._seconds = ledger, study, seconds
        self._id, self._renewed = uuid.uuid4().hex, 0.0
        held = ledger.notes().get(KEY)
        if held and held["until"] > time.time() and not _gone(held):
            raise StudyError(
                f"another driver runs the study {study!r} (process {held['pid']} on {held['host']}): wait for it or "
                f"end it; if its machine has died, its lease ends in {held['until'] - time.time():.0f} s"
            )
        self._write()
        self._check()

    def renew(self) -> None:
        """To be called often; writes now and then."""
        if time.monotonic() - self._renewed > self._seconds / 3:
            self._check()
            self._write()

    def release(self) -> None:
        if (self._ledger.notes().get(KEY) or {}).get("id") == self._id:
            self._ledger.note(KEY, None)

    def _write(self) -> None:
        owner = {"id": self._id, "host": socket.gethostname(), "where": _where(), "pid": os.getpid(), "born": _born()}
        self._ledger.note(KEY, owner | {"until": time.time() + self._seconds})
        self._renewed = time.monotonic()

    def _check(self) -> None:
        held = self._ledger.notes().get(KEY) or {}
        if held.get("id") != self._id:
            raise StudyError(
                f"another driver has taken over the study {self._study!r} (process {held.get('pid')} on "
                f"{held.get('host')}), because this one did not answer for longer than {self._seconds:.0f} s"
            )


def _where() -> str:
    """The machine, or the container: process numbers mean the same inside it."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _born(pid: int | str = "self") -> str:
    """When a process started; empty if there is none, or no way to know."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _gone(owner: dict[str, object]) -> bool:
    return owner["where"] == _where() and bool(_born()) and _born(str(owner["pid"])) != owner["born"]
