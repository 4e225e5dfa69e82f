"""The functions of `lanes` as LLVM instructions: how Numba types them and what it emits for them."""

import operator
import platform
import time
from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, models, register_model, type_callable

from mmbsgd.lanes import (
    EXP2_COEFFICIENTS,
    LANES,
    LOWEST_EXPONENT,
    ROUND,
    choose,
    exp2,
    item,
    least,
    load,
    maximum,
    minimum,
    prefetch,
    splat,
    store,
    ticks,
    total,
)


class LanesType(types.Type):
    def __init__(self) -> None:
        super().__init__(name=f"Lanes{LANES}")


_LANES = LanesType()
_FLOAT = ir.FloatType()
_INT = ir.IntType(32)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_INT_VECTOR = ir.VectorType(_INT, LANES)
_BYTE_POINTER = ir.IntType(8).as_pointer()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
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


@lower_builtin(load, types.Array, types.Integer)
def _load(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
    address = _address(context, builder, typing.args[0], arguments[0], arguments[1])
    return builder.load(builder.bitcast(address, _VECTOR.as_pointer()), align=4)


@lower_builtin(store, types.Array, types.Integer, LanesType)
def _store(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
    address = _address(context, builder, typing.args[0], arguments[0], arguments[1])
    builder.store(arguments[2], builder.bitcast(address, _VECTOR.as_pointer()), align=4)
    return context.get_dummy_value()


@lower_builtin(splat, types.Float)
def _splat(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
    return _broadcast(builder, context.cast(builder, arguments[0], typing.args[0], types.float32))


@lower_builtin(item, types.Array, types.Integer)
def _item(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
    return builder.load(_address(context, builder, typing.args[0], arguments[0], arguments[1]))


def _arithmetic(python_operator: Callable[..., object], instruction: str) -> None:
    @type_callable(python_operator)
    def typer(_context: object) -> Callable[[Any, Any], types.Type | None]:
        return lambda left, right: _LANES if left == _LANES and right == _LANES else None

    @lower_builtin(python_operator, LanesType, LanesType)
    def lower(_context: Any, builder: Any, _typing: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*arguments, flags=["contract"])


_arithmetic(operator.add, "fadd")
_arithmetic(operator.sub, "fsub")
_arithmetic(operator.mul, "fmul")
_arithmetic(operator.truediv, "fdiv")


@lower_builtin(maximum, LanesType, LanesType)
def _maximum(_context: Any, builder: Any, _typing: Any, arguments: Any) -> Any:
    left, right = arguments
    return builder.select(builder.fcmp_ordered(">", left, right), left, right)


@lower_builtin(minimum, LanesType, LanesType)
def _minimum(_context: Any, builder: Any, _typing: Any, arguments: Any) -> Any:
    left, right = arguments
    return builder.select(builder.fcmp_ordered("<", left, right), left, right)


@lower_builtin(choose, LanesType, LanesType, LanesType, LanesType)
def _choose(_context: Any, builder: Any, _typing: Any, arguments: Any) -> Any:
    left, right, yes, no = arguments
    return builder.select(builder.fcmp_ordered(">", left, right), yes, no)


@lower_builtin(exp2, LanesType)
def _exp2(_context: Any, builder: Any, _typing: Any, arguments: Any) -> Any:
    lowest, rounding = _constant(LOWEST_EXPONENT), _constant(ROUND)
    exponent = builder.select(builder.fcmp_ordered(">", arguments[0], lowest), arguments[0], lowest)
    shifted = builder.fadd(exponent, rounding)
    fraction = builder.fsub(exponent, builder.fsub(shifted, rounding))
    result = _constant(EXP2_COEFFICIENTS[0])
    for coefficient in EXP2_COEFFICIENTS[1:]:
        product = builder.fmul(result, fraction, flags=["contract"])
        result = builder.fadd(product, _constant(coefficient), flags=["contract"])
    bits = builder.shl(builder.bitcast(shifted, _INT_VECTOR), ir.Constant(_INT_VECTOR, [23] * LANES))
    return builder.fmul(result, builder.bitcast(bits, _VECTOR), flags=["contract"])


@lower_builtin(total, LanesType)
def _total(_context: Any, builder: Any, _typing: Any, arguments: Any) -> Any:
    reduction = ir.FunctionType(_FLOAT, [_FLOAT, _VECTOR])
    function = cgutils.get_or_insert_function(builder.module, reduction, f"llvm.vector.reduce.fadd.v{LANES}f32")
    return builder.call(function, [_FLOAT(0.0), arguments[0]], fastmath=["reassoc"])


@lower_builtin(least, LanesType)
def _least(_context: Any, builder: Any, _typing: Any, arguments: Any) -> Any:
    reduction = ir.FunctionType(_FLOAT, [_VECTOR])
    function = cgutils.get_or_insert_function(builder.module, reduction, f"llvm.vector.reduce.fmin.v{LANES}f32")
    return builder.call(function, [arguments[0]], fastmath=["nnan"])


@lower_builtin(prefetch, types.Array, types.Integer)
def _prefetch(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
    address = _address(context, builder, typing.args[0], arguments[0], arguments[1])
    hint = ir.FunctionType(ir.VoidType(), [_BYTE_POINTER, _INT, _INT, _INT])
    function = cgutils.get_or_insert_function(builder.module, hint, "llvm.prefetch.p0")
    builder.call(function, [builder.bitcast(address, _BYTE_POINTER), _INT(0), _INT(3), _INT(1)])
    return context.get_dummy_value()


@lower_builtin(ticks)
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
