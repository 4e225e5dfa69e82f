"""What MLflow runs when it serves an exported model. A copy of this file travels with the model, so that it needs
nothing but MLflow, NumPy and onnxruntime."""

from typing import Any

import mlflow
import numpy as np
import onnxruntime
import pandas as pd


class BudgetedSVM(mlflow.pyfunc.PythonModel):
    """Raw rows in the order of the signature; out come `label`, in the training data's own values, and `score`."""

    def load_context(self, context: Any) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            context.artifacts["model"], options, providers=["CPUExecutionProvider"]
        )

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]  # hints are a schema to MLflow
        rows = np.ascontiguousarray(model_input, dtype=np.float32)
        label, score = self._session.run(["label", "score"], {"rows": rows})
        return pd.DataFrame({"label": label, "score": score})


mlflow.models.set_model(BudgetedSVM())
