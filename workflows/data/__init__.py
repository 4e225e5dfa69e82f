"""Data on its way to the solver: sources of any kind become Arrow partitions, which trials map into memory."""

from workflows.data.dataset import PreparedData, Split
from workflows.data.plan import Request
from workflows.data.prepare import prepare

__all__ = ["PreparedData", "Request", "Split", "prepare"]
