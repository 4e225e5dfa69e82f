"""Where data lies: a local path or any URI that pyarrow.fs understands, behind one small face.

A `Place` is a file or a folder. It pickles, so that tasks on other machines can open it, and its `name` is what
messages and manifests show: the user's own words without the secrets that a URI may carry.
"""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from workflows.errors import DataError

_SECONDS_OF_RETRIES = 15
_SCHEME = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]+://")
_SECRET_QUERY = re.compile(r"(?i)([?&][^=&]*(?:key|secret|token|password)[^=&]*=)[^&]*")


@dataclass(frozen=True)
class Place:
    filesystem: Any
    path: str
    name: str

    @property
    def local(self) -> bool:
        return isinstance(self.filesystem, fs.LocalFileSystem)

    @property
    def base_name(self) -> str:
        return self.path.rstrip("/").rpartition("/")[2]

    @property
    def title(self) -> str:
        """The last part of its name."""
        return self.name.rstrip("/").rpartition("/")[2].partition("?")[0]

    def child(self, name: str) -> "Place":
        stem, _, query = self.name.partition("?")
        shown = f"{stem.rstrip('/')}/{name}" + (f"?{query}" if query else "")
        return Place(self.filesystem, f"{self.path.rstrip('/')}/{name}", shown)

    def info(self) -> Any:
        with speaking(f"cannot reach {self.name}"):
            return self.filesystem.get_file_info(self.path)

    def is_file(self) -> bool:
        return bool(self.info().type == fs.FileType.File)

    def is_folder(self) -> bool:
        return bool(self.info().type == fs.FileType.Directory)

    def exists(self) -> bool:
        return bool(self.info().type != fs.FileType.NotFound)

    def size(self) -> int:
        return int(self.info().size or 0)

    def files(self) -> "list[Place]":
        """Every file below this folder, sorted; hidden ones and those of unfinished writers left out."""
        with speaking(f"cannot list {self.name}"):
            found = self.filesystem.get_file_info(fs.FileSelector(self.path, recursive=True))
        inner = sorted(item.path[len(self.path.rstrip("/")) + 1 :] for item in found if item.type == fs.FileType.File)
        return [self.child(path) for path in inner if not any(part[0] in "._" for part in path.split("/"))]

    def names(self) -> list[str]:
        """Everything that lies directly in this folder, hidden or not."""
        with speaking(f"cannot list {self.name}"):
            return [item.base_name for item in self.filesystem.get_file_info(fs.FileSelector(self.path))]

    def reader(self) -> Any:
        """A stream of the file's bytes, to be closed by the caller."""
        with speaking(f"cannot read {self.name}"):
            return self.filesystem.open_input_file(self.path)

    def begins_with(self, letters: bytes) -> bool:
        with self.reader() as stream:
            return bool(stream.read(len(letters)) == letters)

    def buffer(self) -> pa.Buffer:
        """All bytes: the mapped memory of a local file, else a copy in memory."""
        with speaking(f"cannot read {self.name}"):
            if not self.local:
                with self.filesystem.open_input_file(self.path) as stream:
                    return stream.read_buffer()
            if os.path.getsize(self.path) == 0:  # an empty file cannot be mapped
                return pa.py_buffer(b"")
            with pa.memory_map(self.path) as mapped:
                return mapped.read_buffer()

    @contextmanager
    def writer(self) -> Iterator[Any]:
        """A stream to write the file's bytes to."""
        with speaking(f"cannot write {self.name}"), self.filesystem.open_output_stream(self.path) as stream:
            yield stream

    def write(self, data: bytes) -> None:
        with self.writer() as stream:
            stream.write(data)

    def make_folder(self) -> None:
        with speaking(f"cannot make folder {self.name}"):
            self.filesystem.create_dir(self.path, recursive=True)

    def remove(self) -> None:
        """Removes a file or a folder with all it holds; what is not there is no error."""
        kind = self.info().type
        with speaking(f"cannot remove {self.name}"):
            if kind == fs.FileType.Directory:
                self.filesystem.delete_dir(self.path)
            elif kind != fs.FileType.NotFound:
                self.filesystem.delete_file(self.path)


def place(text: "str | os.PathLike[str] | Place") -> Place:
    """The place that a user means by a path or a URI."""
    if isinstance(text, Place):
        return text
    text = os.fspath(text)
    if not _SCHEME.match(text):
        try:
            return Place(fs.LocalFileSystem(), str(Path(text).expanduser().absolute()), text)
        except RuntimeError as error:
            raise DataError(f"cannot use {text}: {error}") from None
    name = without_secrets(text)
    if text.startswith(("gs://", "gcs://")) and "retry_limit_seconds" not in text:
        text += f"{'&' if '?' in text else '?'}retry_limit_seconds={_SECONDS_OF_RETRIES}"  # the default is to try on
    try:
        filesystem, path = fs.FileSystem.from_uri(text)
    except (pa.ArrowException, OSError, ValueError, ImportError) as error:
        raise DataError(f"cannot use {name}: {str(error).replace(text, name)}") from None
    return Place(filesystem, path, name)


def without_secrets(uri: str) -> str:
    """The URI with user names, passwords and keys masked."""
    return _SECRET_QUERY.sub(r"\1***", re.sub(r"://(.*:.*|[^/]*)@", "://***@", uri))


@contextmanager
def speaking(what: str) -> Iterator[None]:
    """Turns failures of a filesystem into one line: what could not be done, why, and what helps."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{what}: {_reason(error)}") from None
    except pa.ArrowException as error:
        raise DataError(f"{what}: {error}") from None


def _reason(error: OSError) -> str:
    advice = {
        errno.ENOSPC: "free some space or choose another disk",
        errno.EDQUOT: "your quota is used up: free some space or choose another disk",
        errno.EACCES: "check who may read and write there, or choose another folder",
        errno.EPERM: "check who may read and write there, or choose another folder",
        errno.EROFS: "choose another folder",
        errno.EEXIST: "a part of that path is a file: choose another folder",
        errno.EBUSY: "it may be a mount point: choose a folder inside it",
        errno.ENOTDIR: "a part of that path is a file: choose another folder",
    }.get(error.errno or 0)
    reason = os.strerror(error.errno) if error.errno else re.sub(r"\s+", " ", str(error))
    return f"{reason}; {advice}" if advice else reason
