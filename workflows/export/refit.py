"""The chosen parameters, trained again on all rows but the test rows, with several seeds; one of the models is kept.

SGD's last iterate depends on the order of the rows. The median model is what one can expect of these parameters: it is
neither luck nor bad luck, and no row that it did not see had a say in it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmbsgd import BudgetedModel, MultiMergeSVC, Training
from workflows.data import PreparedData
from workflows.data.manifest import HELD_OUT
from workflows.errors import StudyError
from workflows.records import Keep, Metric
from workflows.trial import score_of

SEEDS = 5
VALIDATION, TEST = "validation", "test"
Report = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Refitted:
    model: BudgetedModel
    """It takes rows as the prepared ones are."""
    training: Training
    scores: tuple[float, ...]
    """Of all seeds, on the rows that decided."""
    position: int
    """Of the model that was kept, among them."""
    trained_on: tuple[str, ...]
    decided_on: tuple[str, ...]
    rows: int
    keep: Keep


def refit(
    data: PreparedData,
    parameters: Mapping[str, Any],
    metric: Metric,
    *,
    keep: Keep = "median",
    seeds: int = SEEDS,
    seed: int = 0,
    report: Report = lambda stage, done, total: None,
) -> Refitted:
    splits = [name for name in data.manifest.splits if name != TEST]
    trained_on, decided_on = splits, splits
    if keep == "best-validation":
        if VALIDATION not in splits:
            raise StudyError("--keep best-validation needs a validation split, this data has folds: keep the median")
        trained_on, decided_on = [name for name in splits if name not in HELD_OUT], [VALIDATION]
    training, deciding = data.split(*trained_on), data.split(*decided_on)
    models, scores = [], []
    for number in range(seeds):
        report(f"training on {training.rows:,} rows", number, seeds)
        state = int(np.random.SeedSequence([seed, number]).generate_state(1)[0] >> 1)
        estimator = MultiMergeSVC(**parameters, random_state=state).fit_portions(training)
        models.append((estimator.model_, estimator.training_))
        scores.append(score_of(metric, *deciding.decide(estimator.model_)))
    report(f"training on {training.rows:,} rows", seeds, seeds)
    order = np.argsort(np.nan_to_num(scores, nan=-np.inf), kind="stable")
    position = int(order[-1] if keep == "best-validation" else order[(seeds - 1) // 2])
    if not np.isfinite(scores[position]):
        raise StudyError(
            f"these parameters give no finite decision values on all rows: {dict(parameters)}; choose others"
        )
    model, report_of_it = models[position]
    return Refitted(
        model,
        report_of_it,
        tuple(scores),
        position,
        tuple(trained_on),
        tuple(decided_on),
        training.rows,
        keep,
    )
