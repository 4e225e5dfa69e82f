"""What objectives and parameters are called in MLflow: metrics with units and without dashes, so that filters need no
quotes, and parameters with the letters that it takes."""

import re

_NAMES = {
    "balanced-accuracy": "balanced_accuracy",
    "roc-auc": "roc_auc",
    "cpu": "cpu_seconds",
    "wall": "wall_seconds",
    "work": "kernel_evaluations",
    "size": "support_vectors",
    "latency": "latency_seconds",
}


def metric_name(objective: str) -> str:
    return _NAMES.get(objective, objective)


def parameter_name(text: str) -> str:
    """A function as a space may call them anything."""
    return re.sub(r"[^\w.\- :/]", "_", text).strip("./ ") or "_"
