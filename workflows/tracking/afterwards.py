"""Writes studies that have ended to MLflow, one after the other, in one process of its own: for jobs of many studies.

`Afterwards` is the driver's end. The process, `python -m workflows.tracking.afterwards`, gets JSON lines: first where
studies and MLflow are, then the names of studies. When its input ends it does what is left and ends too. What it does
not get done, because it or MLflow was away, `mmbsgd sync` or the same job again completes.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from workflows.errors import TrackingError
from workflows.tracking.address import Address
from workflows.tracking.lock import held, patience
from workflows.tracking.sender import LONGEST_WAIT, NICE, Orders, Sender, be_nice, give_way, keep_up
from workflows.tracking.store import Away

A_DAY = 86_400.0


class Afterwards:
    def __init__(self, home: Path, storage: str | None, where: Address) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "workflows.tracking.afterwards"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._told, self.written, self.reason = 0, 0, ""
        """Studies that MLflow has, and why it lacks others."""
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._tell({"home": str(home.absolute()), "storage": storage, "address": where.as_dict()})

    def write(self, study: str) -> None:
        self._told += 1
        self._tell({"study": study})

    def finish(self, report: Callable[[int, int], None], wait: Callable[[], bool] = lambda: True) -> bool:
        """Waits until all is written, unless `wait` says not to; says whether MLflow has everything."""
        with suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        while self._listener.is_alive() and wait():
            self._listener.join(0.2)
            report(self.written, self._told)
        return self.written == self._told

    def _tell(self, order: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # it has died: what is missing follows with a later sync
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                said = json.loads(line)
                self.written += said.get("written", 0)
                self.reason = said.get("away", self.reason)
        self._process.wait()


def serve(orders: Orders, say: Callable[..., None], hurry: Callable[[], None] = lambda: None) -> None:
    """hurry: called when no further study will come."""
    first = orders.next(60.0)
    if first is None:
        return
    home, where = Path(first["home"]), Address(**first["address"])

    def write(study: str) -> None:
        sender = Sender(study, home, first["storage"], where)
        try:
            with held(home, study, wait=patience(LONGEST_WAIT)):
                seen = sender.look()
                if seen is None:
                    say(away=f"there is no study {study!r}")
                    return
                sender.finish(seen, "FINISHED")
            say(written=1)
        except (Away, TrackingError, OSError) as error:
            say(away=str(error))
        except Exception as error:  # a bug is told with its place; other studies are still written
            place = traceback.extract_tb(error.__traceback__)[-1]
            say(away=f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})")

    with ThreadPoolExecutor(1, initializer=give_way) as pool:
        while not orders.gone:
            if (order := orders.next(A_DAY)) is not None:
                pool.submit(write, order["study"])
        hurry()  # what it is doing at this moment may take it minutes on a busy machine


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = os.dup(1)
    os.dup2(2, 1)  # what libraries print is not ours
    be_nice(NICE)

    def say(**message: Any) -> None:
        with suppress(BrokenPipeError):
            os.write(output, json.dumps(message).encode() + b"\n")

    serve(Orders(0), say, keep_up)


if __name__ == "__main__":
    main()
