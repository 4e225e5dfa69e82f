"""The model's own file: Arrow IPC, answered by compiled kernels."""

from pathlib import Path

from mmbsgd import BudgetedModel

NAME, FILE = "native", "model.arrow"


def write(model: BudgetedModel, path: Path) -> list[Path]:
    model.save(path)
    return [path]


def load(path: Path) -> BudgetedModel:
    return BudgetedModel.load(path)
