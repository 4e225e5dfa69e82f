"""The folder being written: it appears under its name when it is complete, or not at all.

On a local disk everything is written into a hidden folder beside the target, which is renamed at the end. Object stores
cannot rename: there partitions get names of their own, the manifest, written last, makes them the data set, and those
of an earlier set or of a dead writer are deleted afterwards.
"""

import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from workflows.data.labelled import listed
from workflows.data.manifest import FILE
from workflows.data.places import Place, speaking
from workflows.errors import DataError
from workflows.files import claimed, clear_remains, take_place

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
            clear_remains(Path(target.path))
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
        aside, lock = claimed(final)
    try:
        with lock:
            scratch = aside / "scratch"
            with speaking(failing):
                scratch.mkdir()
            yield Target(Place(target.filesystem, str(aside), target.name), scratch, "")
            with speaking(failing):
                shutil.rmtree(scratch)
                _refuse(target, replace)  # what came there meanwhile
                take_place(aside, final)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


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
