"""What MLflow runs when it serves an exported model. A copy of this file travels with the model, so that it needs
nothing but MLflow, NumPy and onnxruntime."""

from typing import Any

import mlflow
import numpy as np
import onnxruntime
import pandas as pd
from mlflow.exceptions import MlflowException


class BudgetedSVM(mlflow.pyfunc.PythonModel):
    """Raw rows in the order of the signature; out come `label`, in the training data's own values, and `score`. Values
    that are missing or not finite are an error: a server answers 400."""

    def load_context(self, context: Any) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            context.artifacts["model"], options, providers=["CPUExecutionProvider"]
        )

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]  # hints are a schema to MLflow
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray(model_input, dtype=np.float32)
        wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(wrong):
            raise MlflowException.invalid_parameter_value(
                f"row {wrong[0] + 1} has a value that is missing or no finite number that float32 can hold: remove or "
                "replace it"
            )
        label, score = self._session.run(["label", "score"], {"rows": rows})
        return pd.DataFrame({"label": label, "score": score})


mlflow.models.set_model(BudgetedSVM())
