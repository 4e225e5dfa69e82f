"""What a study finds with proposals for the score alone, and without them: the same solver, space, rows and seeds.

    python benchmarks/sampler.py [--data demo] [--trials 30] [--seeds 12] [--first-seed 0]

Trials run one after the other in this process. The first two fronts of a search are run again with three fresh seeds,
as single runs may be lucky ones; what is shown are means of these, on validation rows. Known sets are got first: mmbsgd
data get phishing --home benchmarks/results.
"""

import argparse
import math
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from search_spaces import load
from workflows.data import PreparedData
from workflows.data.resolve import open_data
from workflows.data.sources import DEMO_ROWS
from workflows.front import front, hypervolume
from workflows.records import TrialSpec
from workflows.study import proposer
from workflows.study.facts import default_space, facts_of
from workflows.study.proposer import Distributions, Proposer
from workflows.study.settings import Settings
from workflows.trial import run_trial
from workflows.workplace import warm_up

HOME = Path(__file__).parent / "results"
AGAIN, NEVER = 3, 10**9
SLOWEST, FASTEST = 3.0, 1e-3
"""Seconds between which the hypervolume is taken, of logarithms of time and of the error beside one half."""
Point = tuple[float, float]


@contextmanager
def score_alone(every: int) -> Iterator[None]:
    before, proposer.SCORE_ALONE = proposer.SCORE_ALONE, every
    try:
        yield
    finally:
        proposer.SCORE_ALONE = before


def found(data: PreparedData, space: Distributions, trials: int, seed: int) -> tuple[float, float]:
    """The best accuracy that was confirmed, and the hypervolume of all that was."""
    asking, points, tried = Proposer("tpe", seed, space, ("maximize", "minimize")), list[Point](), []
    for number in range(trials):
        proposal = asking.propose(number)
        result = run_trial(TrialSpec(number, proposal.parameters, seed=1000 * seed + number), data)
        points.append((result.score, result.costs["cpu"]))
        tried.append(proposal.parameters)
        asking.told(number, proposal, points[-1], stopped=False, busy=1.0)
    left, chosen = list(range(trials)), []
    for _ in range(2):
        best = [left[place] for place in front([points[number] for number in left])]
        chosen, left = chosen + best, [number for number in left if number not in best]
    means = []
    for number in chosen:
        runs = [run_trial(TrialSpec(0, tried[number], seed=2**30 + again), data) for again in range(AGAIN)]
        means.append(
            tuple(statistics.fmean(one) for one in zip(*((r.score, r.costs["cpu"]) for r in runs), strict=True))
        )
    shown = [(math.log(0.5 / max(1 - score, 1e-5)), math.log(cost / FASTEST)) for score, cost in means]
    return max(score for score, _ in means), hypervolume(shown, (0.0, math.log(SLOWEST / FASTEST)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="demo")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--first-seed", type=int, default=0)
    asked = parser.parse_args()
    data = open_data(asked.data, HOME, lambda *_: None, rows=DEMO_ROWS)
    named = load(default_space(asked.data))
    settings = Settings(asked.data, data.manifest.fingerprint, named.name)
    space = named.distributions(facts_of(named, asked.data, data, settings))
    warm_up()
    variants = {"all objectives": NEVER, f"one in {proposer.SCORE_ALONE} for the score": proposer.SCORE_ALONE}
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    console = Console()
    for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
        for name, every in variants.items():
            with score_alone(every):
                results[name].append(found(data, space, asked.trials, seed))
            console.print(f"seed {seed}, {name}: {100 * results[name][-1][0]:.2f}%, {results[name][-1][1]:.2f}")
    table = Table("", "best accuracy, %", "worst seed, %", "hypervolume")
    for name, pairs in results.items():
        scores, volumes = ([pair[place] for pair in pairs] for place in (0, 1))
        table.add_row(
            name,
            f"{100 * statistics.fmean(scores):.2f}",
            f"{100 * min(scores):.2f}",
            f"{statistics.fmean(volumes):.2f}",
        )
    without, with_it = results.values()
    for place, unit, digits in ((0, 100.0, 3), (1, 1.0, 3)):
        gains = [unit * (after[place] - before[place]) for before, after in zip(without, with_it, strict=True)]
        error = statistics.stdev(gains) / len(gains) ** 0.5
        console.print(f"gain: {statistics.fmean(gains):+.{digits}f}, standard error {error:.{digits}f}")
    console.print(table)


if __name__ == "__main__":
    main()
