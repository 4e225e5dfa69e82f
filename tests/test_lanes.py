"""Vectors in registers do what their NumPy twins do, and exp2 keeps its error bound."""

import numpy as np
import pytest
from conftest import UNCOMPILED
from numba import njit

from mmbsgd import lanes
from mmbsgd.lanes import (
    ALIGNMENT,
    EXP2_ERROR,
    LANES,
    aligned,
    choose,
    exp2,
    item,
    least,
    load,
    maximum,
    minimum,
    padded,
    prefetch,
    splat,
    store,
    ticks,
    total,
)

inline = njit(error_model="numpy", fastmath={"contract"})


@inline
def powers(values, out):
    for start in range(0, values.shape[0], LANES):
        store(out, start, exp2(load(values, start)))


@inline
def lane_by_lane(left, right, out):
    a, b = load(left, 0), load(right, 0)
    store(out[0], 0, a + b)
    store(out[1], 0, a - b)
    store(out[2], 0, a * b)
    store(out[3], 0, a / b)
    store(out[4], 0, maximum(a, b))
    store(out[5], 0, minimum(a, b))
    store(out[6], 0, choose(a, b, splat(np.float32(2.5)), b))


@inline
def reduced(values, index):
    prefetch(values, index)
    return total(load(values, 0)), least(load(values, 0)), item(values, index)


@inline
def two_readings():
    first = ticks()
    return first, ticks()


def powers_of_two(exponents):
    exponents = np.asarray(exponents, dtype=np.float32)
    padding = np.zeros(padded(len(exponents)), np.float32)
    padding[: len(exponents)] = exponents
    out = np.empty_like(padding)
    powers(padding, out)
    return out[: len(exponents)]


@pytest.fixture
def pair():
    generator = np.random.default_rng(0)
    return generator.normal(size=LANES).astype(np.float32), generator.normal(size=LANES).astype(np.float32)


def test_exp2_keeps_its_relative_error_bound_over_the_whole_range():
    exponents = -np.linspace(0.0, 126.0, 20_000 if UNCOMPILED else 4_000_000).astype(np.float32)
    exact = np.exp2(exponents.astype(np.float64))
    assert np.abs(powers_of_two(exponents) / exact - 1.0).max() <= EXP2_ERROR


def test_exp2_keeps_its_bound_at_tiny_exponents_and_halves():
    exponents = np.array([-1e-45, -1e-38, -1e-10, -1e-7, -0.49999997, -0.5, -0.50000006, -1.5, -2.5], dtype=np.float32)
    exact = np.exp2(exponents.astype(np.float64))
    assert np.abs(powers_of_two(exponents) / exact - 1.0).max() <= EXP2_ERROR


def test_exp2_is_exactly_one_at_zero_and_exact_at_negative_integers():
    exponents = -np.arange(127.0)
    assert np.array_equal(powers_of_two(exponents), np.exp2(exponents).astype(np.float32))
    assert powers_of_two([0.0])[0] == 1.0


@pytest.mark.parametrize("exponent", [-127.0, -127.5, -128.0, -1e4, -3e38, -np.inf])
def test_exp2_is_exactly_zero_far_below(exponent):
    assert powers_of_two([exponent])[0] == 0.0


def test_exp2_never_leaves_zero_to_one_between_normal_numbers_and_zero():
    values = powers_of_two(np.linspace(-127.0, -126.0, 1001))
    assert np.all((values >= 0.0) & (values <= 2.0**-125))


def test_arithmetic_comparison_and_choice_act_lane_by_lane(pair):
    left, right = pair
    out = np.empty((7, LANES), np.float32)
    lane_by_lane(left, right, out)
    expected = [
        left + right,
        left - right,
        left * right,
        left / right,
        np.maximum(left, right),
        np.minimum(left, right),
    ]
    assert np.array_equal(out[:6], expected)
    assert np.array_equal(out[6], np.where(left > right, np.float32(2.5), right))


def test_total_least_and_item_reduce_a_vector(pair):
    values, _ = pair
    sum_of_lanes, smallest, third = reduced(values, 3)
    assert sum_of_lanes == pytest.approx(values.sum(dtype=np.float64), rel=1e-5)
    assert smallest == values.min()
    assert third == values[3]


def test_ticks_never_run_backwards():
    readings = [two_readings() for _ in range(100)]
    flat = [reading for pair in readings for reading in pair]
    assert flat == sorted(flat)
    assert flat[-1] > flat[0]


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, LANES), (LANES, LANES), (LANES + 1, 2 * LANES)])
def test_padded_rounds_up_to_whole_vectors(count, expected):
    assert padded(count) == expected


@pytest.mark.parametrize("size", [0, 1, 31, 1000])
def test_aligned_gives_zeros_on_a_cache_line(size):
    array = aligned(size)
    assert array.shape == (size,)
    assert array.dtype == np.float32
    assert not array.any()
    assert array.ctypes.data % ALIGNMENT == 0 or size == 0


def test_python_twins_compute_what_compiled_vectors_compute(pair):
    left, right = pair
    assert np.array_equal(lanes.maximum(left, right), np.maximum(left, right))
    assert np.array_equal(lanes.minimum(left, right), np.minimum(left, right))
    assert np.array_equal(lanes.choose(left, right, left, right), np.maximum(left, right))
    exponents = -np.abs(left) * 20
    np.testing.assert_allclose(lanes.exp2(exponents), powers_of_two(exponents), rtol=2 * EXP2_ERROR)
    assert lanes.least(left) == left.min()
    assert lanes.total(left) == pytest.approx(left.sum(dtype=np.float64), rel=1e-5)
    assert np.array_equal(lanes.load(left, 0), left)
    assert np.array_equal(lanes.splat(3.0), np.full(LANES, 3.0, np.float32))
