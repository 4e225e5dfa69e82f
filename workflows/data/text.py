"""Text files of any size as chunks of whole lines: plain or compressed, from any place, in bounded memory."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from workflows.data.places import Place
from workflows.errors import DataError

CHUNK_BYTES = 8 << 20
LONGEST_LINE = 256 << 20
_UTF8_MARK = b"\xef\xbb\xbf"
_DECOMPRESSORS: dict[bytes, Callable[[Any], Any]] = {
    b"BZh": bz2.open,
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
}


@dataclass(frozen=True)
class TextChunk:
    """Whole lines of one file."""

    name: str
    first_line: int  # its number in the file, from 1
    data: bytes
    position: int  # bytes of the file (compressed ones, if it is compressed) read by now


def chunks(source: Place, *, quoted: bool, size: int = CHUNK_BYTES) -> Iterator[TextChunk]:
    """The file from start to end; with `quoted`, a line break between quotation marks ends no line."""
    with source.reader() as raw:
        head = raw.read(8)
        raw.seek(0)
        if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise DataError(f"{source.name} is UTF-16 text: save it as UTF-8")
        opener = next((opener for magic, opener in _DECOMPRESSORS.items() if head.startswith(magic)), None)
        stream = opener(raw) if opener else raw
        try:
            yield from _cut(source.name, stream, raw, quoted, size)
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            what = "the compressed file is damaged or cut off" if opener else "reading failed"
            raise DataError(f"{source.name}: {what} ({error}); get it again") from None


def _cut(name: str, stream: Any, raw: Any, quoted: bool, size: int) -> Iterator[TextChunk]:
    rest, line = b"", 1
    data = stream.read(len(_UTF8_MARK) + size).removeprefix(_UTF8_MARK)
    while data:
        text = rest + data if rest else data
        end = _end_of_lines(text, quoted)
        if not end and len(text) > LONGEST_LINE:
            raise DataError(
                f"{name}, line {line}: no line ends within {LONGEST_LINE >> 20} MB; is it text, are its quotes closed?"
            )
        if end:
            whole, rest = text[:end], text[end:]
            yield TextChunk(name, line, whole, raw.tell())
            line += whole.count(b"\n")
        else:
            rest = text
        data = stream.read(size)
    if rest:
        yield TextChunk(name, line, rest, raw.tell())


def _end_of_lines(text: bytes, quoted: bool) -> int:
    """Where the last whole line ends, 0 if none does."""
    end = text.rfind(b"\n") + 1
    if quoted:
        marks = text.count(b'"', 0, end)
        while marks % 2:  # this line break lies between quotation marks: go back before the one that opened them
            before = text.rfind(b"\n", 0, text.rfind(b'"', 0, end)) + 1
            marks -= text.count(b'"', before, end)
            end = before
    return end
