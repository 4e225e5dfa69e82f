"""A study belongs to one driver at a time: a lease in the study's own database, where several may open it.

The owner's lease is one of the study's user attributes, and changes hands in one statement: of two drivers that reach
for it at the same time one gets it. A thread renews it every few seconds, also during a trial that takes long. A driver
that finds it held is refused; one that finds it expired, or held by a process of this machine that is no more, takes it
over. An owner that was away for longer than its lease finds out before it writes again.
"""

import json
import os
import socket
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from sqlalchemy import text
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from workflows.errors import StudyError

KEY = "driver"
SECONDS = 30.0
_given_up: set[str] = set()  # by this process, though the database may not know it
_READ = text("SELECT value_json FROM study_user_attributes WHERE study_id = :study AND key = :key")
_ENTER = text("INSERT INTO study_user_attributes (study_id, key, value_json) VALUES (:study, :key, :after)")
_CHANGE = text(
    "UPDATE study_user_attributes SET value_json = :after "
    "WHERE study_id = :study AND key = :key AND value_json = :before"
)


class Lease:
    def __init__(self, engine: Engine, number: int, study: str, seconds: float = SECONDS) -> None:
        """number: the study's, in this database."""
        self._engine, self._study, self._seconds = engine, study, seconds
        self._place = {"study": number, "key": KEY}
        self._id, self._lost = uuid.uuid4().hex, ""
        self._clocks = _clocks()
        self._one_at_a_time, self._over = threading.Lock(), threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="lease", daemon=True)

    def take(self) -> None:
        """Raises if another driver has it. May be called again if the database was away."""
        self._claim(first=True)
        self._keeper.start()

    def check(self) -> None:
        """To be called before every change: raises if the study is no longer ours. It costs next to nothing."""
        if self._lost:
            raise StudyError(self._lost)
        if self._age() > self._seconds / 2:  # the keeper too was held up: by a stopped process or a database away
            self._claim(first=False)

    def release(self) -> None:
        """Tries once: a lease that nobody renews ends by itself."""
        self._over.set()
        _given_up.add(self._id)
        self._keeper.join(timeout=self._seconds)
        try:
            with self._engine.begin() as connection:
                before = self._read(connection)
                if before is not None and (json.loads(before) or {}).get("id") == self._id:
                    connection.execute(_CHANGE, self._place | {"before": before, "after": "null"})
        except SQLAlchemyError:
            pass

    def _keep(self) -> None:
        while not self._over.wait(self._seconds / 4):
            try:
                self._claim(first=False)
            except StudyError as lost:
                self._lost = str(lost)
                return
            except SQLAlchemyError:
                continue  # the driver waits for it as well

    def _claim(self, *, first: bool) -> None:
        with self._one_at_a_time:
            while not self._claimed(first):
                pass  # somebody was faster: look again who it is

    def _claimed(self, first: bool) -> bool:
        clocks = _clocks()
        try:
            with self._engine.begin() as connection:
                before = self._read(connection)
                held = (json.loads(before) if before else None) or {}
                if held.get("id") != self._id:
                    if not first:
                        raise StudyError(self._taken_by(held))
                    if held and held["until"] > time.time() and not _gone(held):
                        raise StudyError(self._held_by(held))
                change = self._place | {"before": before, "after": json.dumps(self._owner())}
                if connection.execute(_ENTER if before is None else _CHANGE, change).rowcount != 1:
                    return False
        except IntegrityError:
            return False
        self._clocks = clocks
        return True

    def _read(self, connection: Connection) -> str | None:
        return connection.execute(_READ, self._place).scalar_one_or_none()

    def _owner(self) -> dict[str, Any]:
        owner = {"id": self._id, "host": socket.gethostname(), "where": _where(), "pid": os.getpid(), "born": _born()}
        return owner | {"until": time.time() + self._seconds}

    def _age(self) -> float:
        """Seconds since it was renewed, by the clock that says more: one of them stands still in a machine's sleep."""
        return max(now - before for now, before in zip(_clocks(), self._clocks, strict=True))

    def _held_by(self, held: dict[str, Any]) -> str:
        return (
            f"another driver runs the study {self._study!r} (process {held['pid']} on {held['host']}): wait for it or "
            f"end it; if its machine has died, its lease ends in {held['until'] - time.time():.0f} s"
        )

    def _taken_by(self, held: dict[str, Any]) -> str:
        who = f"another driver (process {held['pid']} on {held['host']})" if held else "somebody"
        return (
            f"{who} has taken over the study {self._study!r}, because this one did not answer for longer than "
            f"{self._seconds:.0f} s; it wrote nothing since"
        )


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.time()


def _where() -> str:
    """The machine, or the container: process numbers mean the same inside it."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _born(pid: int | str = "self") -> str:
    """When a process started; empty if there is none, if it has ended, or if there is no way to know."""
    try:
        state, *facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in "ZX" else facts[18]


def _gone(owner: dict[str, Any]) -> bool:
    if owner["id"] in _given_up:
        return True
    return owner["where"] == _where() and bool(_born()) and _born(owner["pid"]) != owner["born"]
