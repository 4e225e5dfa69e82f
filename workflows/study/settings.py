"""What makes a study what it is: fixed when it begins, kept with it, and compared when somebody goes on with it."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, distribution_to_json, json_to_distribution

from workflows.errors import BegunOtherwise, StudyError
from workflows.records import Bar, Cost, Metric, Third, TrialResult, TrialSpec
from workflows.study.ledger import Ledger
from workflows.study.proposer import Proposal

KEY = "settings"
SHORTEST = {"cpu": 1.0, "wall": 1.0, "work": 2.5e8}
"""Below this cost a trial is never stopped early: a second, or about as many kernel evaluations as one has time for."""


@dataclass(frozen=True)
class Settings:
    data: str
    """The data as the user named it."""
    fingerprint: str
    """Of the prepared data."""
    space: str
    metric: Metric = "accuracy"
    cost: Cost = "cpu"
    third: Third = "none"
    folds: int = 0
    repeats: int = 1
    seed: int = 0
    splits: str = ""
    """Which splits are trained on and which are scored on, as in 'train+validation:test'; several rounds are separated
    by commas. Empty: 'train:validation', or every fold in turn."""
    trace: bool = False
    """Whether trials keep the theorem's terms along the way."""

    def objectives(self, result: TrialResult) -> tuple[float, ...]:
        """Score, cost and what else is asked for."""
        values = (result.score, result.costs[self.cost])
        return values if self.third == "none" else (*values, result.counters[self.third])

    @property
    def directions(self) -> list[str]:
        return ["maximize", "minimize"] + ([] if self.third == "none" else ["minimize"])

    @property
    def names(self) -> list[str]:
        """Of the objectives."""
        return [self.metric, self.cost] + ([] if self.third == "none" else [self.third])

    @property
    def first_bar(self) -> Bar:
        """Where early stopping begins, when nothing is known yet."""
        return Bar(shortest=SHORTEST[self.cost])

    def spec(self, origin: int, proposal: Proposal, bar: Bar | None) -> TrialSpec:
        """The trial of a parameter set; another try of it is the same trial."""
        return TrialSpec(
            number=origin,
            parameters=proposal.parameters,
            seed=self.seed_of(origin, 0),
            metric=self.metric,
            cost=self.cost,
            repeats=self.repeats,
            folds=self.rounds_of_splits,
            bar=bar,
            trace=self.trace,
        )

    def seed_of(self, origin: int, run: int) -> int:
        """run: 0 in the search; 1, 2, … when it is confirmed."""
        return int(np.random.SeedSequence([self.seed, origin, run]).generate_state(1)[0] >> 1)

    @property
    def rounds_of_splits(self) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
        if self.splits:
            rounds = [tuple(tuple(side.split("+")) for side in each.split(":")) for each in self.splits.split(",")]
            return tuple((trained_on, scored_on) for trained_on, scored_on in rounds)
        if not self.folds:
            return ((("train",), ("validation",)),)
        names = [f"fold-{fold}" for fold in range(self.folds)]
        return tuple((tuple(other for other in names if other != name), (name,)) for name in names)

    @property
    def read(self) -> frozenset[str]:
        """The splits that trials see."""
        return frozenset(name for each in self.rounds_of_splits for side in each for name in side)

    @property
    def scored_on(self) -> str:
        """In words."""
        if self.folds:
            return f"mean of {self.folds} folds"
        return f"on {' and '.join(dict.fromkeys(name for each in self.rounds_of_splits for name in each[1]))} rows"


def agree(ledger: Ledger, settings: Settings, space: dict[str, BaseDistribution], study: str) -> None:
    """Keeps the settings of a new study; refuses to go on with one that was begun with others."""
    mine = asdict(settings) | {"distributions": {name: distribution_to_json(spread) for name, spread in space.items()}}
    kept = ledger.notes().get(KEY)
    if kept is None:
        ledger.note(KEY, mine)
        return
    kept = {"splits": Settings.splits, "trace": Settings.trace} | kept  # which studies once did not have
    only_named = ("data", "space") if space else ("data",)  # a function is known by its name alone
    differing = [name for name in mine if name not in only_named and kept.get(name) != mine[name]]
    if differing:
        said = ", ".join(_difference(name, kept, mine) for name in differing)
        raise BegunOtherwise(
            f"the study {study!r} was begun otherwise: {said}; ask for the same to go on with it, or choose another "
            "--study"
        )


def settings_of(notes: dict[str, Any], study: str) -> tuple[Settings, dict[str, BaseDistribution]]:
    """The settings that a study was begun with."""
    if KEY not in notes:
        raise StudyError(f"the study {study!r} was not made by mmbsgd tune")
    content = dict(notes[KEY])
    space = {name: json_to_distribution(text) for name, text in content.pop("distributions").items()}
    return Settings(**{name: content[name] for name in Settings.__dataclass_fields__ if name in content}), space


def _difference(name: str, kept: dict[str, Any], mine: dict[str, Any]) -> str:
    if name == "fingerprint":
        return "on other data"
    if name == "splits":
        return "with other splits to train and score on"
    if name == "distributions":
        return "with other ranges in its search space"
    return f"with {name} {kept.get(name)} instead of {mine[name]}"
