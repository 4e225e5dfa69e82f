"""The process that writes a study to MLflow while it runs: `python -m workflows.tracking.sender`.

It reads the study's storage, which is the truth, and never talks to the driver's loop, so that a study cannot wait for
MLflow. Its orders come as JSON lines on its standard input (the first says what to track, the next that the study has
ended), what it has to say goes to its standard output. When its input ends without an order, the driver has died.
"""

import json
import math
import os
import select
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from workflows.data.workers import cores
from workflows.errors import StudyError, TrackingError
from workflows.study.facts import reference_of
from workflows.study.snapshot import Snapshot, snapshot
from workflows.study.tuning import looked_at
from workflows.tracking.address import Address
from workflows.tracking.lock import held, patience
from workflows.tracking.store import Away, Store, load
from workflows.tracking.sync import Report, Sync

NICE = 19
SHARE = 0.1
"""Of this machine's time that a server is kept at work while trials run: it may be here, and is not nice."""
PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds between two looks at the study, and at most between two tries while MLflow is away."""
TRIES = 2
"""Before MLflow counts as away: a connection may break off."""
LOOK = 0.2
"""Seconds after which the end of the study is noticed."""
SECONDS_BETWEEN_FRONTS = 30.0
LONGEST_WAIT = 600.0
"""Seconds for another process to end that writes the same study: one that an earlier driver has left behind."""
Say = Callable[..., None]


class Sender:
    def __init__(self, study: str, home: Path, storage: str | None, address: Address) -> None:
        self._study, self._home, self._storage, self._address = study, home, storage, address
        self._sync: Sync | None = None
        self._front: Any = None
        self._fronts_at = time.monotonic()

    @property
    def run(self) -> tuple[str, str]:
        """Experiment and parent run, once they are there."""
        return (self._sync.experiment, self._sync.run) if self._sync else ("", "")

    def look(self) -> Snapshot | None:
        """The study as it stands; None: not there yet."""
        try:
            with looked_at(self._study, self._home, self._storage) as ledger:
                return snapshot(ledger, self._study)
        except StudyError:
            return None

    def bring(self, seen: Snapshot, status: str, report: Report = lambda done, total: None) -> None:
        if self._sync is None:
            self._sync = Sync(Store(self._address), self._study)
        self._sync.bring(seen, status, report)
        best = [(member.number, member.values) for member in seen.front]
        if status == "RUNNING" and best != self._front and time.monotonic() - self._fronts_at > SECONDS_BETWEEN_FRONTS:
            from workflows.report import write_front  # drawing is loaded when there is something to draw

            with tempfile.TemporaryDirectory(prefix="mmbsgd-front-") as folder:
                write_front(seen, Path(folder), reference=reference_of(seen.settings))
                self._sync.upload(Path(folder))
            self._front, self._fronts_at = best, time.monotonic()

    def finish(self, seen: Snapshot, status: str, report: Report = lambda done, total: None) -> None:
        """Everything that is to be there when the study has ended."""
        self.bring(seen, status, report)
        assert self._sync is not None
        if not self._sync.reported(seen):
            from workflows.report import write_report

            with tempfile.TemporaryDirectory(prefix="mmbsgd-report-") as folder:
                write_report(seen, Path(folder), reference=reference_of(seen.settings))
                self._sync.upload_report(seen, Path(folder))
        self._sync.check(seen)


class Orders:
    """Lines from the driver."""

    def __init__(self, source: int) -> None:
        self._source, self._text = source, b""
        self.gone = False

    def waiting(self, seconds: float) -> bool:
        """Whether there is something to read, now or within that time; it stays there."""
        return b"\n" in self._text or bool(select.select([self._source], [], [], seconds)[0])

    def next(self, seconds: float) -> dict[str, Any] | None:
        """The next order, waiting for it no longer than that."""
        until = time.monotonic() + seconds
        while b"\n" not in self._text and not self.gone:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._source], [], [], left)[0]:
                return None
            received = os.read(self._source, 1 << 16)
            self._text, self.gone = self._text + received, not received
        line, _, self._text = self._text.partition(b"\n")
        return json.loads(line) if line else None


def pause_after(looking: float, writing: float, *, server: bool, cores: int) -> float:
    """Seconds until the next look: looking at a large study takes a while, and a server is not to take the cores."""
    rest = writing * (1 / (SHARE * cores) - 1) if server else 0.0
    return min(max(PAUSE, 4 * looking, rest), LONGEST_PAUSE)


class Turns:
    """Looks at the study and brings MLflow level with it, again and again; says once that it is away."""

    def __init__(self, sender: Sender, server: bool, say: Say) -> None:
        self._sender, self._server, self._say = sender, server, say
        self.failures, self.found = 0, False
        """How often MLflow has failed since it last answered; whether there is a study."""

    def take(self, act: Callable[[Snapshot, str, Report], None], status: str) -> float:
        """One of them; returns the seconds until the next."""
        began = time.monotonic()
        seen = self._sender.look()
        self.found, looked = seen is not None, time.monotonic()
        try:
            if seen is not None:
                act(seen, status, lambda done, total: self._say(done=done, total=total))
        except (Away, TrackingError, OSError) as error:
            self.failures += 1
            if self.failures == TRIES:
                self._say(away=str(error))
            return min(math.ldexp(PAUSE, self.failures - 1), LONGEST_PAUSE)
        if self.failures >= TRIES:
            self._say(back=True)
        self.failures = 0
        return pause_after(looked - began, time.monotonic() - looked, server=self._server, cores=cores())


def serve(orders: Orders, say: Say, hurry: Callable[[], None] = lambda: None) -> None:
    """hurry: called when the study has ended, and nobody has to be given way to any more."""
    first = orders.next(60.0)
    if first is None:
        return
    home, where = Path(first["home"]), Address(**first["address"])
    sender = Sender(first["study"], home, first["storage"], where)
    turns = Turns(sender, where.server, say)
    with held(home, first["study"], wait=patience(LONGEST_WAIT)):
        with ThreadPoolExecutor(1, initializer=give_way) as pool:
            loading = pool.submit(load, where)
            following = pool.submit(_follow, sender, orders, turns)
            while not (following.done() or orders.waiting(LOOK)):
                continue
            hurry()  # what it is doing at this moment may take it minutes on a busy machine
            loading.result()
            status = following.result()
        _conclude(sender, status, turns)
    if turns.found and not turns.failures:
        say(experiment=sender.run[0], run=sender.run[1])


def _follow(sender: Sender, orders: Orders, turns: Turns) -> str:
    """Until the driver says how the study has ended, or is gone."""
    while True:
        order = orders.next(turns.take(sender.bring, "RUNNING"))
        if order is not None:
            return str(order["status"])
        if orders.gone:
            return "KILLED"


def _conclude(sender: Sender, status: str, turns: Turns) -> None:
    """If MLflow does not answer now, what is missing follows later."""
    while True:
        pause = turns.take(sender.finish, status)
        if not turns.failures or turns.failures >= TRIES:
            return
        time.sleep(pause)


def give_way() -> None:
    """Trials go first where there are not enough cores, though Ray's workers are nice themselves: for this thread."""
    with suppress(AttributeError, OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        os.sched_setscheduler(threading.get_native_id(), os.SCHED_IDLE, os.sched_param(0))


def keep_up() -> None:
    """The opposite, for all threads of this process."""
    be_nice(0)
    for thread in map(int, os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else ():
        with suppress(OSError):  # it has ended, or only an administrator may
            os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, thread, 0)


def be_nice(how: int) -> None:
    """As a session: Linux shares time between sessions before it looks at their threads."""
    with suppress(OSError), open("/proc/self/autogroup", "w") as session:
        session.write(str(how))


def converse(source: int, output: int, hurry: Callable[[], None] = lambda: None) -> None:
    """With the driver, whose orders come from a pipe and who hears through another one."""

    def say(**message: Any) -> None:
        with suppress(BrokenPipeError):  # the driver is gone; what is left is written all the same
            os.write(output, json.dumps(message).encode() + b"\n")

    try:
        serve(Orders(source), say, hurry)
    except TrackingError as error:
        say(away=str(error))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which says when to end
    output = os.dup(1)
    os.dup2(2, 1)  # what libraries print is not ours
    be_nice(NICE)
    converse(0, output, keep_up)


if __name__ == "__main__":
    main()
