"""Budgeted Gaussian-kernel SVMs, trained by multi-merge stochastic gradient descent."""

from mmbsgd._version import __version__
from mmbsgd.errors import InputError, MmbsgdError, ModelFileError
from mmbsgd.estimator import MultiMergeSVC
from mmbsgd.model import BudgetedModel
from mmbsgd.training import Training

__all__ = ["BudgetedModel", "InputError", "MmbsgdError", "ModelFileError", "MultiMergeSVC", "Training", "__version__"]
