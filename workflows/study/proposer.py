"""Who proposes the next parameters: Optuna's samplers, on a study of their own that stays small.

Samplers look at every trial of their study each time they are asked. Here they see a window of it, in memory: the best
trials and the latest. Asking then costs the same after 10,000 trials as after 1,000. The storage that keeps the study
for good is the ledger's business.

TPE finds good trials with few of them but thinks longer the more it sees; NSGA-II always answers at once. `auto` begins
with TPE and changes to NSGA-II for good once asking costs more time than the trials leave.

Good trials of all objectives are mostly fast ones, for there are many ways to be fast and few to be accurate. One time
in SCORE_ALONE TPE is therefore asked for the score alone, on a study of its own that sees all trials. Measured on
validation rows: with 30 trials on PHISHING the most accurate model that is confirmed has 96.57% instead of 96.36% (12
seeds), with 60 on the demo 94.38% instead of 94.24% (5 seeds); one time in two costs too many fast ones. It was chosen
among a dozen variants on these very seeds, so expect less elsewhere.

Costs are shown to samplers as logarithms: twice as fast is worth the same at a second as at a minute.
"""

import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from workflows.errors import StudyError
from workflows.front import front
from workflows.records import Sampler

POPULATION = 30
WINDOWS = {"nsga2": 2 * POPULATION, "random": 1}
"""How many of the latest trials stay in view when it is renewed; all others keep LARGEST_WINDOW."""
LARGEST_WINDOW = 1000
GROWTH = 300
"""How many trials come into view, or as many as the window has, before it is renewed."""
SCORE_ALONE = 4
MOST_COPIES = 5
"""How often a sampler is asked again if it proposes what was tried before."""
_MEMORY = 0.8  # of the running means

Distributions = dict[str, BaseDistribution]
Define = Callable[[optuna.Trial], Mapping[str, Any]]
"""A space as a function: asks the trial for what it likes and returns the parameters."""


@dataclass(frozen=True)
class Proposal:
    """Parameters for one trial."""

    parameters: dict[str, Any]
    """What the trial gets."""
    sampled: dict[str, Any] = field(default_factory=dict)
    """What Optuna chose, which is the same unless the space is a function."""
    distributions: Distributions = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The same for the same parameters."""
        values = self.parameters.items()
        return repr(sorted((name, float(value) if isinstance(value, int | float) else value) for name, value in values))

    @classmethod
    def of(cls, parameters: Mapping[str, Any], distributions: Mapping[str, BaseDistribution]) -> "Proposal":
        return cls(dict(parameters), dict(parameters), {name: distributions[name] for name in parameters})


class Proposer:
    def __init__(self, name: Sampler, seed: int, space: "Distributions | Define", directions: Sequence[str]) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.name, self._seed, self._space = name, seed, space
        self._directions = [StudyDirection[direction.upper()] for direction in directions]
        self._renewals = self._kept = 0  # times that the window was renewed, and trials in it since the last time
        self._studies = self._new_studies()
        self._turn = 0
        self._asked: dict[int, tuple[optuna.Study, int]] = {}  # by the caller's keys: where each was asked for
        self._asking = self._busy = 0.0
        self._told = 0
        self._seen: set[str] = set()

    def propose(self, key: int) -> Proposal:
        """Parameters for the trial that the caller calls `key`."""
        began = time.perf_counter()
        self._turn += 1
        study = self._studies[-1 if self._turn % SCORE_ALONE == 0 else 0]
        for _ in range(MOST_COPIES):
            trial, proposal = self._ask(study)
            if proposal.key not in self._seen:
                break
            study.tell(trial.number, state=TrialState.FAIL)  # NSGA-II breeds copies: there is nothing to learn
        else:
            trial, proposal = self._ask(study)
        self._seen.add(proposal.key)
        self._asked[key] = (study, trial.number)
        self._asking = _mean(self._asking, time.perf_counter() - began)
        return proposal

    def _ask(self, study: optuna.Study) -> tuple[optuna.Trial, Proposal]:
        if not callable(self._space):
            trial = study.ask(self._space)
            return trial, Proposal.of(trial.params, self._space)
        trial = study.ask()
        parameters = self._space(trial)
        if not isinstance(parameters, Mapping):
            raise StudyError(f"the space must return the parameters as a dict, not {parameters!r}")
        plain = {name: getattr(value, "item", lambda value=value: value)() for name, value in parameters.items()}
        return trial, Proposal(plain, trial.params, dict(trial.distributions))

    def told(self, key: int, proposal: Proposal, values: Sequence[float] | None, *, stopped: bool, busy: float) -> None:
        """values: None for a trial that brought none. busy: seconds that it kept its worker."""
        self._busy = _mean(self._busy, busy)
        self._told += 1
        state = TrialState.COMPLETE if values else TrialState.PRUNED if stopped else TrialState.FAIL
        asked, number = self._asked.pop(key, (None, 0))
        for study in self._studies:
            if study is asked:
                study.tell(number, _shown(values, study) if values else None, state=state)
            elif values:
                self._add(study, proposal, values)
        if len(self._trials()) > self._kept + max(self._window, GROWTH) + len(self._asked):
            self._renew()

    def remember(self, trials: Iterable[tuple[Proposal, Sequence[float]]]) -> None:
        """Finished trials of earlier drivers."""
        known = list(trials)
        self._seen |= {proposal.key for proposal, _ in known}
        for proposal, values in _worth_keeping(known, self._window):
            for study in self._studies:
                self._add(study, proposal, values)
        self._kept = len(self._trials())

    def reconsider(self, slots: int) -> bool:
        """Changes to NSGA-II if TPE cannot keep the slots busy; says whether it did."""
        if self.name != "auto" or self._told < POPULATION or self._asking * slots <= self._busy:
            return False
        self.name = "nsga2"
        self._renew()
        return True

    @property
    def _window(self) -> int:
        return WINDOWS.get(self.name, LARGEST_WINDOW)

    def _trials(self) -> list[FrozenTrial]:
        """Those that have all objectives, and those that are running and were asked for with all in mind."""
        return self._studies[0].get_trials(deepcopy=False)

    def _renew(self) -> None:
        """Goes on with a new study of the trials worth keeping in view."""
        complete = [trial for trial in self._trials() if trial.state == TrialState.COMPLETE]
        complete.sort(key=lambda trial: trial.datetime_complete or datetime.min)  # the latest to end, not to begin
        known = [(Proposal({}, trial.params, trial.distributions), _hidden(trial.values)) for trial in complete]
        self._renewals += 1
        self._studies = self._new_studies()
        self.remember(known)

    def _new_studies(self) -> list[optuna.Study]:
        """One for all objectives and, for TPE, one for the score alone."""
        objectives = [len(self._directions), 1] if self.name in ("auto", "tpe") else [len(self._directions)]
        return [
            optuna.create_study(directions=self._directions[:count], sampler=self._sampler(place))
            for place, count in enumerate(objectives)
        ]

    def _add(self, study: optuna.Study, proposal: Proposal, values: Sequence[float]) -> None:
        sampler = study.sampler
        study.add_trial(
            create_trial(
                values=_shown(values, study),
                params=proposal.sampled,
                distributions=proposal.distributions,
                system_attrs=sampler.joining() if isinstance(sampler, _NSGAII) else {},
            )
        )

    def _sampler(self, place: int) -> BaseSampler:
        seed = int(np.random.SeedSequence([self._seed, self._renewals]).generate_state(place + 1)[place])
        if self.name in ("random", "grid"):
            return RandomSampler(seed=seed)
        if self.name == "nsga2":
            known = None if callable(self._space) else self._space
            return _NSGAII(known, population_size=POPULATION, seed=seed)
        return TPESampler(seed=seed)


def grid(space: Distributions) -> list[dict[str, Any]]:
    """Every combination of a space without continuous ranges."""
    values: list[list[Any]] = []
    for name, distribution in space.items():
        if isinstance(distribution, CategoricalDistribution):
            values.append(list(distribution.choices))
        elif isinstance(distribution, IntDistribution):
            values.append(list(range(distribution.low, distribution.high + 1, distribution.step or 1)))
        else:
            raise StudyError(f"a grid needs choices or whole numbers, but {name} is a continuous range: use choices")
    return [dict(zip(space, combination, strict=True)) for combination in itertools.product(*values)]


class _NSGAII(NSGAIISampler):
    """NSGA-II that looks at no trial to find out what it can count along: the space, and which generation it is."""

    def __init__(self, space: Distributions | None, **options: Any) -> None:
        super().__init__(**options)
        self._generation = self._members = 0
        self._known = space and {name: spread for name, spread in sorted(space.items()) if not spread.single()}

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> Distributions:
        return super().infer_relative_search_space(study, trial) if self._known is None else self._known

    def get_trial_generation(self, study: optuna.Study, trial: FrozenTrial) -> int:
        if self._members >= POPULATION:
            self._generation, self._members = self._generation + 1, 0
        study._storage.set_trial_system_attr(trial._trial_id, self._get_generation_key(), self._generation)
        return self._generation

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        if state == TrialState.COMPLETE and trial.system_attrs.get(self._get_generation_key()) == self._generation:
            self._members += 1

    def joining(self) -> dict[str, int]:
        """What marks a trial from elsewhere as a member of the present generation."""
        self._members += 1
        return {self._get_generation_key(): self._generation}


def _worth_keeping(
    trials: list[tuple[Proposal, Sequence[float]]], window: int
) -> list[tuple[Proposal, Sequence[float]]]:
    """The best and the latest, in their order."""
    best = front([values for _, values in trials])
    latest = range(max(len(trials) - window, 0), len(trials))
    return [trials[position] for position in sorted({*best, *latest})]


def _shown(values: Sequence[float], study: optuna.Study) -> list[float]:
    """As many as the study has objectives."""
    return [values[0], *(math.log(max(value, 1e-12)) for value in values[1:])][: len(study.directions)]


def _hidden(values: Sequence[float]) -> list[float]:
    return [values[0], *(math.exp(value) for value in values[1:])]


def _mean(before: float, value: float) -> float:
    return value if before == 0.0 else _MEMORY * before + (1 - _MEMORY) * value
