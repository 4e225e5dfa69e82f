"""The model as MLflow keeps it: `served.py` around the ONNX graph, with signature, example, requirements and card."""

import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmbsgd import BudgetedModel
from workflows.export import onnx_graph
from workflows.tracking.store import quietly

NAME, FILE = "mlflow", "mlflow"
CODE = Path(__file__).with_name("served.py")
ABOUT = ("study", "trial", "data", "parameters", "test")
"""What the model says of itself."""
MOST_NAMED = 1000
"""Features: with more of them a signature of columns is no help to anybody, and slow."""


def write(model: BudgetedModel, path: Path, example: NDArray[Any]) -> list[Path]:
    """A folder that `mlflow models serve -m` takes. example: some raw rows."""
    with quietly(), tempfile.TemporaryDirectory(prefix="mmbsgd-export-") as folder:
        from mlflow.exceptions import MlflowException
        from mlflow.pyfunc import save_model

        (graph,) = onnx_graph.write(model, Path(folder) / onnx_graph.FILE)
        try:
            save_model(path=str(path), **arguments(model, graph, example))
        except MlflowException as error:
            if isinstance(error.__cause__, OSError):  # a full disk, which MLflow takes for a file that it cannot copy
                raise error.__cause__ from None
            raise
    return [path]


def load(path: Path) -> Any:
    """Its graph; the code beside it is not run."""
    return onnx_graph.load(path / "artifacts" / onnx_graph.FILE)


class Served:
    """The model as MLflow runs it, with the code that travels with it."""

    one_by_one = False

    def __init__(self, path: Path) -> None:
        with quietly():
            from mlflow.pyfunc import load_model

            self._model = load_model(str(path))
        self._inputs = self._model.metadata.get_input_schema()

    def prepared(self, rows: Any) -> Any:
        """In the form that the signature wants."""
        import pandas as pd

        rows = rows.toarray() if hasattr(rows, "toarray") else rows
        if self._inputs.is_tensor_spec():
            return np.asarray(rows, np.float32)
        return pd.DataFrame(np.asarray(rows, np.float64), columns=self._inputs.input_names())

    def decision_function(self, rows: Any) -> NDArray[np.float64]:
        return self._model.predict(rows)["score"].to_numpy(np.float64)  # type: ignore[no-any-return]

    def predict(self, rows: Any) -> list[Any]:
        return self._model.predict(rows)["label"].tolist()  # type: ignore[no-any-return]


def run(path: Path) -> Served:
    """Of a folder that was just written: unlike `load` it runs the code in there."""
    return Served(path)


def arguments(model: BudgetedModel, graph: Path, example: NDArray[Any]) -> dict[str, Any]:
    """What MLflow is told, to save a model or to log it."""
    import pandas as pd
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema, TensorSpec

    names = model.features
    shown: Any = np.asarray(example, np.float32)
    inputs = Schema([TensorSpec(np.dtype(np.float32), (-1, model.width))])
    if names and len(names) <= MOST_NAMED:
        inputs = Schema([ColSpec("double", name) for name in names])
        shown = pd.DataFrame(np.asarray(example, np.float64), columns=list(names))
    kinds = {bool: "boolean", int: "long", float: "double", str: "string"}
    kind = kinds[type(np.array(model.classes).tolist()[0])]  # of both: one may be 0 and the other 0.5
    outputs = Schema([ColSpec(kind, "label"), ColSpec("float", "score")])
    return {
        "python_model": str(CODE),
        "artifacts": {"model": str(graph)},
        "signature": ModelSignature(inputs, outputs),
        "input_example": shown,
        "pip_requirements": [f"{name}=={version(name)}" for name in ("mlflow", "numpy", "onnxruntime")],
        "metadata": {"mmbsgd": {name: model.metadata.get(name) for name in ABOUT}},
    }
