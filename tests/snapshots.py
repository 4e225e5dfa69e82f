"""Studies that nobody ran, as the report sees them: plausible, of any size, and the same every time."""

import math
import random
from dataclasses import replace

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from workflows.front import front
from workflows.records import TrialResult
from workflows.study.confirmation import Member
from workflows.study.settings import Settings
from workflows.study.snapshot import Ended, Snapshot

SPACE = {
    "C": FloatDistribution(0.01, 100.0, log=True),
    "gamma": FloatDistribution(0.3, 300.0, log=True),
    "budget": IntDistribution(10, 500, log=True),
    "mergees": IntDistribution(2, 11),
    "epochs": IntDistribution(1, 5),
}
SETTINGS = Settings(data="made-up", fingerprint="xxh3:f00", space="default", cost="cpu", seed=5)
START = 1_790_000_000.0
WORKERS = 4


def parameters_of(dice):
    return {
        "C": 10 ** dice.uniform(-2, 2),
        "gamma": 0.3 * 10 ** dice.uniform(0, 3),
        "budget": round(10 ** dice.uniform(1, math.log10(500))),
        "mergees": dice.randint(2, 11),
        "epochs": dice.randint(1, 5),
    }


def grid_of(dice):
    return {"budget": dice.choice([20, 100, 200, 300]), "mergees": dice.choice([2, 3, 5, 10]), "C": 1.0, "gamma": 64.0}


def ended(number, parameters, dice, settings=SETTINGS, state="complete", reason=""):
    budget, mergees = number_or(parameters.get("budget"), 100), number_or(parameters.get("mergees"), 3)
    epochs, gamma = number_or(parameters.get("epochs"), 1), number_or(parameters.get("gamma"), 30.0)
    score = 0.945 - 0.06 * (math.log10(gamma) - 1.8) ** 2 - 0.6 / budget - 0.001 * mergees + 0.002 * epochs
    score = max(score + dice.gauss(0, 0.004), 0.4)
    share = 1 / mergees
    cpu = 2e-4 * budget * epochs * (0.5 + share) * math.exp(dice.gauss(0, 0.1))
    result = TrialResult(
        number,
        state,
        score=math.nan if state == "failed" else score,
        costs={} if state == "failed" else {"cpu": cpu, "wall": 1.1 * cpu, "work": round(1e9 * cpu)},
        counters={}
        if state == "failed"
        else {"maintenance_share": share, "size": 0.9 * budget, "latency": 1e-8 * budget},
        reason=reason or {"complete": "", "stopped": "it could only end dominated", "failed": "out of memory"}[state],
        node=f"10.0.0.{1 + number % 2}:{4000 + number % WORKERS}",
        seconds=1.0 + cpu,
    )
    end = START + 1.2 * (number // WORKERS + 1) + 0.01 * (number % WORKERS)
    values = settings.objectives(result) if state == "complete" else ()
    return Ended(number, number, 1, parameters, state, values, result, end - result.seconds, end)


def number_or(value, otherwise):
    return value if isinstance(value, int | float) and value else otherwise


def snapshot_of(trials, settings=SETTINGS, space=None, *, study="made-up", confirm=3, **others):
    """confirm: runs of each member; if negative, none of the last half of them; 1 leaves no deviation."""
    complete = [trial for trial in trials if trial.state == "complete"]
    best = [complete[position] for position in front([trial.values for trial in complete])]
    members = []
    for place, trial in enumerate(best):
        member = Member(
            trial.number, trial.parameters, trial.values, found=trial.values, counters=trial.result.counters
        )
        if confirm > 0 or (confirm < 0 and place < len(best) / 2):
            runs = abs(confirm)
            spread = [
                math.nan if runs == 1 else share * value
                for share, value in zip((0.002, 0.08, 0.01), trial.values, strict=False)
            ]
            member = replace(member, deviations=tuple(spread), runs=runs)
        members.append(member)
    return Snapshot(
        study=study,
        identity="made-up-1",
        settings=settings,
        space=SPACE if space is None else space,
        trials=tuple(sorted(trials, key=lambda trial: (trial.ended, trial.number))),
        running=0,
        front=tuple(members),
        environment={"version.mmbsgd": "1.0", "machine.host": "here"},
        **others,
    )


def study_of(count, settings=SETTINGS, *, choose=parameters_of, stopped=0.1, failed=0.03, **options):
    dice = random.Random(count)
    trials = []
    for number in range(count):
        chance = dice.random()
        state = "failed" if chance < failed else "stopped" if chance < failed + stopped else "complete"
        trials.append(ended(number, choose(dice), dice, settings, state))
    return snapshot_of(trials, settings, **options)


def odd_of(dice):
    """What a function may return: categories, None, truth values, nothing that the paper knows."""
    return {
        "engine": dice.choice(["fast", "paper"]),
        "limit": dice.choice([None, 3, 0.5]),
        "bias": dice.choice([True, False]),
        "<b>strength</b>": 10 ** dice.uniform(-1, 3),
    }


CASES = {
    "nothing": lambda: snapshot_of([]),
    "one": lambda: study_of(1, stopped=0, failed=0),
    "two": lambda: study_of(2, stopped=0, failed=0),
    "all failed": lambda: study_of(9, failed=1.0),
    "all stopped": lambda: study_of(9, failed=0.0, stopped=1.0),
    "few": lambda: study_of(12),
    "usual": lambda: study_of(120),
    "grid": lambda: study_of(64, choose=grid_of, stopped=0, failed=0, space={}),
    "third size": lambda: study_of(90, replace(SETTINGS, third="size")),
    "third latency": lambda: study_of(90, replace(SETTINGS, third="latency")),
    "f1 and work": lambda: study_of(60, replace(SETTINGS, metric="f1", cost="work")),
    "wall and folds": lambda: study_of(60, replace(SETTINGS, cost="wall", folds=5, repeats=2)),
    "odd parameters": lambda: study_of(60, choose=odd_of, space={}),
    "no parameters": lambda: study_of(30, choose=lambda dice: {}, space={}),
    "one parameter": lambda: study_of(40, choose=lambda dice: {"C": dice.uniform(1, 2)}, space={}),
    "only gamma and mergees": lambda: study_of(
        40, choose=lambda dice: {"gamma": 10 ** dice.uniform(0, 2), "mergees": dice.choice([2, 3])}, space={}
    ),
    "budgets by name": lambda: study_of(40, choose=lambda dice: {"budget": dice.choice(["small", None, 7])}, space={}),
    "sometimes there": lambda: study_of(
        40,
        choose=lambda dice: parameters_of(dice) | {"gamma": 1.0} if dice.random() < 0.5 else {"budget": 50},
        space={},
    ),
    "fixed": lambda: study_of(
        40,
        choose=lambda dice: {"C": 1.0, "gamma": 2.0, "budget": 100, "mergees": 2, "engine": "fast"},
        space={"engine": CategoricalDistribution(["fast"])},
    ),
    "unconfirmed": lambda: study_of(60, confirm=0),
    "confirmed once": lambda: study_of(60, confirm=1),
    "partly confirmed": lambda: study_of(60, confirm=-3),
    "all alike": lambda: alike(30),
    "costs nothing": lambda: alike(30, cost=0.0),
    "interrupted": lambda: interrupted(),
    "many workers": lambda: many_workers(),
}


def alike(count, cost=0.5):
    dice = random.Random(1)
    made = ended(0, parameters_of(dice), dice)
    result = replace(made.result, costs=dict.fromkeys(made.result.costs, cost))
    trials = [
        replace(
            made,
            number=number,
            parameters=parameters_of(dice),
            values=(0.9, cost),
            result=result,
            ended=made.ended + number,
        )
        for number in range(count)
    ]
    return snapshot_of(trials)


def interrupted():
    """Half of it was done a week later, by other processes, after a driver had died."""
    first = study_of(40)
    later = [
        replace(
            trial,
            began=trial.began + 6e5,
            ended=trial.ended + 6e5,
            result=replace(trial.result, node=trial.result.node + "9"),
        )
        if trial.number >= 20
        else trial
        for trial in first.trials
    ]
    dead = replace(
        later[3],
        number=40,
        state="failed",
        values=(),
        result=TrialResult(40, "failed", reason="its driver died"),
        began=later[3].began,
        ended=START + 6e5,
    )
    return snapshot_of([*later, dead], confirm=-2)


def many_workers():
    made = study_of(200)
    trials = [
        replace(
            trial,
            result=replace(trial.result, node=f"a-rather-long-host-name-{trial.number % 3}.example.org:{trial.number}"),
        )
        for trial in made.trials
    ]
    return snapshot_of(trials)
