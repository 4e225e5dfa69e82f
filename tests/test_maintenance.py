"""What happens when the budget is exceeded: who is merged, with whom, into what, and at which loss."""

import naive
import numpy as np
import pytest
from builders import assert_consistent, assert_same_vectors, columns_of, filled, policy_of, vectors_of
from hypothesis import assume, given
from hypothesis import strategies as st

from mmbsgd.maintenance import maintain, smallest
from mmbsgd.merging import TABLE_ERROR
from mmbsgd.support import COUNT

GAMMA = 0.4
seeds = st.integers(0, 10**6)
engines = st.sampled_from(["fast", "paper"])


def scene(seed, count, width=3, ones=False):
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(count, width)).astype(np.float32)
    betas = np.where(generator.random(count) < 0.5, 1.0, -1.0)
    if not ones:
        betas = betas * generator.uniform(0.3, 3.0, count)
    return points, betas.astype(np.float32)


def maintained(points, betas, **options):
    """(support, bench, loss, merges) after one maintenance call on these vectors."""
    policy, bench = policy_of(budget=len(betas) - 1, **options)
    support = filled(points, betas, GAMMA)
    loss, merges = maintain(support, policy, bench)
    assert_consistent(support)
    return support, bench, loss, merges


def assume_no_close_choice(points, betas, mergees, across_signs):
    """Nobody but the table's error bound decides between two candidates whose losses are that close."""
    eligible = naive.with_a_partner(betas, across_signs)
    assume(eligible)
    first = naive.smallest(betas, range(len(betas)), eligible)
    _, losses = naive.ranked_partners(points, betas, first, GAMMA, across_signs)
    taken = np.array(losses[:mergees])
    assume(len(taken) < 2 or np.min(np.diff(taken) / taken[1:]) > 3 * TABLE_ERROR)


@given(
    seed=seeds,
    count=st.sampled_from([3, 4, 8, 33, 40]),
    mergees=st.integers(2, 6),
    engine=engines,
    across_signs=st.booleans(),
    ones=st.booleans(),
)
def test_mergees_are_those_of_the_naive_choice_in_that_order(seed, count, mergees, engine, across_signs, ones):
    points, betas = scene(seed, count, ones=ones)
    # Opposite signs of equal size have no best z: every h beyond both is as good as its mirror image.
    assume(not (ones and across_signs))
    assume_no_close_choice(points, betas, mergees, across_signs)
    expected = naive.mergees(points, betas, range(count), mergees, GAMMA, across_signs)
    support, bench, _, merges = maintained(points, betas, mergees=mergees, engine=engine, across_signs=across_signs)
    # Slots are filled in order, so that a vector's slot is its index.
    assert list(bench.mergees[: merges + 1]) == expected
    assert support.state[COUNT] == count - merges


@given(seed=seeds, count=st.integers(3, 12), mergees=st.integers(2, 5), engine=engines)
def test_a_cascade_equals_the_naive_one_and_leaves_all_others_alone(seed, count, mergees, engine):
    points, betas = scene(seed, count)
    assume_no_close_choice(points, betas, mergees, False)
    chosen = naive.mergees(points, betas, range(count), mergees, GAMMA)
    support, _, loss, _ = maintained(points, betas, mergees=mergees, engine=engine)
    beta, z = naive.cascade(points[chosen], betas[chosen], GAMMA)
    others = np.delete(np.arange(count), chosen)
    expected_points, expected_betas = np.vstack([points[others], z]), np.append(betas[others], beta)
    assert_same_vectors(*vectors_of(support), expected_points, expected_betas, 2e-3)
    untouched = {point.tobytes() for point in points[others]}
    assert untouched <= {point.astype(np.float32).tobytes() for point in vectors_of(support)[0]}
    expected = naive.degradation(points, betas, expected_points, expected_betas, GAMMA)
    assert loss == pytest.approx(expected, rel=1e-3, abs=1e-5)


@given(
    seed=seeds, count=st.integers(3, 10), mergees=st.integers(2, 5), strategy=st.sampled_from(["cascade", "gradient"])
)
def test_the_fast_and_the_paper_engine_merge_the_same_vectors_into_the_same_point(seed, count, mergees, strategy):
    points, betas = scene(seed, count)
    assume_no_close_choice(points, betas, mergees, False)
    fast, fast_bench, fast_loss, merges = maintained(points, betas, mergees=mergees, maintenance=strategy)
    paper, bench, loss, _ = maintained(points, betas, mergees=mergees, maintenance=strategy, engine="paper")
    assert list(fast_bench.mergees[: merges + 1]) == list(bench.mergees[: merges + 1])
    assert_same_vectors(*vectors_of(fast), *vectors_of(paper), 1e-3)
    assert fast_loss == pytest.approx(loss, rel=1e-4, abs=1e-6)


@given(
    seed=seeds,
    count=st.integers(2, 40),
    mergees=st.integers(2, 50),
    engine=engines,
    strategy=st.sampled_from(["cascade", "gradient", "removal"]),
    across_signs=st.booleans(),
)
def test_the_loss_is_the_change_of_the_function_and_never_negative(
    seed, count, mergees, engine, strategy, across_signs
):
    points, betas = scene(seed, count)
    options = {"mergees": mergees, "engine": engine, "maintenance": strategy, "across_signs": across_signs}
    support, _, loss, _ = maintained(points, betas, **options)
    left, left_betas = vectors_of(support)
    assert len(left) < count
    expected = naive.degradation(points, betas, left, left_betas, GAMMA)
    assert loss >= 0.0
    assert loss == pytest.approx(expected, rel=1e-3, abs=1e-5 * float(np.abs(betas).sum()) ** 2)


@pytest.mark.parametrize("engine", ["fast", "paper"])
@pytest.mark.parametrize("strategy", ["cascade", "gradient"])
def test_where_fewer_partners_exist_all_of_them_are_merged(engine, strategy):
    points, _ = scene(1, 6)
    betas = np.array([0.5, 1.0, 1.1, -3.0, -3.1, -3.2], np.float32)
    support, bench, _, merges = maintained(points, betas, mergees=6, engine=engine, maintenance=strategy)
    assert merges == 2
    assert set(bench.mergees[:3]) == {0, 1, 2}
    assert sorted(np.sign(vectors_of(support)[1])) == [-1, -1, -1, 1]


@pytest.mark.parametrize("engine", ["fast", "paper"])
def test_where_no_vector_has_a_partner_the_smallest_is_removed(engine):
    points, _ = scene(2, 2)
    support, _, loss, merges = maintained(points, np.array([-0.5, 1.0], np.float32), engine=engine)
    assert (loss, merges) == (0.25, 0)
    left, betas = vectors_of(support)
    assert np.array_equal(left, points[1:])
    assert np.array_equal(betas, [1.0])


@pytest.mark.parametrize("engine", ["fast", "paper"])
def test_the_smallest_vector_stays_if_it_is_the_only_one_of_its_sign(engine):
    points, _ = scene(3, 4)
    betas = np.array([0.1, -1.0, -2.0, -3.0], np.float32)
    support, bench, _, _ = maintained(points, betas, engine=engine)
    assert bench.mergees[0] == 1
    assert np.float32(0.1) in support.beta


@pytest.mark.parametrize("engine", ["fast", "paper"])
def test_across_signs_a_lone_vector_can_merge_and_its_point_lies_outside(engine):
    points = np.array([[0.0, 0.0], [1.0, 0.0], [9.0, 9.0]], np.float32)
    betas = np.array([-0.5, 2.0, 3.0], np.float32)
    support, bench, loss, merges = maintained(points, betas, engine=engine, across_signs=True)
    assert merges == 1
    assert list(bench.mergees[:2]) == [0, 1]
    beta, z = naive.merge_two(-0.5, points[0].astype(float), 2.0, points[1].astype(float), GAMMA)
    assert z[0] > 1.0
    assert_same_vectors(*vectors_of(support), np.vstack([points[2], z]), [3.0, beta], 1e-3)
    assert loss == pytest.approx(naive.pairwise_degradation(-0.5, points[0], 2.0, points[1], GAMMA), rel=1e-3)


def test_among_equals_the_oldest_goes_first_even_from_a_later_slot():
    points, _ = scene(4, 5)
    support = filled(points, [2.0, 1.0, 1.0, -1.0, -1.0], GAMMA)
    assert smallest(support, 0.0) == 1
    support.born[1] = 100.0
    assert smallest(support, 0.0) == 2
    assert smallest(support, -1.0) == 3
    assert smallest(support, 1.0) == 2


def test_removal_drops_the_smallest_whatever_its_sign():
    points, _ = scene(5, 4)
    support, _, loss, merges = maintained(points, np.array([0.5, -1, -2, -3], np.float32), maintenance="removal")
    assert (loss, merges) == (0.25, 0)
    assert sorted(vectors_of(support)[1]) == [-3, -2, -1]


@pytest.mark.parametrize("strategy", ["cascade", "gradient", "removal"])
@pytest.mark.parametrize("engine", ["fast", "paper"])
def test_hopelessly_distant_vectors_are_maintained_without_nan(strategy, engine):
    points = np.array([[0.0], [1e3], [2e3], [3e3]], np.float32)
    betas = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    support, _, loss, _ = maintained(points, betas, maintenance=strategy, engine=engine)
    assert loss == pytest.approx(1.0)
    assert_same_vectors(*vectors_of(support), points[1:], betas[1:], 1e-5)


@pytest.mark.parametrize("engine", ["fast", "paper"])
@pytest.mark.parametrize("width", [31, 64, 1029])
def test_sparse_points_of_many_features_are_merged_like_others(engine, width):
    generator = np.random.default_rng(width)
    points = np.where(generator.random((9, width)) < 10 / width, generator.normal(size=(9, width)), 0).astype(
        np.float32
    )
    points *= np.float32(0.3)
    betas = generator.uniform(0.5, 2.0, 9).astype(np.float32)
    support, bench, loss, merges = maintained(points, betas, mergees=3, engine=engine)
    chosen = naive.mergees(points, betas, range(9), 3, GAMMA)
    assert list(bench.mergees[: merges + 1]) == chosen
    beta, z = naive.cascade(points[chosen], betas[chosen], GAMMA)
    others = np.delete(np.arange(9), chosen)
    assert_same_vectors(*vectors_of(support), np.vstack([points[others], z]), np.append(betas[others], beta), 1e-3)
    assert loss == pytest.approx(naive.degradation(points[chosen], betas[chosen], z, beta, GAMMA), rel=1e-2)


def test_margins_see_the_merged_point():
    points, betas = scene(6, 8)
    support, _, _, _ = maintained(points, betas)
    occupied = np.flatnonzero(support.beta[:8])
    assert np.array_equal(columns_of(support)[occupied], support.points[occupied])
    np.testing.assert_allclose(support.norms[occupied], np.square(support.points[occupied]).sum(axis=1), rtol=1e-6)


def test_more_mergees_than_lanes_merge_everything_of_a_sign():
    points, betas = scene(7, 50)
    support, _, _, merges = maintained(points, np.abs(betas), mergees=50)
    assert merges == 49
    assert support.state[COUNT] == 1
