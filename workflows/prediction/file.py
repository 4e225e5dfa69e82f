"""Where predictions go: CSV or Parquet, a file that appears under its name when it is whole, or standard output."""

import csv
import io
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from workflows.data.places import speaking
from workflows.data.views import view
from workflows.errors import DataError

ENDINGS = (".csv", ".csv.gz", ".parquet")
ROWS_PER_GROUP = 1 << 20


class Writer(Protocol):
    def write(self, scores: NDArray[np.float64]) -> None:
        """The next rows, by their decision values."""
        ...


def check_name(out: Path) -> None:
    """Before any work is done."""
    if not out.name.lower().endswith(ENDINGS):
        raise DataError(f"--out {out}: predictions are written as {', '.join(ENDINGS)}, and to this machine's disks")
    if os.path.exists(out) and not os.path.isfile(out):
        raise DataError(f"cannot write {out}: it is no file")
    folder = out.absolute().parent
    if not os.path.isdir(folder):
        raise DataError(f"cannot write {out}: the folder {folder} does not exist")


@contextmanager
def writing(out: Path | None, classes: tuple[Any, Any], *, scores: bool) -> Iterator[Writer]:
    """scores: decision values too, in a second column. When anything fails, all is as it was before."""
    if out is None:
        yield _Csv(_Standard(), classes, scores)
        return
    final = out.resolve()  # a link stays where it is
    aside = final.with_name(f".{final.name}.{secrets.token_hex(4)}.part")
    failing = f"cannot write {out}"
    try:
        with speaking(failing):
            stream = pa.OSFile(str(aside), "wb")
        writer = _Aside(stream, final.name.lower(), classes, scores, failing)
        try:
            yield writer
            writer.finish()
        finally:
            writer.release()
        with speaking(failing):
            os.replace(aside, final)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise


class _Aside:
    """A file that is not yet under its name."""

    def __init__(self, stream: Any, name: str, classes: tuple[Any, Any], scores: bool, failing: str) -> None:
        self._failing, self._streams = failing, [stream]
        with speaking(failing):
            if name.endswith(".gz"):
                self._streams.append(pa.CompressedOutputStream(stream, "gzip"))
            kind = _Parquet if name.endswith(".parquet") else _Csv
            self._writer = kind(self._streams[-1], classes, scores)

    def write(self, scores: NDArray[np.float64]) -> None:
        with speaking(self._failing):
            self._writer.write(scores)

    def finish(self) -> None:
        with speaking(self._failing):
            self._writer.finish()
            for stream in reversed(self._streams):
                stream.close()

    def release(self) -> None:
        """What failed once fails again when it is closed."""
        self._writer.release()
        for stream in reversed(self._streams):
            with suppress(OSError, pa.ArrowException):
                stream.close()


class _Standard:
    """Standard output, unbuffered: nothing is left to be written when it breaks."""

    def write(self, data: Any) -> None:
        buffer = sys.stdout.buffer
        raw, rest = getattr(buffer, "raw", buffer), memoryview(data)
        while len(rest):
            try:
                rest = rest[raw.write(rest) :]
            except BrokenPipeError:  # who reads has seen enough
                raise
            except OSError as error:
                raise DataError(f"cannot write to standard output: {error.strerror}") from None


class _Csv:
    """Labels in the user's own words. Rows are put together by Arrow, as the bytes of an array of lines."""

    def __init__(self, stream: Any, classes: tuple[Any, Any], scores: bool) -> None:
        self._stream, self._scores = stream, scores
        ending = "," if scores else "\n"
        self._labels = pa.array([_quoted(label) + ending for label in classes])
        stream.write(b"label,score\n" if scores else b"label\n")

    def write(self, scores: NDArray[np.float64]) -> None:
        lines = self._labels.take(pa.array((scores > 0).astype(np.int8)))
        if self._scores:
            lines = pc.binary_join_element_wise(lines, pc.cast(pa.array(scores), pa.string()), "\n", "")
        _, offsets, letters = lines.buffers()
        end = int(view(pa.Array.from_buffers(pa.int32(), len(lines) + 1, [None, offsets]))[-1])
        self._stream.write(letters.slice(0, end))

    def finish(self) -> None:
        pass

    def release(self) -> None:
        pass


class _Parquet:
    """Labels in the user's own type, row groups of a million rows."""

    def __init__(self, stream: Any, classes: tuple[Any, Any], scores: bool) -> None:
        import pyarrow.parquet as pq  # takes half a second

        self._labels, self._scores = pa.array(_alike(classes)), scores
        fields = [("label", self._labels.type), *([("score", pa.float64())] if scores else [])]
        self._writer = pq.ParquetWriter(stream, pa.schema(fields))
        self._waiting: list[NDArray[np.float64]] = []

    def write(self, scores: NDArray[np.float64]) -> None:
        self._waiting.append(scores)
        if sum(map(len, self._waiting)) >= ROWS_PER_GROUP:
            self._write_group()

    def _write_group(self) -> None:
        scores = np.concatenate([*self._waiting, np.empty(0)])
        self._waiting.clear()
        columns = [self._labels.take(pa.array((scores > 0).astype(np.int8))), *([scores] if self._scores else [])]
        self._writer.write_table(pa.table(columns, schema=self._writer.schema))

    def finish(self) -> None:
        if self._waiting:
            self._write_group()
        self._writer.close()

    def release(self) -> None:
        self._writer.is_open = False  # else it is closed once more when it is forgotten


def _quoted(label: Any) -> str:
    """As a CSV file holds it."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow([str(label)])
    return text.getvalue()


def _alike(classes: tuple[Any, Any]) -> list[Any]:
    """Labels that one Arrow type can hold."""
    kinds = {type(label) for label in classes}
    if len(kinds) == 1:
        return list(classes)
    return [float(label) if kinds == {int, float} else str(label) for label in classes]
