"""The folder being written: it appears under its name when it is complete, or not at all.

On a local disk everything is written into a hidden folder beside the target, which is renamed at the end. Object stores
cannot rename: there the manifest is written last, and a folder without one is not a data set.
"""

import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from workflows.data.manifest import FILE
from workflows.data.places import Place, speaking
from workflows.errors import DataError

_MARK = ".preparing-"


@contextmanager
def writing(target: Place, *, replace: bool) -> Iterator[tuple[Place, Path]]:
    """(the folder to write to, a local scratch folder); both are cleared away when writing fails."""
    _refuse(target, replace)
    manager = _local(target) if target.local else _remote(target)
    with manager as folders:
        yield folders


def _refuse(target: Place, replace: bool) -> None:
    if not target.exists():
        return
    if not target.is_folder():
        raise DataError(f"{target.name} is a file: choose another name for the prepared folder")
    finished = target.child(FILE).is_file()
    if finished and not replace:
        raise DataError(f"{target.name} already holds a prepared data set: choose another folder, or say --replace")
    if not finished and target.files():
        raise DataError(f"{target.name} holds other files: choose a new folder")


@contextmanager
def _local(target: Place) -> Iterator[tuple[Place, Path]]:
    final = Path(target.path)
    with speaking(f"cannot write {target.name}"):
        final.parent.mkdir(parents=True, exist_ok=True)
        _clear_remains(final)
        aside = final.parent / f".{final.name}{_MARK}{secrets.token_hex(6)}"
        aside.mkdir()
    try:
        with _claimed(aside):
            scratch = aside / "scratch"
            scratch.mkdir()
            yield Place(target.filesystem, str(aside), target.name), scratch
            shutil.rmtree(scratch)
            (aside / "lock").unlink()
        with speaking(f"cannot write {target.name}"):
            _swap(aside, final)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    # As long as the writer lives it holds the lock: others can tell its folder from the remains of a dead one.
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _clear_remains(final: Path) -> None:
    for folder in final.parent.glob(f".{final.name}{_MARK}*"):
        with suppress(OSError), open(folder / "lock") as lock:
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
