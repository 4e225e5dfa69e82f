"""This project beside what a user would pick instead: every method tuned with as many trials by the same study code.

What the searches find best on validation rows is run again there with fresh seeds. The fronts of the means are then
trained on all training rows and scored on the test rows: these are the figures that `peers_compared` compares.
"""

from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from search_spaces import load
from workflows.data.known import KNOWN
from workflows.front import front
from workflows.peers import METHODS, OURS
from workflows.reproduction.lab import Lab, Row
from workflows.reproduction.results import grouped, mean
from workflows.study.proposer import Distributions

LAYERS = 2
"""How many fronts of single runs are run again."""


def run(lab: Lab, sets: tuple[str, ...]) -> list[Row]:
    rows = []
    for on in sets:
        tried = [row for method in METHODS for row in _search(lab, on, method)]
        again = lab.grid("peers-again", on, _seeded(lab, on, _candidates(tried)), use="choice")
        same = [row for row in tried if not METHODS[row["method"]].random]  # however often they are run
        wanted = _seeded(lab, on, _chosen(on, again + same))
        tested = lab.grid("peers", on, wanted, undisturbed=True)
        best = lab.grid("peers-corner", on, _seeded(lab, on, [corner(on)]), undisturbed=True)
        roles = {"tried": tried, "again": again, "tested": tested, "corner": best}
        size = {"rows": lab.sets.trained_rows(on)}
        rows += [row | size | {"role": role} for role, some in roles.items() for row in some]
    return rows


def _search(lab: Lab, on: str, method: str) -> list[Row]:
    space = spaces(on)[method] | {"method": CategoricalDistribution([method])}
    return lab.search(f"peers-{method}", on, space, lab.size.peer_trials)


def _candidates(tried: list[Row]) -> list[Row]:
    """Of each method that is random: the front, and what would be the front without it. A run may be a lucky one."""
    found = []
    for (method,), rows in grouped(tried, "method").items():
        for _ in range(LAYERS if METHODS[method].random else 0):
            best = front([(row["accuracy"], row["cpu"]) for row in rows])
            found += [rows[place] for place in best]
            rows = [row for place, row in enumerate(rows) if place not in best]
    return found


def _chosen(on: str, again: list[Row]) -> list[Row]:
    """Of each method: the front of the means over fresh seeds."""
    found = []
    for mine in grouped(again, "method").values():
        models = list(grouped(mine, *parameters_of_all(on)).values())
        best = front([(mean(runs, "accuracy").value, mean(runs, "cpu").value) for runs in models])
        found += [models[place][0] for place in best]
    return found


def _seeded(lab: Lab, on: str, rows: list[Row]) -> list[Row]:
    """Their parameters with every seed, or with one where chance has no part; methods take turns."""
    wanted = []
    for row in rows:
        method = METHODS[row["method"]]
        parameters = {name: row[name] for name in ("method", *spaces(on)[row["method"]])}
        wanted += [parameters | {"seed": seed} for seed in range(lab.size.seeds if method.random else 1)]
    return sorted(wanted, key=lambda parameters: parameters["seed"])


def corner(on: str) -> Row:
    """What our space holds that should be most accurate, whatever it costs: it tells a search that misses from a
    solver that cannot."""
    space: dict[str, Any] = spaces(on)[OURS]
    most = {"budget": space["budget"].high, "epochs": space["epochs"].high, "mergees": space["mergees"].low}
    return {"method": OURS, "C": KNOWN[on].c, "gamma": KNOWN[on].gamma, "polish": max(space["polish"].choices)} | most


def spaces(on: str) -> dict[str, Distributions]:
    """What each method is tuned over. All kernels have the ranges of C and gamma that this project's own space has for
    the set, and as many landmarks or frequencies as it has support vectors."""
    ours = load(on).distributions({})
    c, gamma, width = ours["C"], ours["gamma"], ours["budget"]
    epochs, tolerance = IntDistribution(1, 20, log=True), FloatDistribution(1e-4, 1e-1, log=True)
    features: dict[str, Any] = {"C": c, "gamma": gamma, "components": width}
    found: dict[str, dict[str, BaseDistribution]] = {
        OURS: ours,
        "svc": {"C": c, "gamma": gamma},
        "linear-svc": {"C": FloatDistribution(1e-3, 1e2, log=True), "tol": tolerance},
        "nystroem-sgd": features | {"epochs": epochs},
        "nystroem-svm": features | {"tol": tolerance},
        "fourier-sgd": features | {"epochs": epochs},
        "fourier-svm": features | {"tol": tolerance},
        "boosted-trees": {
            "trees": IntDistribution(5, 300, log=True),
            "rate": FloatDistribution(0.03, 0.5, log=True),
            "leaves": IntDistribution(4, 63, log=True),
            "l2": FloatDistribution(1e-6, 10.0, log=True),
        },
    }
    return found


def parameters_of_all(on: str) -> list[str]:
    """Of all parameters that some method has."""
    return sorted({name for space in spaces(on).values() for name in space})
