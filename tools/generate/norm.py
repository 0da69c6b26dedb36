"""Normalisations as ops and as exporters write them out, softmax along any axis, reductions over any axes."""
import math

import numpy as np
from elementwise import tame
from graph import Skip, elements, fixed, per_binding


def reduced(b, kind, x, axes, keep=True, std=None):
    shape = tuple(fixed(1) if k in axes else d for k, d in enumerate(x.shape) if keep or k not in axes)
    named = [a - x.rank if b.chance(0.4) else a for a in axes]
    std = x.std if std is None else std
    if b.opset >= 18 or kind == "ReduceSum":
        return b.op(kind, [x, b.ints(*named)], shape, std=std, keepdims=int(keep))
    return b.op(kind, [x], shape, std=std, axes=named, keepdims=int(keep))


def layer_norm_written(b, x, axes):
    mean = reduced(b, "ReduceMean", x, axes)
    centred = b.op("Sub", [x, mean], x.shape)
    square = b.op("Mul", [centred, centred]) if b.chance(0.4) else b.op("Pow", [centred, b.scalar(2.0)])
    var = b.op("Add", [reduced(b, "ReduceMean", square, axes, std=x.std**2), b.scalar(b.pick(1e-5, 1e-6, 1e-3))])
    root = b.op("Sqrt", [var], std=x.std)
    if b.chance(0.3):
        return b.op("Mul", [centred, b.op("Reciprocal", [root], std=1 / max(x.std, 1e-3))], x.shape, std=1.0)
    return b.op("Div", [centred, root], x.shape, std=1.0)


def layer_norm(b, x):
    if x.rank < 2:
        raise Skip
    first = x.rank - 1 if b.chance(0.8) else b.between(1, x.rank - 1)
    size = [x.size(k) for k in range(first, x.rank)]
    gain, shift = b.weight(size, 0.2, 1.0), b.weight(size, 0.3)
    if b.opset >= 17 and b.chance(0.5):
        more = [gain, shift] if b.chance(0.7) else [gain]
        return b.op("LayerNormalization", [x, *more], std=1.0, axis=first - x.rank if b.chance(0.5) else first, epsilon=b.pick(1e-5, 1e-6))
    y = layer_norm_written(b, x, list(range(first, x.rank)))
    y = b.op("Mul", [y, gain] if b.chance(0.7) else [gain, y], x.shape)
    return b.op("Add", [y, shift]) if b.chance(0.8) else y


def rms_norm(b, x):
    if x.rank < 2:
        raise Skip
    n = x.size(-1)
    square = b.op("Pow", [x, b.scalar(2.0)]) if b.chance(0.6) else b.op("Mul", [x, x])
    var = b.op("Add", [reduced(b, "ReduceMean", square, [x.rank - 1], std=x.std**2), b.scalar(1e-6)])
    root = b.op("Sqrt", [var], std=x.std)
    y = b.op("Div", [x, root], x.shape, std=1.0) if b.chance(0.5) else b.op("Mul", [x, b.op("Reciprocal", [root], std=1 / max(x.std, 1e-3))], x.shape, std=1.0)
    return b.op("Mul", [b.weight((n,), 0.2, 1.0), y] if b.chance(0.5) else [y, b.weight((n,), 0.2, 1.0)], x.shape, std=1.0)


def group_norm(b, x):
    """As the op (opset 21), or by InstanceNormalization between reshapes."""
    if x.rank < 3:
        raise Skip
    c = x.size(1)
    groups = b.random.choice([g for g in (1, 2, 3, 4, 8, c) if c % g == 0])
    if b.opset >= 21 and b.chance(0.5):
        return b.op("GroupNormalization", [x, b.weight((c,), 0.2, 1.0), b.weight((c,), 0.3)], std=1.0, num_groups=groups)
    rest = per_binding(lambda *d: math.prod(d), fixed(c // groups), *x.shape[2:])
    flat = b.op("Reshape", [x, b.ints(0, groups, -1)], (x.shape[0], fixed(groups), rest))
    y = b.op("InstanceNormalization", [flat, b.const(np.ones(groups, np.float32)), b.const(np.zeros(groups, np.float32))], std=1.0)
    whole = b.op("Shape", [x], (fixed(x.rank),), "i64")
    y = b.op("Reshape", [y, whole], x.shape)
    side = (c,) + (1,) * (x.rank - 2)
    return b.op("Add", [b.op("Mul", [y, b.weight(side, 0.2, 1.0)]), b.weight(side, 0.3)])


def instance_norm(b, x):
    if x.rank < 3:
        raise Skip
    if b.chance(0.4):
        return layer_norm_written(b, x, list(range(2, x.rank)))
    c = x.size(1)
    return b.op("InstanceNormalization", [x, b.weight((c,), 0.2, 1.0), b.weight((c,), 0.3)], std=1.0)


def softmax(b, x, axis=None):
    if x.rank < 1:
        raise Skip
    axis = b.between(0, x.rank - 1) if axis is None else axis % x.rank
    std = 1 / math.sqrt(max(1, x.shape[axis][0] or 1))
    if b.chance(0.2):
        high = reduced(b, "ReduceMax", x, [axis])
        e = b.op("Exp", [b.op("Sub", [x, high], x.shape)], std=1.0)
        return b.op("Div", [e, reduced(b, "ReduceSum", e, [axis])], x.shape, std=std)
    return b.op("LogSoftmax" if b.chance(0.15) else "Softmax", [x], std=std, axis=axis - x.rank if b.chance(0.5) else axis)


REDUCTIONS = ("ReduceMean", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceProd")


def reduction(b, x):
    if x.rank < 1:
        raise Skip
    axes = sorted(b.random.sample(range(x.rank), b.between(1, min(x.rank, 3))))
    count, kind = math.prod(max(x.shape[a][:3]) for a in axes), b.random.choice(REDUCTIONS)
    std = {"ReduceSum": x.std * math.sqrt(count), "ReduceL1": x.std * count, "ReduceL2": x.std * math.sqrt(count), "ReduceSumSquare": x.std**2 * count}.get(kind, x.std)
    if kind == "ReduceProd":
        x = b.op("Add", [b.op("Mul", [b.op("Tanh", [x]), b.scalar(0.1)]), b.scalar(1.0)], std=1.0)
    if kind == "ReduceSumSquare" and b.opset < 18 and b.chance(0.5):
        axes = list(range(x.rank))
    return tame(b, reduced(b, kind, x, axes, b.chance(0.6), std))


def centre(b, x):
    """x less its mean, or over its norm."""
    if x.rank < 1:
        raise Skip
    axis = b.between(0, x.rank - 1)
    if b.chance(0.5):
        return b.op("Sub", [x, reduced(b, "ReduceMean", x, [axis])], x.shape)
    norm = b.op("Clip", [reduced(b, "ReduceL2", x, [axis]), b.scalar(1e-3)])
    return b.op("Div", [x, norm], x.shape, std=0.3)


def cumulative(b, x):
    if x.rank < 1 or max(x.shape[-1][:3]) > 64:
        raise Skip
    return tame(b, b.op("CumSum", [x, b.const(np.array(x.rank - 1, np.int64))], std=x.std * math.sqrt(max(x.shape[-1][:3])), exclusive=b.pick(0, 1), reverse=b.pick(0, 1)))


def lrn(b, x):
    if x.rank != 4:
        raise Skip
    return b.op("LRN", [x], size=b.pick(1, 3, 5), alpha=0.001, beta=0.75, bias=1.0)


BLOCKS = [layer_norm, layer_norm, rms_norm, group_norm, instance_norm, softmax, softmax, reduction, reduction, centre, cumulative, lrn]
SAME = [layer_norm, rms_norm, group_norm, instance_norm, softmax, centre]  # those that keep the shape
