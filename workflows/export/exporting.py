"""From a study to a folder of files that answer alike: choose, refit, test once, write, check, tell."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import xxhash
from numpy.typing import NDArray

from mmbsgd import BudgetedModel
from mmbsgd.scaling import Scaling
from workflows.data import PreparedData
from workflows.data.partitions import Partition
from workflows.data.resolve import open_data
from workflows.data.sources import DEMO_ROWS
from workflows.errors import ExportError, StudyError
from workflows.export import c_source, libsvm_model, mlflow_model, native, onnx_graph
from workflows.export.card import PICTURE, card
from workflows.export.check import Checked, check
from workflows.export.choice import ANY, Choice, Limits, choose
from workflows.export.once import HeldOutRows, Look, Tested
from workflows.export.refit import SEEDS, TEST, Report, refit
from workflows.files import clear_remains, folder_aside
from workflows.records import Keep, Pick
from workflows.study.facts import reference_of
from workflows.study.snapshot import LABEL, PLACE, ROWS, Snapshot
from workflows.trial import score_of

Format = Literal["native", "onnx", "libsvm", "mlflow", "c"]
FORMATS: tuple[Format, ...] = get_args(Format)
MODULES: dict[str, Any] = {"native": native, "onnx": onnx_graph, "libsvm": libsvm_model, "c": c_source}
CARD = "model-card.md"
CHECKED_ROWS = 1000


@dataclass(frozen=True)
class Request:
    out: Path
    formats: tuple[Format, ...] = ("native", "onnx")
    pick: Pick | None = None
    trial: int | None = None
    limits: Limits = ANY
    keep: Keep = "median"
    seeds: int = SEEDS
    again: bool = False
    """The test rows may be used though they were."""
    replace: bool = False
    """A folder of that name may be replaced."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.formats if name not in FORMATS]
        if unknown or not self.formats:
            raise ExportError(f"--format {','.join(unknown)!r}: the formats are {', '.join(FORMATS)}")


@dataclass(frozen=True)
class Exported:
    folder: Path
    choice: Choice
    tested: Tested | None
    model: BudgetedModel
    fingerprint: str
    checked: dict[str, Checked]
    files: dict[str, list[str]]
    card: str
    example: Any = field(repr=False, default=None)
    """Some raw rows."""


def export(seen: Snapshot, home: Path, storage: str | None, request: Request, report: Report) -> Exported:
    choice = choose(seen, pick=request.pick, trial=request.trial, limits=request.limits)
    new = Look(choice.member.number, "", request.seeds, request.keep, time.time())
    with _folder(request) as folder:
        data, settings = data_of(seen, home, report), seen.settings
        test_rows = HeldOutRows(seen.study, home, storage, new, again=request.again)
        if TEST in data.manifest.splits:
            test_rows.check()
        _rehearse(request.formats, data)
        refitted = refit(
            data, choice.member.parameters, settings.metric, keep=request.keep, seeds=request.seeds, report=report
        )
        tested = None
        if TEST in data.manifest.splits:
            tested = test_rows.look_once(
                fingerprint(refitted.model),
                lambda: score_of(settings.metric, *data.split(TEST).decide(refitted.model)),
            )
        about = {
            "study": seen.study,
            "trial": choice.member.number,
            "data": data.manifest.fingerprint,
            "features": data.manifest.features,
            "parameters": choice.member.parameters,
            "test": None if tested is None else {settings.metric: tested.score},
        }
        scaling, classes = data.manifest.scaling.scaling(), data.manifest.labels
        model = replace(refitted.model, metadata=about, scaling=scaling, classes=classes)
        rows = some_rows(data, model.scaling)
        example = _tidy(rows[:5].toarray() if hasattr(rows, "toarray") else rows[:5])
        files, checked = _write(sorted(set(request.formats), key=FORMATS.index), model, rows, example, folder, report)
        _picture(seen, choice, folder / PICTURE)
        text = card(seen, choice, refitted, tested, model, checked, files)
        (folder / CARD).write_text(text, encoding="utf-8")
        if "mlflow" in files:
            for name in (CARD, PICTURE):
                shutil.copy(folder / name, folder / mlflow_model.FILE / name)
    return Exported(request.out, choice, tested, model, fingerprint(model), checked, files, text, example)


def data_of(seen: Snapshot, home: Path, report: Report) -> PreparedData:
    """The study's own data, prepared as it was."""
    settings, kept = seen.settings, seen.environment
    lay = kept.get(PLACE, "")
    data = open_data(
        lay if os.path.exists(lay) else settings.data,
        home,
        report,
        label=kept.get(LABEL),
        rows=int(kept.get(ROWS, DEMO_ROWS)),
        folds=settings.folds,
    )
    if data.manifest.fingerprint != settings.fingerprint:
        raise StudyError(
            f"{settings.data} is not what the study {seen.study!r} was made on: its fingerprint is "
            f"{data.manifest.fingerprint}, not {settings.fingerprint}; bring the old data back, or tune on the new"
        )
    return data


def fingerprint(model: BudgetedModel) -> str:
    numbers = model.support_vectors.tobytes() + model.coefficients.tobytes() + np.float64(model.bias).tobytes()
    return xxhash.xxh3_64_hexdigest(numbers + np.float64(model.gamma).tobytes())


def some_rows(data: PreparedData, scaling: Scaling | None) -> Any:
    """Raw rows to check with: of the test split if there is one, else of the last one."""
    splits = data.manifest.splits
    first = data.split(TEST if TEST in splits else list(splits)[-1])
    found: list[Any] = []

    def take(partition: Partition) -> None:
        if not found:
            found.append(partition.matrix[:CHECKED_ROWS].copy())

    first.each(take, [0])
    return found[0] if scaling is None else scaling.undo(found[0])


@contextmanager
def _folder(request: Request) -> Iterator[Path]:
    """A folder beside the wanted one, which takes its name when everything is in it."""
    out = request.out.absolute()
    try:
        clear_remains(out)
        if out.exists() and not (out.is_dir() and not any(out.iterdir())):
            if not request.replace:
                raise ExportError(f"{request.out} is there already: choose another --out, or say --replace")
            if not (out / CARD).is_file():
                raise ExportError(f"{request.out} is not the folder of an exported model: nothing was replaced")
        with folder_aside(out) as beside:
            yield beside
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise ExportError(
            f"cannot write {request.out}: {error.strerror or error}{where}; choose another --out"
        ) from None


def _write(
    formats: Sequence[Format], model: BudgetedModel, rows: Any, example: Any, folder: Path, report: Report
) -> tuple[dict[str, list[str]], dict[str, Checked]]:
    """Names of the files by format, and how they did."""
    files: dict[str, list[str]] = {}
    checked: dict[str, Checked] = {}
    for number, name in enumerate(formats):
        report("writing and checking", number, len(formats))
        made, found = _made(name, model, folder, example)
        checked[name] = check(name, found, model, rows, made)
        files[name] = [file.name for file in made]
    report("writing and checking", len(formats), len(formats))
    return files, checked


def _made(name: Format, model: BudgetedModel, folder: Path, example: Any) -> tuple[list[Path], Any]:
    if name == "mlflow":
        path = folder / mlflow_model.FILE
        return mlflow_model.write(model, path, example), mlflow_model.load(path)
    module = MODULES[name]
    path = folder / module.FILE
    return module.write(model, path), module.load(path)


def _rehearse(formats: Sequence[Format], data: PreparedData) -> None:
    """Fails before any work is done, if a format cannot hold such labels or such a scaling."""
    manifest = data.manifest
    scaling, width = manifest.scaling.scaling(), manifest.width
    names = {"features": manifest.features}
    empty = BudgetedModel(np.zeros((1, width), np.float32), np.ones(1), 0.0, 1.0, manifest.labels, names, scaling)
    with tempfile.TemporaryDirectory(prefix="mmbsgd-export-") as folder:
        for name in {"onnx" if name == "mlflow" else name for name in formats}:
            module = MODULES[name]
            module.write(empty, Path(folder) / module.FILE)


def _tidy(rows: NDArray[Any]) -> NDArray[Any]:
    """To show: without what scaling back has left of a zero."""
    return np.where(np.abs(rows) < 1e-6 * np.abs(rows).max(axis=0, initial=0.0), 0.0, rows)


def _picture(seen: Snapshot, choice: Choice, path: Path) -> None:
    from workflows.report import trade_off, write_picture

    write_picture(trade_off(seen, reference_of(seen.settings), choice.member), path, kind="svg")


def formats_of(text: str) -> tuple[Format, ...]:
    """From `native,onnx`."""
    names: Sequence[Any] = [name.strip() for name in text.split(",") if name.strip()]
    return tuple(names)
