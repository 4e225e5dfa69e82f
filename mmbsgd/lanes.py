"""Vectors of LANES float32 values that stay in registers inside compiled kernels.

LLVM vectorises plain loops, but it cannot keep the partial sums of a loop nest in registers when the inner loop
runs over an array. A `Lanes` value is an LLVM vector: loops over features accumulate into it without a load or a
store, on every instruction set that LLVM knows.

    load(array, i)       array[i : i + LANES] of a contiguous float32 array
    store(array, i, v)   the reverse
    splat(x)             x in every lane
    item(array, i)       array[i] for i >= 0: without the instructions that give negative indices their meaning
    a + b, a * b, ...    lane by lane; a product that feeds a sum is fused
    maximum, minimum     lane by lane
    choose(a, b, v, w)   v where a > b, w elsewhere
    exp2(v)              2**v for v <= 0, relative error below EXP2_ERROR; exactly 0 below -127
    total(v), least(v)   the sum and the minimum of all lanes

The functions below run where Numba is switched off (NUMBA_DISABLE_JIT=1): a `Lanes` value is then a NumPy array.
`_lowering` gives each of them its machine code.
"""

import time
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

LANES = 32
ALIGNMENT = 64

EXP2_ERROR = 4e-7
"""Bound on the relative error of `exp2` (tested over the whole range)."""

# The polynomial of least relative error for 2**f on [-1/2, 1/2], found by linear programming; exact at f = 0.
EXP2_COEFFICIENTS = (0.0013225401, 0.0096756686, 0.05550864, 0.2402213, 0.69314694, 1.0)
LOWEST_EXPONENT = -127.0
# Adding it rounds to an integer and leaves that integer, biased as float32 biases exponents, in the low bits.
ROUND = 12582912.0 + 127.0

Values: TypeAlias = NDArray[np.float32]
Lanes: TypeAlias = NDArray[np.float32]  # to the type checker; a vector register when compiled
Scalar: TypeAlias = float | np.floating[Any]


def aligned(size: int) -> Values:
    """Zeros that start on a cache line, so that no vector load straddles two."""
    raw = np.zeros(size + ALIGNMENT // 4, dtype=np.float32)
    start = (-raw.ctypes.data % ALIGNMENT) // 4
    return raw[start : start + size]


def padded(count: int) -> int:
    """`count` rounded up to a multiple of LANES."""
    return -(-count // LANES) * LANES


def load(array: Values, start: int) -> Lanes:
    return array[start : start + LANES].copy()


def store(array: Values, start: int, lanes: Lanes) -> None:
    array[start : start + LANES] = lanes


def splat(value: Scalar) -> Lanes:
    return np.full(LANES, value, dtype=np.float32)


def item(array: NDArray[Any], index: int) -> Any:
    return array[index]


def maximum(left: Lanes, right: Lanes) -> Lanes:
    return np.maximum(left, right)


def minimum(left: Lanes, right: Lanes) -> Lanes:
    return np.minimum(left, right)


def choose(left: Lanes, right: Lanes, yes: Lanes, no: Lanes) -> Lanes:
    return np.where(left > right, yes, no)


def exp2(exponent: Lanes) -> Lanes:
    exponent = np.maximum(exponent, np.float32(LOWEST_EXPONENT))
    shifted = exponent + np.float32(ROUND)
    fraction = exponent - (shifted - np.float32(ROUND))
    result = np.full(LANES, EXP2_COEFFICIENTS[0], dtype=np.float32)
    for coefficient in EXP2_COEFFICIENTS[1:]:
        result = result * fraction + np.float32(coefficient)
    return result * (shifted.view(np.int32) << np.int32(23)).view(np.float32)


def total(lanes: Lanes) -> np.float32:
    return np.float32(lanes.sum())


def least(lanes: Lanes) -> np.float32:
    return np.float32(lanes.min())


def prefetch(array: NDArray[Any], index: int) -> None:
    """Asks for array[index] ahead of its use; the index may lie outside the array."""


def ticks() -> int:
    """A clock cheap enough to read at every maintenance call; only ratios of its differences mean anything."""
    return time.perf_counter_ns()
