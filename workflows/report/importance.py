"""How much each parameter has to do with an objective.

PED-ANOVA (Watanabe, Bansal and Hutter, 2023) asks how differently the best tenth of the trials is spread over a
parameter's range than all of them. Only ranks count, so that hopeless trials say no more than bad ones, and 2,000
trials take a tenth of a second, where fANOVA takes minutes.
"""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, create_trial

from workflows.report.classes import number
from workflows.study.snapshot import Ended, Snapshot

FEWEST = 20
"""Complete trials below which a share would be chance."""
_WIDE = 30.0
"""A range of numbers from the least to so many times as much is looked at on a log scale."""


def varying(trials: Sequence[Ended]) -> list[str]:
    """Parameters that all of these trials have, and not all the same."""
    names = dict.fromkeys(name for trial in trials for name in trial.parameters)
    return [
        name
        for name in names
        if all(name in trial.parameters for trial in trials)
        and len({repr(trial.parameters[name]) for trial in trials}) > 1
    ]


def importances(snapshot: Snapshot) -> list[dict[str, float]]:
    """For each objective the shares of the parameters, which sum to one; empty where all trials are equally good."""
    complete = snapshot.complete
    names = varying(complete)
    spreads = {
        name: _spread([trial.parameters[name] for trial in complete], snapshot.space.get(name)) for name in names
    }
    signs = [-1.0 if direction == "maximize" else 1.0 for direction in snapshot.settings.directions]
    # Hand over losses: the evaluator takes low for good.
    trials = [
        _trial(trial, spreads, [sign * value for sign, value in zip(signs, trial.values, strict=True)])
        for trial in complete
    ]
    loud = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(directions=["minimize"] * len(signs))
        study.add_trials(trials)
    finally:
        optuna.logging.set_verbosity(loud)
    return [_shares(study, trials, place) for place in range(len(signs))]


def _shares(study: optuna.Study, trials: Sequence[FrozenTrial], place: int) -> dict[str, float]:
    if len({trial.values[place] for trial in trials}) < 2:
        return {}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PedAnovaImportanceEvaluator computes the importances")
        warnings.filterwarnings("ignore", message="Target and region quantiles select the same set of trials")
        found = get_param_importances(
            study, evaluator=PedAnovaImportanceEvaluator(), target=lambda trial: trial.values[place]
        )
    shares = {name: float(share) for name, share in found.items()}
    return shares if all(map(math.isfinite, shares.values())) and sum(shares.values()) > 0 else {}


def _trial(trial: Ended, spreads: dict[str, BaseDistribution], values: list[float]) -> FrozenTrial:
    chosen = {name: _kept(trial.parameters[name], spread) for name, spread in spreads.items()}
    return create_trial(params=chosen, distributions=spreads, values=values)


def _spread(values: Sequence[Any], known: BaseDistribution | None) -> BaseDistribution:
    """The space's own, if it is a range of numbers that holds them all; else what the values show."""
    if isinstance(known, IntDistribution | FloatDistribution) and all(
        known.low <= value <= known.high for value in values
    ):
        return known
    numbers = [number(value) for value in values]
    if all(map(math.isfinite, numbers)) and len(set(numbers)) > 4:
        low, high = min(numbers), max(numbers)
        return FloatDistribution(low, high, log=low > 0 and high / low >= _WIDE)
    return CategoricalDistribution(sorted({repr(value) for value in values}))


def _kept(value: Any, spread: BaseDistribution) -> Any:
    if isinstance(spread, CategoricalDistribution):
        return repr(value)
    return value if isinstance(spread, IntDistribution) else float(value)
