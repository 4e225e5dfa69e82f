"""The folder being written: it appears under its name when it is complete, or not at all.

On a local disk everything is written into a hidden folder beside the target, which is renamed at the end. Object stores
cannot rename: there partitions get names of their own, the manifest, written last, makes them the data set, and those
of an earlier set or of a dead writer are deleted afterwards.
"""

import fcntl
import glob
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workflows.data.labelled import listed
from workflows.data.manifest import FILE
from workflows.data.places import Place, speaking
from workflows.errors import DataError

_MARK = ".preparing-"
_REPLACED = ".replaced-"
_LOCK = "lock"
_PARTITION = re.compile(r"(train|validation|test|fold-[0-9]+)-[0-9]{5,}(-[0-9a-f]{8})?\.arrow")


@dataclass(frozen=True)
class Target:
    folder: Place
    scratch: Path
    """A local folder for what is needed while writing."""
    mark: str
    """At the end of the name of every partition."""


@contextmanager
def writing(target: Place, *, replace: bool) -> Iterator[Target]:
    """When writing fails, everything is as it was before."""
    if target.local and Path(target.path).is_dir():
        target = Place(target.filesystem, str(Path(target.path).resolve()), target.name)  # a link stays where it is
    if target.local:
        with speaking(f"cannot write {target.name}"):
            _clear_remains(Path(target.path))
    _refuse(target, replace)
    manager = _local(target, replace) if target.local else _remote(target)
    with manager as made:
        yield made


def _refuse(target: Place, replace: bool) -> None:
    if not target.exists():
        return
    if not target.is_folder():
        raise DataError(f"{target.name} is a file: choose another name for the prepared folder")
    found = target.names()
    if FILE in found and not replace:
        raise DataError(f"{target.name} already holds a prepared data set: choose another folder, or say --replace")
    if others := sorted(name for name in found if name != FILE and not _PARTITION.fullmatch(name)):
        raise DataError(f"{target.name} holds other files: choose a new folder ({listed(others, 3)})")


@contextmanager
def _local(target: Place, replace: bool) -> Iterator[Target]:
    final = Path(target.path)
    if final.is_mount():
        raise DataError(f"{target.name} is a mount point, which cannot be replaced: choose a folder inside it")
    failing = f"cannot write {target.name}"
    with speaking(failing):
        final.parent.mkdir(parents=True, exist_ok=True)
        aside, lock = _claimed(final)
    try:
        with lock:
            scratch = aside / "scratch"
            with speaking(failing):
                scratch.mkdir()
            yield Target(Place(target.filesystem, str(aside), target.name), scratch, "")
            with speaking(failing):
                shutil.rmtree(scratch)
                (aside / _LOCK).unlink()
                _refuse(target, replace)  # what came there meanwhile
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


def _swap(aside: Path, final: Path) -> None:
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


@contextmanager
def _remote(target: Place) -> Iterator[Target]:
    mark = f"-{secrets.token_hex(4)}"
    target.make_folder()
    finished = False
    with tempfile.TemporaryDirectory(prefix="mmbsgd-") as scratch:
        try:
            yield Target(target, Path(scratch), mark)
            finished = True
        finally:
            for name in target.names() if target.exists() else []:
                if _PARTITION.fullmatch(name) and name.endswith(f"{mark}.arrow") != finished:
                    with suppress(DataError):  # what cannot be deleted now is deleted by the next writer
                        target.child(name).remove()
            if not finished and target.exists() and not target.names():
                with suppress(DataError):
                    target.remove()
