"""The study's journal: Optuna's operation log in a file, kept by one driver.

Optuna's own file backend opens, reads and syncs the file for every value it sets, which costs more than a short trial,
and a line that was cut off by a crash makes it refuse the file as soon as another one follows. Here one driver holds
the file locked: it answers reads from memory, writes what has gathered in one go, and mends a cut-off end.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Self

from optuna.storages.journal import BaseJournalBackend

from workflows.errors import StudyError

SYNC_SECONDS = 1.0
"""How often the disk must have what was written: a crash of the machine may cost as much, one of a process nothing."""


class Journal(BaseJournalBackend):
    def __init__(self, path: Path, *, write: bool = True) -> None:
        """write: hold the file as the only driver; otherwise only look at what is there."""
        self._path = path
        self._file: FileIO | None = None
        self._pending: list[str] = []
        self._synced = 0.0
        try:
            if write:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = open(path, "ab+", buffering=0)  # noqa: SIM115
                self._claim()
            content = path.read_bytes()
            self._end = content.rfind(b"\n") + 1
            self._logs = self._parsed(content[: self._end])
            self._torn = self._end < len(content)  # a line that a crash cut off
            if self._file is not None and self._torn:
                self._mend()
        except OSError as error:
            self._let_go()
            raise StudyError(f"cannot open the study's journal {path}: {error.strerror}") from None
        except StudyError:
            self._let_go()
            raise

    def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
        return self._logs[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        for log in logs:
            line = json.dumps(log, separators=(",", ":"))
            self._pending.append(line)
            self._logs.append(json.loads(line))

    def flush(self) -> None:
        """Writes what has gathered: it survives the end of this process. The disk has it within a second or so."""
        if not self._pending or self._file is None:
            return
        data = ("\n".join(self._pending) + "\n").encode()
        try:
            if self._torn:
                self._mend()
            written = 0
            while written < len(data):
                written += self._file.write(data[written:]) or 0
            if time.monotonic() - self._synced > SYNC_SECONDS:
                self._sync()
        except OSError as error:
            self._torn = True
            with suppress(OSError):  # if it fails, then before anything else is written
                self._mend()
            raise self._cannot_write(error) from None
        self._end += len(data)
        self._pending.clear()

    def close(self) -> None:
        if self._file is None:
            return
        try:
            self.flush()
            self._sync()
        except OSError as error:
            raise self._cannot_write(error) from None
        finally:
            self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _sync(self) -> None:
        assert self._file is not None
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    def _mend(self) -> None:
        assert self._file is not None
        self._file.truncate(self._end)
        self._torn = False

    def _let_go(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _cannot_write(self, error: OSError) -> StudyError:
        return StudyError(
            f"cannot write the study's journal {self._path}: {error.strerror}; make room and run the same command "
            "again: it goes on where it stopped"
        )

    def _claim(self) -> None:
        assert self._file is not None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StudyError(f"another driver is running the study in {self._path}: wait for it, or end it") from None

    def _parsed(self, content: bytes) -> list[dict[str, Any]]:
        logs = []
        for number, line in enumerate(content.splitlines(), start=1):
            try:
                log = json.loads(line)
            except ValueError:
                log = None
            if not isinstance(log, dict) or "op_code" not in log:
                raise StudyError(
                    f"the study's journal {self._path} is damaged in line {number}; move it away to start anew"
                )
            logs.append(log)
        return logs
