"""Operators of com.microsoft that only ONNX Runtime's own tools write: convolutions and products fused with an activation,
attention of bytes, quantisation to 16 bits, channels behind the image, choices among bytes, weights of few bits in another
order or with zero points of floats."""
import math

import numpy as np
from bytes_blocks import floats, given, scale, weight, zero
from graph import MICROSOFT, NUMPY, Skip, dims, elements, fixed, is_fixed
from microsoft import op, trimmed
from signal_blocks import batch_of
from window import Geometry

# Each with parameters that it takes, in their order.
ACTIVATIONS = {"Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": (0.2,), "Clip": (-0.4, 0.5), "HardSigmoid": (0.3, 0.4)}
OF_GEMM = {"Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": (0.2,), "Elu": (0.7,), "Softplus": (), "Softsign": (), "ThresholdedRelu": (0.3,), "HardSigmoid": (0.3, 0.4)}


def fused_conv(b, x):
    """With what is added before the activation, or without."""
    if not 3 <= x.rank <= 4:
        raise Skip
    g = Geometry(b, x)
    c = x.size(1)
    group = b.pick(1, 1, c)
    out = group * b.pick(1, 2, 5) if group > 1 else b.pick(1, 3, 8, 16)
    shape, k = (x.shape[0], fixed(out)) + g.out, c // group * math.prod(g.kernel)
    b.fits(shape, flops=2 * elements(shape) * k)
    name = b.random.choice([None, *ACTIVATIONS])
    words = {"activation": name, "activation_params": list(ACTIVATIONS[name]) if name and ACTIVATIONS[name] else None}
    bias = b.weight((out,), 0.3) if b.chance(0.7) else None
    added = b.input(shape, stem="added") if bias and x.rank == 4 and all(b.name_of(d) is not None for d in shape) and b.chance(0.5) else None
    w = b.weight((out, c // group, *g.kernel), 1 / math.sqrt(k))
    return op(b, "FusedConv", trimmed([x, w, bias, added]), shape, group=group, **words, **(g.attributes(b) | {"kernel_shape": g.kernel}))


def fused_gemm(b, x):
    if x.rank != 2 or not is_fixed(x.shape[1]):
        raise Skip
    k, n, turned = x.size(1), b.pick(1, 3, 8, 17), b.pick(0, 1)
    b.fits(flops=2 * elements(x.shape) * n)
    name = b.random.choice(list(OF_GEMM))
    words = dict(zip(("activation_alpha", "activation_beta"), OF_GEMM[name]))
    bias = b.weight(b.pick((n,), (1, n), ()), 0.3) if b.chance(0.7) else None
    w = b.weight((n, k) if turned else (k, n), 1 / math.sqrt(k))
    return op(b, "FusedGemm", trimmed([x, w, bias]), x.shape[:1] + dims(n), alpha=b.pick(1.0, 0.5), beta=b.pick(1.0, 0.7), transB=turned, activation=name, **words)


def attention(b, x):
    """QAttention of bytes: weights with one scale or one of each column, masks, a cache of floats."""
    heads, w, d, places = b.pick(1, 2, 4), b.pick(2, 4, 8), b.pick(4, 8, 16), b.pick(1, 4, 6)
    n, batch = heads * w, batch_of(b, x)
    b.fits(flops=6 * elements((batch, fixed(places))) * d * n)
    v = b.input((batch,) + dims(places, d), "u8", low=0, high=256, stem="bytes")
    bytes_, scales, zeros = weight(b, (d, 3 * n), 3 * n)
    way = b.pick("none", "none", "mask", "past")
    mask = b.input((batch, fixed(places)), "i32", low=0, high=2, seen=1, stem="mask") if way == "mask" else None
    past = b.input((fixed(2), batch) + dims(heads, 3, w), stem="past") if way == "past" else None
    causal = 1 if past else b.pick(0, 0, 1) if mask is None else 0
    inputs = trimmed([v, bytes_, b.weight((3 * n,), 0.3), scale(b, 0.008), scales, mask, zero(b, low=120, high=136), zeros, past])
    shape = (batch,) + dims(places, n)
    if past is None:
        return op(b, "QAttention", inputs, shape, std=0.6, num_heads=heads, unidirectional=causal)
    out = b.ops("QAttention", inputs, [shape, (fixed(2), batch) + dims(heads, 3 + places, w)], ["f32"] * 2, 0.6, domain=MICROSOFT, num_heads=heads, unidirectional=1)
    b.marked.append(out[1])
    return out[0]


def quantise(b, x):
    """There and back, of 8 or 16 bits, by one scale or one of each place of an axis."""
    kind = b.pick("u8", "i8", "u16", "i16")
    step = max(x.std, 0.05) / (40 if kind[1:] == "8" else 9000)
    axis = b.between(0, x.rank - 1) if x.rank and b.chance(0.5) and kind[1:] == "8" else None
    if axis is not None and not is_fixed(x.shape[axis]):
        raise Skip
    low, high = {"u8": (100, 150), "i8": (-20, 20), "u16": (30000, 35000), "i16": (-700, 700)}[kind]
    if axis is None:
        s, z = scale(b, step), b.const(np.array(b.between(low, high), NUMPY[kind]), "zero")
    else:
        s = b.const((step * (0.8 + 0.4 * b.numbers.random(x.size(axis)))).astype(np.float32), "scale")
        z = b.const(b.numbers.integers(low, high, x.size(axis)).astype(NUMPY[kind]), "zero")
    words = {} if axis is None else {"axis": axis if b.chance(0.6) else axis - x.rank}
    q = op(b, "QuantizeLinear", [x, s, z], dtype=kind, **words)
    b.marked.append(q)
    return op(b, "DequantizeLinear", [q, s, z], dtype="f32", std=x.std, **words)


def behind(b, x):
    """Channels are the last axis: QLinearConv and the pools."""
    c, side = b.pick(1, 3, 4, 8), b.pick(5, 6, 8)
    a = given(b, (batch_of(b, x),) + dims(side, side, c))
    first = a[0].shape
    g = Geometry(b, _Turned(a[0], (first[0], first[3], first[1], first[2])), pool=True)
    end = [scale(b, 0.02), zero(b)]
    kind = b.pick("conv", "conv", "average", "global")
    if kind == "global":
        return floats(b, op(b, "QLinearGlobalAveragePool", [*a, *end], (first[0],) + dims(1, 1, c), "u8", channels_last=1))
    if kind == "average":
        words = g.attributes(b) | {"kernel_shape": g.kernel}
        del words["dilations"]
        return floats(b, op(b, "QLinearAveragePool", [*a, *end], (first[0],) + g.out + dims(c), "u8", channels_last=1, count_include_pad=b.pick(0, 1), **words))
    group = b.pick(1, 1, c)
    out = group * b.pick(1, 3, 8)
    shape, k = (first[0],) + g.out + dims(out), c // group * math.prod(g.kernel)
    b.fits(shape, flops=2 * elements(shape) * k)
    w = weight(b, (out, c // group, *g.kernel))
    more = [b.const(b.numbers.integers(-900, 900, out).astype(np.int32), "bias")] if b.chance(0.5) else []
    end = [scale(b, 0.03 * math.sqrt(k)), zero(b)]
    return floats(b, op(b, "QLinearConv", [*a, *w, *end, *more], shape, "u8", channels_last=1, group=group, **(g.attributes(b) | {"kernel_shape": g.kernel})))


class _Turned:
    """The sizes of a value with its channels where ONNX has them."""

    def __init__(self, v, shape):
        self.shape, self.rank = shape, v.rank


def chosen(b, x):
    """QLinearWhere: a condition between two tensors of bytes that are broadcast."""
    kind = b.pick("u8", "i8")
    shape = (batch_of(b, x),) + dims(b.pick(1, 3), b.pick(4, 7))
    a, other = given(b, shape, kind), given(b, b.pick(shape, shape[1:], shape[-1:]), kind)
    condition = b.input(b.pick(shape, shape[-1:]), "bool", share=0.5, stem="condition")
    return floats(b, op(b, "QLinearWhere", [condition, *a, *other, scale(b, 0.02), zero(b, kind)], shape, kind))


def few_bits(b, x):
    """MatMulNBits with zero points of floats, or rows that belong to blocks in any order."""
    block, n, k = b.pick(16, 32), b.pick(1, 5, 8, 16), b.pick(32, 48, 64)
    v = b.input((batch_of(b, x),) + dims(k), stem="wide")
    blocks = -(-k // block)
    packed = b.const(b.numbers.integers(0, 256, (n, blocks, block // 2)).astype(np.uint8), "packed")
    scales = b.const((0.02 + 0.05 * b.numbers.random(n * blocks)).astype(np.float32), "scales")
    zeros = b.const((4 + 8 * b.numbers.random(n * blocks)).astype(np.float32), "zeros") if b.chance(0.6) else None
    order = b.const(b.numbers.integers(0, blocks, blocks * block).astype(np.int32), "order") if zeros is None or b.chance(0.4) else None
    shape = v.shape[:-1] + dims(n)
    b.fits(flops=2 * elements(shape) * k)
    return op(b, "MatMulNBits", trimmed([v, packed, scales, zeros, order]), shape, std=2.0, K=k, N=n, bits=4, block_size=block)


BLOCKS = [fused_conv, fused_conv, fused_gemm, fused_gemm, attention, attention, quantise, behind, behind, chosen, few_bits, few_bits]
