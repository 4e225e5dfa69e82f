"""A model from a file of any format. What a file is, its bytes decide, not its name; nothing in it is ever run."""

import os
from pathlib import Path

from mmbsgd import BudgetedModel
from mmbsgd.errors import ModelFileError
from workflows.export.check import Predictor

POSSIBLE = (
    "a model is a file that 'mmbsgd train --out' or 'mmbsgd export' wrote (Arrow, ONNX, LIBSVM or C), or the folder of "
    "an MLflow model that 'mmbsgd export' made"
)
_MLFLOW, _GRAPH = "MLmodel", Path("artifacts", "model.onnx")
_HEAD = 4096


def open_model(path: Path) -> Predictor:
    if os.path.isdir(path):
        return _from_folder(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise ModelFileError(f"{path} is neither a file nor a folder; {POSSIBLE}")
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise ModelFileError(f"cannot read model {path}: {error.strerror}; {POSSIBLE}") from None
    if head.startswith(b"ARROW1"):
        return BudgetedModel.load(path)
    if head.startswith(b"svm_type"):
        from workflows.export import libsvm_model

        return libsvm_model.load(path)
    if head.lstrip().startswith((b"/*", b"//")):
        from workflows.export import c_source

        return c_source.load(path)
    if _is_onnx(head):
        from workflows.export import onnx_graph

        return onnx_graph.load(path)
    raise ModelFileError(f"{path} is not a model{_what_else(path, head)}; {POSSIBLE}")


def _from_folder(path: Path) -> Predictor:
    """Of an MLflow model only the graph is read: the code that lies beside it is not run."""
    if (path / _MLFLOW).is_file() and (path / _GRAPH).is_file():
        from workflows.export import onnx_graph

        return onnx_graph.load(path / _GRAPH)
    if (path / _MLFLOW).is_file():
        raise ModelFileError(
            f"{path} is an MLflow model without {_GRAPH}: only those that 'mmbsgd export' made are read"
        )
    inside = sorted(file.name for file in path.glob("model.*"))
    if inside:
        raise ModelFileError(f"{path} is a folder: say which model in it, such as {path / inside[0]}")
    raise ModelFileError(f"{path} is a folder without a model; {POSSIBLE}")


def _is_onnx(head: bytes) -> bool:
    """A protocol buffer whose first field is the version of ONNX, followed by a producer or a domain."""
    return len(head) > 2 and head[0] == 0x08 and head[1] < 0x80 and head[2] & 0x07 in (0, 2)


def _what_else(path: Path, head: bytes) -> str:
    if not head:
        return ": it is empty"
    if head.startswith(b"PAR1") or path.name.lower().endswith((".csv", ".tsv")):
        return " but a table: MODEL comes first, then DATA"
    if head.startswith((b"\x80", b"PK\x03\x04")):
        return ": it may be a pickle or an archive, which are never opened, as they can run code"
    return ""
