"""Files that are there as a whole or not at all."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path


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
