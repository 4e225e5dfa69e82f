"""What objectives are called among MLflow's metrics: without dashes, so that a filter needs no quotes; with units."""

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
