"""Slots are filled, changed and freed, and their counters follow."""

import numpy as np
import pytest
from builders import assert_consistent, columns_of, filled, train, vectors_of
from hypothesis import given
from hypothesis import strategies as st

from mmbsgd.lanes import LANES
from mmbsgd.support import BLOCKS, COUNT, POSITIVE, PRECISE, empty_support, occupy, release, set_beta, set_norm


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from([-2.0, -1.0, 0.0, 0.5, 3.0])), max_size=60))
def test_any_history_of_insertions_changes_and_releases_keeps_the_counters_right(history):
    support, expected = empty_support(9, 2, 1.0), {}
    for slot, beta in history:
        if slot in expected and beta == 0.5:
            release(support, slot)
            del expected[slot]
        elif slot in expected:
            set_beta(support, slot, beta)
            expected[slot] = beta
            if beta == 0.0:
                del expected[slot]
        elif beta != 0.0 and len(expected) < 10:
            expected[occupy(support, beta)] = beta
        assert_consistent(support)
        assert {slot: support.beta[slot] for slot in np.flatnonzero(support.beta)} == expected
    assert support.state[COUNT] == len(expected)
    assert support.state[POSITIVE] == sum(beta > 0 for beta in expected.values())


def test_a_coefficient_too_small_for_float32_frees_its_slot():
    support = filled([[1.0], [2.0]], [1.0, 1.0], 1.0)
    set_beta(support, 0, 1e-60)
    assert support.state[COUNT] == 1
    assert np.array_equal(vectors_of(support)[1], [1.0])


def test_blocks_cover_every_slot_ever_used():
    support = filled(np.zeros((LANES + 1, 1)), np.ones(LANES + 1), 1.0)
    assert support.state[BLOCKS] == 2


def test_ages_count_insertions():
    support = empty_support(5, 1, 1.0)
    slots = [occupy(support, 1.0) for _ in range(3)]
    release(support, slots[0])
    again = occupy(support, 1.0)
    assert [support.born[slot] for slot in (slots[1], slots[2], again)] == [1, 2, 3]


@pytest.mark.parametrize(("norm", "expected"), [(100.0, 0), (5000.0, 1)])
def test_long_vectors_ask_for_precise_distances(norm, expected):
    support = empty_support(1, 1, 0.5)
    set_norm(support, occupy(support, 1.0), norm)
    assert support.state[PRECISE] == expected


@pytest.mark.parametrize("width", [1, LANES - 1, LANES, LANES + 1, 3 * LANES + 5, 1029])
@pytest.mark.parametrize("scale", [1.0, 1e-40])
@pytest.mark.parametrize("engine", ["fast", "paper"])
def test_a_reused_slot_forgets_its_former_vector(width, engine, scale):
    generator = np.random.default_rng(width)
    rows = (scale * generator.normal(size=(40, width))).astype(np.float32)
    rows[generator.random(rows.shape) < 0.9] = 0.0
    trainer = train(rows, np.ones(40), [np.arange(40)], 1e6, 0.1, 3, maintenance="removal", engine=engine)
    points, _ = vectors_of(trainer.support)
    assert {point.astype(np.float32).tobytes() for point in points} <= {row.tobytes() for row in rows}
    occupied = np.flatnonzero(trainer.support.beta[:4])
    assert np.array_equal(columns_of(trainer.support)[occupied], trainer.support.points[occupied])
