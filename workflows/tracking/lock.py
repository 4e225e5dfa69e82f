"""One writer of a study's runs at a time on this machine."""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from workflows.errors import TrackingBusy, TrackingError


@contextmanager
def held(home: Path, study: str, *, wait: Callable[[], bool]) -> Iterator[None]:
    """While another writer is at work, `wait` is called; when it says False, that is an error."""
    folder = home / "tracking"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / f"{study}.lock", "w")  # noqa: SIM115
    except OSError as error:
        raise TrackingError(f"cannot write to {folder}: {error.strerror}") from None
    with file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not wait():
                    raise TrackingBusy(f"another process is writing the study {study!r} to MLflow") from None
        yield


def patience(seconds: float) -> Callable[[], bool]:
    """Waits so long in all."""
    until = time.monotonic() + seconds

    def wait() -> bool:
        time.sleep(0.2)
        return time.monotonic() < until

    return wait
