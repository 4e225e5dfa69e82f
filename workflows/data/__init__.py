"""Data on its way to the solver: sources of any kind become Arrow partitions, which trials map into memory."""

from workflows.data.dataset import PreparedData, Split
from workflows.data.prepare import prepare
from workflows.data.request import Request

__all__ = ["PreparedData", "Request", "Split", "prepare"]
