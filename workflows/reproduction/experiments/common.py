"""What several experiments have in common: the exact model, budgets, and the parameters of the paper's method."""

from collections.abc import Sequence
from typing import Any

from workflows.data.known import KNOWN
from workflows.errors import StudyError
from workflows.reproduction.lab import Lab, Row, product

SHARES = (0.01, 0.05, 0.10, 0.15, 0.25, 0.50)
"""Budgets as shares of the exact model's number of support vectors."""
FEW_SHARES = (0.05, 0.15, 0.50)
ENGINES = ("paper", "fast")


def exact(lab: Lab, on: str) -> Row:
    """The exact model with the paper's C and gamma; it is slow, and is trained once for all experiments."""
    rows = lab.grid("exact", on, [{"method": "svc", "C": KNOWN[on].c, "gamma": KNOWN[on].gamma}])
    if not rows:
        raise StudyError(
            f"the exact model of {on} could not be trained: see 'mmbsgd ui {lab.study('exact', on)}' for why"
        )
    return rows[0]


def budgets(lab: Lab, support_vectors: float) -> list[int]:
    shares = lab.size.some(SHARES, FEW_SHARES)
    return list(dict.fromkeys(max(round(share * support_vectors), 2) for share in shares))


def trials(lab: Lab, on: str, budgets: Sequence[int], mergees: Sequence[int], **others: Sequence[Any]) -> list[Row]:
    """The paper's method with its C and gamma, by both engines unless `others` says which, and every seed."""
    known = KNOWN[on]
    chosen: dict[str, Sequence[Any]] = {
        "seed": range(lab.size.seeds),
        "C": [known.c],
        "gamma": [known.gamma],
        "polish": [0],
        "budget": budgets,
        "engine": ENGINES,
        "mergees": mergees,
    }
    return product(**(chosen | others))


def name_of(on: str) -> str:
    """The set's name as the paper writes it."""
    return on.upper()


def sgd_share(row: Row) -> float:
    """The share of the passes that went into maintenance. The bias, which the paper does without, is left out."""
    return float(row["maintenance_seconds"] / (row["wall"] - row["bias_seconds"]))


def sgd_seconds(row: Row) -> float:
    """CPU time of the passes alone."""
    return float(row["cpu"] * (1 - row["bias_seconds"] / row["wall"]))


def maintenance_seconds(row: Row) -> float:
    """CPU time of maintenance."""
    return sgd_share(row) * sgd_seconds(row)
