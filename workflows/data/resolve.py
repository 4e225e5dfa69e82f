"""DATA, as every command takes it: a prepared folder, a known set by name, `demo`, or a file that is prepared once."""

from contextlib import suppress
from pathlib import Path

import xxhash

from workflows.data.dataset import PreparedData
from workflows.data.known import KNOWN
from workflows.data.manifest import FILE
from workflows.data.places import Place, place
from workflows.data.prepare import Progress, prepare
from workflows.data.request import Request
from workflows.data.sources import DEMO
from workflows.data.tables import PARQUET_ENDINGS
from workflows.errors import DataError


def open_data(
    name: str, home: Path, report: Progress, *, label: str | None = None, rows: int, folds: int = 0
) -> PreparedData:
    """Opens prepared data; a source is prepared into the home folder first, and again only when it has changed."""
    if (found := already_prepared(name, home)) is not None:
        return found
    folder = place(name) if name != DEMO else None
    if folder is not None and not folder.exists():
        raise DataError(f"{folder.name} does not exist; 'demo' is generated data, 'mmbsgd data list' names known sets")
    if folder is not None and folder.is_folder() and not _has_tables(folder):
        return PreparedData.open(folder)  # which says what is missing
    target = place(home / "data" / _key(name, folder, label, rows, folds))
    with suppress(DataError):  # not there yet, damaged, or of another version: the source is at hand
        return PreparedData.open(target)
    prepare(Request(source=name, out=target.path, label=label, rows=rows, folds=folds, replace=True), report)
    return PreparedData.open(target)


def already_prepared(name: str, home: Path) -> PreparedData | None:
    """A prepared folder, or a known set by its name."""
    if name == DEMO:
        return None
    folder = place(name)
    if folder.child(FILE).is_file():
        return PreparedData.open(folder)
    return _known(name, home) if name in KNOWN and not folder.exists() else None


def _has_tables(folder: Place) -> bool:
    return any(file.path.lower().endswith(PARQUET_ENDINGS) for file in folder.files())


def _known(name: str, home: Path) -> PreparedData:
    folder = place(home / "data" / name)
    if not folder.child(FILE).is_file():
        raise DataError(f"the data set {name!r} is not here yet: get it with 'mmbsgd data get {name}'")
    return PreparedData.open(folder)


def _key(name: str, source: Place | None, label: str | None, rows: int, folds: int) -> str:
    """A folder name that changes with the source and with what is made of it."""
    ending = f"-{folds}-folds" if folds else ""
    if source is None:
        return f"{DEMO}-{rows}{ending}"
    files = [source] if source.is_file() else source.files()
    facts = [(file.path, file.info().size, file.info().mtime_ns) for file in files]
    stem = source.base_name.partition(".")[0] or "data"
    return f"{stem}-{xxhash.xxh3_64_hexdigest(repr((facts, label)))}{ending}"
