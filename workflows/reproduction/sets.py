"""The paper's data sets as the reproduction uses them: which rows are trained on, and which are scored on.

The paper trains on all training rows and scores on the test rows. Whoever chooses (a grid search, a tuned peer) does so
on training rows alone. The quick size takes stratified parts of the training rows, each as large as it allows.
"""

import math
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workflows.data import PreparedData
from workflows.data.known import KNOWN, KnownSet, request
from workflows.data.prepare import Progress, prepare
from workflows.errors import DataError
from workflows.reproduction.sizes import Size

SETS = ("phishing", "web", "adult", "ijcnn", "skin")
"""In the paper's order."""
FOLDS = 5
Use = Literal["paper", "choice", "folds"]
"""Scored on test rows as in the paper; on validation rows, to choose by; by cross-validation, to choose by."""


@dataclass(frozen=True)
class Rows:
    """Prepared data, and how a study is told which of its splits to use."""

    folder: str
    splits: str = ""
    folds: int = 0


class Sets:
    def __init__(self, size: Size, home: Path, folder: Path | None, report: Progress) -> None:
        """folder: where the files of the sets are; None: where MMBSGD_DATA says, else they are downloaded."""
        self._size, self._home, self._folder, self._report = size, home, folder, report

    def rows(self, name: str, use: Use) -> Rows:
        known, size = KNOWN[name], self._size
        if size.rows is not None:
            parts = max(math.ceil(known.rows / size.rows), 2)
            splits = {"paper": "fold-0:test", "choice": "fold-0:fold-1", "folds": "fold-0:fold-1,fold-1:fold-0"}
            return Rows(self._prepared(known, f"{name}-in-{parts}", folds=parts), splits[use])
        if use == "folds":
            return Rows(self._prepared(known, f"{name}-in-{FOLDS}", folds=FOLDS), folds=FOLDS)
        return Rows(self._prepared(known, name, folds=0), "train+validation:test" if use == "paper" else "")

    def trained_rows(self, name: str) -> int:
        """n, as the paper's experiments have it in this size."""
        rows = self.rows(name, "paper")
        return PreparedData.open(rows.folder).split(*rows.splits.partition(":")[0].split("+")).rows

    def _prepared(self, known: KnownSet, name: str, folds: int) -> str:
        target = self._home / "data" / name
        with suppress(DataError):  # not there yet, or damaged: it is made again
            PreparedData.open(target)
            return str(target)
        wanted = request(
            known,
            str(target),
            self._home / "downloads",
            self._report,
            folder=self._folder,
            folds=folds,
            width=known.width,
            replace=True,
        )
        prepare(wanted, self._report)
        return str(target)
