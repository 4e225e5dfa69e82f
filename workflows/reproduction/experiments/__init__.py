"""The experiments in the order of the page, each a module that knows its trials, its tables and its pictures."""

from collections.abc import Callable
from dataclasses import dataclass

from workflows.reproduction.experiments import (
    budget_and_mergees,
    datasets,
    merge_share,
    merge_strategies,
    parameter_study,
    pareto,
    peers,
    peers_compared,
    strategies,
    theorem,
)
from workflows.reproduction.lab import Lab, Row
from workflows.reproduction.layout import Part
from workflows.reproduction.sets import SETS


@dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    about: str
    """What it asks, and where the paper has it."""
    sets: tuple[str, ...]
    minutes: tuple[float, float]
    """That it took on two cores, in full and quickly: for telling how much time is left."""
    run: Callable[[Lab, tuple[str, ...]], list[Row]]
    section: Callable[[list[Row]], list[Part]]


_ALL = (
    Experiment(
        "datasets",
        "The data sets",
        "The paper's table 2: data sets, tuned C and γ, and the exact model.",
        SETS,
        (9.0, 0.7),
        datasets.run,
        datasets.section,
    ),
    Experiment(
        "merge-strategies",
        "Merging three vectors: in sequence or at once?",
        "The paper's table 1: M = 3 on ADULT, cascade (MM-BSGD) against gradient descent (MM-GD).",
        ("adult",),
        (3.0, 0.1),
        merge_strategies.run,
        merge_strategies.section,
    ),
    Experiment(
        "merge-share",
        "How much time does merging take?",
        "The paper's figure 1: the share of training time spent on merging, over M.",
        ("adult", "ijcnn"),
        (3.0, 0.1),
        merge_share.run,
        merge_share.section,
    ),
    Experiment(
        "budget-and-mergees",
        "Accuracy and time over the budget",
        "The paper's figures 2 and 3: budgets of 1 to 50% of the exact model's support vectors, M = 2 to 5.",
        SETS,
        (15.0, 0.4),
        budget_and_mergees.run,
        budget_and_mergees.section,
    ),
    Experiment(
        "pareto",
        "Which trade-offs are worth having?",
        "The paper's figure 4: accuracy over training time on ADULT, M = 2 to 11.",
        ("adult",),
        (8.0, 0.1),
        pareto.run,
        pareto.section,
    ),
    Experiment(
        "parameter-study",
        "Does it depend on C and γ?",
        "The paper's figure 5: nine settings of C and γ on PHISHING.",
        ("phishing",),
        (5.0, 0.3),
        parameter_study.run,
        parameter_study.section,
    ),
    Experiment(
        "theorem",
        "Theorem 1, measured",
        "The paper takes it from Wang, Crammer and Vucetic (2012) and measures none of its terms.",
        ("adult", "ijcnn"),
        (0.5, 0.1),
        theorem.run,
        theorem.section,
    ),
    Experiment(
        "strategies",
        "Removal, projection, merging",
        "What the paper reports from Wang, Crammer and Vucetic (2012) in words, in figures: equal budgets, five "
        "strategies.",
        SETS,
        (2.0, 0.2),
        strategies.run,
        strategies.section,
    ),
    Experiment(
        "peers",
        "Beside what users would pick instead",
        "Not in the paper: exact, linear and approximate SVMs and boosted trees, on the same rows and machine.",
        SETS,
        (75.0, 4.0),
        peers.run,
        peers_compared.section,
    ),
)
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}
