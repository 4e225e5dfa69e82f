"""The folder being written: it appears under its name when it is complete, or not at all.

On a local disk everything is written into a hidden folder beside the target, which is renamed at the end. Object stores
cannot rename: there the manifest is written last, and a folder without one is not a data set.
"""

import fcntl
import glob
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from workflows.data.labelled import listed
from workflows.data.manifest import FILE, Manifest
from workflows.data.places import Place, speaking
from workflows.errors import DataError

_MARK = ".preparing-"
_LOCK = "lock"


@contextmanager
def writing(target: Place, *, replace: bool) -> Iterator[tuple[Place, Path]]:
    """(the folder to write to, a local scratch folder); both are cleared away when writing fails."""
    if target.local and Path(target.path).is_dir():
        target = Place(target.filesystem, str(Path(target.path).resolve()), target.name)  # a link stays where it is
    _refuse(target, replace)
    manager = _local(target) if target.local else _remote(target)
    with manager as folders:
        yield folders


def _refuse(target: Place, replace: bool) -> None:
    if not target.exists():
        return
    if not target.is_folder():
        raise DataError(f"{target.name} is a file: choose another name for the prepared folder")
    found = set(target.names())
    finished = FILE in found
    if finished and not replace:
        raise DataError(f"{target.name} already holds a prepared data set: choose another folder, or say --replace")
    own = {FILE, *(record.file for record in Manifest.load(target).partitions)} if finished else set()
    if others := sorted(found - own):
        raise DataError(f"{target.name} holds other files: choose a new folder ({listed(others, 3)})")


@contextmanager
def _local(target: Place) -> Iterator[tuple[Place, Path]]:
    final = Path(target.path)
    failing = f"cannot write {target.name}"
    with speaking(failing):
        final.parent.mkdir(parents=True, exist_ok=True)
        _clear_remains(final)
        aside, lock = _claimed(final)
    try:
        with lock:
            scratch = aside / "scratch"
            with speaking(failing):
                scratch.mkdir()
            yield Place(target.filesystem, str(aside), target.name), scratch
            with speaking(failing):
                shutil.rmtree(scratch)
                (aside / _LOCK).unlink()
                _swap(aside, final)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _claimed(final: Path) -> tuple[Path, Any]:
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


def _clear_remains(final: Path) -> None:
    for folder in final.parent.glob(f".{glob.escape(final.name)}{_MARK}*"):
        with suppress(BlockingIOError):
            with suppress(FileNotFoundError), open(folder / _LOCK) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


def _swap(aside: Path, final: Path) -> None:
    if not final.exists():
        os.rename(aside, final)
        return
    old = final.parent / f".{final.name}.replaced-{secrets.token_hex(6)}"
    os.rename(final, old)
    try:
        os.rename(aside, final)
    except OSError:
        os.rename(old, final)
        raise
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _remote(target: Place) -> Iterator[tuple[Place, Path]]:
    target.child(FILE).remove()
    for file in target.files() if target.exists() else []:
        file.remove()
    target.make_folder()
    with tempfile.TemporaryDirectory(prefix="mmbsgd-") as scratch:
        try:
            yield target, Path(scratch)
        except BaseException:
            with suppress(DataError):
                target.remove()
            raise
