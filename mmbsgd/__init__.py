"""Budgeted kernel SVMs trained by multi-merge stochastic gradient descent.

Names are imported when they are first used: whoever needs the data formats alone does not wait for scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mmbsgd._version import __version__

if TYPE_CHECKING:
    from mmbsgd.errors import InputError, MmbsgdError, ModelFileError
    from mmbsgd.estimator import MultiMergeSVC
    from mmbsgd.model import BudgetedModel
    from mmbsgd.training import Training

_HOMES = {
    "BudgetedModel": "model",
    "InputError": "errors",
    "MmbsgdError": "errors",
    "ModelFileError": "errors",
    "MultiMergeSVC": "estimator",
    "Training": "training",
}

__all__ = [
    "BudgetedModel",
    "InputError",
    "MmbsgdError",
    "ModelFileError",
    "MultiMergeSVC",
    "Training",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mmbsgd' has no attribute {name!r}")
    value = getattr(import_module(f"mmbsgd.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
