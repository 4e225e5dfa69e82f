"""The study: Optuna proposes, a backend runs, the ledger keeps, and a Pareto front comes out."""

from workflows.study.job import Job, Ready, ready, run
from workflows.study.tuning import Outcome, Watcher

__all__ = ["Job", "Outcome", "Ready", "Watcher", "ready", "run"]
