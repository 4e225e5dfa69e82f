"""Files and folders that are there as a whole or not at all."""

import fcntl
import glob
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_MARK, _REPLACED, _LOCK = ".writing-", ".replaced-", "lock"


def written(path: Path, write: Callable[[Path], None]) -> Path:
    """Has a file beside it written and renamed; who reads at the same time sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{secrets.token_hex(4)}.{path.name}")
    try:
        write(beside)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def written_text(path: Path, text: str) -> Path:
    return written(path, lambda beside: _write(beside, text))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


@contextmanager
def folder_aside(final: Path) -> Iterator[Path]:
    """A folder that takes this name, and the place of one that has it, when all is in it."""
    final.parent.mkdir(parents=True, exist_ok=True)
    aside, lock = claimed(final)
    try:
        with lock:
            yield aside
            take_place(aside, final)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def claimed(final: Path) -> tuple[Path, Any]:
    """A new folder beside the target, and its lock, which lives as long as the writer does.

    The folder gets the name that others look for when the lock is held: one with that name and without a living lock
    is what a dead writer left.
    """
    token = secrets.token_hex(6)
    starting = final.parent / f".{final.name}.starting-{token}"
    starting.mkdir()
    lock = None
    try:
        lock = open(starting / _LOCK, "w")  # noqa: SIM115
        fcntl.flock(lock, fcntl.LOCK_EX)
        aside = final.parent / f".{final.name}{_MARK}{token}"
        os.rename(starting, aside)
    except BaseException:
        if lock is not None:
            lock.close()
        shutil.rmtree(starting, ignore_errors=True)
        raise
    return aside, lock


def clear_remains(final: Path) -> None:
    """What writers left who died; and what they were about to replace comes back."""
    for old in final.parent.glob(f".{glob.escape(final.name)}{_REPLACED}*"):
        if final.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.rename(old, final)  # its writer died between two renames
    for folder in final.parent.glob(f".{glob.escape(final.name)}{_MARK}*"):
        with suppress(BlockingIOError):
            with suppress(FileNotFoundError), open(folder / _LOCK) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


def take_place(aside: Path, final: Path) -> None:
    """A claimed folder, now complete, gets its name."""
    (aside / _LOCK).unlink()
    with suppress(OSError):
        final.rmdir()  # an empty folder makes room
    if not final.exists():
        os.rename(aside, final)
        return
    old = final.parent / f".{final.name}{_REPLACED}{secrets.token_hex(6)}"
    os.rename(final, old)
    try:
        os.rename(aside, final)
    except OSError:
        os.rename(old, final)
        raise
    shutil.rmtree(old, ignore_errors=True)
