"""For tests of the reproduction: a set of the paper, made up and small, and rows as experiments measure them."""

import numpy as np
from prepared import write_libsvm

from workflows.study.tuning import Watcher

ROWS = 4_000


def phishing_like(folder):
    """A file that passes for PHISHING, of which 2,740 rows will be held out: binary features, a curved boundary."""
    generator = np.random.default_rng(1)
    matrix = (generator.random((ROWS, 68)) < 0.4).astype(np.float32)
    centre = generator.normal(size=68)
    scores = (matrix - 0.4) @ centre + 0.5 * np.abs((matrix[:, :20] - 0.4) @ centre[20:40]) - 0.6
    write_libsvm(folder / "phishing", matrix, np.where(scores > 0, 1, -1))
    return folder


def watched(ran):
    """Runs studies, and keeps their names in the list."""

    def watch(study):
        ran.append(study.study)
        return study.run(Watcher())

    return watch


def measured(**given):
    """A row of an experiment, with what all of ours have."""
    usual = {
        "set": "adult",
        "engine": "paper",
        "seed": 0,
        "C": 32.0,
        "gamma": 0.008,
        "budget": 100,
        "mergees": 2,
        "maintenance": "cascade",
        "accuracy": 0.84,
        "score_without_bias": 0.8,
        "cpu": 1.0,
        "wall": 1.0,
        "bias_seconds": 0.0,
        "maintenance_seconds": 0.5,
        "maintenance_calls": 1000.0,
        "steps": 4000.0,
    }
    return usual | given
