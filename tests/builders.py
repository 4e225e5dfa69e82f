"""What tests start from: small data sets, filled supports, trainings in a given order."""

import numpy as np
from scipy.spatial.distance import cdist

from mmbsgd.lanes import LANES
from mmbsgd.maintenance import STRATEGIES, Policy, bench_for
from mmbsgd.rows import rows_of
from mmbsgd.support import COUNT, POSITIVE, empty_support, occupy, set_norm
from mmbsgd.training import Trainer


def blobs(seed, count=40, width=3, overlap=1.0):
    """Two overlapping clouds: float32 rows and labels -1, +1."""
    generator = np.random.default_rng(seed)
    labels = np.where(generator.random(count) < 0.5, 1.0, -1.0).astype(np.float32)
    labels[:2] = 1.0, -1.0
    rows = generator.normal(size=(count, width)) + labels[:, None] / overlap
    return rows.astype(np.float32), labels


def filled(points, betas, gamma, budget=None):
    """A support that holds the given vectors, the first the oldest."""
    points = np.asarray(points, dtype=np.float32)
    support = empty_support(len(points) - 1 if budget is None else budget, points.shape[1], gamma)
    for point, beta in zip(points, betas, strict=True):
        slot = occupy(support, np.float32(beta))
        support.points[slot] = point
        support.columns.reshape(-1, points.shape[1], LANES)[slot // LANES, :, slot % LANES] = point
        set_norm(support, slot, float(np.square(point, dtype=np.float64).sum()))
    return support


def policy_of(maintenance="cascade", budget=10, mergees=2, across_signs=False, engine="fast"):
    policy = Policy(STRATEGIES[maintenance], budget, mergees, across_signs, engine == "paper")
    return policy, bench_for(policy)


def vectors_of(support):
    """(points, betas) of the occupied slots."""
    occupied = np.flatnonzero(support.beta[: support.points.shape[0]])
    return support.points[occupied].astype(np.float64), support.beta[occupied].astype(np.float64)


def columns_of(support):
    """The points as margins read them, (slots, width)."""
    slots, width = support.points.shape
    blocks = support.columns.reshape(-1, width, LANES)
    return blocks.transpose(0, 2, 1).reshape(-1, width)[:slots]


def assert_consistent(support):
    """Counters, slots and coefficients tell the same story."""
    slots = support.points.shape[0]
    betas = support.beta[:slots]
    assert np.all(np.isfinite(betas))
    assert np.all(support.beta[slots:] == 0.0)
    assert support.state[COUNT] == np.count_nonzero(betas)
    assert support.state[POSITIVE] == np.count_nonzero(betas > 0)


class FixedOrder:
    """Stands in for a trainer's random generator."""

    def __init__(self, *orders):
        self.orders = [np.asarray(order, dtype=np.int64) for order in orders]

    def permutation(self, count):
        order = self.orders.pop(0)
        assert len(order) == count
        return order


def trainer_of(rows, regularization, gamma, budget, seed=0, **options):
    return Trainer(width=rows.shape[1], regularization=regularization, gamma=gamma, budget=budget, seed=seed, **options)


def train(rows, signed_weights, orders, regularization, gamma, budget, **options):
    """A trainer after one pass per order."""
    trainer = trainer_of(rows, regularization, gamma, budget, **options)
    trainer.generator = FixedOrder(*orders)
    for _ in orders:
        trainer.run(rows_of(rows), np.asarray(signed_weights, dtype=np.float32))
    return trainer


def assert_same_vectors(points, betas, other_points, other_betas, tolerance):
    """The same set of weighted points, in any order."""
    assert len(betas) == len(other_betas)
    if len(betas) == 0:
        return
    partner = cdist(points, other_points).argmin(axis=1)
    assert sorted(partner) == list(range(len(betas)))
    np.testing.assert_allclose(points, np.asarray(other_points)[partner], atol=tolerance, rtol=tolerance)
    np.testing.assert_allclose(betas, np.asarray(other_betas)[partner], atol=tolerance, rtol=tolerance)


def outcome(trainer):
    """Everything a training leaves, as bytes."""
    model = trainer.model()
    return (
        model.support_vectors.tobytes(),
        model.coefficients.tobytes(),
        float(model.bias).hex(),
        trainer.tally.counters[:5].tolist(),
        trainer.tally.errors.tobytes(),
    )
