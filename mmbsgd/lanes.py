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

The Python functions below are the uncompiled twins: with NUMBA_DISABLE_JIT=1 a `Lanes` value is a NumPy array.
"""

import operator
import platform
import time
from collections.abc import Callable
from inspect import signature
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, models, register_model, type_callable
from numpy.typing import NDArray

LANES = 32
ALIGNMENT = 64

EXP2_ERROR = 4e-7
"""Bound on the relative error of `exp2` (tested over the whole range)."""

# The polynomial of least relative error for 2**f on [-1/2, 1/2], found by linear programming; exact at f = 0.
_EXP2_COEFFICIENTS = (0.0013225401, 0.0096756686, 0.05550864, 0.2402213, 0.69314694, 1.0)
_LOWEST_EXPONENT = -127.0
# Adding it rounds to an integer and leaves that integer, biased as float32 biases exponents, in the low bits.
_ROUND = 12582912.0 + 127.0

Values: TypeAlias = NDArray[np.float32]


def aligned(size: int) -> Values:
    """Zeros that start on a cache line, so that no vector load straddles two."""
    raw = np.zeros(size + ALIGNMENT // 4, dtype=np.float32)
    start = (-raw.ctypes.data % ALIGNMENT) // 4
    return raw[start : start + size]


def padded(count: int) -> int:
    """`count` rounded up to a multiple of LANES."""
    return -(-count // LANES) * LANES


def load(array: Values, start: int) -> Values:
    return array[start : start + LANES].copy()


def store(array: Values, start: int, lanes: Values) -> None:
    array[start : start + LANES] = lanes


def splat(value: float) -> Values:
    return np.full(LANES, value, dtype=np.float32)


def item(array: NDArray[Any], index: int) -> Any:
    return array[index]


def maximum(left: Values, right: Values) -> Values:
    return np.maximum(left, right)


def minimum(left: Values, right: Values) -> Values:
    return np.minimum(left, right)


def choose(left: Values, right: Values, yes: Values, no: Values) -> Values:
    return np.where(left > right, yes, no)


def exp2(exponent: Values) -> Values:
    exponent = np.maximum(exponent, np.float32(_LOWEST_EXPONENT))
    shifted = exponent + np.float32(_ROUND)
    fraction = exponent - (shifted - np.float32(_ROUND))
    result = np.full(LANES, _EXP2_COEFFICIENTS[0], dtype=np.float32)
    for coefficient in _EXP2_COEFFICIENTS[1:]:
        result = result * fraction + np.float32(coefficient)
    return result * (shifted.view(np.int32) << np.int32(23)).view(np.float32)


def total(lanes: Values) -> np.float32:
    return np.float32(lanes.sum())


def least(lanes: Values) -> np.float32:
    return np.float32(lanes.min())


def prefetch(array: NDArray[Any], index: int) -> None:
    """Asks for array[index] ahead of its use; the index may lie outside the array."""


def ticks() -> int:
    """A clock cheap enough to read at every maintenance call; only ratios of its differences mean anything."""
    return time.perf_counter_ns()


class LanesType(types.Type):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(name=f"Lanes{LANES}")


_LANES = LanesType()
_FLOAT = ir.FloatType()
_INT = ir.IntType(32)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_INT_VECTOR = ir.VectorType(_INT, LANES)
_BYTE_POINTER = ir.IntType(8).as_pointer()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, frontend_type: Any) -> None:
        super().__init__(manager, frontend_type, _VECTOR)


def _typed(function: Callable[..., object], result: types.Type) -> None:
    typers: list[Callable[..., types.Type]] = [
        lambda: result,
        lambda a: result,
        lambda a, b: result,
        lambda a, b, c: result,
        lambda a, b, c, d: result,
    ]
    type_callable(function)(lambda context: typers[len(signature(function).parameters)])


def _constant(value: float) -> ir.Constant:
    return ir.Constant(_VECTOR, [float(np.float32(value))] * LANES)


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    return builder.gep(context.make_array(array_type)(context, builder, value=array).data, [index])


def _broadcast(builder: Any, scalar: Any) -> Any:
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), scalar, _INT(0))
    return builder.shuffle_vector(first, ir.Constant(_VECTOR, ir.Undefined), ir.Constant(_INT_VECTOR, [0] * LANES))


_typed(load, _LANES)
_typed(store, types.none)
_typed(splat, _LANES)
type_callable(item)(lambda context: lambda array, index: array.dtype)
_typed(maximum, _LANES)
_typed(minimum, _LANES)
_typed(choose, _LANES)
_typed(exp2, _LANES)
_typed(total, types.float32)
_typed(least, types.float32)
_typed(prefetch, types.none)
_typed(ticks, types.int64)


@lower_builtin(load, types.Array, types.Integer)  # type: ignore[misc]
def _load(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
    address = _address(context, builder, typing.args[0], arguments[0], arguments[1])
    return builder.load(builder.bitcast(address, _VECTOR.as_pointer()), align=4)


@lower_builtin(store, types.Array, types.Integer, LanesType)  # type: ignore[misc]
def _store(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
    address = _address(context, builder, typing.args[0], arguments[0], arguments[1])
    builder.store(arguments[2], builder.bitcast(address, _VECTOR.as_pointer()), align=4)
    return context.get_dummy_value()


@lower_builtin(splat, types.Float)  # type: ignore[misc]
def _splat(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
    return _broadcast(builder, context.cast(builder, arguments[0], typing.args[0], types.float32))


@lower_builtin(item, types.Array, types.Integer)  # type: ignore[misc]
def _item(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
    return builder.load(_address(context, builder, typing.args[0], arguments[0], arguments[1]))


def _arithmetic(python_operator: Callable[..., object], instruction: str) -> None:
    @type_callable(python_operator)  # type: ignore[misc]
    def typer(_context: object) -> Callable[[Any, Any], types.Type | None]:
        return lambda left, right: _LANES if left == _LANES and right == _LANES else None

    @lower_builtin(python_operator, LanesType, LanesType)  # type: ignore[misc]
    def lower(_context: Any, builder: Any, _typing: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*arguments, flags=["contract"])


_arithmetic(operator.add, "fadd")
_arithmetic(operator.sub, "fsub")
_arithmetic(operator.mul, "fmul")
_arithmetic(operator.truediv, "fdiv")


@lower_builtin(maximum, LanesType, LanesType)  # type: ignore[misc]
def _maximum(_context: Any, builder: Any, _typing: Any, arguments: Any) -> Any:
    left, right = arguments
    return builder.select(builder.fcmp_ordered(">", left, right), left, right)


@lower_builtin(minimum, LanesType, LanesType)  # type: ignore[misc]
def _minimum(_context: Any, builder: Any, _typing: Any, arguments: Any) -> Any:
    left, right = arguments
    return builder.select(builder.fcmp_ordered("<", left, right), left, right)


@lower_builtin(choose, LanesType, LanesType, LanesType, LanesType)  # type: ignore[misc]
def _choose(_context: Any, builder: Any, _typing: Any, arguments: Any) -> Any:
    left, right, yes, no = arguments
    return builder.select(builder.fcmp_ordered(">", left, right), yes, no)


@lower_builtin(exp2, LanesType)  # type: ignore[misc]
def _exp2(_context: Any, builder: Any, _typing: Any, arguments: Any) -> Any:
    lowest, rounding = _constant(_LOWEST_EXPONENT), _constant(_ROUND)
    exponent = builder.select(builder.fcmp_ordered(">", arguments[0], lowest), arguments[0], lowest)
    shifted = builder.fadd(exponent, rounding)
    fraction = builder.fsub(exponent, builder.fsub(shifted, rounding))
    result = _constant(_EXP2_COEFFICIENTS[0])
    for coefficient in _EXP2_COEFFICIENTS[1:]:
        product = builder.fmul(result, fraction, flags=["contract"])
        result = builder.fadd(product, _constant(coefficient), flags=["contract"])
    bits = builder.shl(builder.bitcast(shifted, _INT_VECTOR), ir.Constant(_INT_VECTOR, [23] * LANES))
    return builder.fmul(result, builder.bitcast(bits, _VECTOR), flags=["contract"])


@lower_builtin(total, LanesType)  # type: ignore[misc]
def _total(_context: Any, builder: Any, _typing: Any, arguments: Any) -> Any:
    reduction = ir.FunctionType(_FLOAT, [_FLOAT, _VECTOR])
    function = cgutils.get_or_insert_function(builder.module, reduction, f"llvm.vector.reduce.fadd.v{LANES}f32")
    return builder.call(function, [_FLOAT(0.0), arguments[0]], fastmath=["reassoc"])


@lower_builtin(least, LanesType)  # type: ignore[misc]
def _least(_context: Any, builder: Any, _typing: Any, arguments: Any) -> Any:
    reduction = ir.FunctionType(_FLOAT, [_VECTOR])
    function = cgutils.get_or_insert_function(builder.module, reduction, f"llvm.vector.reduce.fmin.v{LANES}f32")
    return builder.call(function, [arguments[0]], fastmath=["nnan"])


@lower_builtin(prefetch, types.Array, types.Integer)  # type: ignore[misc]
def _prefetch(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
    address = _address(context, builder, typing.args[0], arguments[0], arguments[1])
    hint = ir.FunctionType(ir.VoidType(), [_BYTE_POINTER, _INT, _INT, _INT])
    function = cgutils.get_or_insert_function(builder.module, hint, "llvm.prefetch.p0")
    builder.call(function, [builder.bitcast(address, _BYTE_POINTER), _INT(0), _INT(3), _INT(1)])
    return context.get_dummy_value()


@lower_builtin(ticks)  # type: ignore[misc]
def _ticks(_context: Any, builder: Any, _typing: Any, _arguments: Any) -> Any:
    long = ir.IntType(64)
    if platform.machine() in ("x86_64", "AMD64"):
        counter = cgutils.get_or_insert_function(builder.module, ir.FunctionType(long, []), "llvm.readcyclecounter")
        return builder.call(counter, [])
    # Elsewhere user code may not read the cycle counter: ask the system's monotonic clock.
    timespec = cgutils.alloca_once(builder, ir.ArrayType(long, 2))
    clock_type = ir.FunctionType(_INT, [_INT, timespec.type])
    clock = cgutils.get_or_insert_function(builder.module, clock_type, "clock_gettime")
    builder.call(clock, [_INT(time.CLOCK_MONOTONIC), timespec])
    seconds, nanoseconds = (builder.extract_value(builder.load(timespec), i) for i in (0, 1))
    return builder.add(builder.mul(seconds, long(1_000_000_000)), nanoseconds)
