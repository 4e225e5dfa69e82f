"""The demo data: a checkerboard that follows from the number of rows and the seed alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.data.demo import FIELDS, NOISE, checkerboard


def test_rows_and_seed_decide_everything():
    first = checkerboard(500, 3)
    np.random.default_rng(3).random(1000)
    checkerboard(7, 3)
    again = checkerboard(500, 3)
    assert all(left.tobytes() == right.tobytes() for left, right in zip(first, again, strict=True))


@given(seed=st.integers(0, 2**32 - 1))
def test_another_seed_is_another_sample(seed):
    assert not np.array_equal(checkerboard(50, seed)[0], checkerboard(50, seed + 1)[0])


def test_a_seed_sequence_is_a_seed_too():
    first, second = (checkerboard(50, np.random.SeedSequence([1, number]))[0] for number in (0, 1))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, checkerboard(50, np.random.SeedSequence([1, 0]))[0])


@given(rows=st.integers(0, 300), seed=st.integers(0, 1000))
def test_points_lie_in_the_unit_square_and_labels_are_signs(rows, seed):
    points, labels = checkerboard(rows, seed)
    assert points.shape == (rows, 2)
    assert points.dtype == np.float32
    assert np.all((points >= 0) & (points < 1))
    assert labels.shape == (rows,)
    assert set(labels.tolist()) <= {-1, 1}


@given(seed=st.integers(0, 1000))
def test_without_noise_neighbouring_fields_have_other_labels(seed):
    points, labels = checkerboard(300, seed, noise=0.0)
    board = np.indices((FIELDS, FIELDS)).sum(axis=0) % 2
    across, up = (points * FIELDS).astype(int).T
    assert np.array_equal(labels, 1 - 2 * board[across, up])


@pytest.mark.parametrize("noise", [0.0, NOISE, 0.3, 1.0])
def test_noise_is_the_share_of_flipped_labels(noise):
    rows = 40_000
    points, labels = checkerboard(rows, 1, noise=noise)
    plain_points, plain = checkerboard(rows, 1, noise=0.0)
    assert np.array_equal(points, plain_points)
    assert np.mean(labels != plain) == pytest.approx(noise, abs=4 * np.sqrt(noise * (1 - noise) / rows))


def test_both_classes_are_as_common():
    assert abs(checkerboard(40_000, 2)[1].mean()) < 0.02
