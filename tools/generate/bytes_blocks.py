"""Operators of bytes: QLinearConv, QLinearMatMul, ConvInteger, MatMulInteger, and those that ONNX Runtime's quantiser writes
in com.microsoft. Weights are u8: products of u8 by s8 saturate in ONNX Runtime on processors without VNNI."""
import math

import numpy as np
from graph import MICROSOFT, Skip, dims, elements, fixed, is_fixed, per_binding
from signal_blocks import batch_of
from window import Geometry


def scale(b, about):
    """Near `about`, and of no simple ratio to another."""
    return b.const(np.array(np.float32(about * (0.8 + 0.4 * b.numbers.random()))), "scale")


def zero(b, kind="u8", low=100, high=150):
    return b.const(np.array(b.between(low, high) if kind == "u8" else b.between(-20, 20), np.uint8 if kind == "u8" else np.int8), "zero")


def given(b, shape, kind="u8"):
    """Bytes that are an input, with scale and zero point."""
    v = b.input(shape, kind, low=0 if kind == "u8" else -128, high=256 if kind == "u8" else 128, stem="bytes")
    return [v, scale(b, 0.02), zero(b, kind)]


def weight(b, shape, columns=None):
    """u8 bytes about their zero point, with one scale or one of each column."""
    w = b.const(b.numbers.integers(0, 256, shape).astype(np.uint8), "w")
    if columns and b.chance(0.5):
        return [w, b.const((0.005 + 0.01 * b.numbers.random(columns)).astype(np.float32), "scale"), b.const(np.full(columns, 128, np.uint8), "zero")]
    return [w, scale(b, 0.01), zero(b, low=120, high=136)]


def rows(b, x):
    """[batch, width] or [batch, n, width] of bytes."""
    n = b.pick(3, 8, 16, 17, 32, 65)
    return (batch_of(b, x),) + (dims(b.pick(1, 4)) if b.chance(0.5) else ()) + dims(n)


def floats(b, y, factor=0.02):
    """Bytes as they are, or dequantised."""
    if b.chance(0.4):
        return y
    return b.op("DequantizeLinear", [y, scale(b, factor), zero(b, y.dtype)], dtype="f32", std=1.0)


def q_matmul(b, x):
    a = given(b, rows(b, x))
    k, n = a[0].size(-1), b.pick(1, 5, 8, 17)
    shape = a[0].shape[:-1] + dims(n)
    b.fits(flops=2 * elements(shape) * k)
    w = weight(b, (k, n))
    return floats(b, b.op("QLinearMatMul", [*a, *w, scale(b, 0.03 * math.sqrt(k)), zero(b)], shape))


def q_conv(b, x):
    c, side = b.pick(1, 2, 4), b.pick(5, 7, 8)
    a = given(b, (batch_of(b, x),) + dims(c, side, side))
    g = Geometry(b, a[0])
    group = b.pick(1, 1, c)
    out = group * b.pick(1, 3, 8)
    k = c // group * math.prod(g.kernel)
    shape = (a[0].shape[0], fixed(out)) + g.out
    b.fits(shape, flops=2 * elements(shape) * k)
    w = weight(b, (out, c // group, *g.kernel))
    more = [b.const(b.numbers.integers(-900, 900, out).astype(np.int32), "bias")] if b.chance(0.5) else []
    return floats(b, b.op("QLinearConv", [*a, *w, scale(b, 0.03 * math.sqrt(k)), zero(b), *more], shape, group=group, **(g.attributes(b) | {"kernel_shape": g.kernel})))


def conv_integer(b, x):
    c, side = b.pick(1, 2, 4), b.pick(5, 7, 8)
    a = given(b, (batch_of(b, x),) + dims(c, side, side))
    g = Geometry(b, a[0])
    group = b.pick(1, 1, c)
    out = group * b.pick(1, 3, 8)
    shape = (a[0].shape[0], fixed(out)) + g.out
    b.fits(shape, flops=2 * elements(shape) * c // group * math.prod(g.kernel))
    w = weight(b, (out, c // group, *g.kernel))
    more = [a[2] if b.chance(0.7) else None, w[2] if b.chance(0.5) else None]
    while more and more[-1] is None:
        more.pop()
    return b.op("ConvInteger", [a[0], w[0], *more], shape, "i32", 3000.0, group=group, **(g.attributes(b) | {"kernel_shape": g.kernel}))


def matmul_integer(b, x):
    a = given(b, rows(b, x))
    k, n = a[0].size(-1), b.pick(1, 5, 8, 17)
    shape = a[0].shape[:-1] + dims(n)
    b.fits(flops=2 * elements(shape) * k)
    w = b.const(b.numbers.integers(0, 256, (k, n)).astype(np.uint8), "w")
    columns = b.const(b.numbers.integers(100, 150, n).astype(np.uint8), "zero")
    more = [a[2] if b.chance(0.7) else None, b.pick(None, zero(b), columns)]
    while more and more[-1] is None:
        more.pop()
    return b.op("MatMulInteger", [a[0], w, *more], shape, "i32", 3000.0)


def to_float(b, x):
    """MatMulIntegerToFloat, and DynamicQuantizeMatMul of floats."""
    if b.chance(0.5):
        a = given(b, (batch_of(b, x),) + dims(b.pick(8, 17, 32)))
        k, n = a[0].size(-1), b.pick(1, 5, 8)
        w, s, z = weight(b, (k, n), n)
        more = [b.weight((n,), 0.3)] if b.chance(0.5) else []
        return b.op("MatMulIntegerToFloat", [a[0], w, a[1], s, a[2], z, *more], a[0].shape[:-1] + dims(n), "f32", 1.0, domain=MICROSOFT)
    if x.rank != 2:
        raise Skip
    k, n = x.size(1), b.pick(1, 5, 8)
    b.fits(flops=2 * elements(x.shape) * n)
    w, s, z = weight(b, (k, n))
    more = [b.weight((n,), 0.3)] if b.chance(0.5) else []
    return b.op("DynamicQuantizeMatMul", [x, w, s, z, *more], x.shape[:1] + dims(n), "f32", domain=MICROSOFT)


def q_gemm(b, x):
    a = given(b, (batch_of(b, x),) + dims(b.pick(8, 17, 32)))
    k, n, turned = a[0].size(1), b.pick(1, 5, 8), b.pick(0, 1)
    w = weight(b, (n, k) if turned else (k, n))
    bias = b.const(b.numbers.integers(-900, 900, n).astype(np.int32), "bias") if b.chance(0.6) else None
    shape = a[0].shape[:1] + dims(n)
    end = [scale(b, 0.03 * math.sqrt(k)), zero(b)]
    if b.chance(0.3):
        return b.op("QGemm", [*a, *w, bias] if bias else [*a, *w], shape, "f32", 1.0, domain=MICROSOFT, transB=turned, alpha=1.0)
    return floats(b, b.op("QGemm", [*a, *w, bias, *end], shape, domain=MICROSOFT, transB=turned, alpha=1.0))


def image(b, x, kind="u8"):
    return given(b, (batch_of(b, x),) + dims(b.pick(1, 3, 4), b.pick(4, 6), b.pick(5, 7)), kind)


def joined(b, x):
    """QLinearAdd and QLinearMul, with as many axes or a row."""
    kind = b.pick("u8", "i8")
    a = image(b, x, kind)
    shape = a[0].shape if b.chance(0.7) else a[0].shape[-1:]
    other = given(b, shape, kind)
    op = b.pick("QLinearAdd", "QLinearMul")
    pair = [*a, *other]
    return floats(b, b.op(op, [*pair, scale(b, 0.04), zero(b, kind)], a[0].shape, kind, domain=MICROSOFT))


def beside(b, x):
    a = image(b, x)
    axis = b.pick(1, 2, 3)
    other = given(b, a[0].shape)
    shape = a[0].shape[:axis] + (per_binding(lambda n: 2 * n, a[0].shape[axis]),) + a[0].shape[axis + 1 :]
    y = b.op("QLinearConcat", [scale(b, 0.03), zero(b), *a, *other], shape, "u8", 1.0, domain=MICROSOFT, axis=axis)
    return floats(b, y)


def pooled(b, x):
    a = image(b, x)
    end = [scale(b, 0.02), zero(b)]
    if b.chance(0.4):
        return floats(b, b.op("QLinearGlobalAveragePool", [*a, *end], a[0].shape[:2] + dims(1, 1), domain=MICROSOFT, channels_last=0))
    g = Geometry(b, a[0], pool=True)
    words = g.attributes(b) | {"kernel_shape": g.kernel}
    del words["dilations"]
    return floats(b, b.op("QLinearAveragePool", [*a, *end], a[0].shape[:2] + g.out, domain=MICROSOFT, count_include_pad=b.pick(0, 1), **words))


def curve(b, x):
    """Functions of one byte, which are tables."""
    kind = b.pick("u8", "u8", "i8")
    a = image(b, x, kind)
    if b.chance(0.5):
        return floats(b, b.op("QLinearLeakyRelu", [*a, scale(b, 0.02), zero(b, kind)], domain=MICROSOFT, alpha=b.pick(0.1, 0.3)))
    end = [scale(b, 1 / 200), b.const(np.array(0 if kind == "u8" else -128, a[2].const.dtype), "zero")]
    return floats(b, b.op("QLinearSigmoid", [*a, *end], domain=MICROSOFT), 0.004)


def by_axis(b, x):
    """QuantizeLinear with a scale for each channel, back again."""
    if x.rank < 2 or not is_fixed(x.shape[1]):
        raise Skip
    n = x.size(1)
    s = b.const((max(x.std, 0.05) / 40 * (0.8 + 0.4 * b.numbers.random(n))).astype(np.float32), "scale")
    z = b.const(b.numbers.integers(100, 150, n).astype(np.uint8), "zero")
    q = b.op("QuantizeLinear", [x, s, z], dtype="u8", axis=1)
    return b.op("DequantizeLinear", [q, s, z], dtype="f32", std=x.std, axis=1 if b.chance(0.6) else 1 - x.rank)


BLOCKS = [q_matmul, q_matmul, q_conv, q_conv, conv_integer, matmul_integer, to_float, to_float, q_gemm, joined, joined, beside, pooled, pooled, curve, curve, by_axis]
