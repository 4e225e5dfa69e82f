"""The pictures, tables and the page of a study.

Builders (`trade_off`, …) turn a snapshot into `panels`, which `interactive` and `printed` draw.
"""

from functools import partial
from pathlib import Path
from typing import Literal

import pyarrow as pa

from workflows.files import written, written_text
from workflows.report.page import document, picture, pictures, preview, report
from workflows.report.panels import Picture
from workflows.report.tables import front_table, trials_table, write_csv, write_parquet
from workflows.report.trade_off import trade_off
from workflows.study.snapshot import Snapshot

__all__ = ["pictures", "report", "trade_off", "write_front", "write_picture", "write_report"]


def write_report(
    snapshot: Snapshot, folder: Path, *, reference: float | None = None, printed: bool = True
) -> list[Path]:
    """Everything: the page, the front, the tables and, if they shall be printed, the pictures."""
    drawn = pictures(snapshot, reference)
    first_seen = preview(drawn[0])
    files = [
        written_text(folder / "report.html", document(snapshot, drawn, reference, first_seen)),
        *_front(snapshot, folder, drawn[0], first_seen),
        *_table(trials_table(snapshot), folder / "trials"),
    ]
    if printed:
        files += [write_picture(one, folder / "pictures" / f"{one.name}.svg", kind="svg") for one in drawn]
    return files


def write_front(snapshot: Snapshot, folder: Path, *, reference: float | None = None) -> list[Path]:
    """The front alone, which is soon done: its picture and its table."""
    drawn = trade_off(snapshot, reference)
    return _front(snapshot, folder, drawn, preview(drawn))


def _front(snapshot: Snapshot, folder: Path, drawn: Picture, first_seen: str) -> list[Path]:
    page = picture(drawn, f"{snapshot.study}: the trade-off", first_seen)
    return [written_text(folder / "pareto.html", page), *_table(front_table(snapshot), folder / "front")]


def write_picture(drawn: Picture, path: Path, *, kind: Literal["svg", "png"]) -> Path:
    from workflows.report.printed import draw  # matplotlib takes a second to import

    return written(path, partial(draw, drawn, kind=kind))


def _table(table: pa.Table, path: Path) -> list[Path]:
    return [
        written(path.with_suffix(".csv"), partial(write_csv, table)),
        written(path.with_suffix(".parquet"), partial(write_parquet, table)),
    ]
