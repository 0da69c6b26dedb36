"""Stretches in float64: products, norms, reductions, element-wise operators, choices and views of them."""
import math

import numpy as np
from graph import Skip, dims, elements, is_fixed


def weight(b, shape, std=1.0):
    return b.const((b.numbers.random(shape) - 0.5) * (math.sqrt(12) * std), "w")


def wide(b, x):
    """x as float64, within a magnitude that nothing overflows from."""
    if elements(x.shape) > 8000:
        raise Skip
    return b.op("Tanh", [b.op("Cast", [x], dtype="f64", to=11)], std=0.6)


def unary(b, v):
    kind = b.pick("Relu", "Abs", "Neg", "Sigmoid", "Exp", "Sqrt", "Log", "Reciprocal", "Floor", "Ceil", "Round", "Sin", "Cos", "Sign", "Identity")
    if kind in ("Sqrt", "Log", "Reciprocal"):
        v = b.op("Add", [b.op("Abs", [v]), b.const(np.array(0.5))])
    if kind in ("Floor", "Ceil", "Round"):
        v = b.op("Mul", [v, b.const(np.array(3.7))])
    return b.op(kind, [v])


def binary(b, v):
    kind = b.pick("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Where", "Sum")
    if kind == "Where":
        return b.op("Where", [b.op("Greater", [v, b.const(np.array(0.1))], dtype="bool"), v, b.const(np.array(-0.5))], v.shape, "f64")
    if kind == "Pow":
        v = b.op("Add", [b.op("Abs", [v]), b.const(np.array(0.5))])
    return b.op(kind, [v, b.const(np.array(b.pick(0.7, 1.3, 2.0)))])


def dense(b, v):
    if v.rank < 2:
        raise Skip
    k, n = v.size(-1), b.pick(1, 3, 8, 17)
    shape = v.shape[:-1] + dims(n)
    b.fits(shape, flops=2 * elements(shape) * k)
    if v.rank == 2 and b.chance(0.5):
        turned = b.pick(0, 1)
        return b.op("Gemm", [v, weight(b, (n, k) if turned else (k, n), k**-0.5), weight(b, (n,), 0.3)], shape, transB=turned, alpha=b.pick(1.0, 0.5))
    return b.op("MatMul", [v, weight(b, (k, n), k**-0.5)], shape)


def normed(b, v):
    if v.rank < 1:
        raise Skip
    if b.opset >= 17 and v.rank > 1 and is_fixed(v.shape[-1]) and b.chance(0.4):
        return b.op("LayerNormalization", [v, weight(b, (v.size(-1),))], axis=-1)
    return b.op(b.pick("Softmax", "Softmax", "LogSoftmax"), [v], axis=b.between(-v.rank, v.rank - 1))


def reduced(b, v):
    if v.rank < 1:
        raise Skip
    axis, keep = b.between(0, v.rank - 1), b.pick(0, 1)
    kind = b.pick("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
    shape = v.shape[:axis] + (dims(1) if keep else ()) + v.shape[axis + 1 :]
    if b.opset >= 18 or kind == "ReduceSum":
        return b.op(kind, [v, b.ints(axis)], shape, keepdims=keep)
    return b.op(kind, [v], shape, axes=[axis], keepdims=keep)


def moved(b, v):
    if v.rank < 1:
        raise Skip
    if b.chance(0.5):
        return b.op("Transpose", [v], v.shape[::-1], perm=list(range(v.rank))[::-1])
    return b.op("Gather", [v, b.ints(0, -1)], v.shape[:-1] + dims(2), axis=v.rank - 1)


def stretch(b, x):
    """Some of them in a row, mostly back to float32."""
    v = wide(b, x)
    for _ in range(b.between(1, 4)):
        y = b.attempt(b.pick(unary, binary, dense, normed, reduced, moved), v)
        v = v if y is None else b.op("Tanh", [y], std=0.6) if b.chance(0.3) else y
    return v if b.chance(0.3) else b.op("Cast", [v], dtype="f32", to=1)


BLOCKS = [stretch]
