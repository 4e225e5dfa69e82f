"""Studies to test the driver with: a small space, made-up outcomes, and what the ledger says of them."""

import math
from collections import Counter
from contextlib import contextmanager

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages.journal import JournalStorage
from optuna.study import StudyDirection
from optuna.trial import TrialState

from workflows.records import TrialResult, TrialSpec
from workflows.study.driver import Driver, Limits
from workflows.study.journal import Journal
from workflows.study.ledger import ATTEMPT, Ledger, origin_of, result_of
from workflows.study.proposer import Proposal, Proposer
from workflows.study.settings import Settings

optuna.logging.set_verbosity(optuna.logging.ERROR)

SPACE = {
    "C": FloatDistribution(0.01, 100.0, log=True),
    "budget": IntDistribution(10, 500, log=True),
    "mergees": IntDistribution(2, 11),
    "engine": CategoricalDistribution(["fast"]),
}
SETTINGS = Settings(data="demo", fingerprint="f00", space="default", cost="work", seed=5)
DIRECTIONS = SETTINGS.directions
END = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "stopped", TrialState.FAIL: "failed"}


def trade_off(spec: TrialSpec) -> TrialResult:
    """A larger budget scores better and costs more; C has a best value, which costs nothing."""
    budget, c = spec.parameters["budget"], spec.parameters["C"]
    score = 0.9 - 1.0 / budget - 0.02 * math.log10(c / 3.0) ** 2
    return complete(spec.number, score, budget * 1e4 / spec.parameters["mergees"], seconds=1.0)


def complete(number, score, work, **options) -> TrialResult:
    costs = {"cpu": work / 1e6, "wall": work / 1e6, "work": work}
    return TrialResult(number, "complete", score=score, costs=costs, counters={"size": 10.0}, **options)


def proposal(**parameters) -> Proposal:
    chosen = {"C": 1.0, "budget": 100, "mergees": 3, "engine": "fast"} | parameters
    return Proposal.of(chosen, SPACE)


@contextmanager
def ledger_in(path):
    """The ledger of the one study in this journal, made if there is none."""
    with Journal(path) as journal:
        yield ledger_of(JournalStorage(journal), journal.flush)


def ledger_of(storage, flush=lambda: None) -> Ledger:
    try:
        study = storage.get_study_id_from_name("study")
    except KeyError:
        study = storage.create_new_study([StudyDirection.MAXIMIZE, StudyDirection.MINIMIZE], "study")
    return Ledger(storage, study, flush=flush)


def driver_of(ledger, backend, sampler="random", **options) -> Driver:
    options = {"limits": Limits(trials=20)} | options
    proposer = Proposer(sampler, 1 + ledger.next_number, SPACE, DIRECTIONS)
    return Driver(ledger, proposer, backend, SETTINGS.spec, SETTINGS.objectives, **options)


def ends(ledger):
    """How every parameter set ended, by the number of its first trial; each has one end that counts."""
    found, attempts = {}, Counter()
    for trial in ledger.trials():
        assert trial.state in END, f"trial {trial.number} has no end"
        origin = origin_of(trial)
        attempts[origin] += 1
        assert found.get(origin, "failed") == "failed", "tried again although it had succeeded"
        assert result_of(trial).state == END[trial.state]
        assert (trial.values is not None) == (trial.state == TrialState.COMPLETE)
        assert trial.user_attrs[ATTEMPT] <= attempts[origin]
        found[origin] = END[trial.state]
    return found


def counts(progress):
    return progress.complete, progress.stopped, progress.failed
